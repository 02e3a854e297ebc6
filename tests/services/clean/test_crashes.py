"""Crash and fail a clean at every storage operation of plan and execution: rows stay, and another actor finishes it.

After each end a reader sees the model's rows, and each instant that the policy promises reads as it did. Then, once the dead
executor's lease has expired, another process cleans: afterwards the files that are left are those of an undisturbed run, `verify`
finds nothing, and every file is one that a completed instant names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.content.plans import CleanResult, read_result
from hudi_ops.timeline.names import State
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.fault_plans import DiesBefore
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, fault_sweep
from tests.services.clean.cleaned import Judged, data_files, judged
from tests.tables import NOW_MS, WITH_METADATA, by_key, table_of

RETAIN = 3
PHASES = {"plan": (25, 5), "execute": (40, 12), "run": (60, 17)}
"""Storage operations of each, at least, and how many of them change something: a sweep that visits fewer has gone blind."""
JUDGED: defaultdict[str, JudgedStates] = defaultdict(JudgedStates)
"""What `finish` has judged, by phase: crashes and errors leave some states alike."""


@cache
def _made() -> Judged:
    return judged(WITH_METADATA, 6)


def base_for(phase: str) -> MemoryStorage:
    storage = _made().storage.copy()
    if phase == "execute":
        table_of(storage, ManualClock(NOW_MS - 1_000), "planner").clean.plan(retain=RETAIN)
    return storage


def do(storage, clock: ManualClock, actor: str, phase: str) -> None:
    table = table_of(storage, clock, actor)
    if phase == "plan":
        table.clean.plan(retain=RETAIN)
    elif phase == "execute":
        table.clean.execute()
    else:
        table.clean.run(retain=RETAIN)


def first(phase: str) -> Callable[[FaultyStorage, ManualClock], None]:
    """The executor that goes wrong."""
    return lambda storage, clock: do(storage, clock, "first", phase)


@cache
def _undisturbed() -> frozenset[str]:
    storage = base_for("run")
    do(storage, ManualClock(NOW_MS, tick_ms=1), "only", "run")
    return frozenset(data_files(storage))


def promised(storage: MemoryStorage) -> list[str]:
    return [instant for instant in list(_made().past)[-RETAIN:] if timeline_of(storage).find(instant) is not None]


def assert_readable(storage: MemoryStorage, clock: ManualClock, story: str) -> None:
    table = table_of(storage, clock, "reader")
    assert by_key(table) == _made().rows, story
    for instant in promised(storage):
        assert by_key(table, as_of=instant) == _made().past[instant], f"{story}, as of {instant}"


def finish(storage: MemoryStorage, clock: ManualClock, actor: str, story: str, late=lambda: 0) -> None:
    """Another process cleans what is left, once every dead lease has expired; after it lands what the first had put."""
    assert_readable(storage.copy(), clock, story)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, actor)
    for _ in range(3):
        if table.clean.run(retain=RETAIN).instant is None:
            break
    assert data_files(storage) == _undisturbed(), story
    late()
    assert_readable(storage, clock, story)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.recover()
    assert not [one for one in timeline_of(storage) if one.kind == "clean" and one.state is not State.COMPLETED], story
    assert unaccounted(storage) == [], story
    assert verify_table(storage, deep=True, clock=clock).findings == (), story


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("phase", list(PHASES))
def test_crash_at_every_storage_operation(phase: str, fault: Fault) -> None:
    points, writes = PHASES[phase]
    runs = points if SOAK else writes if fault is Fault.CRASH_AFTER else writes // 3
    what = f"a clean, {phase}"
    for left in fault_sweep(
        base_for(phase), first(phase), fault, what, points=points, writes=writes, runs=runs, judged=JUDGED[phase]
    ):
        finish(left.storage, left.clock, "second", left.story)


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("phase", ["plan", "execute"])
def test_an_error_at_every_storage_operation_leaves_rows_and_plan(phase: str, fault: Fault) -> None:
    points, writes = PHASES[phase]
    least = {"ERROR_BEFORE": points if SOAK else points // 4, "ERROR_AFTER": writes, "LANDS_LATER": writes}
    what, runs = f"a clean, {phase}", least.get(fault.name, 3)
    for left in fault_sweep(base_for(phase), first(phase), fault, what, points=points, runs=runs, judged=JUDGED[phase]):
        # A payload that lands after another executor completed the clean stays: bytes that no slot names, as of any write.
        is_unnamed_payload = "/payload/" in left.faulty.fired[0]
        finish(left.storage, left.clock, "second", left.story, int if is_unnamed_payload else left.land)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", CRASHES)
def test_the_second_executor_is_crashed_too(fault: Fault) -> None:
    every, twice_judged = JudgedStates(every=True), JudgedStates()

    def second(storage: FaultyStorage, clock: ManualClock) -> None:
        do(storage, clock, "second", "execute")

    for left in fault_sweep(
        base_for("execute"),
        first("execute"),
        fault,
        "an execution",
        points=40,
        step=3 if SOAK else 13,
        first=3,
        judged=every,
    ):
        if not left.story:
            continue
        again = fault_sweep(
            left.storage,
            second,
            fault,
            step=1 if SOAK else 5,
            clock=lambda: ManualClock(NOW_MS + EXPIRY_MS + 1_000),
            judged=twice_judged,
        )
        for twice in again:
            finish(twice.storage, twice.clock, "third", f"{left.story}, then {twice.story}")
    print(f"the second execution: {twice_judged.points} points, {len(twice_judged.states)} states")
    assert twice_judged.points > (500 if SOAK else 20)
    assert len(twice_judged.states) > 20


def test_files_that_are_gone_count_as_failed_and_the_table_is_whole() -> None:
    storage, clock = base_for("execute"), ManualClock(NOW_MS, tick_ms=1)
    gone = sorted(data_files(storage) - _undisturbed())[0]
    storage.delete(gone)
    done = table_of(storage, clock, "first").clean.execute()
    assert (done.gone, done.deleted) == (1, len(data_files(base_for("execute")) - _undisturbed()) - 1)
    timeline = timeline_of(storage)
    (clean,) = (one for one in timeline if one.kind == "clean")
    result = read_result(storage, timeline, clean)
    assert isinstance(result, CleanResult)
    name = gone.rpartition("/")[2]
    assert [name] == [one for names in result.failed.values() for one in names]
    assert name in [one for names in result.planned.values() for one in names]
    assert name not in [one for names in result.files.values() for one in names]
    finish(storage, clock, "second", "a file was gone")


def test_a_clean_that_was_begun_is_finished_where_the_table_was_moved_to(tmp_path: Path) -> None:
    """Its plan names the files by absolute paths; it cannot be cancelled, and would stop cleans and restores for ever."""
    made_there, clock = LocalStorage(tmp_path / "before"), ManualClock(NOW_MS, tick_ms=1)
    for info in _made().storage.list(""):
        made_there.put(info.path, _made().storage.get(info.path))
    dying = FaultyStorage(made_there, DiesBefore("delete:part="))
    with pytest.raises(Crash):
        do(dying, clock, "dies", "run")
    (tmp_path / "before").rename(tmp_path / "after")
    storage = LocalStorage(tmp_path / "after")
    clock.advance_ms(EXPIRY_MS + 1_000)
    do(storage, clock, "next", "execute")
    assert frozenset(data_files(storage)) == _undisturbed()
    assert by_key(table_of(storage, clock, "reader")) == _made().rows
    assert verify_table(storage, deep=True, clock=clock).findings == ()
