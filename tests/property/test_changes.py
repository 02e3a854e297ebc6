"""Random histories of all operations: between two completions come the rows of those writes that were there at the second."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import given, settings

from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.active import load_timeline
from tests.bounds import examples
from tests.property.table_model import SHAPES, STEPS, Shape, Step, play
from tests.tables import START_MS, table_of


def as_rows(table: pa.Table) -> dict[Any, dict[str, Any]]:
    """By partition and key."""
    found = {(row["_hoodie_partition_path"], row["_hoodie_record_key"]): row for row in table.to_pylist()}
    assert len(found) == table.num_rows, "a row came twice"
    return found


@settings(max_examples=examples(50, 500))
@given(shape=SHAPES, steps=STEPS)
def test_between_two_completions_come_the_rows_of_those_writes(shape: Shape, steps: list[Step]) -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    table = table_of(MemoryStorage("model", clock), clock, "writer")
    shape.create(table)
    play(table, shape, steps)  # which also shows that reads as of each instant are right
    writes = load_timeline(table.context.storage, table.config).completed_writes
    for first, last in itertools.combinations(range(len(writes)), 2):
        between = {one.time for one in writes[first + 1 : last + 1]}
        then = as_rows(table.read(as_of=writes[last].time, meta_columns=True))
        wanted = {name: row for name, row in then.items() if row["_hoodie_commit_time"] in between}
        found = table.changes(writes[first].completion_time, writes[last].completion_time, meta_columns=True)
        assert as_rows(found.to_arrow()) == wanted
        assert {one.time for one in found.instants} == between


@settings(max_examples=examples(30, 300))
@given(shape=SHAPES, steps=STEPS)
def test_increments_from_the_earliest_give_the_whole(shape: Shape, steps: list[Step]) -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    table = table_of(MemoryStorage("model", clock), clock, "writer")
    shape.create(table)
    held: dict[Any, dict[str, Any]] = {}
    checkpoint: str | None = None
    for step in steps:
        deliver(table, shape, step)
        found = table.changes(checkpoint, fence=True, meta_columns=True)
        held |= as_rows(found.to_arrow())
        checkpoint = found.checkpoint
        whole = as_rows(table.read(meta_columns=True))
        # What was deleted does not come, and stays with whoever only adds.
        assert {name: held.get(name) for name in whole} == {
            name: {**row, **_file(held, name)} for name, row in whole.items()
        }
        assert as_rows(table.changes(meta_columns=True).to_arrow()) == whole


def _file(held: dict[Any, dict[str, Any]], name: Any) -> dict[str, Any]:
    # The only column that a write changes in rows that it carries over.
    return {"_hoodie_file_name": held[name]["_hoodie_file_name"]} if name in held else {}


def deliver(table: Table, shape: Shape, step: Step) -> None:
    try:
        if step.operation == "truncate":
            table.truncate()
        elif step.operation not in {"delete_partition", "bulk_insert"}:
            table.ingest(step.table(shape), step.operation)
    except InvalidRequest:
        return  # refused batches change nothing
