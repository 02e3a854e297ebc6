"""Early detection of conflicts: before work and during it, so that less of it is done in vain. It decides nothing.

The commit's own check is never replaced: what is not seen here is found there. Only writers that began earlier are given way to, so
that two writers never stop each other, and only live ones: what the dead left says nothing.

Source: RFC-56.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import Contender, refuse_completed, refuse_older
from hudi_ops.concurrency.contenders import ContenderReader
from hudi_ops.concurrency.foreign.silent_writers import SilentWriters
from hudi_ops.context import TableContext
from hudi_ops.errors import Conflict, HudiOpsError
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.commit_log import refresh_log
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741 - input of a task
T = TypeVar("T")
R = TypeVar("R")

INTERVAL_S = 30.0
"""How often long work looks up; Apache Hudi's default for the same."""
POLL_S = 0.02
POLL_MAX_S = 0.5


def jittered(ctx: TableContext, seconds: float) -> float:
    """Between half and one and a half of a time, so that writers who met once do not meet again."""
    return seconds * (0.5 + int(ctx.ids.new_id().replace("-", "")[:8], 16) / 2**32)


@dataclass
class ConflictWatch:
    """Looks out for one attempt.

    Attributes:
        ctx: the table's components.
        contenders: reads what others touch.
        mine: what the attempt is going to touch; its instant is empty until it has begun.
        wait_s: how long to let older writers finish before one begins.
        silent: refuses to pass pending writes that nobody can judge.
        minds_completed: look at what completed since the attempt began.
        minds_running: look at older live writers too; they are not waited for any more once `wait_s` is over.
    """

    ctx: TableContext
    contenders: ContenderReader
    mine: Contender
    wait_s: float
    silent: SilentWriters
    minds_completed: bool = True
    minds_running: bool = True
    _attempt: Attempt | None = field(default=None, init=False)
    _now: TableState | None = field(default=None, init=False)
    _next_s: float = field(default=0.0, init=False)
    _until_s: float | None = field(default=None, init=False)

    def wait(self, state: TableState) -> bool:
        """Before an instant is taken: let live writers that touch the same finish, for a while.

        Nothing of ours is there yet, so nothing has to be undone, and nobody waits for us.

        Args:
            state: as just read; when it shows nobody, nothing else is asked of the storage.

        Returns:
            Whether time has passed, and the state must be read anew.

        Raises:
            Busy: a write of another program is pending without a heartbeat.
        """
        self.silent.refuse(state)
        if self._until_s is None:
            self._until_s = self.ctx.clock.monotonic_s() + self.wait_s
        poll_s, waited = POLL_S, False
        while self.minds_running and (older := self._older(state)) is not None:
            left_s = self._until_s - self.ctx.clock.monotonic_s()
            if left_s <= 0:
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
        """The attempt has its instant: look before data files are written. Asks nothing of the storage where nobody else writes.

        Raises:
            Conflict: somebody completed meanwhile, or began earlier, and touches the same.
            Busy: a write of another program that began earlier is pending without a heartbeat.
        """
        if attempt.seen is not None:
            self.silent.refuse(attempt.seen, attempt.instant, [one.time for one in attempt.begun.timeline.pending])
        self._attempt = attempt
        self.mine = replace(self.mine, instant=attempt.instant)
        self._now = attempt.seen
        self._next_s = self.ctx.clock.monotonic_s() + INTERVAL_S
        self._look()

    def between(self) -> None:
        """Between two tasks: look again when the interval has passed. One listing where nobody else writes; safe between threads.

        Raises:
            Conflict: as `begin` does.
        """
        if self._now is None or self.ctx.clock.monotonic_s() < self._next_s:
            return
        self._next_s = self.ctx.clock.monotonic_s() + INTERVAL_S
        # Markers of those that were pending, then the timeline: who completes and clears its markers in between is on the latter.
        self._look_at_running(self._now)
        self._now = replace(self._now, timeline=load_timeline(self.ctx.storage, self._now.config))
        self._look_at_completed(self._now)

    def over(self, task: Callable[[I, T], R], check: Callable[[], None]) -> Callable[[I, T], R]:
        """A task that first calls `check`, and looks; for engines whose tasks run in this process."""

        def watched(value: I, given: T) -> R:
            check()
            self.between()
            return task(value, given)

        return watched

    def _look(self) -> None:
        if self._now is not None:
            self._look_at_completed(self._now)
            self._look_at_running(self._now)

    def _look_at_completed(self, now: TableState) -> None:
        if self._attempt is None or not self.minds_completed:
            return
        begun = self._attempt.begun
        try:
            refuse_completed(self.mine, self.contenders.completed_since(begun, self.mine, now), early=True)
        except Conflict:
            # Who it was stands in a slot that may be newer than what was read of the log.
            named = replace(now, log=refresh_log(self.ctx.storage, now.log))
            refuse_completed(self.mine, self.contenders.completed_since(begun, self.mine, named), early=True)
        except HudiOpsError as error:
            logger.warning("what completed meanwhile could not be read; the commit will: %s", error)

    def _look_at_running(self, now: TableState) -> None:
        if self.minds_running and (older := self._older(now)) is not None:
            refuse_older(self.mine, older)

    def _older(self, now: TableState) -> Contender | None:
        try:
            return self.contenders.older(self.ctx, now.timeline, self.mine)
        except HudiOpsError as error:
            logger.warning("other writers could not be looked at; the commit will: %s", error)
            return None


def _told(one: Contender) -> str:
    return f"{one.action} {one.instant} of {one.owned_by}"
