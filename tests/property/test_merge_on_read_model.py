"""Random sequences of writes, compactions and dead writers leave a merge-on-read table as the model has it, to every query."""

from __future__ import annotations

import contextlib

import pyarrow as pa
from hypothesis import example, given, settings

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from tests.bounds import examples
from tests.definitions import create_table
from tests.property.merge_on_read_model import SHAPES, STEPS, Shape, Step, play
from tests.tables import START_MS, table_of


# A delete after an unconditional one says nothing, so the base row with the larger ordering value does not come back.
@example(
    shape=Shape((), "ts", 1),
    steps=[
        Step("upsert", (("a", "x", 0, 1, None),)),
        Step("upsert", (("a", "x", 0, 0, None),)),
        Step("delete", (("a", "x", 0, 0, None),)),
        Step("upsert", (("a", "x", 0, 0, True),)),
    ],
)
@settings(max_examples=examples(80, 1_000))
@given(shape=SHAPES, steps=STEPS)
def test_a_table_shows_what_the_model_shows(shape: Shape, steps: list[Step]) -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("model", clock)
    table = table_of(storage, clock, "writer", log_format=shape.log_format)  # type: ignore[arg-type]
    create_table(table._session, shape.definition())

    def die(rows: pa.Table) -> None:
        # After its first log or base file; when it writes none, it lives.
        for number in range(1, 200):
            faulty = FaultyStorage(storage.copy(clock), FaultPlan.at(number, Fault.CRASH_AFTER), only_mutations=True)
            with contextlib.suppress(Crash):
                table_of(faulty, clock, "dead").ingest(rows)
            if not faulty.fired or ("put:" in faulty.fired[0] and ".hoodie" not in faulty.fired[0]):
                break
        faulty = FaultyStorage(storage, FaultPlan.at(number, Fault.CRASH_AFTER), only_mutations=True)
        if number > 1:
            with contextlib.suppress(Crash):
                table_of(faulty, clock, "dead").ingest(rows)
        clock.advance_ms(EXPIRY_MS + 1_000)

    play(table, shape, steps, "local", die)
