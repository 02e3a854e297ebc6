"""Show the plans of table services, and cancel them."""

from __future__ import annotations

from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.commit.session import Session
from hudi_ops.context import Owner
from hudi_ops.services.cancel.abort import CancelResult, cancel, execute_cancel
from hudi_ops.services.cancel.executed import Stopped, cancel_executed
from hudi_ops.services.cancel.overdue import OverdueResult, cancel_overdue, preview_overdue
from hudi_ops.services.cancel.plans import PlanRow, describe_plans
from hudi_ops.table.argument_types import checks_types

ASKED = "requested by a user"


@checks_types
class PlansApi:
    """Shows pending plans, and ends them for good (RFC-79)."""

    _session: Session

    def plans(self, instant: str | None = None, *, aborted: bool = False) -> list[PlanRow]:
        """Return the pending plans of table services, oldest first.

        Args:
            instant: only this plan, in any state.
            aborted: include plans that were cancelled and removed, also those whose record was archived.

        Raises:
            InvalidRequest: there is no such plan.
            Corrupt: the history of aborted plans cannot be read, and it was asked for.
        """
        return describe_plans(self._session, instant, aborted=aborted)

    def request_cancel(
        self, instant: str, reason: str = ASKED, *, requester: str = "", force: bool = False
    ) -> CancelResult:
        """Decide that a plan never completes, whether or not a process executes it.

        A second call changes nothing. A living executor stops by itself and removes the plan; otherwise the next write does, or
        `execute_cancel`.

        Args:
            instant: request time of the plan.
            reason: one sentence, shown to the executor and in `plans`.
            requester: who asks; default: this process.
            force: cancel a plan that does not say that it is cancellable.

        Raises:
            InvalidRequest: a wrong reason or instant; the plan completed, or it is not cancellable.
            Unsupported: the table cannot be written.
            Busy: the lock was not free in time.
        """
        return self.cancel(instant, reason, requester=requester, force=force, request_only=True)

    def execute_cancel(self, instant: str) -> CancelResult:
        """Remove the files of a plan whose cancel was requested, and the plan from the timeline.

        A second call changes nothing.

        Raises:
            InvalidRequest: there is no such plan, it completed, or no cancel of it was requested.
            Busy: its executor has not stopped yet, or another process removes it.
        """
        return execute_cancel(self._session, instant)

    def cancel(
        self,
        instant: str,
        reason: str = ASKED,
        *,
        requester: str = "",
        force: bool = False,
        request_only: bool = False,
        dry_run: bool = False,
        wait_s: float = 30.0,
    ) -> CancelResult:
        """Request the cancel of a plan, and remove it once its executor has stopped.

        Args:
            instant: request time of the plan.
            reason: one sentence, shown to the executor and in `plans`.
            requester: who asks; default: this process.
            force: cancel a plan that does not say that it is cancellable.
            request_only: do not remove it.
            dry_run: check the call; change nothing.
            wait_s: how long the call waits for a living executor, in seconds.

        Raises:
            InvalidRequest: a wrong reason or instant; the plan completed, or it is not cancellable.
            Unsupported: the table cannot be written.
            Busy: the lock was not free in time.
        """
        why = CancelReason(reason, "request", requester)
        return cancel(
            self._session, instant, why, force=force, request_only=request_only, dry_run=dry_run, wait_s=wait_s
        )

    def cancel_overdue(self, *, dry_run: bool = False) -> OverdueResult:
        """Cancel overdue plans without a live executor, and remove cancelled plans.

        A clean begins with it.

        Args:
            dry_run: return the overdue plans; change nothing.

        Raises:
            Unsupported: the table cannot be written.
            Busy: the lock was not free in time.
        """
        return preview_overdue(self._session) if dry_run else cancel_overdue(self._session)

    def cancel_executed(self, owner: Owner | None, reason: str = ASKED, *, instant: str | None = None) -> Stopped:
        """Request the cancel of the plans that a process executes, before the process is stopped.

        The process removes them itself. Plans that are not cancellable stay, and the result says why.

        Args:
            owner: the process; None: the process has not begun.
            reason: one sentence.
            instant: the plan that it was to execute; cancelled, too, unless another process executes it.

        Raises:
            Unsupported: the table cannot be written.
            Busy: the lock was not free in time.
        """
        return cancel_executed(self._session, owner, CancelReason(reason, "request"), instant)
