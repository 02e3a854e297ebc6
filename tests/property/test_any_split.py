"""However the same rows are cut into batches, and however little of them may be held, the table is the same byte for byte."""

from __future__ import annotations

import itertools
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from hudi_ops.context import TableContext
from hudi_ops.engine import memory
from hudi_ops.engine.local import LocalEngine
from hudi_ops.services.write import rows as given_rows
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from tests.bounds import examples
from tests.property.table_model import BATCHES, SHAPES, Shape, Step, files_of


def written(shape: Shape, steps: list[Step], cuts: list[int], memory_bytes: int, run_bytes: int) -> dict[str, bytes]:
    """Every file of a table after the steps, each given as a stream that is cut at the rows named."""
    clock = ManualClock(1_900_000_000_000, tick_ms=1)
    context = simulated_context(MemoryStorage("split", clock), clock, "writer")
    with mock.patch.object(memory, "RUN_BYTES_MIN", 1):
        engine = LocalEngine(threads=1, memory_bytes=memory_bytes)
    table = Table(TableContext(**{**vars(context), "engine": engine}))
    shape.create(table)
    for step in steps:
        rows = step.table(shape)
        ends = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
        batches = [rows.slice(first, end - first).combine_chunks() for first, end in itertools.pairwise(ends)]
        stream = pa.RecordBatchReader.from_batches(rows.schema, (b for part in batches for b in part.to_batches()))
        with mock.patch.object(given_rows, "RUN_BYTES", run_bytes):
            table.ingest(stream, step.operation)
    return files_of(table)


@settings(max_examples=examples(40))
@given(
    shape=SHAPES,
    steps=st.lists(
        st.builds(
            Step,
            operation=st.sampled_from(["upsert", "delete"]),
            rows=BATCHES.map(lambda rows: tuple((*row[:5], row[5] or 0, row[6]) for row in rows)),
            keys_only=st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ),
    cuts=st.lists(st.integers(1, 9), max_size=6),
    memory_bytes=st.sampled_from([64, 300, 1 << 30]),
    run_bytes=st.sampled_from([1, 200, 1 << 20]),
)
def test_any_split_of_the_same_rows_gives_the_same_bytes(
    shape: Shape, steps: list[Step], cuts: list[int], memory_bytes: int, run_bytes: int
) -> None:
    assert written(shape, steps, cuts, memory_bytes, run_bytes) == written(shape, steps, [], 1 << 30, 1 << 20)
