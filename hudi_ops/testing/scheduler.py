"""Scheduler of a simulation: chooses the next actor and fault, advances time, keeps records."""

from __future__ import annotations

from collections.abc import Callable

from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError, Internal, InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.choices import Choice, Choose, Decision, FaultMenu, Option
from hudi_ops.testing.faults import Fault
from hudi_ops.testing.process import Beat, Process
from hudi_ops.testing.stepped import stepped_context
from hudi_ops.testing.steps import LOCK, Event, Outcome, PendingCall, RunRecord, Step, Trouble, trouble_of
from hudi_ops.testing.world import LateEffect, World, fold

_CRASHES = frozenset({Fault.CRASH_BEFORE, Fault.CRASH_AFTER})
_TIME = "@time"
"""Move without an actor: time passes until an actor can move."""


class Vain(Exception):
    """Signal that a run ends like one in which an actor was interrupted later or not at all."""


class Simulation:
    """Actors over one memory storage, one lock and one clock; each call on these is a step.

    An actor runs real services in a greenlet: it may start no thread and wait for nothing but its context. A simulation runs once.

    Args:
        storage: the state to start from; it is copied.
        start_ms: the time to start at, in ms since 1970 UTC; time passes only when all actors wait, and by faults.
        faults: the faults that may happen.
        max_steps: limit of a run; one that takes more is an error.
    """

    def __init__(
        self, storage: MemoryStorage, start_ms: int, faults: FaultMenu | None = None, *, max_steps: int = 20_000
    ) -> None:
        self.world = World(storage, start_ms)
        self.late: list[LateEffect] = []
        self.steps: list[Step] = []
        self.clock_readers: set[tuple[str, PendingCall]] = set()
        """Actors and operations after which they looked at their clock: faults of time matter there."""
        self._faults = faults or FaultMenu()
        self._max_steps = max_steps
        self._processes: dict[str, Process] = {}
        self._current: Process | None = None
        self._number = 0
        self._decisions: list[Decision] = []
        self._choose: Choose | None = None
        self._ends_vain = False
        self.preemptions_left: int | None = None
        self.faults_left: int = self._faults.most

    @property
    def storage(self) -> MemoryStorage:
        """The world's storage; reading it is no step."""
        return self.world.storage

    @property
    def schedule(self) -> str:
        """Choices so far that were not the first option."""
        return " ".join(map(str, self._decisions))

    def actor(
        self,
        name: str,
        run: Callable[[TableContext], object],
        *,
        when: Callable[[], bool] | None = None,
        skew_ms: int = 0,
    ) -> None:
        """Add an actor; what `run` returns or raises is its outcome.

        Args:
            name: names it in steps and schedules.
            run: what it does, given its components.
            when: it starts once this is true, for example when another one died; once true, it must stay true.
            skew_ms: how far its wall clock is ahead of the world's.

        Raises:
            InvalidRequest: the name is taken, or cannot be part of a schedule.
        """
        if name in self._processes or not name or not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidRequest(f"no name for an actor: {name!r}", expected="a new one, of letters, digits, - and _")
        self._processes[name] = Process(name, run, self, when, skew_ms)

    def outcome(self, name: str) -> Outcome | None:
        """Return how an actor ended; None: it has not ended."""
        return self._processes[name].outcome

    def run(
        self,
        choose: Choose,
        *,
        preemptions: int | None = None,
        faults: int | None = None,
        watch: Callable[[Simulation], None] | None = None,
        ends_vain: bool = False,
    ) -> RunRecord:
        """Run all actors to their end.

        Args:
            choose: answers every question with an option's index.
            preemptions: how often an actor that could move on may be interrupted; None: as often as `choose` likes.
            faults: how many faults may happen; None: as many as the menu says.
            watch: called before each step; what it raises ends the run.
            ends_vain: end the run when an interruption turns out to have been in vain.

        Raises:
            Vain: an actor moves on after an interruption that it cannot have noticed.
            InvalidRequest: it has run already.
            Internal: the run does not end.
        """
        if self._choose is not None:
            raise InvalidRequest("a simulation runs once", next_step="make a new one for each run")
        self._choose, self.preemptions_left, self._ends_vain = choose, preemptions, ends_vain
        self.faults_left = self._faults.most if faults is None else faults
        try:
            while self._step(watch):
                if self._number > self._max_steps:
                    raise Internal(f"the simulation does not end within {self._max_steps} steps", found=self.schedule)
        finally:
            for process in self._processes.values():
                process.kill()
        outcomes = {name: one.outcome or Outcome(is_finished=False) for name, one in self._processes.items()}
        end = fold(b"", f"{self.world.storage_digest:x}", *(f"{name} {one}" for name, one in outcomes.items())).hex()
        return RunRecord(self.schedule, tuple(self.steps), outcomes, self.storage, self.world.clock.wall_ms, end)

    def state(self) -> tuple[object, ...]:
        """Return everything besides the choices that the rest of the run depends on."""
        return (
            self.world.storage_digest,
            self.world.clock.wall_ms,
            self.world.lock.state(),
            "" if self._current is None else self._current.name,
            *(effect.name for effect in self.late),
            *(process.state() for process in self._processes.values()),
        )

    def record(self, actor: str, operation: PendingCall, trouble: Trouble | None = None, seen: str = "") -> Step:
        """Record a step, and return it."""
        step = Step(self._number, actor, operation, trouble, seen)
        self.steps.append(step)
        self._number += 1
        for process in self._processes.values():
            if process.is_vain and process.pending is not None and process.pending.conflicts(operation):
                process.is_vain = False
        return step

    def clock_was_read(self, actor: str) -> None:
        """Record that the actor read its clock since its last operation."""
        process = self._processes[actor]
        if process.step is not None:
            self.clock_readers.add((actor, process.step.operation))

    def _step(self, watch: Callable[[Simulation], None] | None) -> bool:
        """Make one step; return False when no actor will ever move again.

        Raises:
            Vain: an actor moves on after an interruption that it cannot have noticed.
        """
        for one in self._processes.values():
            if not one.is_started and (one.when is None or one.when()):
                one.start(stepped_context(one))
        if watch is not None:
            watch(self)
        label = self._next_mover()
        if label is None:
            return False
        process = self._processes.get(label)
        if process is None or process.pending is None:
            self._move_by_itself(label)
            return True
        if self._current is not None and self._current is not process:
            self._current.is_vain = self._current.is_ready() and not self._current.is_parked
        if process.wake_ms is not None and not process.is_ready():
            self._advance(process.wake_ms)
        self._current = process
        operation = process.pending
        trouble = self._next_trouble(process, operation)
        if self._ends_vain and process.is_vain and not (isinstance(trouble, Event) or trouble in _CRASHES):
            raise Vain
        if isinstance(trouble, Event) and trouble is not Event.LOCK_REFUSED:
            self._happen(process, operation, trouble)
            return True
        process.go_on(self.record(label, operation, trouble))
        return True

    def _next_mover(self) -> str | None:
        living = [one for one in self._processes.values() if one.is_started and one.outcome is None]
        ready = [one for one in living if one.is_ready()]
        asleep = [one for one in living if one not in ready and one.wake_ms is not None and not one.is_queued]
        current = self._current if self._current in ready else None
        if current is not None and not current.is_parked:
            ready.remove(current)
            ready.insert(0, current)
        elif current is not None:  # paused: the others come first, and that costs nothing
            ready.remove(current)
            ready.append(current)
            current = None
        cost = 1 if current is not None else 0
        options = [Option(one.name, cost if at else 0, self._is_vain(one)) for at, one in enumerate(ready)]
        if ready:
            options += [Option(one.name, 1, moves_time=True) for one in asleep]
        elif any(one.wake_ms is not None for one in living):
            options.append(Option(_TIME))
        options += [Option(effect.name) for effect in self.late]
        options += [Option(f"{one.name}~beat") for one in living if self._overdue(one)]
        return self._ask(options, True, current)

    def _next_trouble(self, process: Process, operation: PendingCall) -> Trouble | None:
        if self.faults_left <= 0 or not self._faults.kinds:
            return None
        offered = self._faults.offers(process.name, operation, holds_lock=self._holds_lock(process))
        label = self._ask([Option(""), *(Option(one.value, 1) for one in offered)], False, process)
        return trouble_of(label) if label else None

    def _holds_lock(self, process: Process) -> bool:
        held = self.world.lock.held
        return held is not None and held.actor == process.name

    def _is_vain(self, process: Process) -> bool:
        """Return whether it was interrupted in vain and no new fault is possible for it."""
        if not process.is_vain or process.pending is None:
            return False
        if self.faults_left <= 0:
            return True
        holds_lock = self._holds_lock(process)
        offered = self._faults.offers(process.name, process.pending, holds_lock=holds_lock)
        return not any(isinstance(one, Event) or (holds_lock and one in _CRASHES) for one in offered)

    def _ask(self, options: list[Option], is_move: bool, actor: Process | None) -> str | None:
        if is_move and self.preemptions_left is not None and self.preemptions_left <= 0:
            options = [option for at, option in enumerate(options) if at == 0 or not option.cost]
        if len(options) < 2 or self._choose is None:
            return options[0].label if options else None
        name, operation = ("", None) if actor is None else (actor.name, actor.pending)
        chosen = self._choose(
            Choice(
                step=self._number,
                is_move=is_move,
                actor=name,
                operation=operation,
                is_fresh=actor is not None and actor.is_fresh,
                has_changed=actor is not None and actor.has_changed,
                pending=frozenset(one.pending for one in self._processes.values() if one.pending is not None),
                options=tuple(options),
            )
        )
        option = options[chosen]
        if chosen:
            self._decisions.append(Decision(self._number, is_move, option.label))
        if is_move and self.preemptions_left is not None:
            self.preemptions_left -= option.cost
        elif not is_move:
            self.faults_left -= option.cost
        return option.label

    def _move_by_itself(self, label: str) -> None:
        if label == _TIME:
            wakes = [one.wake_ms for one in self._processes.values() if one.outcome is None and one.wake_ms is not None]
            # A step of its own, as every choice needs a number of its own.
            self.record(_TIME, PendingCall("time", f"+{min(wakes) - self.world.clock.wall_ms} ms"))
            self._advance(min(wakes))
            return
        name, _, kind = label.partition("~")
        if kind == "beat":
            process = self._processes[name]
            self.record(label, PendingCall("time", "beats at last"))
            for beat in self._overdue(process):
                process.beat(beat)
            return
        effect = next(one for one in self.late if one.name == label)
        self.late.remove(effect)
        step = self.record(label, PendingCall("put", effect.path), seen="landed")
        try:
            effect.effect()
        except HudiOpsError as error:
            step.seen = type(error).__name__  # refused by the store, and nothing receives the answer

    def _overdue(self, process: Process) -> list[Beat]:
        """Return beats that a process missed in a pause; they may come before the actor moves."""
        return [beat for beat in process.beats if beat.due_ms <= self.world.clock.wall_ms]

    def _happen(self, process: Process, operation: PendingCall, event: Event) -> None:
        """Apply an event before an operation; the operation itself is still to be made."""
        if event not in {Event.LOCK_LOST, Event.LOCK_LOST_NOTICED}:
            self.record(process.name, PendingCall("before", str(operation)), event)
        if event in {Event.LOCK_LOST, Event.LOCK_LOST_NOTICED}:
            held = self.world.lock.held
            if held is not None:
                self.record(process.name, PendingCall("release", LOCK), event)
                held.is_noticed = event is Event.LOCK_LOST_NOTICED
                process.seen = fold(process.seen, event.value)
                self.world.lock.free(held)
        elif event is Event.CLOCK_FORWARD:
            process.skew_ms += self._faults.jump_ms
        elif event is Event.CLOCK_BACK:
            process.skew_ms -= self._faults.jump_ms
        else:
            process.is_parked = event is Event.PAUSE
            self._advance(self.world.clock.wall_ms + self._faults.pause_ms)

    def _advance(self, to_ms: int) -> None:
        """Let time pass; actors that are not paused renew their leases on the way."""
        clock = self.world.clock
        for process in self._processes.values():
            process.is_vain = False  # all actors can notice that time passed
        while True:
            due = [
                (beat.due_ms, at, process, beat)
                for at, process in enumerate(self._processes.values())
                if process.outcome is None and not process.is_parked
                for beat in process.beats
                if beat.due_ms <= to_ms
            ]
            if not due:
                break
            due_ms, _, process, beat = min(due, key=lambda one: one[:2])
            clock.wall_ms = max(clock.wall_ms, due_ms)
            process.beat(beat)
        clock.wall_ms = max(clock.wall_ms, to_ms)
