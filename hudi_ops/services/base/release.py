"""What becomes of a plan after an execution that failed: it is left for the next executor, without what this one wrote.

Tasks of this one may still write what they had announced. So its markers stay: the next executor deletes what they name, and when
the instant has completed a later write looks once more (`services.sweep`).

Source: docs/protocol.md §8, §14.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.session import Session
from hudi_ops.commit.takeover import clear_own_epoch
from hudi_ops.commit.undo.rollback import undo_attempt
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.lease.monitor import refuse_superseded
from hudi_ops.errors import Cancelled, HudiOpsError, OutcomeUnknown
from hudi_ops.timeline.names import inflight_name

logger = logging.getLogger(__name__)


def leave_plan(session: Session, attempt: Attempt, error: HudiOpsError) -> None:
    """Take away what a failed execution wrote, then its inflight file and its lease; the plan stays, for anybody.

    To be called only after an error that is certain: nothing of the attempt was decided. If the plan itself was cancelled meanwhile
    it is rolled back; if somebody took it over, only the files of this epoch go.
    """
    storage = session.ctx.storage
    try:
        clear_own_epoch(session, attempt)
        try:
            refuse_superseded(session.loader.probe(), attempt.instant, attempt.epoch)
        except Cancelled as ended:
            if not ended.details.get("taken_over"):
                undo_attempt(session, attempt.instant, ended)
            return
        storage.delete(attempt.begun.timeline.path(inflight_name(attempt.instant, attempt.action)))
        # Last: while it is there, nobody takes the inflight file for another program's. That file may be what is still to land.
        if not isinstance(error, OutcomeUnknown):
            session.drop_name(attempt.instant)
        logger.warning(
            "%s %s was not completed, and waits for the next execution: %s", attempt.action, attempt.instant, error.what
        )
    except HudiOpsError as failure:
        # The first error is what the caller must hear; whoever executes the plan next clears the rest.
        logger.warning("what the execution of %s left stays until the next one: %s", attempt.instant, failure)
