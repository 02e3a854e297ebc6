"""Appliers that sleep between their verdict and their put, and what Apache Hudi does to the same files meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.commit.apply import decided as apply
from hudi_ops.commit.decide import archive_boundary as boundary
from hudi_ops.commit.decide.archive_boundary import archive_boundary
from hudi_ops.commit.recover import rollback
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback import rollback_attempt
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH
from hudi_ops.errors import Conflict
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.log.entries import Void
from hudi_ops.timeline.names import completed_name
from tests.fault_plans import MoveBefore
from tests.protocol.foreign_table import rollback_plan
from tests.protocol.log_actors import (
    bare_table,
    commit,
    oldest,
    properties_of,
    session_of,
    set_property,
    stat,
    timeline_of,
    whole_log,
)
from tests.tables import NOW_MS, TIMELINE


class AtCompletion:
    """Before the first completed file of a write is put, somebody else makes a move."""

    def __init__(self, move: Callable[[], None]) -> None:
        self._move = move
        self.moved = False

    def fault_at(self, number: int, point: str) -> Fault | None:
        if not self.moved and point.startswith(f"put_if_absent:{TIMELINE}/") and point.endswith(".commit"):
            self.moved = True
            self._move()
        return None


def sleeping_writer(storage: MemoryStorage, clock: ManualClock) -> str:
    """A writer that sleeps before it puts its completed file, while Hudi begins to undo it and another one of ours voids it."""

    def undone_meanwhile() -> None:
        (target,) = (one.time for one in timeline_of(storage).pending)
        storage.put(f"{TIMELINE}/{int(target) + 500:017d}.rollback.requested", rollback_plan(target))
        recover(session_of(storage, clock, "helper", locked=False))
        assert isinstance(whole_log(storage).entries[-1], Void)

    session = session_of(FaultyStorage(storage, AtCompletion(undone_meanwhile)), clock, "writer", locked=False)
    before = {one.time for one in timeline_of(storage)}
    commit(session, stat())
    return next(one.time for one in timeline_of(storage) if one.time not in before and one.kind == "commit")


def test_a_completion_that_was_voided_while_its_applier_slept_is_taken_back() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    before = timeline_of(storage).completed_writes
    with pytest.raises(Conflict, match="a foreign writer came between"):
        sleeping_writer(storage, clock)
    assert timeline_of(storage).completed_writes == before


def test_without_the_look_after_the_put_a_voided_completion_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "is_voided", lambda log, slot: False)
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    instant = sleeping_writer(storage, clock)
    found = timeline_of(storage).find(instant)
    assert found is not None
    assert found.is_completed


def test_a_voided_completion_whose_applier_died_right_after_its_put_is_removed_by_the_next_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apply, "is_voided", lambda log, slot: False)
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    before = timeline_of(storage).completed_writes
    instant = sleeping_writer(storage, clock)  # without its last look: as if it had died before it
    monkeypatch.undo()
    recover(session_of(storage, clock, "next"))
    found = timeline_of(storage).find(instant)
    assert found is None or not found.is_completed
    assert timeline_of(storage).completed_writes == before


def test_a_voided_completion_is_removed_in_the_same_recovery_as_what_was_archived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apply, "is_voided", lambda log, slot: False)
    monkeypatch.setattr(boundary, "clear_archived", lambda session, state: [])
    storage, clock = bare_table(4), ManualClock(NOW_MS, tick_ms=1)
    instant = sleeping_writer(storage, clock)
    limit, kept = oldest(storage, 2)
    assert archive_boundary(session_of(storage, clock, "archiver"), limit, kept)
    monkeypatch.undo()
    recover(session_of(storage, clock, "next"))
    found = timeline_of(storage).find(instant)
    assert found is None or not found.is_completed
    assert timeline_of(storage).find(limit) is None


def test_who_voids_takes_away_what_a_helper_put_meanwhile() -> None:
    """The decider looks, finds a rollback, and voids; a helper without the lock had looked before and puts in between."""
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    before = timeline_of(storage).completed_writes
    head = whole_log(storage).head
    slot = f"put_if_absent:.hoodie/.commit_log/00000000/{head + 2:012d}"

    def helped() -> None:
        # What a helper puts follows from the slot alone.
        entry = whole_log(storage).entries[-1]
        name = completed_name(entry.instant, entry.action, entry.completion_time)
        storage.put(f"{TIMELINE}/{name}", storage.get(entry.payload))

    class RolledBackThenHelped:
        def fault_at(self, number: int, point: str) -> Fault | None:
            if point == f"list_folder:{TIMELINE}" and whole_log(storage).head == head + 1:
                (target,) = (one.time for one in timeline_of(storage).pending if one.kind == "commit")
                storage.put(f"{TIMELINE}/{int(target) + 500:017d}.rollback.requested", rollback_plan(target))
            elif point == slot:
                helped()
            return None

    session = session_of(FaultyStorage(storage, RolledBackThenHelped()), clock, "writer", locked=False)
    with pytest.raises(Conflict, match="a foreign writer came between"):
        commit(session, stat())
    assert isinstance(whole_log(storage).entries[head + 1 - whole_log(storage).base + 1], Void)
    assert timeline_of(storage).completed_writes == before


def voided_rollback() -> tuple[MemoryStorage, ManualClock]:
    """Between a rollback's slot and its completed file its inflight vanished, which voids it; its requested file is there."""
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)

    def inflight_vanishes() -> None:
        (inflight,) = (info.path for info in storage.list(TIMELINE) if info.path.endswith(".rollback.inflight"))
        storage.delete(inflight)

    plan = MoveBefore(
        f"put_if_absent:.hoodie/.commit_log/00000000/{whole_log(storage).head + 2:012d}", inflight_vanishes
    )
    session = session_of(FaultyStorage(storage, plan), clock, "writer")
    attempt = begin(session.ctx, session.loader, "commit")
    rollback_attempt(session, attempt.instant, Conflict("lost"))
    assert plan.moved
    assert isinstance(whole_log(storage).entries[-1], Void)
    clock.advance_ms(EXPIRY_MS + 1_000)
    recover(session_of(storage, clock, "next"))
    return storage, clock


def test_a_rollback_whose_completion_was_voided_is_finished_by_the_next_write() -> None:
    storage, _ = voided_rollback()
    found = [one for one in timeline_of(storage) if one.kind == "rollback"]
    assert [one.is_completed for one in found] == [True]


def test_without_keeping_its_lease_a_voided_rollback_stays_pending_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "was_voided", lambda decided: False)
    storage, _ = voided_rollback()
    assert [one.is_completed for one in timeline_of(storage) if one.kind == "rollback"] == [False]


def test_settings_that_hudi_replaces_in_steps_are_never_taken_for_missing() -> None:
    """Its backup goes once the new file is there: a reader may look for the file before that, and for the backup after it."""
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    held = properties_of(storage)
    theirs = storage.get(PROPERTIES_PATH)

    def replaced() -> None:
        storage.put(PROPERTIES_PATH, theirs)

    class InSteps:
        """The file is away for the look that folds, and back when the backup is looked for."""

        def __init__(self) -> None:
            self.is_folding = False

        def fault_at(self, number: int, point: str) -> Fault | None:
            if point.startswith("put_if_absent:.hoodie/.commit_log/"):
                self.is_folding = True
            elif self.is_folding and point == f"get:{PROPERTIES_PATH}":
                storage.delete(PROPERTIES_PATH)
            elif self.is_folding and point == f"get:{BACKUP_PATH}":
                self.is_folding = False
                replaced()
            return None

    set_property(session_of(FaultyStorage(storage, InSteps()), clock, "first"), "hoodie.a", "1")
    now = properties_of(storage)
    assert now["hoodie.a"] == "1"
    assert held.keys() <= now.keys()
