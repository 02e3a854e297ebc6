"""Search all schedules within bounds, except those that cannot have a new end.

Schedules are tried by their number of decisions: first none, then one, and so on, so that a short schedule shows a failure. Each
run makes the decisions of its schedule, then takes the first options; every other option of these choices makes a new schedule.
Two reductions, both of which keep every end state within the bounds:

- A choice is left out where it commutes with the operation it precedes: interrupting an actor before an operation that is
  independent of all other actors ends like interrupting it one operation later. Operations are learned from the runs; a choice that
  was left out is taken up again when an actor makes an operation that conflicts with it.
- A run that comes to a state that was reached before, with as many preemptions and faults left, ends there. A state is all of
  storage, lock and time, and everything that each living actor saw.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hudi_ops.testing.choices import Choice, Decision, Scheduled
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.scheduler import Simulation, Vain
from hudi_ops.testing.steps import Event, PendingCall, RunRecord, StepEffects, trouble_of

Schedule = tuple[Decision, ...]


class KnownState(Exception):
    """Signal that a run came to a state from which all continuations are tried."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Option that a run did not take: of which actor, before which operation."""

    actor: str
    operation: PendingCall | None
    is_move: bool
    label: str
    cost: int
    moves_time: bool
    is_fresh: bool
    has_changed: bool
    is_doubled: bool
    """Crashes before and after the operation are both options: at most places one of them is enough."""
    pending: frozenset[PendingCall]
    """For a late effect or a late beat: all operations that it may precede."""


class Search:
    """Schedules that are still to be tried.

    Args:
        scenario: makes the simulation, the same each time.
        preemptions: the most in one run.
        faults: the most in one run.
        reduce: leave out schedules that cannot have a new end.
    """

    def __init__(
        self, scenario: Callable[[], Simulation], preemptions: int | None, faults: int, *, reduce: bool = True
    ) -> None:
        self._scenario = scenario
        self._preemptions = preemptions
        self._faults = faults
        self._reduce = reduce
        self._todo: deque[Schedule] = deque([()])
        self._left_out: dict[Alternative, list[Schedule]] = {}
        self._footprints: dict[str, StepEffects] = {}
        self._clock_readers: set[tuple[str, PendingCall]] = set()
        self.known = 0
        self._known: dict[tuple[object, ...], list[tuple[int, int]]] = {}

    @property
    def left_out(self) -> int:
        """Schedules that were not tried because the choice commutes."""
        return sum(map(len, self._left_out.values()))

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to try."""
        return not self._todo

    def next_run(self) -> RunRecord | None:
        """Run the next schedule, and return the run; None: it would end like another run."""
        schedule = self._todo.popleft()
        simulation, guide = self._scenario(), _Guide(schedule, self._reduce)

        def watch(running: Simulation) -> None:
            if self._reduce and guide.is_beyond and self._is_known(running):
                raise KnownState

        history = None
        try:
            history = simulation.run(
                guide, preemptions=self._preemptions, faults=self._faults, watch=watch, ends_vain=self._reduce
            )
            guide.refuse_unused()
        except KnownState:
            self.known += 1
        except Vain:
            pass
        self._learn(simulation)
        for step, alternative in guide.found:
            longer = (*schedule, Decision(step, alternative.is_move, alternative.label))
            if self._is_worth_it(alternative):
                self._todo.append(longer)
            else:
                self._left_out.setdefault(alternative, []).append(longer)
        return history

    def _is_known(self, running: Simulation) -> bool:
        left = (-1 if running.preemptions_left is None else running.preemptions_left, running.faults_left)
        before = self._known.setdefault(running.state(), [])
        if any(one[0] >= left[0] and one[1] >= left[1] for one in before):
            return True
        before.append(left)
        return False

    def _learn(self, simulation: Simulation) -> None:
        grown = False
        for step in simulation.steps:
            grown |= self._footprints.setdefault(step.actor, StepEffects()).add(step.operation)
            if step.trouble is Fault.LANDS_LATER:
                late = self._footprints.setdefault(f"{step.actor}~late", StepEffects())
                grown |= late.add(PendingCall("put", step.operation.path))
        if not simulation.clock_readers <= self._clock_readers:
            self._clock_readers |= simulation.clock_readers
            grown = True
        if grown:
            for alternative in [one for one in self._left_out if self._is_worth_it(one)]:
                self._todo.extend(self._left_out.pop(alternative))

    def _is_worth_it(self, one: Alternative) -> bool:
        if not self._reduce or one.operation is None:
            return True
        if not one.is_move:
            return self._can_fault_matter(one, one.operation)
        mover, _, kind = one.label.partition("~")
        if kind:
            footprint = self._footprints.get(f"{mover}~late" if kind.startswith("late") else one.label)
            # The change time of a late effect shows how much time has passed.
            return footprint is None or any(
                operation.name == "sleep" or footprint.conflicts(operation) for operation in one.pending
            )
        if one.moves_time:
            return self._shows_time(one.actor, one.operation) or self._is_noticed(one.actor, one.operation)
        return not one.cost or self._is_noticed(one.actor, one.operation)

    def _is_noticed(self, actor: str, operation: PendingCall) -> bool:
        shows_time = self._shows_time(actor, operation)
        return any(
            (shows_time and footprint.moves_time) or footprint.conflicts(operation)
            for name, footprint in self._footprints.items()
            if name.partition("~")[0] != actor
        )

    def _shows_time(self, actor: str, operation: PendingCall) -> bool:
        """Return whether an observer can tell if time passed: by a change time or a clock."""
        return operation.is_mutation or (actor, operation) in self._clock_readers

    def _can_fault_matter(self, one: Alternative, operation: PendingCall) -> bool:
        trouble = trouble_of(one.label)
        if trouble is Fault.CRASH_BEFORE:
            # A death before an operation equals one after the last change: a dead process forgets what it read.
            return one.is_fresh or (one.has_changed and not one.is_doubled)
        if trouble is Fault.CRASH_AFTER:
            return operation.is_mutation or (one.is_fresh and not one.is_doubled)
        if trouble in {Event.LOCK_LOST, Event.LOCK_LOST_NOTICED}:
            return self._is_noticed(one.actor, operation)
        if trouble in {Event.CLOCK_FORWARD, Event.CLOCK_BACK}:
            return (one.actor, operation) in self._clock_readers
        if trouble in {Event.PAUSE, Event.SLOW}:
            return self._shows_time(one.actor, operation) or self._is_noticed(one.actor, operation)
        return True


class _Guide:
    """Makes the decisions of a schedule, then takes the first options and notes the others."""

    def __init__(self, schedule: Schedule, reduce: bool) -> None:
        self._scheduled = Scheduled(schedule)
        self._reduce = reduce
        self.found: list[tuple[int, Alternative]] = []

    @property
    def is_beyond(self) -> bool:
        """Whether all decisions were made."""
        return not self._scheduled.is_pending

    def __call__(self, choice: Choice) -> int:
        if not self.is_beyond:
            return self._scheduled(choice)
        labels = {option.label for option in choice.options}
        is_doubled = {Fault.CRASH_AFTER.value, Fault.CRASH_BEFORE.value} <= labels
        for option in choice.options[1:]:
            if option.is_vain and self._reduce:
                continue
            found = Alternative(
                choice.actor,
                choice.operation,
                choice.is_move,
                option.label,
                option.cost,
                option.moves_time,
                choice.is_fresh,
                choice.has_changed,
                is_doubled,
                choice.pending if "~" in option.label else frozenset(),
            )
            self.found.append((choice.step, found))
        return 0

    def refuse_unused(self) -> None:
        """Raise if the scenario is not the same each time."""
        self._scheduled.refuse_unused()
