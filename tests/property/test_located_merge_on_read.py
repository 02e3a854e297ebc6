"""Merge-on-read tables whose index is asked: random writes and compactions, some of which writes come between plan and merge.

The model is the dict of `table_model`. Ordering values are of one size, so that it does not matter whether rows meet in a log.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings, strategies as st

from hudi_ops.config.write_settings import FileSizes
from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.bounds import examples
from tests.definitions import Definition, create_table
from tests.property.table_model import SCHEMA, SMALL_FILES, Shape, Step, TableModel, observed
from tests.tables import START_MS, table_of

SHAPES = st.builds(
    Shape,
    keys=st.just(("id",)),
    partitions=st.sampled_from([(), ("part",)]),
    ordering=st.none(),
    buckets=st.just(1),
    index=st.sampled_from(["bloom", "simple"]),
    file_sizes=st.sampled_from([FileSizes(), FileSizes(small_bytes=0), SMALL_FILES]),
)
ROWS = st.tuples(
    st.sampled_from(["a", "b", "c", "d"]),
    st.just(0),
    st.sampled_from(["x", "x", "y"]),
    st.just(1),
    st.integers(0, 9),
    st.just(1),
    st.sampled_from([None, False, True]),
)
WRITES = st.builds(
    Step,
    operation=st.sampled_from([
        "upsert",
        "upsert",
        "upsert",
        "insert",
        "delete",
        "delete",
        "bulk_insert",
        "insert_overwrite",
    ]),
    rows=st.lists(ROWS, min_size=1, max_size=5).map(tuple),
)
STEPS = st.lists(WRITES | st.sampled_from([Step("plan", ()), Step("execute", ())]), min_size=1, max_size=12)

A = ("a", 0, "x", 1, 1, 1, None)
B = ("b", 0, "x", 1, 1, 1, None)
ONE = Shape(("id",), ("part",), None, 1, "bloom", FileSizes(small_bytes=0))


# A row that was logged upon its own delete, while that was merged, lies in no base file any more.
MERGED_BETWEEN = [
    Step("upsert", (A, B)),
    Step("delete", (A,)),
    Step("plan", ()),
    Step("upsert", (A,)),
    Step("execute", ()),
    Step("upsert", (A,)),
]
# A key that was deleted by a log file, and came back in another group by a writer that looks for none.
BACK_ELSEWHERE = [
    Step("upsert", (A, B)),
    Step("delete", (A,)),
    Step("bulk_insert", (A,)),
    Step("upsert", (A,)),
    Step("delete", (A,)),
]


@settings(max_examples=examples(80, 1_000))
@example(ONE, MERGED_BETWEEN)
@example(ONE, BACK_ELSEWHERE)
@given(shape=SHAPES, steps=STEPS)
def test_nothing_is_lost_and_nothing_doubled(shape: Shape, steps: list[Step]) -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    table = table_of(MemoryStorage("model", clock), clock, "writer")
    definition = Definition("model", SCHEMA, shape.keys, shape.partitions, None, "MERGE_ON_READ", index=shape.index)
    create_table(table._session, replace(definition, buckets=1))
    table._session.file_sizes = shape.file_sizes
    model = TableModel(shape)
    for step in steps:
        if step.operation == "plan":
            table.compaction.plan()
        elif step.operation == "execute":
            table.compaction.run()
        else:
            write(table, model, step)
        assert observed(table, model) == model.rows, f"after {step}"
    table.recover()
    findings = verify_table(table.context.storage, deep=True, clock=table.context.clock).findings
    assert [one for one in findings if one.severity == "error"] == []


def write(table: Table, model: TableModel, step: Step) -> None:
    if step.operation == "bulk_insert":
        step = model.only_new(step)
    if model.refuses(step.operation, step.dicts()):
        try:
            table.ingest(step.table(model.shape), step.operation)
        except InvalidRequest:
            return
        raise AssertionError(f"not refused: {step}")
    result = table.ingest(step.table(model.shape), step.operation)
    model.apply(step.operation, step.dicts(), result.instant or "")
