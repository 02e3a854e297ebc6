"""A process's first write does not grow with the timeline: what it reads of old commits is bounded, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops.concurrency.foreign.foreign_writers import LOOKED_BACK_MAX
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline import state
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import FIRST, make_base
from tests.tables import START_MS, table_of


@pytest.mark.parametrize("commits", [2, 2 * LOOKED_BACK_MAX])
def test_a_first_write_reads_a_bounded_number_of_commits(tmp_path: Path, commits: int) -> None:
    storage = make_base(tmp_path / "source")
    clock = ManualClock(START_MS + 60_000, tick_ms=1)
    writer = table_of(storage, clock, "writer")
    for _ in range(commits):
        writer.ingest(FIRST)
    counted = FaultyStorage(storage)
    table_of(counted, clock, "fresh").ingest(FIRST)
    read = {point for point in counted.history if point.startswith("get:.hoodie/timeline/") and ".commit" in point}
    assert len(read) <= LOOKED_BACK_MAX + 2, f"{len(read)} commits were read"


def test_a_session_that_lives_long_remembers_a_bounded_part_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ENTRIES_KEPT_MAX", 16)
    monkeypatch.setattr(state, "COMMITS_KEPT_MAX", 16)
    storage = make_base(tmp_path / "source")
    clock = ManualClock(START_MS + 60_000, tick_ms=1)
    writer = table_of(storage, clock, "writer")
    other = table_of(storage, clock, "other")
    for number in range(60):
        writer.ingest(FIRST)
        if number % 7 == 0:
            other.ingest(FIRST)
            clock.advance_ms(11_000)
    log = writer._session.loader.known_log
    assert log is not None
    assert len(log.entries) <= 18
    assert len(writer._session.commits._read) <= 16
    whole = load_log(storage, None)
    assert whole is not None
    assert (log.head, log.properties_slot) == (whole.head, whole.properties_slot)
    assert log.entries == whole.entries[log.base :]
    assert verify_table(storage, deep=True, clock=clock).findings == ()
