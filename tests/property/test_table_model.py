"""Random sequences of all operations leave the rows that a dict would, now and as of every earlier instant."""

from __future__ import annotations

from hypothesis import given, settings

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.bounds import examples
from tests.property.table_model import LOCATED_SHAPES, SHAPES, STEPS, Shape, Step, play
from tests.tables import START_MS, table_of


def holds(shape: Shape, steps: list[Step]) -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    table = table_of(MemoryStorage("model", clock), clock, "writer")
    shape.create(table)
    play(table, shape, steps)


@settings(max_examples=examples(100, 1_000))
@given(shape=SHAPES, steps=STEPS)
def test_a_table_holds_what_the_model_holds(shape: Shape, steps: list[Step]) -> None:
    holds(shape, steps)


@settings(max_examples=examples(60, 1_000))
@given(shape=LOCATED_SHAPES, steps=STEPS)
def test_a_table_whose_index_is_asked_holds_it_too(shape: Shape, steps: list[Step]) -> None:
    holds(shape, steps)
