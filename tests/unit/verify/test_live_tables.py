"""Writers at work are no damage: a write that lands at any moment of a verification leaves nothing to be found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.protocol.metadata_table import make_table, table_of
from tests.tables import NOW_MS, WITH_METADATA, rows
from tests.unit.verify.conftest import context, rows_of


def write(storage: MemoryStorage) -> None:
    """Write new keys too, and a folder that was not there: everything that a write can change."""
    Table(context(storage)).ingest(rows_of(5, 90, 9))


class Interrupted:
    """A storage on which a whole move lands just before the given call; calls are counted from 1."""

    def __init__(self, inner: MemoryStorage, at: int, move: Callable[[MemoryStorage], object] = write) -> None:
        self._inner = inner
        self._at = at
        self._move = move
        self.calls = 0

    def __getattr__(self, name: str):
        method = getattr(self._inner, name)
        if not callable(method):
            return method

        def called(*arguments, **keywords):
            self.calls += 1
            if self.calls == self._at:
                self._move(self._inner)
            return method(*arguments, **keywords)

        return called


def test_a_write_between_any_two_reads_of_a_verification(ours):
    counter = Interrupted(ours.copy(), at=0)
    verify_table(counter, deep=True)
    assert counter.calls > 30
    for at in range(1, counter.calls + 1):
        busy = Interrupted(ours.copy(), at)
        report = verify_table(busy, deep=True)
        assert report.findings == (), f"a write before call {at}: {report.findings[0]}"
        assert busy.calls >= at


def test_a_clean_between_any_two_reads_of_a_verification_of_indexes():
    """The metadata table is read after the files were listed, and lacks those that the clean deleted in between."""
    clock = ManualClock(NOW_MS + 86_400_000, tick_ms=1)
    storage = make_table(WITH_METADATA).copy(clock)
    for number in range(20, 24):
        table_of(storage, clock, "writer").ingest(
            rows(("k0", "p0", number, number, None), ("k1", "p1", number, number, None))
        )

    def clean(held: MemoryStorage) -> None:
        assert table_of(held, clock, "cleaner").clean.run(retain=1, policy="versions").deleted >= 8

    counter = Interrupted(storage.copy(clock), at=0)
    assert verify_table(counter, deep=True, index=True, clock=clock).findings == ()
    for at in range(1, counter.calls + 1, bound(12, 6, 1)):
        report = verify_table(Interrupted(storage.copy(clock), at, clean), deep=True, index=True, clock=clock)
        assert report.findings == (), f"a clean before call {at}: {report.findings[0]}"


@pytest.mark.parametrize("half", ["requested", "both"])
def test_a_writer_that_has_just_begun(ours, half):
    from hudi_ops.commit.session import Session
    from hudi_ops.concurrency.attempt import begin

    session = Session(context(ours))
    attempt = begin(session.ctx, session.loader, "commit")
    if half == "requested":
        ours.delete(f".hoodie/timeline/{attempt.instant}.inflight")
    assert verify_table(ours, deep=True).findings == ()
