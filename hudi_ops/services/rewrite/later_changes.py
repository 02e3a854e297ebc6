"""Read what completed, or was planned, while the draft of a plan was made.

Everything comes from the metadata of commits and plans: nothing is listed, so it may be called under the lock.
"""

from __future__ import annotations

from collections.abc import Iterator

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.contenders import vanished
from hudi_ops.concurrency.pending import pending_inputs
from hudi_ops.errors import Conflict
from hudi_ops.services.base.publish import outranked
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState

AGAIN = "run the same call again: it chooses from the table as it is now"


def completed_between(
    session: Session, begun: TableState, state: TableState
) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Yield the writes that completed since a draft was begun.

    Raises:
        Conflict: a write was undone, or one that completed since cannot be read any more.
    """
    _refuse_unknown(session, begun, state)
    for other in Since(begun, state).completed:
        metadata = session.commits.metadata(state.timeline, other)
        if metadata is None:
            raise Conflict(
                f"{other.action} {other.time} vanished while it was read",
                table=state.config.name,
                next_step=AGAIN,
                other=other.time,
            )
        yield other, metadata


def other_plans(
    session: Session, state: TableState, action: str, *, reach_back: bool = False
) -> Iterator[tuple[Instant, Footprint | None]]:
    """Yield pending plans that stay beside a plan of `action`, with inputs; None: unreadable.

    Plans that were cancelled, or that a plan of `action` may cancel, are left out. `reach_back`: as in `outranked`.
    """
    lower = outranked(session, state, action, reach_back=reach_back)
    for instant, inputs in pending_inputs(session.ctx, state):
        if instant.time not in lower and not session.was_cancelled(state, instant.time):
            yield instant, inputs


def refuse_none_left(state: TableState, work: str, found: str) -> None:
    """Refuse a draft of which others took every file group.

    Raises:
        Conflict: always.
    """
    raise Conflict(
        f"others took every file group that was chosen for {work}, while the plan was made",
        table=state.config.name,
        found=found,
        next_step=AGAIN,
    )


def _refuse_unknown(session: Session, begun: TableState, state: TableState) -> None:
    """Refuse a state that lacks a write which a draft depends on.

    Raises:
        Conflict: a write was undone, or one that completed since was archived.
    """
    since = Since(begun, state)
    undone = [write.time for write in since.undone]
    gone = [write.instant for write in vanished(session.ctx.storage, begun, state)]
    gone += [entry.instant for entry in since.archived]
    for what, times in (("undone", undone), ("archived", gone)):
        if times:
            raise Conflict(
                f"{times[0]} was {what} while the plan was made",
                table=state.config.name,
                expected="writes that can be read, as they were when the slices were chosen",
                found=", ".join(times),
                next_step=AGAIN,
                other=times[0],
            )
