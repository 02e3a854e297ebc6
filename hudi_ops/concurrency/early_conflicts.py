"""Detect conflicts before and during the work, so that less work is lost.

This decides nothing: the check at commit always runs, and finds conflicts that are missed here. An attempt gives way only to live,
older writers, so two writers never stop each other.

Source: RFC-56.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import (
    ConflictStrategy,
    Contender,
    IngestionFirst,
    refuse_completed,
    refuse_older,
    refuse_planned,
)
from hudi_ops.concurrency.contenders import ContenderReader
from hudi_ops.concurrency.foreign.silent_writers import SilentWriters
from hudi_ops.concurrency.vain_waits import note_vain_wait, waited_in_vain
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Conflict, HudiOpsError
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.commit_log import refresh_log
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741 - input of a task
T = TypeVar("T")
R = TypeVar("R")

INTERVAL_S = 30.0
"""Interval of checks during long work; Apache Hudi's default for the same."""
POLL_S = 0.02
POLL_MAX_S = 0.5


def jittered(ctx: TableContext, seconds: float) -> float:
    """Return 0.5 to 1.5 times a duration, so that writers that collided do not collide again."""
    return seconds * (0.5 + int(ctx.ids.new_id().replace("-", "")[:8], 16) / 2**32)


@dataclass
class ConflictWatch:
    """Early conflict detection of one attempt.

    The instant of `mine` is empty until the attempt has begun. `wait_s` limits the wait for older writers before that, in seconds.
    `minds_completed`: check later completions. `minds_running`: check older live writers, too; off after `wait_s`.
    """

    ctx: TableContext
    contenders: ContenderReader
    mine: Contender
    wait_s: float
    silent: SilentWriters
    minds_completed: bool = True
    minds_running: bool = True
    strategy: ConflictStrategy = field(default_factory=IngestionFirst)
    _attempt: Attempt | None = field(default=None, init=False)
    _now: TableState | None = field(default=None, init=False)
    _next_s: float = field(default=0.0, init=False)
    _until_s: float | None = field(default=None, init=False)

    def wait(self, state: TableState) -> bool:
        """Wait for overlapping live writers and exclusive plans, before an instant is taken.

        Returns:
            Whether it waited, so that `state` must be read again.

        Raises:
            Busy: a foreign write is pending without a heartbeat, or a plan that the write must not pass is still pending.
        """
        self.silent.refuse(state)
        if self._until_s is None:
            self._until_s = self.ctx.clock.monotonic_s() + self.wait_s
        poll_s, waited = POLL_S, False
        while self.minds_running and (older := self._older(state) or self._planned(state)) is not None:
            left_s = self._until_s - self.ctx.clock.monotonic_s()
            if left_s <= 0:
                note_vain_wait(self.ctx, older.instant)
                if older.stage == "planned":
                    refuse_planned(self.mine, [older], self.strategy)
                self.minds_running = False
                logger.warning(
                    "%s is still under way after %s s: the first to complete wins", _told(older), self.wait_s
                )
                break
            if not waited:
                logger.info("waiting for %s, which touches the same", _told(older))
            self.ctx.clock.sleep_s(min(jittered(self.ctx, poll_s), left_s))
            poll_s, waited = min(poll_s * 1.5, POLL_MAX_S), True
            state = replace(state, timeline=load_timeline(self.ctx.storage, state.config))
        return waited

    def begin(self, attempt: Attempt) -> None:
        """Run the first check, after the instant is reserved; no storage call without other writers.

        Raises:
            Conflict: an overlapping write completed since, or began earlier.
            Busy: an older foreign write is pending without a heartbeat.
        """
        if attempt.seen is not None:
            known = [instant.time for instant in attempt.begun.timeline.pending]
            self.silent.refuse(attempt.seen, attempt.instant, known)
        self._attempt = attempt
        self.mine = replace(self.mine, instant=attempt.instant)
        self._now = attempt.seen
        self._next_s = self.ctx.clock.monotonic_s() + INTERVAL_S
        if self._now is not None:
            self._check_completed(self._now)
            self._check_running(self._now)

    def between(self) -> None:
        """Check again between tasks, once per interval; thread-safe.

        Without other writers this costs one listing.

        Raises:
            Conflict: as `begin` does.
        """
        if self._now is None or self.ctx.clock.monotonic_s() < self._next_s:
            return
        self._next_s = self.ctx.clock.monotonic_s() + INTERVAL_S
        # Read markers before the timeline: a write that completes in between deletes its markers, but is then on the timeline.
        self._check_running(self._now)
        self._now = replace(self._now, timeline=load_timeline(self.ctx.storage, self._now.config))
        self._check_completed(self._now)

    def over(self, task: Callable[[I, T], R], check: Callable[[], None]) -> Callable[[I, T], R]:
        """Wrap a task so that `check` and `between` run first; for tasks in this process."""

        def watched(value: I, given: T) -> R:
            check()
            self.between()
            return task(value, given)

        return watched

    def _check_completed(self, now: TableState) -> None:
        if self._attempt is None or not self.minds_completed:
            return
        begun = self._attempt.begun
        try:
            refuse_completed(self.mine, self.contenders.completed_since(begun, self.mine, now), early=True)
        except Conflict:
            # Its owner is in a slot that may be newer than the loaded log.
            named = replace(now, log=refresh_log(self.ctx.storage, now.log))
            refuse_completed(self.mine, self.contenders.completed_since(begun, self.mine, named), early=True)
        except HudiOpsError as error:
            logger.warning("new completions could not be read; the commit will read them: %s", error)

    def _check_running(self, now: TableState) -> None:
        if self.minds_running and (older := self._older(now)) is not None:
            refuse_older(self.mine, older)

    def _planned(self, now: TableState) -> Contender | None:
        """Return a pending plan for which the finished write would be refused, or None.

        Raises:
            Busy: the process has waited in vain for such a plan, which has not moved since.
        """
        for plan in self._read_plans(now):
            if plan.is_cancelled or self.mine.ends(plan) or self.contenders.is_resize(now.timeline, plan.instant):
                continue
            try:
                refuse_planned(self.mine, [plan], self.strategy)
            except Busy:
                if waited_in_vain(self.ctx, plan.instant):
                    raise
                return plan
        return None

    def _read_plans(self, now: TableState) -> list[Contender]:
        try:
            return [*self.contenders.plans(now, self.mine, frozenset({"clustering"}), reach_back=True)]
        except HudiOpsError as error:
            logger.warning("pending plans could not be read; the commit will read them: %s", error)
            return []

    def _older(self, now: TableState) -> Contender | None:
        try:
            return self.contenders.older(self.ctx, now.timeline, self.mine)
        except HudiOpsError as error:
            logger.warning("other writers could not be read; the commit will read them: %s", error)
            return None


def _told(write: Contender) -> str:
    return f"{write.action} {write.instant} of {write.owned_by}"
