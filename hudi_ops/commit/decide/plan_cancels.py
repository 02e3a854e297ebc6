"""Cancel the pending plans that a write ends, inside its decision (RFC-79).

Source: docs/protocol §26.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Literal, Self, TypeAlias

from hudi_ops.commit.decide.withdraw import put_back_plans, withdraw
from hudi_ops.commit.recover.rollback import record_withdrawn
from hudi_ops.commit.session import Session, best_effort
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.transaction import First
from hudi_ops.config.requests.starvation import WAIT_S_MAX
from hudi_ops.timeline.cancel.aborted import queue_cancel
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.log.plan_slots import plan_entry
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


WINDOW_STEP_S = 0.5
"""Interval in seconds at which a waiting write checks whether the plan has ended."""

CancelCause: TypeAlias = Literal["ingestion", "priority"]


class PlanCancels:
    """CANCELs of the plans that a write, or a plan of a service with higher priority, ends.

    Their records and queue files are put after the lock is released.
    """

    def __init__(
        self, session: Session, mine: Contender, *, is_shared: bool = False, cause: CancelCause = "ingestion"
    ) -> None:
        self._session = session
        self._mine = mine
        self._cause = cause
        self._was_shared = is_shared
        self._withdrawn: dict[str, Contender] = {}
        self._cancelled: dict[str, tuple[str, int]] = {}
        self._awaited = ""

    def is_shared(self, state: TableState) -> bool:
        """Return whether Apache Hudi may execute a pending plan of the table."""
        session = self._session
        return self._was_shared or has_foreign_writers(session.ctx.storage, session.commits, state, pending=False)

    def with_plans_put_back(self, state: TableState) -> TableState:
        """Return the state with the plans that dead processes withdrew; requires the table lock."""
        if not self.is_shared(state) or not put_back_plans(self._session, state, self._withdrawn.keys()):
            return state
        return self._session.loader.relist(state)

    def still_to_cancel(self, state: TableState, ended: Sequence[Contender]) -> list[Contender]:
        """Return the plans that still need a CANCEL: those withdrawn for this decision, and `ended`."""
        withdrawn = [plan for plan in self._withdrawn.values() if state.log.fate(plan.instant) is None]
        return [*withdrawn, *(plan for plan in ended if plan.instant not in self._withdrawn)]

    def is_in_window(self, ended: Sequence[Contender]) -> bool:
        """Return whether the write has to wait for a plan that it ends."""
        # Windows are kept in the session: a write that begins again has waited already.
        clock, windows = self._session.ctx.clock, self._session.memory.plan_windows
        for plan in ended:
            if not plan.wait_s or plan.instant in windows:
                continue
            # The planner's clock may be ahead of this one; still no write waits longer than the plan says.
            windows[plan.instant] = clock.monotonic_s() + min(_left_s(self._session, plan), plan.wait_s)
        now_s = clock.monotonic_s()
        open_now = [plan.instant for plan in ended if windows.get(plan.instant, now_s) > now_s]
        self._awaited = max(open_now, key=lambda instant: windows[instant], default="")
        return bool(open_now)

    def await_window(self) -> bool:
        """Wait for the plan that `is_in_window` found; return whether there was one.

        The caller does not hold the lock. The call returns when the plan has ended or its window is over. If the plan completed,
        the write then conflicts with it, and begins again from its result.
        """
        plan, self._awaited = self._awaited, ""
        if not plan:
            return False
        clock, loader = self._session.ctx.clock, self._session.loader
        logger.info("%s waits for plan %s: writes cancelled others before it", self._mine.instant, plan)
        until_s = self._session.memory.plan_windows[plan]
        while (left_s := until_s - clock.monotonic_s()) > 0 and loader.probe().fate(plan) is None:
            clock.sleep_s(min(left_s, WINDOW_STEP_S))
        return True

    def next_cancel(self, state: TableState, slot: int, plans: Sequence[Contender]) -> First:
        """Return the CANCEL of the first of `plans`.

        If Apache Hudi writes to the table, too, all of `plans` are withdrawn before the CANCEL.

        A plan that an executor of ours began is not withdrawn: its requested file stays until its data files are gone.
        """
        mine, plan = self._mine, plans[0]
        entry = Cancel(
            **self._session.entry(state, f"cancel {plan.instant}"),
            instant=plan.instant,
            reason=f"{mine.action} {mine.instant} wrote to the same file groups first"
            if self._cause == "ingestion"
            else f"a {mine.action} of higher priority was planned on the same file groups",
            cause=self._cause,
            requester=mine.owner,
            by=mine.instant,
        )

        def before(still_mine: Callable[[], bool]) -> None:
            if not self.is_shared(state):
                return
            # If this process released the lock in between, another may have put a withdrawn plan back.
            fresh = {
                one.instant: one
                for one in plans
                if not one.is_taken
                and (one.instant not in self._withdrawn or state.timeline.find(one.instant) is not None)
            }
            if fresh and withdraw(self._session, state, list(fresh), slot, still_mine):
                self._withdrawn |= fresh

        def won() -> None:
            self._cancelled[plan.instant] = state.log.table_id, slot

        return First(entry, before, won)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            return  # the process ends
        self._session.memory.ended_plans += tuple(self._cancelled)
        for instant, (table_id, slot) in self._cancelled.items():
            logger.warning("%s %s cancelled plan %s in slot %s", self._mine.action, self._mine.instant, instant, slot)
            with best_effort(instant):
                if instant in self._withdrawn:
                    record_withdrawn(self._session, self._session.loader.load(), instant)
                else:
                    queue_cancel(self._session.ctx.storage, table_id, instant, slot)


def without_waiting(
    session: Session, state: TableState, mine: Contender, running: Iterable[Contender]
) -> list[Contender]:
    """Return the running writes that a service may have to give way to.

    While the window of its plan is open, writes that would end the plan are left out: they wait for the plan.
    """
    found = list(running)
    if mine.role != "service" or not any(one.role == "ingest" for one in found):
        return found
    entry = plan_entry(session.ctx.storage, state, mine.instant)
    if entry is None or not entry.cancel_wait_s:
        return found
    plan = replace(
        mine,
        on_overlap=entry.on_overlap,
        is_cancellable=entry.cancellable,
        wait_s=min(entry.cancel_wait_s, WAIT_S_MAX),
        planned_ms=entry.at_ms,
    )
    return found if _left_s(session, plan) <= 0 else [one for one in found if not one.ends(plan)]


def _left_s(session: Session, plan: Contender) -> float:
    """Return for how many seconds the window of a plan is still open, by this clock."""
    return plan.wait_s - (session.ctx.clock.now_ms() - plan.planned_ms) / 1_000
