"""Rows of any shape end as the same table, byte for byte; a stream is read once, however often the commit has to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.engine import memory
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.spill import ChunkStore
from hudi_ops.errors import Conflict, InvalidRequest
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from tests.bounds import bound
from tests.definitions import Definition, create_table

SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("part", pa.string()),
    ("text", pa.string()),
    ("price", pa.decimal128(9, 2)),
    ("at", pa.timestamp("us", "UTC")),
    ("tags", pa.list_(pa.string())),
    ("ts", pa.int64()),
])
DEFINITION = Definition("t", SCHEMA, ("id",), ("part",), "ts", buckets=3)
COUNT = 4_000


def rows(seed: int = 0) -> pa.Table:
    """Keys that repeat, so that the order of rows and their ordering values both decide."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, COUNT // 2, COUNT)
    return pa.table({
        "id": ids,
        "part": [f"p{i % 3}" for i in ids],
        "text": [None if i % 17 == 0 else f"{seed}-{n}" for n, i in enumerate(ids)],
        "price": pa.array(rng.integers(0, 10**6, COUNT)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        "at": pa.array(rng.integers(0, 2**50, COUNT), pa.timestamp("us", "UTC")),
        "tags": [[f"t{n % 5}"] * (n % 3) for n in range(COUNT)],
        "ts": rng.integers(0, 3, COUNT),
    }).cast(SCHEMA)


def simulated(engine: LocalEngine | None = None) -> Table:
    clock = ManualClock(1_900_000_000_000, tick_ms=1)
    context = simulated_context(MemoryStorage("t", clock), clock, "writer")
    if engine is not None:
        context = TableContext(**{**vars(context), "engine": engine})
    table = Table(context)
    create_table(table._session, DEFINITION)
    return table


def tree(table: Table) -> dict[str, bytes]:
    """Every file, byte for byte."""
    storage = table.context.storage
    return {info.path: storage.get(info.path) for info in storage.list()}


SHAPES: dict[str, Callable[[pa.Table], Any]] = {
    "reader": pa.Table.to_reader,
    "batches": lambda given: (batch for batch in given.to_batches(max_chunksize=333)),
    "polars": pl.from_arrow,
    "lazy polars": lambda given: pl.from_arrow(given).lazy(),
    "duckdb": duckdb.from_arrow,
    "pandas": pa.Table.to_pandas,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_table_byte_for_byte(shape: str) -> None:
    expected, other = simulated(), simulated()
    for seed in range(2):
        expected.ingest(rows(seed))
        result = other.ingest(SHAPES[shape](rows(seed)))
        assert result.rows_in == COUNT
    assert tree(other) == tree(expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_written_is_the_same_with_and_without_spilling(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "RUN_BYTES_MIN", 1)
    tables = [
        simulated(LocalEngine(threads, memory_bytes=memory_bytes, spill_folder=str(tmp_path)))
        for memory_bytes in (1 << 40, 100_000, bound(4_000, 1_000, 1_000))
    ]
    for table in tables:
        table.ingest(rows(0))
        table.ingest(batch for batch in rows(1).to_batches(max_chunksize=100))
        table.ingest(rows(2).select(["id", "part"]).slice(0, 500), "delete")
    assert tree(tables[1]) == tree(tables[0])
    assert tree(tables[2]) == tree(tables[0])
    assert list(tmp_path.iterdir()) == []


def test_equal_keys_of_a_short_run_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held, add = [], ChunkStore.add

    def adding(store: ChunkStore, place: Any, chunks: Any, size_bytes: int) -> None:
        held.append(size_bytes)
        add(store, place, chunks, size_bytes)

    monkeypatch.setattr(ChunkStore, "add", adding)
    one = rows(1).slice(1, 1).set_column(2, "text", pa.array(["x" * 10_000]))
    table = simulated()
    assert table.ingest(pa.concat_tables([one] * 500)).rows_in == 500
    assert sum(held) < 20_000
    assert table.read(SCHEMA.names) == one


def on_disk(tmp_path: Path) -> Table:
    storage = LocalStorage(tmp_path / "t")
    with mock.patch.object(memory, "RUN_BYTES_MIN", 1):
        engine = LocalEngine(2, memory_bytes=1_000)
    table = Table(TableContext(storage=storage, locks=in_process_lock(storage.uri), engine=engine))
    create_table(table._session, DEFINITION)
    return table


def test_a_stream_is_read_once_however_often_the_commit_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hudi_ops.services.write import ingest as ingest_module

    table, reads = on_disk(tmp_path), []
    complete, tries = ingest_module.complete_write, []

    def losing_twice(*arguments: Any, **terms: Any) -> Any:
        tries.append(1)
        if len(tries) <= 2:
            raise Conflict("another write completed first")
        return complete(*arguments, **terms)

    def stream() -> Iterator[pa.RecordBatch]:
        reads.append(1)
        yield from rows(1).to_batches(max_chunksize=500)

    monkeypatch.setattr(ingest_module, "complete_write", losing_twice)
    result = table.ingest(stream())
    assert (len(reads), len(tries), result.rows_in) == (1, 3, COUNT)
    other = simulated()
    other.ingest(rows(1))
    assert table.read(SCHEMA.names).sort_by("id").equals(other.read(SCHEMA.names).sort_by("id"))


def test_a_stream_is_not_written_by_rules_that_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudi_ops.services.write import batch as batch_module, ingest as ingest_module

    table = on_disk(tmp_path)
    spec_of, seen = batch_module.tag_spec, []

    def changing(state: Any, operation: Any, schema: pa.Schema) -> Any:
        seen.append(1)
        kept = tuple(schema.names[: len(seen)]) if len(seen) > 1 else None
        return type(spec_of(state, operation, schema))(**{**vars(spec_of(state, operation, schema)), "kept": kept})

    def losing(*_: Any, **__: Any) -> Any:
        raise Conflict("another write completed first")

    monkeypatch.setattr(batch_module, "tag_spec", changing)
    monkeypatch.setattr(ingest_module, "complete_write", losing)
    with pytest.raises(Conflict, match="can be read only once"):
        table.ingest(rows(1).to_reader())
    assert table.read().num_rows == 0


@pytest.mark.parametrize("at", [0, 2_500])
@pytest.mark.parametrize(
    ("column", "value", "says"),
    [("id", None, "record key is null"), ("ts", None, "ordering column ts is null"), ("part", "", "read back as null")],
)
def test_a_bad_row_deep_in_a_stream_is_named_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, column: str, value: object, says: str
) -> None:
    from hudi_ops.services.write import rows as given_rows

    monkeypatch.setattr(given_rows, "RUN_BYTES", 20_000)
    table = on_disk(tmp_path)
    before = tree(table)
    good = rows(1)
    values = good[column].to_pylist()
    values[at] = value
    bad = good.set_column(
        SCHEMA.get_field_index(column), SCHEMA.field(column), pa.array(values, SCHEMA.field(column).type)
    )
    with pytest.raises(InvalidRequest, match=rf"the input: [Rr]ow {at}: .*{says}") as caught:
        table.ingest(bad.to_reader())
    assert (caught.value.details["row"], caught.value.details["field"]) == (at, column)
    assert tree(table) == before


@pytest.mark.parametrize("kind", [OSError, ZeroDivisionError])
def test_a_stream_that_breaks_off_leaves_the_table_as_it_was(tmp_path: Path, kind: type[Exception]) -> None:
    table = on_disk(tmp_path)
    before = tree(table)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches(max_chunksize=500)
        raise kind("gone")

    with pytest.raises(kind, match="gone"):
        table.ingest(broken())
    with pytest.raises(InvalidRequest if kind is OSError else kind, match="gone"):
        table.ingest(pa.RecordBatchReader.from_batches(SCHEMA, broken()))
    assert tree(table) == before


def test_a_conflict_inside_a_generator_is_not_answered_with_what_is_left_of_it(tmp_path: Path) -> None:
    table, told = on_disk(tmp_path), Conflict("another table's")

    def given() -> Iterator[pa.Table]:
        yield rows(1)
        raise told

    before = tree(table)
    with pytest.raises(Conflict, match="another table's") as caught:
        table.ingest(given())
    assert caught.value is told
    assert tree(table) == before


def test_nothing_is_nothing_new(tmp_path: Path) -> None:
    table = on_disk(tmp_path)
    assert table.ingest(iter(())).instant is None
    assert table.ingest(SCHEMA.empty_table().to_reader()).instant is None
    with pytest.raises(InvalidRequest, match="other"):
        table.ingest(pa.schema([("other", pa.int64())]).empty_table().to_reader())


def test_a_table_may_be_written_with_what_is_read_from_it(tmp_path: Path) -> None:
    table = on_disk(tmp_path)
    table.ingest(rows(1))
    count = table.read().num_rows
    relation = duckdb.from_arrow(table.read(SCHEMA.names)).filter("id % 2 = 0")
    result = table.ingest(relation)
    assert (result.inserted, result.updated) == (0, result.rows_in)
    assert table.read().num_rows == count


def test_auto_says_why_a_stream_stays_in_this_process(tmp_path: Path) -> None:
    table = on_disk(tmp_path)
    assert "stream" in table.ingest(rows(0).to_reader()).engine_reason
    assert "MB incoming" in table.ingest(rows(0)).engine_reason


def test_large_parquet_files_are_read_by_parts_into_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudi_ops.sources import source as source_module

    (tmp_path / "in").mkdir()
    for seed in range(2):
        pq.write_table(rows(seed), tmp_path / "in" / f"{seed}.parquet", row_group_size=300)
    monkeypatch.setattr(memory, "RUN_BYTES_MIN", 1)
    expected, parted = simulated(), simulated(LocalEngine(3, memory_bytes=50_000))
    expected.ingest_folder(str(tmp_path / "in"))
    monkeypatch.setattr(source_module, "PART_BYTES", 9_000)
    parted.ingest_folder(str(tmp_path / "in"))
    assert tree(parted) == tree(expected)
