"""Changes: what comes and what does not, where they may begin and end, and what is refused rather than lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.datasource.options import Asked
from hudi_ops.errors import Corrupt, InvalidRequest, Unavailable, Unsupported
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.checkpoint import Checkpoint
from hudi_ops.timeline.log.reserve import CLOCK_AHEAD_MS_MAX
from hudi_ops.timeline.names import instant_of_ms
from tests.protocol.cleaning import clean

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])


def rows(ids: range, value: int = 0) -> pa.Table:
    return pa.table([list(ids), [f"p{i % 4}" for i in ids], [value] * len(ids)], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], buckets=2
    )
    made.ingest(rows(range(80)))
    return made


def root(table: Table) -> Path:
    return Path(table.context.storage.uri.removeprefix("file://"))


def completions(table: Table) -> list[str]:
    """Completion times of the writes; the first is the empty one that makes the table."""
    timeline = load_timeline(table.context.storage, table.config)
    return sorted(one.completion_time for one in timeline.completed_writes)


def held(found: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))


def test_rows_that_were_only_carried_over_do_not_come(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(3), 1))
    found = table.changes(begin)
    assert held(found.to_arrow()) == [(0, 1), (1, 1), (2, 1)]
    assert found.schema.names == [*table.read(limit=0).column_names]
    (write,) = found.instants
    assert (write.inserted, write.updated, write.deleted, write.operation) == (0, 3, 0, "UPSERT")
    assert (found.since, found.explain().files_read) == (completions(table)[1], 3)
    assert table.changes(found.checkpoint).to_arrow().num_rows == 0


def test_of_a_row_that_changed_twice_the_newest_state_comes(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(4), 1))
    middle = table.changes(begin).checkpoint
    table.ingest(rows(range(2, 6), 2))
    assert held(table.changes(begin).to_arrow()) == [(0, 1), (1, 1), *((i, 2) for i in range(2, 6))]
    assert held(table.changes(begin, middle).to_arrow()) == [(i, 1) for i in range(4)]
    assert held(table.changes(middle).to_arrow()) == [(i, 2) for i in range(2, 6)]


def test_deleted_rows_are_counted_and_do_not_come(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(4), 1))
    table.ingest(rows(range(2)), "delete")
    found = table.changes(begin)
    assert held(found.to_arrow()) == [(2, 1), (3, 1)]
    assert [one.deleted for one in found.instants] == [0, 2]


def test_overwritten_and_removed_partitions(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(8), 1))
    table.ingest(rows(range(0, 16, 4), 2), "insert_overwrite")
    table.delete_partition(["part=p1"])
    found = table.changes(begin)
    assert held(found.to_arrow()) == [(0, 2), (2, 1), (3, 1), (4, 2), (6, 1), (7, 1), (8, 2), (12, 2)]
    assert [one.replaced_groups for one in found.instants] == [0, 2, 2]
    assert table.changes(begin, found.instants[0].completion_time).count_rows() == 8


def test_from_the_earliest_come_all_rows(table: Table) -> None:
    table.ingest(rows(range(4), 1))
    for since in (None, "earliest", "20200101000000000", "2020-01-01"):
        assert held(table.changes(since).to_arrow()) == held(table.read())


def test_a_time_begins_after_itself_and_ends_with_itself(table: Table) -> None:
    table.ingest(rows(range(1), 1))
    table.ingest(rows(range(1, 2), 2))
    _, first, second, third = completions(table)
    assert held(table.changes(first, second).to_arrow()) == [(0, 1)]
    assert held(table.changes(second, "2999-01-01").to_arrow()) == [(1, 2)]
    just_before = str(int(second) - 1)
    assert table.changes(just_before, just_before).instants == ()
    assert held(table.changes(just_before, third).to_arrow()) == [(0, 1), (1, 2)]


def test_a_time_in_the_future_is_refused_and_none_passes_over_a_write(table: Table) -> None:
    newest, clock = completions(table)[-1], table.context.clock
    for future in ("2999-01-01", "99999999999999999", f"hudi-ops-changes:1::{'9' * 17}::"):
        with pytest.raises(InvalidRequest, match="lies in the future"):
            table.changes(future)
        if not future.startswith("hudi"):
            with pytest.raises(InvalidRequest, match="lies in the future"):
                table.read(as_of=future)
            with pytest.raises(InvalidRequest, match="lies in the future"):
                Asked.of(table.context.storage, {"path": "t", "as_of": future}).plan()
    soon = instant_of_ms(clock.now_ms() + CLOCK_AHEAD_MS_MAX // 2)
    assert table.read(as_of=soon).num_rows == 80
    for since in (soon, instant_of_ms(clock.now_ms()), newest):
        found = table.changes(since)
        assert (found.to_arrow().num_rows, Checkpoint.decode(found.checkpoint).completed) == (0, newest)
    table.ingest(rows(range(1), 1))
    assert held(table.changes(found.checkpoint).to_arrow()) == [(0, 1)]
    assert table.changes("0999-01-01").count_rows() == 80


def test_columns_conditions_and_takers(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(12), 1))
    found = table.changes(begin, columns=["id"], where="part = 'p1' AND value = 1")
    assert (found.schema.names, sorted(found.to_arrow()["id"].to_pylist())) == (["id"], [1, 5, 9])
    told = found.explain()
    assert (told.partitions_read, told.partitions_skipped) == (1, 3)
    assert table.changes(begin, columns=["id"], where=pc.field("id") < 2).count_rows() == 2
    assert polars.DataFrame(found).height == found.to_pandas().shape[0] == found.to_duckdb().shape[0] == 3
    assert table.changes(begin, where="value = 7").explain().files_read == 0
    assert sum(batch.num_rows for batch in table.changes(begin, limit=5).to_batches()) == 5


def test_a_cut_read_has_no_checkpoint(table: Table) -> None:
    for cut in (table.changes(limit=3), table.scan(limit=3)):
        with pytest.raises(InvalidRequest, match="a read with a limit has no checkpoint"):
            _ = cut.checkpoint
    with pytest.raises(InvalidRequest, match="as of an instant, or of base files alone, has no"):
        _ = table.scan(as_of=completions(table)[1]).checkpoint


def test_changes_stay_with_their_writes(table: Table) -> None:
    found = table.changes()
    table.ingest(rows(range(80, 90)))
    assert (found.count_rows(), len(found.instants)) == (80, 2)
    assert table.changes(found.checkpoint).count_rows() == 10


def test_an_empty_table_has_a_checkpoint(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA)
    for begin in (table.changes().checkpoint, table.scan().checkpoint):
        assert (table.changes(begin).instants, table.changes(begin).schema) == ((), table.scan().schema)
    table.ingest(rows(range(3)))
    assert table.changes(begin).count_rows() == 3


def test_new_columns_come_with_the_rows_of_before(table: Table) -> None:
    wider = rows(range(2), 1).append_column("note", pa.array(["a", "b"]))
    table.ingest(wider, evolve=True)
    first = completions(table)[0]
    assert table.changes(first).to_arrow()["note"].null_count == 78
    assert table.changes(completions(table)[1]).to_arrow()["note"].to_pylist() == ["a", "b"]


def test_a_file_that_is_lost_is_named_whatever_the_interval(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(1), 1))
    scans = table.changes(None, begin), table.changes(), table.changes(begin)
    for path in root(table).glob("part=p0/*.parquet"):
        path.unlink()
    for one in scans:
        with pytest.raises(Corrupt, match="is missing"):
            list(one.to_batches())


def test_files_that_were_cleaned_away(table: Table) -> None:
    begin = table.scan().checkpoint
    table.ingest(rows(range(1), 1))
    bounded, unbounded = table.changes(None, begin), table.changes()
    whole = table.changes(begin)
    taken = [f"part=p0/{path.name}" for path in root(table).glob("part=p0/*.parquet")]
    clean(table.context.storage, ManualClock(SystemClock().now_ms()), taken)
    with pytest.raises(InvalidRequest, match="cleaned away") as caught:
        bounded.to_arrow()
    assert "without `until`" in caught.value.next_step
    for one in (unbounded, whole):
        with pytest.raises(Unavailable, match="vanished"):
            list(one.to_batches())


def test_tables_without_meta_columns_are_refused(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, meta_fields=False)
    with pytest.raises(Unsupported, match="which write each row is from"):
        table.changes()


def test_a_completed_write_that_says_nothing_is_refused(table: Table) -> None:
    (root(table) / ".hoodie" / "timeline" / "20300101000000000_20300101000000001.commit").write_bytes(b"")
    begin = completions(table)[0]
    with pytest.raises(Corrupt, match="does not say which files"):
        table.changes(begin)


@pytest.mark.parametrize("since", ["yesterday", "2026", "hudi-ops-changes:9:::"])
def test_a_beginning_that_means_nothing_is_refused(table: Table, since: str) -> None:
    with pytest.raises(InvalidRequest):
        table.changes(since)


def test_an_unreadable_archive_is_no_beginning(hudi_fixtures: Callable[[str], Path], tmp_path: Path) -> None:
    path = Path(shutil.copytree(hudi_fixtures("v6_trips_8i1u_mor"), tmp_path / "v6"))
    (path / ".hoodie" / "archived").mkdir(exist_ok=True)
    (path / ".hoodie" / "archived" / ".commits_.archive.1_1-0-1").write_bytes(b"#HUDI#")
    table = Table.open(str(path))
    start = load_timeline(table.context.storage, table.config).start
    with pytest.raises(InvalidRequest, match="does not tell all") as caught:
        table.changes()
    assert "Table.scan().checkpoint" in caught.value.next_step
    assert table.changes(start).count_rows() == 1
