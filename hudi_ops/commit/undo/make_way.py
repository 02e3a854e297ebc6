"""Cancel the pending plans that a write ends, inside its decision (RFC-79).

Source: docs/protocol.md §26.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hudi_ops.commit.session import Session, best_effort
from hudi_ops.commit.undo.abort import finish_withdrawn
from hudi_ops.commit.undo.withdraw import withdraw
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.transaction import First
from hudi_ops.errors import Busy
from hudi_ops.timeline.cancel.aborted import queue_cancel
from hudi_ops.timeline.log.cancelled import mark_cancelled
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.log.plan_slots import newest_takeover
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


class MakeWay:
    """Cancels of one decision, whose queue files are put once the lock is free."""

    def __init__(self, session: Session, mine: Contender) -> None:
        self._session = session
        self._mine = mine
        self._slots: dict[str, tuple[str, int]] = {}
        self._withdrawn: set[str] = set()

    def cancel(self, state: TableState, slot: int, plan: Contender) -> First:
        """Return the CANCEL of a plan that comes before the write's own entry."""
        mine = self._mine
        entry = Cancel(
            **self._session.entry(state, f"cancel {plan.instant}"),
            instant=plan.instant,
            reason=f"{mine.action} {mine.instant} wrote to the same file groups first",
            cause="ingestion",
            requester=mine.owner,
            by=mine.instant,
        )

        def before(still_mine: Callable[[], bool]) -> None:
            if self.is_shared(state):
                self._refuse_taken(state, plan)
                withdraw(self._session, state, plan.instant, slot, still_mine)
                self._withdrawn.add(plan.instant)

        def won() -> None:
            # The write's COMPLETE comes next, and later readers of the log may begin there.
            mark_cancelled(self._session.ctx.storage, plan.instant, slot)
            self._slots[plan.instant] = state.log.table_id, slot

        return First(entry, before, won)

    def is_shared(self, state: TableState) -> bool:
        """Return whether Apache Hudi may execute a pending plan of the table."""
        return has_foreign_writers(self._session.ctx.storage, self._session.commits, state)

    def _refuse_taken(self, state: TableState, plan: Contender) -> None:
        """Refuse to end a plan whose executor may still write.

        Its files would hide rows from Apache Hudi's readers.

        Raises:
            Busy: an executor of ours took the plan over.
        """
        taken = newest_takeover(self._session.ctx.storage, state, plan.instant)
        if taken is not None:
            raise Busy(
                f"{plan.action} {plan.instant} is executed by {taken.owner}, on a table that Apache Hudi writes to as well",
                table=state.config.name,
                instant=self._mine.instant,
                expected="a plan that no executor has begun",
                found=f"epoch {taken.epoch} of its execution",
                next_step=f"let it complete, or `hudi-ops cancel TABLE {plan.instant}`; then run the same call again",
                other=plan.instant,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            return  # the process ends
        storage = self._session.ctx.storage
        for instant, (table_id, slot) in self._slots.items():
            logger.warning("%s %s cancelled plan %s in slot %s", self._mine.action, self._mine.instant, instant, slot)
            with best_effort(instant):
                if instant in self._withdrawn:
                    finish_withdrawn(self._session, self._session.loader.load(), instant)
                else:
                    queue_cancel(storage, table_id, instant, slot)
