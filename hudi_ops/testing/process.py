"""One simulated process: a function in a greenlet that pauses before each of its operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from greenlet import greenlet

from hudi_ops.context import TableContext
from hudi_ops.errors import Internal
from hudi_ops.testing.faults import Crash
from hudi_ops.testing.steps import LOCKING, Outcome, PendingCall, Step
from hudi_ops.testing.world import LateEffect, World, fold


class Scheduler(Protocol):
    """Receiver of the steps of a process."""

    world: World
    late: list[LateEffect]

    def record(self, actor: str, operation: PendingCall) -> Step:
        """Record a step, and return it."""
        ...

    def clock_was_read(self, actor: str) -> None:
        """Record that the actor read its clock since its last operation."""
        ...


@dataclass
class Beat:
    """Function that a process calls periodically; `due_ms` is in the world's time."""

    interval_ms: int
    call: Callable[[], None]
    due_ms: int


class Process:
    """One actor: its function in a greenlet, and the state that the scheduler needs.

    `is_vain`: the process was interrupted before its pending operation, and since then no step conflicts with this operation and no
    time passed. An interruption one operation later would have had the same result.

    Args:
        name: names the process in steps and schedules.
        run: what it does, given its context.
        scheduler: decides when it moves.
        when: it starts once this is true.
        skew_ms: how far its wall clock is ahead of the world's.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[TableContext], object],
        scheduler: Scheduler,
        when: Callable[[], bool] | None,
        skew_ms: int,
    ) -> None:
        self.name = name
        self.when = when
        self.skew_ms = skew_ms
        self.scheduler = scheduler
        self.world = scheduler.world
        self.outcome: Outcome | None = None
        self.pending: PendingCall | None = None
        self.step: Step | None = None
        self.wake_ms: int | None = None
        self.is_queued = False
        self.is_parked = False
        self.is_vain = False
        self.is_fresh = True
        self.has_changed = False
        self.beats: list[Beat] = []
        self.seen = b""
        self._is_beating = False
        self._is_dead = False
        self._greenlet: Any = None
        self._run = run

    @property
    def is_started(self) -> bool:
        """Whether its function was entered."""
        return self._greenlet is not None

    def is_ready(self) -> bool:
        """Return whether the process can move now."""
        if self.pending is None or self.outcome is not None:
            return False
        now_ms = self.world.clock.wall_ms
        if self.is_queued:
            return self.world.lock.can_enter(self.name) or (self.wake_ms is not None and now_ms >= self.wake_ms)
        return self.wake_ms is None or now_ms >= self.wake_ms

    def state(self) -> tuple[object, ...]:
        """Return everything besides the world that its next steps depend on."""
        if self.outcome is not None:
            return (str(self.outcome),)
        beats = tuple(beat.due_ms for beat in self.beats)
        return (
            self.seen,
            self.is_started,
            self.skew_ms,
            self.wake_ms,
            self.is_queued,
            self.is_parked,
            self.is_vain,
            beats,
        )

    def start(self, context: TableContext) -> None:
        """Run up to the first operation, which is not made yet.

        Args:
            context: the world as this process sees it.
        """
        self._greenlet = greenlet(self._live)
        self._greenlet.switch(context)

    def go_on(self, step: Step) -> None:
        """Make the pending operation, then run up to the next one."""
        name = step.operation.name
        self.is_fresh = name == "sleep" or (self.is_fresh and name in LOCKING)
        self.has_changed = step.operation.is_mutation
        self.step, self.pending, self.is_parked, self.is_vain = step, None, False, False
        self._greenlet.switch()

    def kill(self) -> None:
        """End the process at its pending operation."""
        self.die()
        if self._greenlet is not None and not self._greenlet.dead:
            self._greenlet.throw(Crash("the simulation is over"))

    def die(self) -> None:
        """Mark the process as dead: it makes no more steps, frees its lock and renews no lease."""
        self._is_dead = True
        self.beats.clear()
        self.world.lock.drop(self.name)

    def beat(self, beat: Beat) -> None:
        """Make one beat without faults and interruptions, as a thread of this process would."""
        self._is_beating = True
        try:
            beat.call()
        finally:
            self._is_beating = False
        beat.due_ms = self.world.clock.wall_ms + beat.interval_ms

    def pause(self, operation: PendingCall, wake_ms: int | None = None) -> Step:
        """Wait until the scheduler lets this process move on.

        Raises:
            Crash: the process died.
            Internal: a beat waits for the lock or sleeps.
        """
        if self._is_dead:
            raise Crash("a call of a process that is dead")
        if self._is_beating:
            if operation.name in {"acquire", "sleep"}:
                raise Internal("a beat of a simulation may not wait", found=str(operation))
            return self.scheduler.record(f"{self.name}~beat", operation)
        self.pending, self.wake_ms = operation, wake_ms
        self._greenlet.parent.switch()
        self.wake_ms = None
        if self._is_dead or self.step is None:
            raise Crash("a call of a process that is dead")
        return self.step

    def saw(self, step: Step, said: str, digest: bytes = b"") -> None:
        """Record the answer of an operation; the next steps of this process depend only on answers."""
        step.seen = said
        self.seen = fold(self.seen, step.operation.name, step.operation.path, said, digest)

    def _live(self, context: TableContext) -> None:
        try:
            self.outcome = Outcome(self._run(context))
        except Crash:
            self.outcome = Outcome(is_dead=True)
        except Exception as error:  # noqa: BLE001 - how it ended is what the simulation reports
            self.outcome = Outcome(error=error)
        self.scheduler.clock_was_read(self.name)  # the end of a process has a time, too
        if not self._is_dead:
            self.beats.clear()
            self.world.lock.drop(self.name)
