"""The beginning of a write: it waits for its turn, says on the timeline what it is about to touch, and looks out from then on."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.early_conflicts import Watch
from hudi_ops.config.table import TableConfig
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.state import TableState


def begin_watched(
    session: Session,
    config: TableConfig,
    operation: WriteOperation,
    intent: Footprint,
    start: TableState | None = None,
) -> tuple[Attempt, Watch]:
    """Take an instant for an operation, and put it on the timeline.

    Args:
        session: the table.
        config: its settings.
        operation: what is done.
        intent: what it is going to touch.
        start: the state as it was read a moment ago; None: it is read.

    Returns:
        The attempt, and its look-out, which is to begin once the lease is kept.
    """
    action = operation.action(config)
    watch = session.watch(action, intent)
    requested, inflight = operation.requested(), operation.inflight(intent)
    attempt = begin(session.ctx, session.loader, action, requested, inflight, watch.wait, start=start)
    return attempt, watch
