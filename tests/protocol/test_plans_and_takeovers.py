"""Plans, takeovers and the ARCHIVE boundary: each guard holds, and without it the hole is open."""

from __future__ import annotations

import pytest

from hudi_ops.commit.apply import decided as apply
from hudi_ops.commit.decide import archive_boundary as boundary
from hudi_ops.commit.decide.archive_boundary import HistoryFile, archive_boundary
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.takeover import clear_older_epochs, take_over
from hudi_ops.commit.recover.recover import recover
from hudi_ops.concurrency import attempt_status as standing
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.services.base import publish as plans
from hudi_ops.services.base.publish import publish_plan
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.log.entries import Plan
from hudi_ops.timeline.names import instant_of_ms
from tests.fault_plans import MoveBefore
from tests.protocol.log_actors import (
    GROUP,
    bare_table,
    commit,
    decided_only,
    draft,
    finish,
    oldest,
    plan,
    session_of,
    stat,
    timeline_of,
    whole_log,
)
from tests.tables import NOW_MS, TIMELINE


def test_who_was_taken_over_cannot_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    first, second = (session_of(storage, clock, name) for name in ("first", "second"))
    attempt = begin(first.ctx, first.loader, "commit")
    clock.advance_ms(EXPIRY_MS + 1_000)
    taken = take_over(second, attempt.instant, "commit")
    assert taken is not None
    assert taken.epoch == 1
    with pytest.raises(Cancelled, match="taken over by"):
        finish(first, attempt)
    unguarded = storage.copy()
    assert finish(second, taken).epoch == 1
    monkeypatch.setattr(standing, "refuse_taken_over", lambda attempt, state: None)
    assert finish(session_of(unguarded, clock, "first"), attempt).epoch == 0, "without its guard the sleeper completes"


def test_a_live_lease_is_not_taken_and_names_its_owner() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    first, second = (session_of(storage, clock, name) for name in ("first", "second"))
    attempt = begin(first.ctx, first.loader, "commit")
    with pytest.raises(Busy, match="simulated-first") as refused:
        take_over(second, attempt.instant, "commit")
    assert "good for another" in str(refused.value)
    cancel_write(first, attempt.instant, "no more")
    with pytest.raises(Cancelled, match="no more"):
        take_over(second, attempt.instant, "commit")
    assert take_over(second, commit(second).instant, "commit") is None
    with pytest.raises(Conflict, match="not on the timeline"):
        take_over(second, instant_of_ms(NOW_MS + 1), "commit")


def test_files_of_older_epochs_go_once_the_takeover_holds_a_slot() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    planned = plan(session_of(storage, clock, "planner"))
    first = session_of(storage, clock, "first")
    attempt = take_over(first, planned.instant, "clustering")
    assert attempt is not None
    paths = [f"part=p0/{GROUP}_0-{epoch}-0_{planned.instant}.parquet" for epoch in (1, 2)]
    for path in paths:
        storage.put(path, b"")
        storage.put(f".hoodie/.temp/{planned.instant}/{path}.marker.CREATE", b"")
    assert clear_older_epochs(first, attempt) == []
    clock.advance_ms(EXPIRY_MS + 1_000)
    again = take_over(session_of(storage, clock, "second"), planned.instant, "clustering")
    assert again is not None
    assert clear_older_epochs(session_of(storage, clock, "second"), again) == [paths[0]]


def test_epochs_and_cancels_are_found_below_the_part_of_the_log_that_was_read() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    planner = session_of(storage, clock, "planner")
    planned = plan(planner)
    assert take_over(planner, planned.instant, "clustering").epoch == 1  # type: ignore[union-attr]
    for _ in range(3):
        commit(session_of(storage, clock, "writer"))
    clock.advance_ms(EXPIRY_MS + 1_000)
    late = session_of(storage, clock, "late")
    assert late.loader.load().log.takeover(planned.instant) is None
    assert take_over(late, planned.instant, "clustering").epoch == 2  # type: ignore[union-attr]
    cancel_write(session_of(storage, clock, "user"), planned.instant, "stop")
    commit(session_of(storage, clock, "writer"))
    with pytest.raises(Cancelled, match="stop"):
        take_over(session_of(storage, clock, "later"), planned.instant, "clustering")


def test_a_plans_instant_lies_above_everything_known_though_its_clock_lags() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    last = commit(session_of(storage, clock, "writer"))
    planned = plan(session_of(storage, ManualClock(NOW_MS - 20_000), "planner"))
    assert planned.instant > last.completion_time
    assert isinstance(whole_log(storage).entries[planned.slot], Plan)


def test_no_commit_completes_below_a_plan_though_its_clock_lags() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    lagging = session_of(storage, ManualClock(NOW_MS - 20_000), "writer")
    attempt = begin(lagging.ctx, lagging.loader, "commit")
    planned = plan(session_of(storage, clock, "planner"))
    assert attempt.instant < planned.instant < finish(lagging, attempt).completion_time


@pytest.mark.parametrize("guard", ["refuse_overtaken", "refuse_overlapping_plan"])
def test_a_plan_is_validated_where_it_is_decided(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    session = session_of(storage, clock, "planner")
    made = draft(session)
    if guard == "refuse_overtaken":
        commit(session_of(storage, clock, "writer"), stat())
    else:
        plan(session_of(storage, clock, "other"))
    with pytest.raises(Conflict if guard == "refuse_overtaken" else Busy):
        publish_plan(session, "clustering", made)
    assert publish_plan(session, "clustering", draft(session, partition="part=p1")).slot > 0, "elsewhere it may be"
    monkeypatch.setattr(plans, guard, lambda session, draft, state, but=frozenset(): None)
    assert publish_plan(session, "clustering", made).slot > 0, "without its guard it is planned"


def test_nothing_is_archived_past_something_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    session = session_of(storage, clock, "archiver")
    attempt = begin(session.ctx, session.loader, "commit")
    for _ in range(2):
        commit(session_of(storage, clock, "writer"))
    limit, kept = oldest(storage, 4)
    with pytest.raises(Busy, match=attempt.instant):
        archive_boundary(session, limit, kept)
    monkeypatch.setattr(boundary, "refuse_pending_below", lambda state, limit: None)
    monkeypatch.setattr(boundary, "refuse_not_kept", lambda state, limit, kept: None)
    assert archive_boundary(session, limit, kept)
    assert len(timeline_of(storage).completed_writes) == 5, "nothing goes while something pending lies below"
    with pytest.raises(Conflict, match="archived past"):
        finish(session, attempt)


def test_what_completed_after_the_history_was_written_is_not_archived() -> None:
    storage, clock = bare_table(4), ManualClock(NOW_MS, tick_ms=1)
    limit, kept = oldest(storage, 3)
    with pytest.raises(Conflict, match="does not keep it"):
        archive_boundary(session_of(storage, clock, "archiver"), limit, HistoryFile(kept.path, kept.instants - {limit}))


def test_an_applier_that_slept_wakes_nothing_that_was_archived() -> None:
    storage, clock = bare_table(4), ManualClock(NOW_MS, tick_ms=1)
    session_of(storage, clock, "applier", locked=False)
    entry = decided_only(storage, clock)
    other = session_of(storage, clock, "other", locked=False)

    def move() -> None:
        recover(other)
        commit(other)
        limit, kept = oldest(storage, 6)
        assert limit == entry.instant
        assert archive_boundary(other, limit, kept)

    faulty = FaultyStorage(storage, MoveBefore(f"put_if_absent:{TIMELINE}/{entry.instant}", move))
    recover(session_of(faulty, clock, "applier", locked=False))
    assert timeline_of(storage).find(entry.instant) is None


def test_without_the_look_at_the_archive_a_sleeper_wakes_what_was_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "is_archived", lambda log, instant: False)
    storage, clock = bare_table(4), ManualClock(NOW_MS, tick_ms=1)
    entry = decided_only(storage, clock)
    path = f"{TIMELINE}/{entry.instant}_{entry.completion_time}.commit"
    other = session_of(storage, clock, "other", locked=False)

    def move() -> None:
        recover(other)
        commit(other)
        assert archive_boundary(other, *oldest(storage, 6))

    faulty = FaultyStorage(storage, MoveBefore(f"put_if_absent:{path}", move))
    session = session_of(faulty, clock, "applier", locked=False)
    session.finish_decided()
    assert storage.head(path) is not None
