"""A slice reads as the dict model says, whole or as a stream, with a condition or without, read before or not.

Method: random sequences of log blocks in one file or several, Avro or Parquet: rows, rows that delete by each of three columns,
deletes with an ordering value and without; ordering values with ties and nulls; with a base file of small row groups or without.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings, strategies as st

from hudi_ops.config.columns import COMMIT_TIME
from hudi_ops.files.slice.slice_scan import SURVIVORS, SliceTask, open_scan
from hudi_ops.kernels.condition import Condition, both, member
from hudi_ops.read.where import parse_where
from hudi_ops.storage.memory import MemoryStorage
from tests.bounds import examples
from tests.property.slice_model import COLUMNS, DELETING, STORED, Block, ModelSlice, Record, in_reading_order

KEYS = ["a", "b", "c", "d", "e"]
INSTANTS = ["1", "2", "3", "4"]
WHERE = [
    "value < 3",
    "ts >= 2",
    "ts IS NULL",
    "id IN ('a', 'c')",
    "value = 7",
    "_hoodie_commit_time > '2'",
    "value + value = 6",
]

ALWAYS = Record("a", None, 0, "always")

orderings = st.one_of(st.none(), st.integers(0, 4))
rows = st.builds(Record, st.sampled_from(KEYS), orderings, st.integers(0, 7))


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(["row", "row", "row", *DELETING]))
    ts = draw(st.integers(0, 4) if kind == "delete" else st.none() if kind == "always" else orderings)
    return Record(draw(st.sampled_from(KEYS)), ts, draw(st.integers(0, 7)), kind)


@st.composite
def slices(draw: st.DrawFn) -> ModelSlice:
    instants = draw(st.lists(st.sampled_from(INSTANTS), min_size=1, max_size=4, unique=True))
    blocks = tuple(
        Block(
            instant,
            in_reading_order(draw(st.lists(records(), min_size=1, max_size=6))),
            draw(st.sampled_from(["parquet", "avro"])),
            draw(st.booleans()),
        )
        for instant in sorted(instants)
    )
    held = draw(st.one_of(st.none(), st.lists(rows, max_size=5, unique_by=lambda one: one.key)))
    base = None if held is None else tuple((draw(st.sampled_from(["0", "2"])), one) for one in held)
    return ModelSlice(base, blocks, draw(st.booleans()), draw(st.integers(1, 3)))


def seen(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def expected(
    model: ModelSlice, condition: Condition | None, only: frozenset[str] | None = None
) -> list[tuple[Any, ...]]:
    found = [dict(zip(COLUMNS, row, strict=True)) for row in model.rows(only).values()]
    schema = pa.schema([(COLUMNS[0], pa.string()), ("id", pa.string()), ("ts", pa.int64()), ("value", pa.int64())])
    table = pa.Table.from_pylist(found, schema=schema)
    return seen(table if condition is None else table.filter(condition.rows))


class Remote(MemoryStorage):
    """A storage whose files another object of the same URI would have, too: survivors of its slices are kept."""

    @property
    def uri(self) -> str:
        return f"s3://bucket/{id(self)}"


def check(model: ModelSlice, where: str | None, batch_rows: int | None, only: frozenset[str] | None = None) -> None:
    condition = parse_where(where).bind(STORED) if where is not None else None
    if only is not None:
        of_these = member(COMMIT_TIME, sorted(only))
        condition = of_these if condition is None else both(condition, of_these)
    keys = condition.fixed.get("id") if condition is not None else None
    wanted = expected(model, condition, only)
    check_reads(model.task(MemoryStorage(), condition, keys, only), wanted, batch_rows)
    SURVIVORS.clear()
    storage = Remote()
    open_scan(model.task(storage), streaming=True).count()
    assert SURVIVORS.size_bytes > 0
    check_reads(model.task(storage, condition, keys, only), wanted, batch_rows)


def check_reads(task: SliceTask, wanted: list[tuple[Any, ...]], batch_rows: int | None) -> None:
    whole = open_scan(task, streaming=False).table()
    assert seen(whole) == wanted
    for streaming in (False, True):
        scan = open_scan(task, streaming=streaming)
        batches = list(scan.batches(batch_rows))
        assert all(batch.num_rows for batch in batches)
        assert pa.Table.from_batches(batches, whole.schema).equals(whole)
        assert scan.count() == len(wanted) <= scan.rows


@given(slices(), st.one_of(st.none(), st.sampled_from(WHERE)), st.one_of(st.none(), st.integers(1, 3)))
@settings(max_examples=examples(300))
@example(ModelSlice((("0", Record("a", 5, 1)),), (Block("1", (ALWAYS,)), Block("2", (Record("a", 3, 2),)))), None, None)
@example(ModelSlice((("0", Record("a", 4, 7)),), (Block("1", (Record("a", 2, 1),)),)), "value < 3", None)
def test_a_slice_reads_as_the_model(model: ModelSlice, where: str | None, batch_rows: int | None) -> None:
    check(model, where, batch_rows)


@given(slices(), st.sets(st.sampled_from(["0", *INSTANTS]), min_size=1), st.one_of(st.none(), st.sampled_from(WHERE)))
@settings(max_examples=examples(150))
def test_changes_are_merged_with_nothing_older(model: ModelSlice, only: set[str], where: str | None) -> None:
    check(model, where, None, frozenset(only))


@given(slices())
@settings(max_examples=examples(100))
def test_counts_say_what_became_of_the_base(model: ModelSlice) -> None:
    scan = open_scan(model.task(MemoryStorage()), streaming=True)
    counts = scan.counts  # type: ignore[union-attr]
    before, after = {one.key: one for _, one in model.base or ()}, model.rows()
    assert counts.log_records == sum(len(block.records) for block in model.blocks)
    assert counts.inserted == len(after.keys() - before.keys())
    assert counts.deleted == len(before.keys() - after.keys())
    assert counts.inserted - counts.deleted == len(after) - len(before)
    assert counts.corrupt_blocks == 0
