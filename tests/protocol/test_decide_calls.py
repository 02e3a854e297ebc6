"""What the critical section asks of storage: a fixed number of small calls, no partition listed, no data read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.transaction import Decided, Prepare
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from tests.protocol.crash_table import SECOND, make_base
from tests.tables import START_MS, table_of

CALLS_MAX = 8
"""Settings, log, timeline; payload, slot; timeline; completed file; log."""
CALLS_OF_A_COMMIT_MAX = 18
CALLS_OF_OPENING_MAX = 7
"""Where the table stands, and what the dead left."""


def test_a_one_row_commit_decides_in_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FaultyStorage(make_base(tmp_path / "source"))
    table = table_of(storage, ManualClock(START_MS + 60_000, tick_ms=1), "writer")
    inside: list[str] = []
    decide = Session.decide

    def counted(session: Session, prepare: Prepare, purpose: str) -> Decided | None:
        before = storage.operations
        decided = decide(session, prepare, purpose)
        inside.extend(storage.history[before:])
        return decided

    monkeypatch.setattr(Session, "decide", counted)
    ingest(table._session, Batch(parse_operation("upsert"), rows=SECOND.slice(0, 1)), table.context.engine, "", 0.0)
    print(f"storage calls of a one-row commit: {storage.operations}, in its critical section: {len(inside)}")
    assert len(inside) <= CALLS_MAX
    assert all(call.partition(":")[2].startswith(".hoodie/") for call in inside)
    assert {call.partition(":")[0] for call in inside if "list" in call} == {"list_folder"}


def test_a_table_that_stays_open_commits_in_few_calls(tmp_path: Path) -> None:
    """Nobody else writes: what the last commit left is what the next one sets out from."""
    storage = FaultyStorage(make_base(tmp_path / "source"))
    table = table_of(storage, ManualClock(START_MS + 60_000, tick_ms=1), "writer")
    taken = []
    for number in range(4):
        before = storage.operations
        table.ingest(SECOND.slice(number % 2, 1))
        taken.append(storage.operations - before)
    print(f"storage calls of one-row commits, one after the other: {taken}")
    # Marker and lease go in one request where the store knows such; here each deletion counts.
    assert max(taken[1:]) <= CALLS_OF_A_COMMIT_MAX + 1
    assert taken[0] <= CALLS_OF_A_COMMIT_MAX + 1 + CALLS_OF_OPENING_MAX
