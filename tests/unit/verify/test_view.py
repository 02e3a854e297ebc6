"""A view that differs from a listing is found, on both sides; one that is right is not."""

from __future__ import annotations

import numpy as np
import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.view.columns.kept import keep_view
from hudi_ops.view.columns.table_view import View
from tests.tables import START_MS, made, rows, table_of
from tests.unit.verify.breaking import errors, found
from tests.views import view_anew


def kept(storage: MemoryStorage) -> View:
    """Write two versions of a row, and keep the view."""
    clock = ManualClock(START_MS, tick_ms=1)
    for version in (1, 2):
        clock.advance_ms(1_000)
        table_of(storage, clock, "writer").ingest(rows(("k", "p0", version, version, None)))
    view = view_anew(storage).settled()
    keep_view(storage, view)
    return view


@pytest.mark.parametrize(
    ("seen", "expected"), [("all", []), ("oldest", errors("view-differs")), ("none", errors("view-differs"))]
)
def test_a_view_is_compared_with_the_listing(seen: str, expected: list[tuple[str, str]]) -> None:
    storage = made()
    view = kept(storage)
    words, places = view.files.instants
    shown = {"all": words, "oldest": words[:1], "none": ()}[seen]
    keep_view(storage, view.with_files(view.files.filter(np.array([word in shown for word in words], bool)[places])))
    assert found(storage) == expected
