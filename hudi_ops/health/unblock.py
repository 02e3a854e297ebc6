"""Name the command that ends a pending instant which stands in the way of a service."""

from __future__ import annotations

from hudi_ops.health.look import Look
from hudi_ops.services.cancel.endings import Words, ending_words
from hudi_ops.services.cancel.pending_plans import time_of
from hudi_ops.services.recovery.ended_writers import LATE_MS
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import SERVICE_ACTIONS, State

ABANDONED = "make sure that the other program has ended: --abandoned and --force state that"


def end_of(look: Look, instant: Instant) -> Words:
    """Return the words of the command that ends a pending instant.

    They are empty while a live process works on it, or while a program without heartbeats may (`changes_ms`).
    """
    if changes_ms(look, instant) is not None:
        return ()
    ctx = look.session.ctx
    return ending_words(ctx.storage, look.state, instant, look.lease_of(instant.time), ctx.clock)


def changes_ms(look: Look, instant: Instant) -> int | None:
    """Return the time from which an instant counts as left, in ms since 1970.

    None: it does already, or it is a plan that no process began.

    A lease has its own time. A program without heartbeats has ten minutes from the request.
    """
    lease = look.lease_of(instant.time)
    if lease is not None:
        return None if lease.is_dead(look.session.ctx.clock) else lease.expires_ms + 1
    is_plan = instant.action in SERVICE_ACTIONS and State.INFLIGHT not in instant.states
    late_ms = (time_of(look.state, instant.time) or 0) + LATE_MS
    return None if is_plan or late_ms < look.now_ms else late_ms + 1


def is_abandoned(words: Words) -> bool:
    """Return whether a command states that another program has ended."""
    return bool({"--abandoned", "--force"} & {*words})
