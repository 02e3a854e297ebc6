"""Twelve tables of the covering set, written by us and read equal by the `hudi` package, now and as of the operation under test.

They hold every choice on every axis, the Spark engine aside. `test_covering_set.py` has all tables; Apache Hudi reads them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.compare import assert_same_rows
from tests.interop.covering import AXES, Choice, perform, possible_pairwise
from tests.interop.expected import completed_instants
from tests.interop.table_shapes import ShapedTable, rows

pytestmark = pytest.mark.quick

COUNT = 12
ENGINE = tuple(AXES).index("engine")


def few() -> Iterator[Sequence[Any]]:
    """Yield tables of the covering set, always the one with most choices that none before it has."""
    left = [values for values in possible_pairwise() if values[ENGINE] == "local"]
    held: set[tuple[int, Any]] = set()
    for _ in range(COUNT):
        best = max(left, key=lambda values: len(set(enumerate(values)) - held))
        left.remove(best)
        held.update(enumerate(best))
        yield best


CHOSEN = list(few())


def test_every_choice_is_held() -> None:
    held = {choice for values in CHOSEN for choice in zip(AXES, values, strict=True)}
    assert held == {(axis, value) for axis, values in AXES.items() for value in values} - {("engine", "spark")}


@pytest.mark.parametrize("choice", [Choice.of(values) for values in CHOSEN], ids=str)
def test_the_hudi_package_reads_what_we_read(choice: Choice, tmp_path: Path, hudi_rs: Callable[..., pa.Table]) -> None:
    shaped = ShapedTable(choice.shape, tmp_path / "table")
    shaped.ingest("upsert", rows(range(20), 1, 10), choice.engine)
    perform(choice, shaped)
    then, between = completed_instants(shaped.path)[-1], shaped.expected()
    shaped.ingest("upsert", rows((0, 3, 5, 21, 30), 4, 30), choice.engine)
    for instant, expected in ((then, between), (None, shaped.expected())):
        ours = shaped.table.read(as_of=instant, meta_columns=True)
        assert_same_rows(ours, expected)
        assert_same_rows(hudi_rs(shaped.path, instant), ours, with_meta=choice.shape.meta_fields)
