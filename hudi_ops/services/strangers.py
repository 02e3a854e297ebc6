"""Whether writers of Apache Hudi share a session's table."""

from __future__ import annotations

from hudi_ops.concurrency.strangers import is_shared_with_strangers
from hudi_ops.services.session import Session
from hudi_ops.timeline.state import TableState


def is_shared(session: Session, state: TableState) -> bool:
    """True for a table that was adopted, and for one with an instant that stands in no slot and that no lease of ours claims.

    It reads every commit of the active timeline that was not read yet: to be asked only when the answer matters.
    """
    return is_shared_with_strangers(session.ctx.storage, session.commits, state)
