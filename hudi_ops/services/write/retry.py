"""Retry after a conflict: after a pause, from the current table, with a new instant."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.early_conflicts import jittered
from hudi_ops.errors import Conflict

logger = logging.getLogger(__name__)

R = TypeVar("R")

PAUSE_S = 0.02
PAUSE_MAX_S = 2.0


def retried(session: Session, attempt: Callable[[float], R]) -> R:
    """Repeat an attempt until it does not conflict; its argument is the first try's start time.

    While retries remain, an attempt waits for older live writes that overlap. The last attempt does not wait: the first write to
    complete wins.

    Raises:
        Conflict: all attempts lost; names their number and the writes they lost to.
    """
    started_s = session.ctx.clock.monotonic_s()
    lost: list[Conflict] = []
    session.memory.ended_plans = ()
    try:
        while True:
            session.memory.gives_way = len(lost) < session.conflicts.retries
            try:
                return attempt(started_s)
            except Conflict as error:
                # Conflicts that each try would raise again are not retried: deleted rows, or an error in the rows themselves.
                if error.details.get("final") or any(error is earlier for earlier in lost):
                    raise
                lost.append(error)
                if len(lost) > session.conflicts.retries:
                    conflict = given_up(session, lost, started_s)
                    raise conflict from error
                pause_s = jittered(session.ctx, min(PAUSE_S * 2 ** (len(lost) - 1), PAUSE_MAX_S))
                logger.info(
                    "try %s of %s in %.3f s: %s", len(lost) + 1, session.conflicts.retries + 1, pause_s, error.what
                )
                session.ctx.clock.sleep_s(pause_s)
    finally:
        session.memory.gives_way = False


def given_up(session: Session, lost: list[Conflict], started_s: float) -> Conflict:
    """Return the last error, with the number of tries and the writes they lost to."""
    last = lost[-1]
    if len(lost) == 1:
        return last
    against: dict[str, str] = {}
    for error in lost:
        if other := error.details.get("other"):
            against[other] = f"{other} of {error.details.get('other_owner') or 'a foreign writer'}"
    seconds = session.ctx.clock.monotonic_s() - started_s
    named = "; ".join(against.values()) or "others"
    return Conflict(
        f"{last.what}. That was try {len(lost)} in {seconds:.1f} s; they lost to {named}",
        table=last.table,
        instant=last.instant,
        expected=last.expected,
        found=last.found,
        next_step=f"{last.next_step} (now {session.conflicts.retries})"
        if last.next_step.endswith("tried")
        else last.next_step,
        **{**last.details, "tries": len(lost), "lost_to": list(against), "seconds": round(seconds, 3)},
    )
