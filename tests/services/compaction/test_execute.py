"""What an execution writes: rows, statistics, footers; whole or streamed, on both engines, with and without meta columns."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, RECORD_KEY
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.formats.avro import container as avro
from hudi_ops.services.base.engine import LOCAL_BYTES_MAX, choose_by_bytes
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.protocol.compaction_table import MODEL, log_files, make_logged, merged
from tests.protocol.log_actors import timeline_of
from tests.tables import MERGE_ON_READ, NOW_MS, table_of


@pytest.fixture
def storage() -> MemoryStorage:
    return make_logged()


def compacted_files(storage: MemoryStorage, instant: str) -> list[str]:
    return [info.path for info in storage.list() if info.name.endswith(f"_{instant}.parquet")]


def test_statistics_are_filled_as_apache_hudis_compactions_fill_them(storage: MemoryStorage, hudi_fixtures) -> None:
    clock = ManualClock(NOW_MS)
    done = table_of(storage, clock, "executor").compaction.run()
    timeline = timeline_of(storage)
    found = timeline.find(done.instant)
    assert found is not None
    assert (found.kind, found.file_name) == ("commit", f"{done.instant}_{done.completion_time}.commit")
    mine = avro.read_one(storage.get(timeline.path(found.file_name)), "commit")
    folder = hudi_fixtures("v9_txns_nonpart_nometa_mor")
    (path,) = (one for one in (folder / ".hoodie/timeline").glob("*.commit"))
    real = avro.read_one(path.read_bytes(), "commit")
    assert (mine["operationType"], mine["compacted"], mine["version"]) == ("COMPACT", True, None)
    assert (mine["operationType"], mine["compacted"], mine["version"]) == tuple(
        real[name] for name in ("operationType", "compacted", "version")
    )
    (theirs,) = real["partitionToWriteStats"][""]
    free = {"runtimeStats", "totalLogFiles"}
    for stats in mine["partitionToWriteStats"].values():
        (one,) = stats
        assert {key for key, value in one.items() if value is None} - free == {
            key for key, value in theirs.items() if value is None
        } - free
        assert one["prevBaseFile"].endswith(f"_{one['prevCommit']}.parquet")
        assert one["fileSizeInBytes"] == one["totalWriteBytes"] == storage.head(one["path"]).size_bytes  # type: ignore[union-attr]
        assert one["totalLogFilesCompacted"] == one["totalLogBlocks"] - (1 if one["numDeletes"] else 0) == 2
        assert one["totalLogSizeCompacted"] > 0
    (p0,), (p1,) = (mine["partitionToWriteStats"][name] for name in ("part=p0", "part=p1"))
    # k0 twice and k4 updated, k2 deleted; k1 lost to the row that is there, n1 and n2 are new.
    assert [p0[name] for name in ("numWrites", "numUpdateWrites", "numDeletes", "numInserts")] == [3, 2, 1, 0]
    assert [p0[name] for name in ("totalLogRecords", "totalUpdatedRecordsCompacted")] == [4, 3]
    assert p1["numInserts"] + p1["numUpdateWrites"] + p1["numDeletes"] <= p1["totalUpdatedRecordsCompacted"]


def test_rows_keep_their_commit_and_name_their_new_file(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    table = table_of(storage, clock, "executor")
    columns = [RECORD_KEY, COMMIT_TIME, COMMIT_SEQNO, "value"]
    before = table.read(columns).sort_by(RECORD_KEY)
    done = table.compaction.run()
    assert table.read(columns).sort_by(RECORD_KEY).equals(before)
    for path in compacted_files(storage, done.instant or ""):
        reader = BaseFileReader(storage, path)
        rows = reader.read()
        assert set(rows[FILE_NAME].to_pylist()) == {path.rpartition("/")[2]}
        assert reader.footer.bloom is not None
        assert reader.footer.bloom.might_contain(rows[RECORD_KEY]).all()
        keys = sorted(rows[RECORD_KEY].to_pylist())
        assert (reader.footer.min_key, reader.footer.max_key) == (keys[0], keys[-1])
        assert reader.footer.avro_schema


def test_a_streamed_slice_holds_what_a_whole_one_does(storage: MemoryStorage) -> None:
    twin = storage.copy()
    whole = table_of(storage, ManualClock(NOW_MS), "executor").compaction.run()
    streamed = table_of(twin, ManualClock(NOW_MS), "executor").compaction.run(memory_bytes=1_000)
    assert (whole.streamed, streamed.streamed) == (0, 2)
    assert whole.instant == streamed.instant
    for path in compacted_files(storage, whole.instant or ""):
        ours, theirs = (BaseFileReader(one, path) for one in (storage, twin))
        assert ours.read().equals(theirs.read())
        assert ours.footer.bloom == theirs.footer.bloom
        assert (ours.footer.min_key, ours.footer.max_key) == (theirs.footer.min_key, theirs.footer.max_key)
    again = make_logged()
    table_of(again, ManualClock(NOW_MS), "executor").compaction.run(memory_bytes=1_000)
    for path in compacted_files(twin, whole.instant or ""):
        assert twin.get(path) == again.get(path), "equal input gives equal bytes"


def test_rows_that_unfold_beyond_the_limit_are_streamed_however_small_their_file(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    rows = pa.table({"id": range(4_000), "text": ["x" * 2_000] * 4_000}, schema=schema)
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=schema, table_type="mor")
    table.ingest(rows)
    table.ingest(rows.slice(0, 10))
    result = table.compaction.run(memory_bytes=4_000_000)
    assert result.estimate is not None
    assert result.estimate.memory_bytes is not None
    assert result.estimate.memory_bytes < 4_000_000 < rows.nbytes
    assert (result.streamed, result.rows) == (1, 4_000)


@pytest.mark.parametrize("memory_bytes", [None, 1_000])
def test_tables_without_meta_columns_are_compacted_too(memory_bytes: int | None) -> None:
    storage, clock = make_logged(replace(MERGE_ON_READ, meta_fields=False)), ManualClock(NOW_MS)
    done = table_of(storage, clock, "executor").compaction.run(memory_bytes=memory_bytes)
    assert done.slices == 2
    assert (merged(storage, clock), log_files(storage, clock)) == (MODEL, 0)
    for path in compacted_files(storage, done.instant or ""):
        assert BaseFileReader(storage, path).schema.names == MERGE_ON_READ.schema.names
    assert verify_table(storage, deep=True, clock=clock).findings == ()


def test_progress_is_told_and_the_estimate_held_against_what_was(storage: MemoryStorage) -> None:
    told: list[Progress] = []
    done = table_of(storage, ManualClock(NOW_MS), "executor").compaction.run(progress=told.append)
    assert [(one.done, one.total) for one in told] == [(1, 2), (2, 2)]
    assert told[-1].bytes_done == told[-1].bytes_in == done.actual.bytes_in  # type: ignore[union-attr]
    assert done.estimate is not None
    assert done.actual is not None
    assert done.estimate_error is not None
    assert done.estimate_error.bytes_out == pytest.approx(
        done.actual.bytes_out / done.estimate.bytes_out - 1, abs=0.001
    )
    plain = done.as_dict()
    assert plain["estimate"]["bytes_in"] == plain["actual"]["bytes_in"]


def test_a_completed_plan_is_a_success_and_an_unknown_one_a_wrong_call(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS), "executor")
    done = table.compaction.run()
    again = table.compaction.execute(instant=done.instant)
    assert (again.instant, again.completion_time, again.slices) == (done.instant, done.completion_time, 0)
    assert again.note == "it was completed before"
    assert table.compaction.execute().note == "no compaction is planned"
    with pytest.raises(InvalidRequest, match="no such compaction"):
        table.compaction.execute(instant="20300101000000000")
    write = timeline_of(storage).completed_writes[1]
    with pytest.raises(Unsupported, match="not a compaction"):
        table.compaction.execute(instant=write.time)


def test_a_plan_that_was_left_comes_first(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "executor")
    left = table.compaction.plan(partitions=["part=p1"])
    assert table.compaction.run().instant == left.instant
    rest = table.compaction.run()
    assert (rest.instant != left.instant, rest.slices) == (True, 1)
    assert table.compaction.run().instant is None


def test_bytes_choose_the_engine_inside_a_spark_application() -> None:
    class Given:
        name = "spark"

    local, reason = choose_by_bytes("auto", 10, Given(), "to read")  # type: ignore[arg-type]
    assert isinstance(local, LocalEngine)
    assert "at most 536 MB" in reason
    spark, reason = choose_by_bytes("auto", LOCAL_BYTES_MAX + 1, Given(), "to read")  # type: ignore[arg-type]
    assert (spark.name, "more than 536 MB" in reason) == ("spark", True)
    assert choose_by_bytes("local", LOCAL_BYTES_MAX + 1, Given(), "to read")[1] == "asked for"  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="unknown engine"):
        choose_by_bytes("flink", 1, Given(), "to read")  # type: ignore[arg-type]


def test_a_table_of_apache_hudi_is_compacted(hudi_fixtures, tmp_path: Path) -> None:
    """Its Avro logs, in buckets; the table is adopted by the plan's slot."""
    folder = tmp_path / "table"
    shutil.copytree(hudi_fixtures("v9_bucket_simple"), folder)
    table = Table.open(str(folder), buckets=4, timezone="UTC")
    before = table.read(meta_columns=True)
    done = table.compaction.run()
    assert done.log_files > 0
    after = table.read(meta_columns=True)
    order = [(RECORD_KEY, "ascending")]
    names = [name for name in before.column_names if name != FILE_NAME]
    assert after.select(names).sort_by(order).equals(before.select(names).sort_by(order))
    assert table.compaction.explain().note == "nothing to compact: no file group has log files"
    assert pa.compute.all(pa.compute.match_substring(after[FILE_NAME], ".parquet")).as_py()
