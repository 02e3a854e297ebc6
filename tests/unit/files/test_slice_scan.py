"""Slices whose blocks differ from the table of now, whose files are broken, or whose keys are made of fields."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.config.columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from hudi_ops.errors import Corrupt, NotFound, Unsupported
from hudi_ops.files.base.base_file import WriterSettings, stored_avro_schema, with_meta
from hudi_ops.files.log.log_file import encode_log_file
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask, open_scan
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.keys.keys import KeySpec
from hudi_ops.kernels.merging.merge import Ordering
from hudi_ops.storage.memory import MemoryStorage

NOW = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("note", pa.string()), ("price", pa.float64())])
BEFORE = pa.schema([("price", pa.float32()), ("id", pa.int64()), ("ts", pa.int32())])
KEYED = pa.schema([pa.field(RECORD_KEY, pa.string())])


def rows(schema: pa.Schema, *content: dict[str, Any]) -> pa.Table:
    stored = with_meta(schema)
    made = [{**dict.fromkeys(META_COLUMNS, "m"), RECORD_KEY: str(one["id"]), **one} for one in content]
    return pa.Table.from_pylist(made, schema=stored)


def log(
    schema: pa.Schema, table: pa.Table | None, *deletes: Deletes, data_format: Any = "parquet", meta: bool = True
) -> bytes:
    avro = stored_avro_schema(schema, "t", meta)
    found = encode_log_file(
        table,
        deletes,
        instant="1",
        partition_path="",
        avro_schema=avro,
        data_format=data_format,
        settings=WriterSettings(),
    )
    return bytes(found)


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def task(base: bytes | None, *logs: bytes, schema: pa.Schema = NOW, **changes: Any) -> SliceTask:
    storage = MemoryStorage()
    paths = tuple((f".a_1.log.{number}_0-0-0", len(body)) for number, body in enumerate(logs, 1))
    for (path, _), body in zip(paths, logs, strict=True):
        storage.put(path, body)
    if base is not None:
        storage.put("a_0-0-0_0.parquet", base)
    rules = MergeRules("t", Ordering.EVENT_TIME, schema.field("ts"), None, KEYED, pa.schema([]), None)
    made: dict[str, Any] = {
        "storage": storage,
        "base": "a_0-0-0_0.parquet" if base is not None else None,
        "base_bytes": len(base or b""),
        "logs": paths,
        "rules": rules,
        "instants": BlockInstants("9"),
        "schema": schema,
        "columns": tuple(schema.names),
    }
    return SliceTask(**(made | changes))


def read(one: SliceTask) -> list[dict[str, Any]]:
    whole = open_scan(one, streaming=False).table()
    stream = pa.Table.from_batches(open_scan(one, streaming=True).batches(), whole.schema)
    assert whole.equals(stream)
    return whole.to_pylist()


@pytest.mark.parametrize("data_format", ["parquet", "avro"])
def test_older_blocks_take_the_tables_columns_of_now(data_format: str) -> None:
    base = parquet(rows(BEFORE, {"id": 1, "ts": 5, "price": 0.1}, {"id": 2, "ts": 5, "price": 0.1}))
    old = log(
        BEFORE,
        rows(BEFORE, {"id": 1, "ts": 6, "price": 0.3}, {"id": 3, "ts": 1, "price": 0.1}),
        data_format=data_format,
    )
    new = log(NOW, rows(NOW, {"id": 3, "ts": 2, "note": "n", "price": 0.7}), data_format=data_format)
    assert read(task(base, old, new)) == [
        {"id": 2, "ts": 5, "note": None, "price": 0.1},
        {"id": 1, "ts": 6, "note": None, "price": 0.3},
        {"id": 3, "ts": 2, "note": "n", "price": 0.7},
    ]


def test_deletes_carry_other_types_than_the_column() -> None:
    base = parquet(rows(NOW, *({"id": number, "ts": 5} for number in range(4))))
    deletes = log(
        NOW, None, Deletes(pa.array(["0", "1"]), pa.array([4, 6], pa.int32())), Deletes(pa.array(["2"]), None)
    )
    assert [row["id"] for row in read(task(base, deletes))] == [0, 3]
    odd = log(NOW, None, Deletes(pa.array(["0"]), pa.array(["x"])))
    with pytest.raises(Unsupported, match="do not fit") as refused:
        read(task(base, odd))
    assert (refused.value.table, refused.value.instant) == ("t", "1")


def test_keys_of_tables_without_meta_columns_are_made_of_fields() -> None:
    rules = MergeRules(
        "t", Ordering.COMMIT_TIME, None, KeySpec(("id",), True), pa.schema([NOW.field("id")]), pa.schema([]), None
    )
    base = parquet(pa.table({"id": [1, 2, 3], "ts": [1, 1, 1]}))
    plain = pa.Table.from_pylist([{"id": 2, "ts": 2}, {"id": 9, "ts": 2}], schema=NOW)
    body = log(NOW, plain, Deletes(pa.array(["id:3"]), None), meta=False)
    assert [(row["id"], row["ts"]) for row in read(task(base, body, rules=rules))] == [(1, 1), (2, 2), (9, 2)]


def test_a_slice_without_base_file() -> None:
    body = log(NOW, rows(NOW, {"id": 1, "ts": 1}), Deletes(pa.array(["2"]), None))
    one = task(None, body, columns=("ts", "id"))
    assert read(one) == [{"ts": 1, "id": 1}]
    scan = SliceScan(one)
    assert (scan.rows, scan.row_groups, scan.row_groups_in_file, scan.count()) == (2, [], 0, 1)
    assert (one.path, one.size_bytes, one.log_bytes) == (one.logs[0][0], len(body), len(body))


def test_counts() -> None:
    base = parquet(rows(NOW, *({"id": number, "ts": 5} for number in range(4))))
    first = log(NOW, rows(NOW, {"id": 0, "ts": 9}, {"id": 1, "ts": 1}, {"id": 7, "ts": 1}))
    scan = SliceScan(task(base, first + first[:-3], log(NOW, None, Deletes(pa.array(["3", "8"]), None))))
    counts = scan.counts
    assert (counts.log_records, counts.log_blocks, counts.corrupt_blocks) == (5, 2, 1)
    assert (counts.updated, counts.deleted, counts.inserted, counts.ignored) == (1, 1, 1, 1)


def test_a_task_crosses_process_borders() -> None:
    one = task(parquet(rows(NOW, {"id": 1, "ts": 1})), log(NOW, rows(NOW, {"id": 1, "ts": 2})))
    carried = pickle.loads(pickle.dumps(one.rules)), pickle.loads(pickle.dumps(one.instants))
    assert carried == (one.rules, one.instants)


def test_base_files_alone_are_scanned_as_before() -> None:
    one = task(parquet(rows(NOW, {"id": 1, "ts": 1})))
    alone = FileTask(one.storage, "a_0-0-0_0.parquet", one.base_bytes, NOW, ("id",))
    assert isinstance(open_scan(alone, streaming=True), FileScan)


def test_rows_without_a_key_are_damage() -> None:
    table = rows(NOW, {"id": 1, "ts": 1})
    broken = table.set_column(table.column_names.index(RECORD_KEY), RECORD_KEY, pa.array([None], pa.string()))
    with pytest.raises(Corrupt, match="without a record key"):
        read(task(None, log(NOW, broken)))


def test_a_log_file_that_is_gone() -> None:
    one = task(parquet(rows(NOW, {"id": 1, "ts": 1})), log(NOW, rows(NOW, {"id": 1, "ts": 2})))
    one.storage.delete(one.logs[0][0])
    with pytest.raises(NotFound):
        open_scan(one, streaming=False)


def test_changes_leave_out_older_rows_of_a_log_compaction() -> None:
    from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, encode_block

    mixed = rows(NOW, {"id": 1, "ts": 1, COMMIT_TIME: "1"}, {"id": 2, "ts": 1, COMMIT_TIME: "3"})
    headers = {
        HeaderKey.INSTANT_TIME: "3",
        HeaderKey.SCHEMA: stored_avro_schema(NOW, "t", True),
        HeaderKey.COMPACTED_BLOCK_TIMES: "1",
    }
    body = encode_block(BlockKind.PARQUET_DATA, headers, parquet(mixed))
    assert [row["id"] for row in read(task(None, body, instants=BlockInstants("9", only=frozenset({"3"}))))] == [2]
    assert [row["id"] for row in read(task(None, body))] == [1, 2]
