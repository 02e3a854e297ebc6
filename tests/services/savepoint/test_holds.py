"""Holds: of a hold and a clean at least one sees the other; what is expired or released protects nothing."""

from __future__ import annotations

import pytest

from hudi_ops.commit import holds as module
from hudi_ops.commit.decide import cancel
from hudi_ops.commit.decide.archive_boundary import archive_boundary
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.holds import FOLDER, drop_expired_holds, live_holds
from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.services.base.publish import Draft, publish_plan
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.footprint import Footprint
from tests.fault_plans import DiesBefore, DiesBehind, MoveBefore
from tests.protocol.cleaning import clean
from tests.protocol.log_actors import oldest, session_of, timeline_of
from tests.services.clean.cleaned import judged
from tests.tables import DEFINITION, NOW_MS, TIMELINE, by_key, made, rows, table_of

FIRST = rows(*((f"k{n}", "p0", n, 0, None) for n in range(4)))
DAY_S = 86_400.0


def table_with_writes() -> tuple[MemoryStorage, list[str]]:
    """A table with three writes, and their request times."""
    storage = made(DEFINITION, FIRST, FIRST, FIRST)
    return storage, [one.time for one in timeline_of(storage).completed_writes][1:]


def plan_clean(storage: Storage, clock: ManualClock, earliest: str, actor: str = "cleaner") -> str:
    """Publish the plan of a clean that retains the instants from one on."""
    source = MemoryStorage("plan", clock)
    clean(source, clock, ["part=p0/old.parquet"], earliest=earliest, told="pending")
    body = next(source.get(info.path) for info in source.list(TIMELINE) if info.path.endswith("requested"))
    session = session_of(storage, clock, actor)
    draft = Draft(body, Footprint(frozenset()), session.loader.load())
    return publish_plan(session, "clean", draft).instant


def begin_clean(storage: Storage, clock: ManualClock, instant: str) -> bool:
    """Take a planned clean over, and return whether its executor sees a hold."""
    session = session_of(storage, clock, "executor")
    assert take_over(session, instant, "clean") is not None
    return bool(live_holds(session.ctx))


def test_a_hold_lasts_until_it_expires_or_is_released() -> None:
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "consumer")
    with table.holds(writes[0], seconds=60, purpose="nightly export") as hold:
        assert [one.id for one in live_holds(table.context)] == [hold.id]
        assert "nightly export" in hold.why
        assert writes[0] in hold.why
    assert table.holds.list() == []
    short = table.holds.take(writes[1], seconds=60)
    long = table.holds.renew(table.holds.take(writes[0], seconds=60), seconds=3 * DAY_S)
    clock.advance_ms(2 * 86_400_000)
    assert [one.id for one in live_holds(table.context)] == [long.id]
    assert drop_expired_holds(table._session) == 1
    assert [one.id for one in table.holds.list()] == [long.id]
    assert not table.holds.release(short.id)
    assert table.holds.release(long.id)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_hold_without_a_duration_is_refused(seconds) -> None:
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    with pytest.raises(InvalidRequest, match="must last"):
        table_of(storage, clock, "consumer").holds.take(writes[0], seconds=seconds)
    assert list(storage.list(FOLDER)) == []


def test_what_is_no_completed_write_and_what_is_no_hold_are_refused() -> None:
    (storage, _), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "consumer")
    with pytest.raises(InvalidRequest, match="not a completed write"):
        table.holds.take("20200101000000000")
    for name in ("", "../timeline/x", ".hidden"):
        with pytest.raises(InvalidRequest, match="not the id of a hold"):
            table.holds.release(name)
    storage.put(f"{FOLDER}/broken.json", b'{"instant": 1}')
    with pytest.raises(Corrupt, match=r"broken\.json is not a hold"):
        live_holds(table.context)


def test_a_hold_below_a_clean_that_began_or_completed_is_refused() -> None:
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "consumer")
    planned = plan_clean(storage, clock, earliest=writes[1])
    table.holds.release(table.holds.take(writes[0]).id)  # planned only: its executor will see the hold
    assert not begin_clean(storage, clock, planned)
    with pytest.raises(InvalidRequest, match=planned):
        table.holds.take(writes[0])
    assert table.holds.list() == [], "the refused one is deleted"
    assert table.holds.take(writes[1]).instant == writes[1]


def test_a_clean_by_versions_leaves_no_promise_but_the_newest() -> None:
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    cleaned = clean(storage, clock, ["part=p0/old.parquet"])
    table = table_of(storage, clock, "consumer")
    with pytest.raises(InvalidRequest, match=cleaned):
        table.holds.take(writes[1])
    assert table.holds.take(writes[2]).instant == writes[2]


def test_a_hold_is_refused_where_a_dead_executor_deleted_the_files() -> None:
    """The next executor finds all files gone and deletes none."""
    table = judged(DEFINITION, 6)
    first = next(iter(table.past))
    dying = FaultyStorage(table.storage, DiesBehind("delete:part=", "put:.hoodie/.commit_log/payload"))
    with pytest.raises(Crash):
        table_of(dying, table.clock, "dies").clean.run(retain=2)
    table.clock.advance_ms(600_000)
    done = table.table.clean.execute()
    assert (done.deleted, done.gone) == (0, 6)
    with pytest.raises(InvalidRequest, match=str(done.instant)):
        table.table.holds.take(first)


def test_the_newest_write_can_be_kept_after_a_restore() -> None:
    """A clean before the restore retained later instants only; the restored state has all its files."""
    table = judged(DEFINITION, 4)
    saved = table.table.savepoints.create().instant
    for _ in range(4):
        table.write(*range(4))
    assert table.table.clean.run(retain=1).earliest_retained > saved
    table.table.savepoints.restore(saved)
    assert table.table.holds.take(saved).instant == saved
    table.table.savepoints.delete(saved)
    assert table.table.savepoints.create().instant == saved
    assert by_key(table.table, as_of=saved) == table.past[saved]


def hold_while_a_clean_begins(number: int) -> tuple[bool, bool] | None:
    """Return whether the hold was taken, and whether the executor saw one; it begins before this operation of the holder."""
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    planned = plan_clean(storage, clock, earliest=writes[1])
    seen: list[bool] = []
    move = MoveBefore.at(number, lambda: seen.append(begin_clean(storage, clock, planned)))
    holder = table_of(FaultyStorage(storage, move), clock, "consumer")
    try:
        holder.holds.take(writes[0])
        is_held = True
    except InvalidRequest:
        is_held = False
    return (is_held, seen[0]) if seen else None


@pytest.mark.parametrize("is_guarded", [True, False])
def test_of_a_hold_and_an_executor_at_least_one_sees_the_other(monkeypatch, is_guarded) -> None:
    """The executor takes over before any storage operation of the holder, one after another."""
    if not is_guarded:
        monkeypatch.setattr(module, "_refuse_begun", lambda session, state, instant: None)
    outcomes = set()
    for number in range(1, 60):
        outcome = hold_while_a_clean_begins(number)
        if outcome is None:
            break
        outcomes.add(outcome)
    expected = {(False, False), (False, True), (True, True)}
    if is_guarded:
        assert (True, False) not in outcomes, "held, and the executor deletes"
        assert outcomes <= expected
        assert {(False, False), (True, True)} & outcomes
    else:
        assert (True, False) in outcomes, "without the guard the hold is broken"


def test_a_clean_that_was_begun_is_not_cancelled(monkeypatch) -> None:
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    first, second = (plan_clean(storage, clock, earliest=writes[1]) for _ in range(2))
    session = session_of(storage, clock, "canceller")
    assert cancel_write(session, first, "by hand"), "nobody began it"
    begin_clean(storage, clock, second)
    with pytest.raises(InvalidRequest, match="cannot be cancelled") as refused:
        cancel_write(session, second, "by hand")
    assert f"execute --instant {second}" in str(refused.value)
    monkeypatch.setattr(cancel, "refuse_begun_clean", lambda session, state, found: None)
    assert cancel_write(session, second, "by hand"), "without the guard it would be cancelled"


def test_a_write_that_an_archive_names_is_not_held() -> None:
    (storage, writes), clock = table_with_writes(), ManualClock(NOW_MS, tick_ms=1)
    dying = FaultyStorage(storage, DiesBefore(f"delete:{TIMELINE}/"))
    with pytest.raises(Crash):
        archive_boundary(session_of(dying, clock, "archiver"), *oldest(storage, 2))
    assert timeline_of(storage).find(writes[0]) is not None, "its files were not removed yet"
    table = table_of(storage, clock, "consumer")
    with pytest.raises(InvalidRequest, match="not a completed write"):
        table.holds.take(writes[0], seconds=60)
    assert table.holds.take(writes[1], seconds=60).instant == writes[1]
