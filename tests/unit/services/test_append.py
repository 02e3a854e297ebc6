"""Writes into merge-on-read tables: which of them append a log file, what lies in it, and that no base file is read for it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.files.log.log_file import BlockKind, LogFileReader
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats.log.blocks import HeaderKey
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.commit_metadata import WriteStat
from tests.definitions import Definition, create_table
from tests.tables import table_of

DELETED = "_hoodie_is_deleted"
SCHEMA = pa.schema([
    ("id", pa.string()),
    ("p", pa.string()),
    ("value", pa.int64()),
    ("ts", pa.int64()),
    (DELETED, pa.bool_()),
])


def rows(numbers: range, time: int, deleted: bool | None = None) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "p": ["x"] * len(numbers),
            "value": [n * time for n in numbers],
            "ts": [time] * len(numbers),
            DELETED: [deleted] * len(numbers),
        },
        schema=SCHEMA,
    )


def make(path: Path, **changes: Any) -> Table:
    defined = {"record_key": ["id"], "partition_by": ["p"], "ordering": "ts", "schema": SCHEMA, **changes}
    return Table.create(str(path / "t"), name="t", table_type="mor", **defined)


def newest_stats(table: Table) -> tuple[WriteStat, ...]:
    session = table._session
    state = session.loader.load()
    metadata = session.commits.metadata(state.timeline, state.timeline.completed_writes[-1])
    assert metadata is not None
    return metadata.stats


def newest_log(table: Table) -> LogFileReader:
    (stat,) = newest_stats(table)
    return LogFileReader(table.context.storage, stat.path)


def test_the_first_rows_of_a_group_go_to_a_base_file_the_next_to_a_log_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    first = table.ingest(rows(range(5), 1))
    assert (first.inserted, first.logged) == (5, 0)
    (base,) = newest_stats(table)
    second = table.ingest(rows(range(3, 9), 2))
    assert (second.inserted, second.updated, second.logged, second.file_groups) == (0, 0, 6, 1)
    (stat,) = newest_stats(table)
    name = parse_data_file(stat.file_name)
    assert name is not None
    assert (name.is_log, name.version, name.file_id, name.instant) == (True, 1, base.file_id, second.instant)
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts, stat.num_deletes) == (6, 6, 0, 0)
    assert (stat.prev_commit, stat.base_file, stat.log_files) == (second.instant, "", (stat.file_name,))
    assert (stat.other["logVersion"], stat.other["logOffset"]) == (1, 0)
    assert stat.file_size_in_bytes == stat.total_write_bytes == second.bytes_written
    (block,) = newest_log(table).blocks
    assert (block.kind, block.headers[HeaderKey.INSTANT_TIME]) == (BlockKind.PARQUET_DATA, second.instant)
    held = newest_log(table).rows(block)
    assert set(held["_hoodie_file_name"].to_pylist()) == {base.file_id}
    assert set(held["_hoodie_commit_time"].to_pylist()) == {second.instant}
    assert len(set(held["_hoodie_commit_seqno"].to_pylist())) == 6


def test_no_base_file_is_read_for_a_log_file() -> None:
    opened: list[str] = []

    class Watched(MemoryStorage):
        def open_input(self, path: str) -> Any:
            opened.append(path)
            return super().open_input(path)

    clock = ManualClock(1_900_000_000_000, tick_ms=1)
    table = table_of(Watched("t", clock), clock, "writer")
    create_table(table._session, Definition("t", SCHEMA, ("id",), ("p",), "ts", "MERGE_ON_READ"))
    table.ingest(rows(range(50), 1))
    opened.clear()
    assert table.ingest(rows(range(20), 2)).logged == 20
    assert table.ingest(rows(range(3), 3, deleted=True)).logged == 3
    assert table.ingest(rows(range(5, 7), 3), "delete").logged == 2
    assert opened == []
    assert table.read().num_rows == 45


def test_only_the_newest_of_rows_with_one_key_is_written(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(2), 1))
    result = table.ingest(pa.concat_tables([rows(range(1), 5), rows(range(1), 9), rows(range(1), 7)]))
    assert (result.rows_in, result.logged) == (3, 1)
    reader = newest_log(table)
    assert reader.rows(reader.blocks[0], ["ts"])["ts"].to_pylist() == [9]


def test_rows_and_deletes_of_a_batch_are_two_blocks_of_one_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(6), 1))
    result = table.ingest(pa.concat_tables([rows(range(2), 2), rows(range(2, 5), 3, deleted=True)]))
    assert result.logged == 5
    (stat,) = newest_stats(table)
    assert (stat.num_writes, stat.num_deletes) == (2, 3)
    reader = newest_log(table)
    assert [block.kind for block in reader.blocks] == [BlockKind.PARQUET_DATA, BlockKind.DELETE]
    (deletes,) = reader.deletes(reader.blocks[1])
    assert (deletes.keys.to_pylist(), deletes.ordering.to_pylist()) == (["k2", "k3", "k4"], [3, 3, 3])
    assert sorted(table.read(["id"])["id"].to_pylist()) == ["k0", "k1", "k5"]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.int32(), 1, 2),
        (pa.int64(), 0, 1),
        (pa.float64(), -0.5, 0.5),
        (pa.string(), "a", "b"),
        (pa.date32(), 18_000, 18_001),
        (pa.timestamp("us", "UTC"), 0, 1),
        (pa.timestamp("ms", "UTC"), 0, 1),
        (pa.decimal128(10, 2), Decimal("0.01"), Decimal("0.02")),
    ],
    ids=str,
)
def test_a_delete_with_an_ordering_value_gives_way_to_newer_rows(
    kind: pa.DataType, low: Any, high: Any, tmp_path: Path
) -> None:
    schema = SCHEMA.set(3, pa.field("ts", kind))

    def at(numbers: range, value: Any, deleted: bool | None = None) -> pa.Table:
        made = rows(numbers, 1, deleted)
        return made.set_column(3, schema.field("ts"), pa.array([value] * len(numbers), kind))

    table = make(tmp_path, schema=schema)
    table.ingest(pa.concat_tables([at(range(2), low), at(range(2, 4), high)]))
    table.ingest(at(range(4), low, deleted=True))
    assert sorted(table.read(["id"])["id"].to_pylist()) == ["k2", "k3"]
    table.ingest(at(range(4), high, deleted=True))
    assert table.read().num_rows == 0


def test_a_delete_of_ordering_value_0_in_32_bits_removes_whatever_is_there(tmp_path: Path) -> None:
    """To every reader the integer 0 is what a delete without an ordering value carries."""
    schema = SCHEMA.set(3, pa.field("ts", pa.int32()))
    table = make(tmp_path, schema=schema)
    table.ingest(rows(range(4), 9).cast(schema))
    table.ingest(rows(range(2), 0, deleted=True).cast(schema))
    assert sorted(table.read(["id"])["id"].to_pylist()) == ["k2", "k3"]


def test_a_delete_by_key_removes_whatever_is_there(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(4), 9))
    assert table.ingest(rows(range(2), 1), "delete").logged == 2
    assert sorted(table.read(["id"])["id"].to_pylist()) == ["k2", "k3"]


def test_deletes_that_can_meet_nothing_are_not_written(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(4), 1))
    absent = rows(range(1_000, 1_003), 1)
    assert table.ingest(absent, "delete").file_groups == 0
    # Beside log files nobody knows without reading them.
    table.ingest(rows(range(2), 2))
    assert table.ingest(absent, "delete").logged == 3


def test_an_insert_looks_into_log_files_too(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(4), 1))
    table.ingest(rows(range(4, 6), 2))
    table.ingest(rows(range(1), 2, deleted=True))
    with pytest.raises(InvalidRequest, match="key k5 twice"):
        table.ingest(rows(range(5, 7), 3), "insert")
    result = table.ingest(pa.concat_tables([rows(range(1), 3), rows(range(6, 8), 3)]), "insert")
    assert (result.inserted, result.logged) == (3, 0)
    assert sorted(table.read(["id"])["id"].to_pylist()) == [f"k{n}" for n in range(8)]


def test_a_bulk_insert_into_a_group_that_exists_is_an_upsert(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(4), 1), "bulk_insert")
    assert table.ingest(rows(range(2, 6), 2), "bulk_insert").logged == 4
    assert table.read().num_rows == 6


def test_an_overwrite_begins_groups_anew(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.ingest(rows(range(4), 1))
    table.ingest(rows(range(2), 2))
    result = table.ingest(rows(range(3), 1), "insert_overwrite")
    assert (result.inserted, result.logged, result.replaced) == (3, 0, 1)
    assert sorted(table.read(["id", "ts"])["ts"].to_pylist()) == [1, 1, 1]


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_older_log_files_are_read_in_the_columns_of_now(log_format: str, tmp_path: Path) -> None:
    table = make(tmp_path, log_format=log_format)
    table.ingest(rows(range(4), 1))
    table.ingest(rows(range(2), 2))
    wider = rows(range(1), 3).append_column("note", pa.array(["new"]))
    assert table.ingest(wider, evolve=True).logged == 1
    read = {row["id"]: (row["ts"], row["note"]) for row in table.read(["id", "ts", "note"]).to_pylist()}
    assert read == {"k0": (3, "new"), "k1": (2, None), "k2": (1, None), "k3": (1, None)}


def test_rows_of_a_log_file_are_in_the_format_that_the_writer_was_given(tmp_path: Path) -> None:
    table = make(tmp_path, log_format="avro")
    table.ingest(rows(range(4), 1))
    table.ingest(rows(range(2), 2))
    assert [block.kind for block in newest_log(table).blocks] == [BlockKind.AVRO_DATA]
    again = Table.open(str(tmp_path / "t"))
    again.ingest(rows(range(2), 3))
    assert [block.kind for block in newest_log(again).blocks] == [BlockKind.PARQUET_DATA]
    with pytest.raises(InvalidRequest, match="log files 'orc'"):
        Table.open(str(tmp_path / "t"), log_format="orc")  # type: ignore[arg-type]


def test_equal_batches_give_equal_log_files() -> None:
    bodies = []
    for log_format in ("parquet", "avro", "parquet", "avro"):
        clock = ManualClock(1_900_000_000_000, tick_ms=1)
        table = table_of(MemoryStorage("t", clock), clock, "writer", log_format=log_format)  # type: ignore[arg-type]
        create_table(table._session, Definition("t", SCHEMA, ("id",), ("p",), "ts", "MERGE_ON_READ"))
        table.ingest(rows(range(50), 1))
        table.ingest(pa.concat_tables([rows(range(10), 2), rows(range(10, 12), 2, deleted=True)]))
        (stat,) = newest_stats(table)
        bodies.append((stat.path, table.context.storage.get(stat.path)))
    assert bodies[:2] == bodies[2:]
    assert bodies[0] != bodies[1]
