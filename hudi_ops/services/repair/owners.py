"""Judge whether the process behind an instant has ended, and cancel the instant in a slot."""

from __future__ import annotations

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_instants import is_dead, may_be_foreign
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.timeline.content.undone import undone_by


class Left(Exception):
    """Reason for which a finding stays."""


class Gone(Exception):
    """Statement that another repair, or a live process, removed what was found."""


def ended(session: Session, instant: str, *, abandoned: bool) -> None:
    """Check that the process of an instant has ended.

    Raises:
        Left: it is alive, or may be.
    """
    lease = read_lease(session.ctx.storage, instant)
    if lease is not None and not is_dead(session.ctx, instant):
        owner = "Apache Hudi" if may_be_foreign(lease) else str(lease.owner)
        raise Left(f"{instant} stays: {owner} is alive")
    state = session.loader.load()
    if lease is None and not abandoned and not _is_undone(session, instant):
        known = session.was_cancelled(state, instant)
        if not known:
            raise Left(
                f"{instant} stays: no heartbeat tells whether its writer has ended; pass --abandoned once it surely has"
            )


def cancelled(session: Session, instant: str, *, abandoned: bool) -> None:
    """Decide that an instant never completes, once its process has ended.

    Raises:
        Left: the process may be alive, or the instant has completed.
    """
    ended(session, instant, abandoned=abandoned)

    def still() -> bool:
        return read_lease(session.ctx.storage, instant) is None or is_dead(session.ctx, instant)

    if not cancel_write(session, instant, "repaired: its process has ended", still):
        raise Left(f"{instant} stays: it completed, or its writer came back")


def _is_undone(session: Session, instant: str) -> bool:
    state = session.loader.load()
    return state.timeline.find(instant) is None and bool(
        undone_by(session.ctx.storage, state.config, state.timeline, instant)
    )
