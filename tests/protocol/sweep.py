"""Crash sweeps: a run goes wrong at one storage operation after another, and a test judges what each of them leaves.

    for left in fault_sweep(base, lambda storage, clock: compact(storage, clock, "first"), fault, "a compaction", points=40):
        Table(left.resume()).compaction.run()
        assert_whole(left.storage, left.clock, MODEL, left.story)

What a crashed process leaves is what it had changed: after one change, before the next, and at every read between them it is the
same. What a read that fails does comes in kinds, not in numbers. So a plain run visits the operations that make a difference, the
quick tier every second of them, and a soak visits all.

The loop body is the judge, and it judges each left state once: of points that leave equal states the sweep yields the first one.
The rule for a judge: what it does depends on nothing but what `state_of` has, that is the storage, the clock, the late calls and
the class of the error. It looks at `left.story` and `left.faulty` for messages alone, and it leaves out no state but that of the
undisturbed run, which comes last.
"""

from __future__ import annotations

import contextlib
import hashlib
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from tests.bounds import SOAK, bound
from tests.tables import NOW_MS

CRASHES = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
CREATIONS = [Fault.EXISTS_THOUGH_ABSENT, Fault.EXISTS_BY_ITSELF]
"""Errors of `put_if_absent` alone."""
ERRORS = [fault for fault in Fault if fault not in CRASHES]
_CHANGES = ("put:", "put_if_absent:", "delete:")

STRIDE = bound(2, 1, 1)
"""Step between the visited operations among those that a sweep chose."""

Run = Callable[[FaultyStorage, ManualClock], object]
Base = MemoryStorage | Callable[[ManualClock], MemoryStorage]


def changes(history: Sequence[str]) -> list[int]:
    """Numbers of the operations that change something, by the points of an undisturbed run."""
    return [number for number, point in enumerate(history, 1) if point.startswith(_CHANGES)]


def visited(history: Sequence[str], fault: Fault) -> list[int]:
    """Numbers of the operations that go wrong in this way, a run each.

    The plain run crashes after every change, and before every third; it has every change fail without effect, and every fourth
    operation beside them.

    Args:
        history: points of an undisturbed run, `operation:path`, as `FaultyStorage.history` has them.
        fault: the way.
    """
    able = _able(history, fault)
    if SOAK:
        return able
    changing = changes(history)
    if fault is Fault.CRASH_AFTER:
        return changing
    if fault is Fault.CRASH_BEFORE:
        return changing[::3]
    if fault is Fault.ERROR_BEFORE:
        return sorted({*changing, *able[::4]})
    return able


def _able(history: Sequence[str], fault: Fault) -> list[int]:
    return [number for number, point in enumerate(history, 1) if fault.applies_to(point.partition(":")[0])]


@dataclass(frozen=True)
class Left:
    """What a run left that went wrong at one operation; of an undisturbed run `story` is empty."""

    storage: MemoryStorage
    clock: ManualClock
    faulty: FaultyStorage
    error: HudiOpsError | None = None

    @property
    def story(self) -> str:
        """What went wrong, and the error that the run raised."""
        raised = f" -> {self.error!r}" if self.error is not None else ""
        return (self.faulty.fired[0] if self.faulty.fired else "") + raised

    def land(self) -> None:
        """Let all effects that are still on their way take place."""
        while self.faulty.in_flight:
            self.faulty.land()

    def resume(self, actor: str = "second") -> TableContext:
        """Return the context of another process, once the lease of the first one has expired."""
        self.clock.advance_ms(EXPIRY_MS + 1_000)
        return simulated_context(self.storage, self.clock, actor)


def state_of(left: Left) -> Hashable:
    """Return what a judge sees of a left state: equal states are judged equally.

    A table on disk has change times of the machine: each of its states is one of its own.
    """
    if not isinstance(left.storage, MemoryStorage):
        return object()
    files = hashlib.blake2b(digest_size=16)
    for info in left.storage.list():
        files.update(f"{info.path}\0{info.size_bytes}\0{info.modified_ms}\0".encode())
        files.update(left.storage.get(info.path))
    return files.digest(), left.clock.state, tuple(left.faulty.late_calls), type(left.error)


def least_states(history: Sequence[str], numbers: Sequence[int], fault: Fault) -> int:
    """Return how many different states these points leave at least; with fewer, `state_of` has gone blind.

    Crashes after different numbers of changes leave different states, unless a change repeats what was there: at most half do.
    After an error the run goes on, and may end as others do.
    """
    if fault not in CRASHES:
        return min(1, len(numbers))
    made = {bisect_left(changes(history), number + (fault is Fault.CRASH_AFTER)) for number in numbers}
    return -(-len(made) // 2)


@dataclass
class JudgedStates:
    """States that a judge has had, and how many points left them.

    Sweeps may share one if their loops do the same to equal states. A loop that sweeps again from each state takes `every` point:
    the sweeps within it judge each of their states once.
    """

    every: bool = False
    states: set[Hashable] = field(default_factory=set)
    points: int = 0

    def takes(self, state: Hashable) -> bool:
        """Count a point, and return whether the judge takes it: whether no other left its state, or each one counts."""
        known = len(self.states)
        self.points += 1
        self.states.add(state)
        return self.every or len(self.states) > known


@dataclass(frozen=True)
class Attempts:
    """How a run is disturbed: upon which state, by which clock, and with what lag of late effects."""

    base: Base
    run: Run
    fault: Fault
    clock: Callable[[], ManualClock]
    lag: int | None
    only_changes: bool

    def disturbed(self, number: int) -> Left:
        """Run once; the operation of this number goes wrong, 0: none."""
        clock = self.clock()
        storage = self.base.copy(clock) if isinstance(self.base, MemoryStorage) else self.base(clock)
        plan = FaultPlan.at(number, self.fault) if number else FaultPlan()
        faulty = FaultyStorage(storage, plan, lag_operations=self.lag, only_mutations=self.only_changes)
        error = None
        with contextlib.suppress(Crash):
            try:
                self.run(faulty, clock)
            except HudiOpsError as raised:
                if self.fault in CRASHES or not number:
                    raise
                error = raised
        assert len(faulty.fired) == bool(number), f"operation {number} was never reached: {faulty.history[-3:]}"
        return Left(storage, clock, faulty, error)


def fault_sweep(
    base: Base,
    run: Run,
    fault: Fault,
    what: str = "",
    *,
    points: int = 0,
    writes: int = 0,
    runs: int = 1,
    step: int | None = None,
    first: int = 1,
    most: int | None = None,
    only_changes: bool = False,
    clock: Callable[[], ManualClock] = lambda: ManualClock(NOW_MS),
    lag: int | None = None,
    judged: JudgedStates | None = None,
) -> Iterator[Left]:
    """Run once for each chosen operation, which goes wrong, and yield each distinct state; print the counts and check floors.

    Args:
        base: the state before, or what makes it.
        run: what goes wrong. A crash may raise nothing else, and an undisturbed run nothing at all.
        fault: the way in which it goes wrong.
        what: names the sweep in what it prints; empty: one of many that go on after another, whose states the test counts.
        points: storage operations of an undisturbed run, at least: a sweep that visits fewer has gone blind.
        writes: how many of them change something, at least.
        runs: how many are visited, at least; half as many in the quick tier.
        step: visit each `step`-th operation from `first` on instead of those of `visited`; the undisturbed run is yielded last.
        first: see `step`.
        most: leave operations out between those of `visited`, until about so many are left. The soak has all.
        only_changes: the operations are those that change something; others are not counted.
        clock: makes the clock of each run.
        lag: operations until a late effect lands; without it, when the test lets it.
        judged: what the judge has had from other sweeps, too: it gets none of these states again.
    """
    attempts = Attempts(base, run, fault, clock, lag, only_changes)
    undisturbed = attempts.disturbed(0)
    history = list(undisturbed.faulty.history)
    if step is not None:
        numbers = [number for number in range(first, len(history) + 1, step) if number in set(_able(history, fault))]
    else:
        numbers = visited(history, fault)
        if most is not None and not SOAK:
            numbers = numbers[:: max(1, len(numbers) // most)]
        numbers = numbers[::STRIDE]
    judged = judged or JudgedStates()
    found, new = set(), 0
    for number in numbers:
        left = attempts.disturbed(number)
        found.add(state := state_of(left))
        if judged.takes(state):
            new += 1
            yield left
    changing = len(changes(history))
    if what:
        wrong = f"wrong at {len(numbers)} of {len(history)} operations, of which {changing} write"
        print(f"{what}, {fault.name}: {wrong}; {len(found)} states are left, {new} of them judged here")
        assert len(found) >= least_states(history, numbers, fault), "`state_of` takes different states for one"
    assert len(history) >= points
    assert changing >= writes
    assert len(numbers) * STRIDE >= runs
    if step is not None and judged.takes(state_of(undisturbed)):
        yield undisturbed
