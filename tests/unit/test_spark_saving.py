"""A `save` of Spark, played without Spark: only files of winning attempts count, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.commit.recover.staging import STAGED_AGE_MS, sweep_staging
from hudi_ops.context import Owner, TableContext
from hudi_ops.datasource.source import HudiOpsDataSource, spark_schema
from hudi_ops.datasource.staged_files import stage
from hudi_ops.datasource.writer import HudiOpsWriter
from hudi_ops.errors import InvalidRequest, NotFound, PermissionDenied
from hudi_ops.services.write.once import BatchId
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = Table.create(str(tmp_path / "t"), name="t", record_key="id", schema=SCHEMA, partition_by="part")
    table.ingest(rows_of(range(3), 0))
    return str(tmp_path / "t")


def rows_of(ids: range, value: int) -> pa.Table:
    columns = {"id": list(ids), "part": [f"p{number % 2}" for number in ids], "value": [value] * len(ids)}
    return pa.table(columns, schema=SCHEMA)


def saving(path: str, schema: pa.Schema = SCHEMA, *, overwrite: bool = False, **options: str) -> HudiOpsWriter:
    return HudiOpsDataSource({"path": path, **options}).writer(spark_schema(schema), overwrite)


def values(path: str) -> dict[int, int]:
    return {row["id"]: row["value"] for row in Table.open(path).read().to_pylist()}


def files(path: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(Path(path).rglob("*")) if file.is_file()}


def commits(path: str) -> int:
    return len(list(Path(path, ".hoodie", "timeline").glob("*_*.commit")))


def staged(path: str) -> list[Path]:
    return sorted(Path(path, ".hoodie", ".temp").rglob("*.arrow"))


def test_only_the_files_of_winning_attempts_are_ingested_in_one_commit(path: str) -> None:
    writer, before = saving(path, operation="bulk_insert"), commits(path)
    first, second = rows_of(range(10, 20), 1).to_batches(), rows_of(range(20, 30), 2).to_batches()
    lost = [writer.write(iter(first)), writer.write(iter(second))]
    won = [writer.write(iter(first)), writer.write(iter(second))]
    assert all(message.files for message in lost)
    writer.commit(won)
    expected = {**dict.fromkeys(range(3), 0), **dict.fromkeys(range(10, 20), 1), **dict.fromkeys(range(20, 30), 2)}
    assert values(path) == expected
    assert Table.open(path).read().num_rows == len(expected)
    assert commits(path) == before + 1
    assert not staged(path)


def test_an_attempt_stages_files_of_bounded_size(path: str) -> None:
    area = saving(path).saving.area
    batches = [batch for _ in range(10) for batch in rows_of(range(100), 1).to_batches()]
    made = list(stage(area, batches, file_bytes=2 * batches[0].nbytes))
    assert [file.rows for file in made] == [200] * 5


def test_an_aborted_save_leaves_everything_as_it_was(path: str) -> None:
    before, writer = files(path), saving(path)
    message = writer.write(iter(rows_of(range(5), 9).to_batches()))
    writer.write(iter(rows_of(range(5), 9).to_batches()))  # of an attempt that sent no message
    assert len(staged(path)) == 2
    writer.abort([message, None])
    assert files(path) == before


def test_a_commit_that_fails_leaves_no_staged_file_and_no_row(path: str) -> None:
    before, writer = values(path), saving(path, operation="insert")
    message = writer.write(iter(rows_of(range(5), 9).to_batches()))
    with pytest.raises(InvalidRequest, match="would write key 0 twice"):
        writer.commit([message])
    assert values(path) == before
    assert not staged(path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"overwrite": True}, "expected append"),
        ({"operation": "merge"}, "upsert or insert or delete or bulk_insert or insert_overwrite"),
        ({"evolve": "yes"}, "true or false"),
        ({"mode": "append"}, "expected path, operation, evolve, batch_id, batch_source, memory_bytes"),
        ({"memory_bytes": "1g"}, "a whole number above 0"),
        ({"batch_id": " "}, "batch_id is empty"),
        ({"batch_source": "stream"}, "batch_id with batch_source"),
        ({"schema": pa.schema([*SCHEMA, ("more", pa.int64())])}, "column that the table lacks: more"),
        ({"schema": pa.schema([SCHEMA.field("id")])}, "part"),
        ({"schema": SCHEMA.set(2, pa.field("value", pa.list_(pa.int64())))}, "value"),
    ],
)
def test_a_wrong_request_is_refused_before_a_task_starts(path: str, wrong: dict[str, Any], said: str) -> None:
    before = files(path)
    with pytest.raises(InvalidRequest) as caught:
        saving(path, **wrong)
    assert said in str(caught.value)
    assert files(path) == before


def test_a_table_is_named_alike_for_reading_and_for_writing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = Path(path).with_name("tables.yaml")
    declared.write_text("tables: {rides: {path: t, record_key: [id], partition_by: [part]}}")
    monkeypatch.setenv("HUDI_OPS_TABLES", str(declared))
    assert HudiOpsDataSource({"path": "rides"}).schema() == HudiOpsDataSource({"path": path}).schema()
    saving("rides")
    for use in (lambda: HudiOpsDataSource({"path": "drives"}).schema(), lambda: saving("drives")):
        with pytest.raises(InvalidRequest, match="declares no table 'drives'"):
            use()


def test_a_path_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is not a Hudi table"):
        saving(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_meta_columns_of_the_frame_are_ignored(path: str) -> None:
    read = Table.open(path).read(meta_columns=True)
    writer = saving(path, read.schema)
    writer.commit([writer.write(iter(read.to_batches()))])
    assert values(path) == dict.fromkeys(range(3), 0)


def test_a_frame_may_bring_columns(path: str) -> None:
    rows = rows_of(range(1, 4), 5).append_column("more", pa.array([1.5] * 3))
    writer = saving(path, rows.schema, evolve="true")
    writer.commit([writer.write(iter(rows.to_batches()))])
    read = Table.open(path).read(["id", "more"]).sort_by("id")
    assert read["more"].to_pylist() == [None, 1.5, 1.5, 1.5]


def test_a_batch_is_written_once(path: str) -> None:
    def save(value: int, **options: str) -> None:
        writer = saving(path, operation="bulk_insert", **options)
        writer.commit([writer.write(iter(rows_of(range(50, 53), value).to_batches()))])

    for _ in range(2):
        save(1, batch_id="7")
    assert Table.open(path).read().num_rows == 6
    # The first one was planned before the second one was committed, as by a driver that was taken for dead.
    late = saving(path, operation="bulk_insert", batch_id="8")
    message = late.write(iter(rows_of(range(60, 62), 1).to_batches()))
    save(2, batch_id="8")
    late.commit([message])
    assert Table.open(path).read().num_rows == 9
    save(3, batch_id="8", batch_source="other")
    assert Table.open(path).read().num_rows == 12
    assert not staged(path)
    assert verify_table(Table.open(path).context.storage, deep=True).ok


def test_a_save_without_rows_adds_no_commit(path: str) -> None:
    before, writer = commits(path), saving(path)
    writer.commit([writer.write(iter([])), writer.write(iter(SCHEMA.empty_table().to_batches()))])
    assert commits(path) == before


def ended_process() -> Owner:
    """A process of this machine that has ended."""
    code = "from hudi_ops.context import Owner; o = Owner.of_this_process(); print(o.host, o.pid, o.started)"
    host, pid, started = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return Owner(host, int(pid), started)


def abandoned(path: str, owner: Owner | None) -> HudiOpsWriter:
    """A save whose driver ended between staging and commit."""
    writer = saving(path)
    writer.saving = replace(writer.saving, area=replace(writer.saving.area, owner=owner))
    writer.write(iter(rows_of(range(5), 9).to_batches()))
    return writer


def test_what_a_dead_driver_staged_is_deleted_by_recover(path: str) -> None:
    before = values(path)
    abandoned(path, ended_process())
    assert staged(path)
    assert values(path) == before
    assert verify_table(Table.open(path).context.storage, deep=True).ok
    Table.open(path).recover()
    assert not list(Path(path, ".hoodie", ".temp").rglob("*.*"))
    assert values(path) == before


def test_what_a_live_driver_staged_stays(path: str) -> None:
    writer = abandoned(path, Owner.of_this_process())
    Table.open(path).recover()
    Table.open(path).ingest(rows_of(range(30, 31), 4))
    assert len(staged(path)) == 1
    writer.abort([])


def test_what_an_unknown_driver_staged_is_deleted_once_it_is_old(path: str) -> None:
    abandoned(path, None)
    (file,) = staged(path)
    Table.open(path).recover()
    assert file.exists()
    then_s = file.stat().st_mtime - STAGED_AGE_MS / 1000 - 60
    os.utime(file, (then_s, then_s))
    Table.open(path).ingest(rows_of(range(30, 31), 4))
    assert not file.exists()


def aged(path: str, *, by_ms: int = STAGED_AGE_MS + 60_000) -> None:
    """Make all files of the staging areas older."""
    for file in Path(path, ".hoodie", ".temp").rglob("staged.*/*"):
        then_s = file.stat().st_mtime - by_ms / 1000
        os.utime(file, (then_s, then_s))


def test_what_a_live_driver_of_this_machine_staged_stays_however_old(path: str) -> None:
    writer = abandoned(path, Owner.of_this_process())
    aged(path)
    Table.open(path).recover()
    assert len(staged(path)) == 1
    writer.abort([])
    assert not staged(path)


def test_what_a_driver_of_another_machine_staged_is_deleted_once_it_is_old(path: str) -> None:
    abandoned(path, Owner("another#1#2", 1, "1"))
    Table.open(path).recover()
    assert len(staged(path)) == 1
    aged(path)
    Table.open(path).recover()
    assert not staged(path)


@pytest.mark.parametrize("owner", [None, Owner("another#1#2", 1, "1")])
def test_a_task_that_still_receives_rows_keeps_its_area(path: str, owner: Owner | None) -> None:
    before, writer = values(path), saving(path)
    writer.saving = replace(writer.saving, area=replace(writer.saving.area, owner=owner, refresh_s=0.0))
    first = writer.write(iter(rows_of(range(5), 9).to_batches()))
    aged(path)

    def slow() -> Any:
        yield from rows_of(range(5, 6), 9).to_batches()
        Table.open(path).recover()  # before this task staged a file of its own
        assert len(staged(path)) == 1
        yield from rows_of(range(6, 7), 9).to_batches()

    second = writer.write(slow())
    writer.commit([first, second])
    assert values(path) == {**before, **dict.fromkeys(range(7), 9)}
    assert not staged(path)


@pytest.mark.parametrize("is_half", [True, False])
def test_a_save_whose_area_was_deleted_names_table_area_and_next_step(path: str, is_half: bool) -> None:
    before, writer = values(path), saving(path)
    message = writer.write(iter(rows_of(range(5), 9).to_batches()))
    if is_half:
        staged(path)[0].unlink()
    else:
        writer.saving.area.clear()
    with pytest.raises(NotFound) as caught:
        writer.commit([message])
    for said in (path, writer.saving.area.folder, "save the frame again"):
        assert said in str(caught.value)
    assert values(path) == before
    assert not list(Path(path, ".hoodie", ".temp").rglob("owner.json"))


def test_a_save_whose_staged_file_was_deleted_writes_nothing_and_says_so(path: str) -> None:
    before, writer = values(path), saving(path)
    message = writer.write(iter(rows_of(range(5), 9).to_batches()))
    staged(path)[0].unlink()
    with pytest.raises(NotFound, match=r"(?s)staged file .* of this save is gone.*save the frame again"):
        writer.commit([message])
    assert values(path) == before


def test_the_owner_is_the_nearest_process_of_that_name() -> None:
    name = Path(f"/proc/{os.getpid()}/comm").read_text().strip()
    found = Owner.of_process_above(name)
    assert found is not None
    assert found.pid == os.getpid()
    assert not found.is_gone()
    assert Owner.of_process_above("no such command") is None


def test_a_source_of_batches_cannot_share_the_ledger_of_another() -> None:
    with pytest.raises(InvalidRequest, match="ends in a slash"):
        BatchId("trips/", "1")


def test_a_staging_area_that_cannot_be_read_stops_no_write(tmp_path: Path) -> None:
    class Closed(LocalStorage):
        def list(self, prefix: str = "") -> Any:
            if "staged." in prefix:
                raise PermissionDenied(f"{prefix} could not be listed")
            return super().list(prefix)

    storage = Closed(tmp_path)
    storage.put(".hoodie/.temp/staged.1/f.arrow", b"rows")
    assert sweep_staging(TableContext(storage=storage, locks=None), ["staged.1"]) == []
    assert storage.get(".hoodie/.temp/staged.1/f.arrow") == b"rows"
