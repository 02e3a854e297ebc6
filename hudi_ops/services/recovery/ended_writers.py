"""Find writers that ended without a completion: dead leases, and writes without a heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hudi_ops.clock import Clock
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import Lease
from hudi_ops.services.cancel.endings import ending_words
from hudi_ops.services.cancel.pending_plans import time_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import SERVICE_ACTIONS, WRITE_ACTIONS
from hudi_ops.timeline.state import TableState

LATE_MS = 600_000
"""Time after the end of a writer, in ms, before which it is not late: the next write recovers the table."""

KEPT_MAX = 4
"""Most writers of each kind that are described; of the others only the number is kept."""

RECOVER: tuple[str, ...] = ("recover", "TABLE")
"""Command that clears what dead writers left; `TABLE` stands for the table."""


@dataclass(frozen=True)
class EndedWriter:
    """A writer that ended, or will have ended unless it beats again.

    Attributes:
        instant: its request time.
        action: of its instant; empty: the instant is not on the timeline.
        owner: process of its lease; empty: unknown.
        late_ms: time from which it is late, in ms since 1970.
        command: words of the command that clears what it left, with `TABLE` for the table.
    """

    instant: str
    action: str
    owner: str
    late_ms: int
    command: tuple[str, ...]


@dataclass(frozen=True)
class EndedWriters:
    """Writers that ended.

    Attributes:
        dead: writers with a lease, at most `KEPT_MAX`; the first one is late first.
        silent: writers of pending instants without a lease, likewise.
        others_dead: number of further writers whose lease is late at the time of the look.
        others_silent: number of further instants that are.
        changes_ms: next time at which one of these two numbers grows, in ms since 1970; None: it does not.
    """

    dead: tuple[EndedWriter, ...]
    silent: tuple[EndedWriter, ...]
    others_dead: int
    others_silent: int
    changes_ms: int | None


def ended_writers(
    session: Session, state: TableState, leases: Mapping[str, Lease], unread: Mapping[str, Lease], now_ms: int
) -> EndedWriters:
    """Return the writers that ended, and those that count as ended once their lease expires.

    A lease of a pending plan is left out: the plan waits for its next executor, and its age is measured. A pending write without a
    lease is silent: Apache Hudi makes heartbeats only where failed writes are cleaned lazily.

    Args:
        session: of this process.
        state: of the table.
        leases: those that were read.
        unread: further leases, known by the times of their files alone.
        now_ms: time of the look, in ms since 1970.
    """
    plans = {one.time for one in state.timeline.pending if one.action in SERVICE_ACTIONS}
    dead = [(_late_ms(lease, session.ctx.clock), instant) for instant, lease in leases.items() if instant not in plans]
    others = [lease.expires_ms + LATE_MS for instant, lease in unread.items() if instant not in plans]
    silent = [
        ((time_of(state, one.time) or 0) + LATE_MS, one)
        for one in state.timeline.pending
        if _may_be_silent(state, one) and one.time not in leases and one.time not in unread
    ]
    more = [late_ms for late_ms, _ in silent[KEPT_MAX:]]
    return EndedWriters(
        tuple(_of_lease(session, state, late_ms, leases[instant]) for late_ms, instant in sorted(dead)[:KEPT_MAX]),
        tuple(
            EndedWriter(
                one.time,
                one.action,
                "",
                late_ms,
                ending_words(session.ctx.storage, state, one, None, session.ctx.clock),
            )
            for late_ms, one in silent[:KEPT_MAX]
        ),
        sum(now_ms > late_ms for late_ms in (*others, *(late_ms for late_ms, _ in sorted(dead)[KEPT_MAX:]))),
        sum(now_ms > late_ms for late_ms in more),
        min((late_ms + 1 for late_ms in (*others, *more) if late_ms >= now_ms), default=None),
    )


def _late_ms(lease: Lease, clock: Clock) -> int:
    """Return the time from which a lease is late, unless it is renewed.

    A process that ended on this machine needs no expiry.
    """
    has_ended = lease.is_dead(clock) and clock.now_ms() <= lease.expires_ms
    return (lease.beaten_ms if has_ended else lease.expires_ms) + LATE_MS


def _of_lease(session: Session, state: TableState, late_ms: int, lease: Lease) -> EndedWriter:
    pending = next((one for one in state.timeline.by_time.get(lease.instant, ()) if not one.is_completed), None)
    command = RECOVER
    # By then its writer has ended.
    if pending is not None and pending.action in {"restore", "rollback"}:
        dead = replace(lease, has_ended=True)
        command = ending_words(session.ctx.storage, state, pending, dead, session.ctx.clock)
    action = pending.action if pending is not None else ""
    owner = str(lease.owner) if lease.owner is not None else "a writer of Apache Hudi"
    return EndedWriter(lease.instant, action, owner, late_ms, command)


def _may_be_silent(state: TableState, pending: Instant) -> bool:
    """Return whether a pending instant is silent if it has no lease.

    Recovery finishes an instant that a slot decided.
    """
    is_write = pending.action in WRITE_ACTIONS | {"rollback", "restore"}
    return is_write and pending.time not in state.log.completed
