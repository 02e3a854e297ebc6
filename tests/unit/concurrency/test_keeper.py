"""The keeper of an attempt: it stops work that is in vain, and an attempt that may have been taken for dead."""

from __future__ import annotations

import pytest

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import drop_lease, read_lease
from hudi_ops.concurrency.lease.monitor import GAP_S_MAX, refuse_starved
from hudi_ops.errors import Cancelled, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Takeover, encode_entry
from tests.definitions import create_table
from tests.tables import DEFINITION, START_MS


class Counting(MemoryStorage):
    """Counts what is read, and can be silent."""

    gets = 0
    is_silent = False

    def get(self, path: str) -> bytes:
        self.gets += 1
        if self.is_silent:
            raise Unavailable("no answer")
        return super().get(path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS, tick_ms=1)


@pytest.fixture
def storage(clock: ManualClock) -> Counting:
    return Counting("kept", clock)


@pytest.fixture
def ours(storage: Counting, clock: ManualClock) -> Session:
    session = Session(simulated_context(storage, clock, "ours"))
    create_table(session, DEFINITION)
    return session


@pytest.fixture
def theirs(storage: Counting, clock: ManualClock) -> Session:
    return Session(simulated_context(storage, clock, "theirs"))


def test_it_asks_the_storage_once_a_beat_at_most(ours: Session, storage: Counting, clock: ManualClock) -> None:
    attempt = begin(ours.ctx, ours.loader, "commit")
    with ours.keep(attempt.instant) as keeper:
        asked = storage.gets
        for _ in range(100):
            keeper.check()
        assert storage.gets == asked
        clock.advance_ms(31_000)
        for _ in range(100):
            keeper.check()
        assert storage.gets == asked + 1


def test_a_cancelled_attempt_stops_and_hears_by_whom(ours: Session, theirs: Session, clock: ManualClock) -> None:
    attempt = begin(ours.ctx, ours.loader, "commit")
    with ours.keep(attempt.instant) as keeper:
        assert cancel_write(theirs, attempt.instant, "its writer is gone")
        keeper.check()  # nothing is asked before the next beat
        clock.advance_ms(31_000)
        with pytest.raises(Cancelled, match="its writer is gone") as stopped:
            keeper.check()
        with pytest.raises(Cancelled):
            keeper.check()
    assert stopped.value.instant == attempt.instant
    assert str(theirs.ctx.owner) in str(stopped.value)
    assert stopped.value.details["taken_by"] == str(theirs.ctx.owner)


def test_a_lost_lease_has_the_log_asked_at_once(ours: Session, theirs: Session) -> None:
    attempt = begin(ours.ctx, ours.loader, "commit")
    with ours.keep(attempt.instant) as keeper:
        assert cancel_write(theirs, attempt.instant, "its writer is gone")
        drop_lease(theirs.ctx, attempt.instant)
        keeper.renewal()
        with pytest.raises(Cancelled):
            keeper.check()
        assert read_lease(ours.ctx.storage, attempt.instant) is None


def take_over(session: Session, instant: str, epoch: int) -> None:
    state = session.loader.load()
    entry = Takeover(**session.entry(state, f"takeover {instant} {epoch}"), instant=instant, epoch=epoch)
    session.ctx.storage.put(slot_path(state.log.head + 1), encode_entry(entry))


def test_only_a_higher_epoch_takes_over(ours: Session, theirs: Session, clock: ManualClock) -> None:
    attempt = begin(ours.ctx, ours.loader, "rollback")
    take_over(ours, attempt.instant, 1)
    ours.loader.load()
    with ours.keep(attempt.instant, "rollback") as keeper:
        clock.advance_ms(31_000)
        keeper.check()
        take_over(theirs, attempt.instant, 2)
        clock.advance_ms(31_000)
        with pytest.raises(Cancelled, match="taken over by") as stopped:
            keeper.check()
    assert stopped.value.details["taken_over"] is True


def test_storage_that_does_not_answer_does_not_stop_the_work(
    ours: Session, storage: Counting, clock: ManualClock
) -> None:
    attempt = begin(ours.ctx, ours.loader, "commit")
    with ours.keep(attempt.instant) as keeper:
        clock.advance_ms(31_000)
        storage.is_silent = True
        keeper.check()


@pytest.mark.parametrize(
    ("gap_s", "is_shared", "is_refused"),
    [(GAP_S_MAX - 0.1, True, False), (GAP_S_MAX, True, True), (GAP_S_MAX, False, False), (10_000.0, False, False)],
)
def test_a_starved_attempt_beside_apache_hudi(gap_s: float, is_shared: bool, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(Cancelled, match="may have judged it dead"):
            refuse_starved(gap_s, lambda: is_shared, "20300317174640000")
    else:
        refuse_starved(gap_s, lambda: is_shared, "20300317174640000")


def test_whether_a_table_is_shared_is_not_asked_for_a_short_gap() -> None:
    refuse_starved(1.0, lambda: pytest.fail("asked"), "20300317174640000")


@pytest.mark.parametrize("sign", ["none", "a pending write without a lease of ours", "a commit without a slot"])
def test_a_commit_after_a_long_gap_needs_a_table_of_our_own(sign: str, ours: Session, clock: ManualClock) -> None:
    folder = ours.loader.load().config.timeline_folder
    if sign.startswith("a pending"):
        for state in ("requested", "inflight"):
            ours.ctx.storage.put(
                f"{folder}/20300101000000000.commit.{state}".replace("commit.inflight", "inflight"), b""
            )
    elif sign.startswith("a commit"):
        metadata = CommitMetadata(operation="UPSERT", stats=(), extra={}).to_bytes()
        ours.ctx.storage.put(f"{folder}/20300101000000000_20300101000000001.commit", metadata)
    attempt = begin(ours.ctx, ours.loader, "commit")
    with ours.keep(attempt.instant, leased_s=attempt.leased_s) as keeper:
        clock.advance_ms(60_000)
        keeper.renewal()
        clock.advance_ms(round(1000 * GAP_S_MAX))
        keeper.renewal()
        keeper.check()
        if sign == "none":
            assert complete_write(ours, attempt, Write("UPSERT", [])).instant == attempt.instant
        else:
            with pytest.raises(Cancelled, match="may have judged it dead"):
                complete_write(ours, attempt, Write("UPSERT", []))
