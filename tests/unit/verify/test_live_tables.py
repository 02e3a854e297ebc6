"""Writers at work are no damage: a write that lands at any moment of a verification leaves nothing to be found."""

from __future__ import annotations

import pytest

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.unit.verify.conftest import context, rows_of


class Interrupted:
    """A storage on which a whole write lands just before the given call; calls are counted from 1."""

    def __init__(self, inner: MemoryStorage, at: int) -> None:
        self._inner = inner
        self._at = at
        self.calls = 0

    def __getattr__(self, name: str):
        method = getattr(self._inner, name)
        if not callable(method):
            return method

        def called(*arguments, **keywords):
            self.calls += 1
            if self.calls == self._at:
                # New keys too, and a folder that was not there: everything a write can change.
                Table(context(self._inner)).ingest(rows_of(5, 90, 9))
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


@pytest.mark.parametrize("half", ["requested", "both"])
def test_a_writer_that_has_just_begun(ours, half):
    from hudi_ops.commit.session import Session
    from hudi_ops.concurrency.attempt import begin

    session = Session(context(ours))
    attempt = begin(session.ctx, session.loader, "commit")
    if half == "requested":
        ours.delete(f".hoodie/timeline/{attempt.instant}.inflight")
    assert verify_table(ours, deep=True).findings == ()
