"""Cancel the pending plans that a write ends, inside its decision: ingestion comes first (RFC-79).

Source: docs/protocol.md §26.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from hudi_ops.commit.session import Session, best_effort
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.concurrency.transaction import First
from hudi_ops.timeline.cancel.aborted import queue_cancel
from hudi_ops.timeline.log.cancelled import mark_cancelled
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


class MakeWay:
    """Cancels of one decision, whose queue files are put once the lock is free."""

    def __init__(self, session: Session, mine: Contender) -> None:
        self._session = session
        self._mine = mine
        self._slots: dict[str, tuple[str, int]] = {}

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

        def before() -> None:
            # The write's COMPLETE comes next, and later readers of the log may begin there. A mark without its slot means nothing.
            mark_cancelled(self._session.ctx.storage, plan.instant, slot)

        def won() -> None:
            self._slots[plan.instant] = state.log.table_id, slot

        return First(entry, before, won)

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
                queue_cancel(storage, table_id, instant, slot)
