"""The key of a left state differs wherever a judge could see a difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hudi_ops.errors import OutcomeUnknown, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultPlan, FaultyStorage
from tests.protocol.sweep import JudgedStates, Left, fault_sweep, state_of
from tests.tables import NOW_MS


def left(late_body: bytes = b"late", late: str = "put", tick_ms: int = 0) -> Left:
    """What a run leaves that put two files, and a third one that has not landed."""
    clock = ManualClock(NOW_MS, tick_ms)
    storage = MemoryStorage("left", clock)
    storage.put("a", b"1")
    storage.put("b", b"2")
    faulty = FaultyStorage(storage, FaultPlan.at(1, Fault.LANDS_LATER))
    with pytest.raises(OutcomeUnknown):
        getattr(faulty, late)("c", late_body)
    return Left(storage, clock, faulty, Unavailable("x"))


def moved(by_ms: int) -> Left:
    one = left()
    one.clock.advance_ms(by_ms)
    return one


def put(path: str, body: bytes, later_ms: int = 0) -> Left:
    one = left()
    at = ManualClock(NOW_MS + later_ms)
    copied = one.storage.copy(at)
    copied.put(path, body)
    return replace(one, storage=copied)


def landed() -> Left:
    one = left()
    one.land()
    return one


OTHERS: dict[str, Callable[[], Left]] = {
    "another byte": lambda: put("a", b"3"),
    "another file": lambda: put("d", b""),
    "another change time": lambda: put("a", b"1", later_ms=1),
    "a later clock": lambda: moved(1),
    "a clock that ticks": lambda: left(tick_ms=1),
    "another late body": lambda: left(late_body=b"other"),
    "another late call": lambda: left(late="put_if_absent"),
    "nothing late": landed,
    "another error": lambda: replace(left(), error=OutcomeUnknown("x")),
    "no error": lambda: replace(left(), error=None),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_whatever_a_judge_can_see_makes_another_state(other: Callable[[], Left]) -> None:
    assert state_of(other()) != state_of(left())


def test_runs_that_leave_the_same_leave_one_state() -> None:
    assert state_of(left()) == state_of(left())
    assert state_of(replace(left(), error=Unavailable("another message"))) == state_of(left())


def put_twice(storage: FaultyStorage, clock: ManualClock) -> None:
    """Put a file, read it, and put it again as it is; then put another one."""
    storage.put("a", b"1")
    storage.get("a")
    storage.put("a", b"1")
    storage.put("b", b"2")


def swept(fault: Fault, judged: JudgedStates | None = None) -> list[list[str]]:
    left = fault_sweep(MemoryStorage("swept"), put_twice, fault, "puts", step=1, judged=judged)
    return [[info.path for info in one.storage.list()] for one in left]


def test_each_state_is_yielded_once_and_each_point_is_counted() -> None:
    judged = JudgedStates()
    assert swept(Fault.CRASH_BEFORE, judged) == [[], ["a"], ["a", "b"]]
    assert (judged.points, len(judged.states)) == (5, 3), "four operations, and the undisturbed run"
    assert swept(Fault.CRASH_AFTER, judged) == []
    assert swept(Fault.CRASH_AFTER) == [["a"], ["a", "b"]]
    assert judged.points == 10
    assert len(swept(Fault.CRASH_BEFORE, JudgedStates(every=True))) == 5


def test_a_blind_sweep_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.protocol.sweep.state_of", lambda left: "one and the same")
    with pytest.raises(AssertionError, match="takes different states for one"):
        swept(Fault.CRASH_BEFORE)
