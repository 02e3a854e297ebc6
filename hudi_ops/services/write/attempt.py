"""Run one attempt of a write: begin it, keep its lease, and settle or undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hudi_ops.commit.session import Session
from hudi_ops.commit.undo.rollback import rollback_attempt
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.early_conflicts import ConflictWatch
from hudi_ops.concurrency.lease.monitor import LeaseMonitor
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import NOTHING_LANDED
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.state import TableState


@dataclass
class Running:
    """Hold an attempt whose lease is kept.

    Attributes:
        attempt: its instant, and the state that it began from.
        watch: looks for conflicts while data files are written.
        monitor: renews the lease; asked between steps of long work.
        written: paths of the data files that were written, for an undo.
        markers: paths of all its markers, where no other process can have put any; None: they are listed.
    """

    attempt: Attempt
    watch: ConflictWatch
    monitor: LeaseMonitor
    written: list[str] = field(default_factory=list)
    markers: Sequence[str] | None = None


def begin_watched(
    session: Session,
    config: TableConfig,
    operation: WriteOperation,
    intent: Footprint,
    start: TableState | None = None,
) -> tuple[Attempt, ConflictWatch]:
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


@contextmanager
def write_attempt(
    session: Session,
    config: TableConfig,
    operation: WriteOperation,
    intent: Footprint,
    *,
    start: TableState | None = None,
    check: Callable[[Attempt], None] = lambda attempt: None,
) -> Iterator[Running]:
    """Take an instant for an operation, and settle it when the block ends; the block completes it.

    An error that promises that nothing landed undoes the attempt. After any other error it may be visible: `recover` settles it.

    Args:
        session: the table.
        config: its settings.
        operation: what is done.
        intent: what it is going to touch; the timeline says so.
        start: the state as it was read a moment ago; None: it is read.
        check: asked before the block begins; raises if the attempt cannot go on.

    Yields:
        The attempt, with its lease kept.
    """
    attempt, watch = begin_watched(session, config, operation, intent, start)
    written: list[str] = []
    try:
        check(attempt)
        with session.keep(attempt.instant, epoch=attempt.epoch, leased_s=attempt.leased_s) as monitor:
            watch.begin(attempt)
            running = Running(attempt, watch, monitor, written)
            yield running
        session.release(attempt.instant, running.markers)
        after_write(session)
    except NOTHING_LANDED as error:
        rollback_attempt(session, attempt.instant, error, written)
        raise error.at(table=config.name, instant=attempt.instant) from error
