"""Goal: each fault does what its kind says, no more, so that sweeps mean what they count."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from hudi_ops.errors import AlreadyExists, NotFound, OutcomeUnknown, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage


@pytest.mark.parametrize(
    ("fault", "error", "landed"),
    [
        (Fault.CRASH_BEFORE, Crash, False),
        (Fault.CRASH_AFTER, Crash, True),
        (Fault.ERROR_BEFORE, Unavailable, False),
        (Fault.ERROR_AFTER, OutcomeUnknown, True),
        (Fault.LANDS_LATER, OutcomeUnknown, False),
        (Fault.EXISTS_THOUGH_ABSENT, AlreadyExists, False),
        (Fault.EXISTS_BY_ITSELF, AlreadyExists, True),
    ],
)
def test_each_kind_on_put_if_absent(fault: Fault, error: type[BaseException], landed: bool) -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan.at(2, fault))
    storage.put("a", b"1")
    with pytest.raises(error, match=r"F\d at operation 2, put_if_absent:b"):
        storage.put_if_absent("b", b"2")
    assert (storage.inner.head("b") is not None) is landed
    assert storage.history == ("put:a", "put_if_absent:b")
    assert storage.fired == (f"{fault.value} 2 put_if_absent:b",)
    assert storage.dead is (error is Crash)


def test_the_dead_do_nothing_more() -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan.at(2, Fault.CRASH_AFTER))
    storage.put("a", b"1")
    with pytest.raises(Crash):
        storage.delete("a")
    assert storage.inner.head("a") is None
    for call in (lambda: storage.put("b", b"2"), lambda: storage.get("a"), storage.list, lambda: storage.delete("b")):
        with pytest.raises(Crash):
            call()
    assert storage.operations == 2
    assert not list(storage.inner.list())


def test_a_late_effect_lands_after_its_lag_unless_the_name_is_taken() -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan(dict.fromkeys((1, 2), Fault.LANDS_LATER)), lag_operations=2)
    for name in "ab":
        with pytest.raises(OutcomeUnknown):
            storage.put_if_absent(name, b"late")
    storage.inner.put("b", b"other")
    with pytest.raises(NotFound):
        FaultyStorage(storage.inner).get("a")
    assert storage.get("a") == b"late"
    assert storage.in_flight == 1
    storage.land()
    storage.land()
    assert storage.in_flight == 0
    assert storage.get("b") == b"other"


def test_kinds_that_do_not_apply_change_nothing() -> None:
    inner = MemoryStorage()
    inner.put("a", b"1")
    for fault in (Fault.EXISTS_THOUGH_ABSENT, Fault.EXISTS_BY_ITSELF, Fault.ERROR_AFTER, Fault.LANDS_LATER):
        storage = FaultyStorage(inner, FaultPlan.at(1, fault))
        assert storage.get("a") == b"1"
        assert storage.fired == ()


def test_a_store_that_truly_refuses_is_heard() -> None:
    inner = MemoryStorage()
    inner.put("a", b"other")
    with pytest.raises(AlreadyExists, match="exists in memory"):
        FaultyStorage(inner, FaultPlan.at(1, Fault.ERROR_AFTER)).put_if_absent("a", b"mine")


def test_only_mutations_are_counted_when_asked() -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan.at(2, Fault.CRASH_BEFORE), only_mutations=True)
    storage.put("a", b"1")
    assert storage.get("a") == b"1"
    assert storage.list() == [storage.head("a")] == list(storage.list_folder().files)
    with pytest.raises(Crash):
        storage.delete("a")
    assert storage.history == ("put:a", "delete:a")
    with pytest.raises(Crash):
        storage.get("a")


def test_a_sweep_meets_every_operation_once() -> None:
    points = []
    for number in itertools.count(1):
        storage = FaultyStorage(MemoryStorage(), FaultPlan.at(number, Fault.CRASH_BEFORE))
        try:
            storage.put("a", b"1")
            storage.list()
            storage.delete("a")
        except Crash:
            points.append(storage.history[-1])
        if not storage.fired:
            break
    assert points == ["put:a", "list:", "delete:a"]


def test_numbers_are_given_once_between_threads() -> None:
    storage = FaultyStorage(MemoryStorage(), FaultPlan(dict.fromkeys(range(1, 1001, 2), Fault.ERROR_BEFORE)))

    def put(number: int) -> bool:
        try:
            storage.put(str(number), b"1")
        except Unavailable:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(put, range(1000))) == 500
    assert len(storage.inner.list()) == 500
    assert (storage.operations, len(storage.fired)) == (1000, 500)


def test_the_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(1_000)
    assert (clock.now_ms(), clock.now_ms(), clock.monotonic_s()) == (1_000, 1_000, 0)
    clock.sleep_s(2.5)
    clock.jump_ms(-3_000)
    assert (clock.now_ms(), clock.monotonic_s()) == (500, 2.5)
    ticking = ManualClock(0, tick_ms=3)
    assert [ticking.now_ms() for _ in range(3)] == [0, 3, 6]
