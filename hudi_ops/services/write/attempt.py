"""Run one attempt of a write: begin it, keep its lease, and release or undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hudi_ops.commit.recover.rollback import rollback_attempt
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.early_conflicts import ConflictWatch
from hudi_ops.concurrency.lease.monitor import LeaseMonitor
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import NOTHING_LANDED, HudiOpsError
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.state import TableState


@dataclass
class Running:
    """An attempt whose lease is kept.

    Attributes:
        attempt: its instant, and the state that it began from.
        watch: looks for conflicts while data files are written.
        monitor: renews the lease; checked between steps of long work.
        written: paths of the data files that were written, for an undo.
        markers: paths of all its markers, if no other process can have put any; None: they are listed.
        is_refused: an error ended it before its first data file.
    """

    attempt: Attempt
    watch: ConflictWatch
    monitor: LeaseMonitor
    written: list[str] = field(default_factory=list)
    markers: Sequence[str] | None = None
    is_refused: bool = False

    @contextmanager
    def before_files(self) -> Iterator[None]:
        """Have the attempt undone after any error of the block, which puts no data file.

        Raises:
            HudiOpsError: that of the block.
        """
        try:
            yield
        except HudiOpsError:
            self.is_refused = True
            raise


def begin_watched(
    session: Session,
    config: TableConfig,
    operation: WriteOperation,
    intent: Footprint,
    start: TableState | None = None,
) -> tuple[Attempt, ConflictWatch]:
    """Take an instant for an operation, and put it on the timeline.

    `start` is a state that was read a moment ago. The returned watch must begin once the lease is kept.
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
    """Take an instant for an operation, and yield the attempt with its lease kept.

    The block completes the instant. An error of `NOTHING_LANDED` undoes the attempt, and so does any error within
    `Running.before_files`. After another error it may be visible, and `recover` decides. `start` is a state that was read a moment
    ago; `check` runs before the block and raises if the attempt cannot go on.

    Raises:
        HudiOpsError: that of the block.
    """
    attempt, watch = begin_watched(session, config, operation, intent, start)
    running = None
    written: list[str] = []
    try:
        check(attempt)
        with session.keep(attempt.instant, epoch=attempt.epoch, leased_s=attempt.leased_s) as monitor:
            watch.begin(attempt)
            running = Running(attempt, watch, monitor, written)
            yield running
        session.release(attempt.instant, running.markers)
        after_write(session)
    except HudiOpsError as error:
        if not isinstance(error, NOTHING_LANDED) and (running is None or not running.is_refused):
            raise
        rollback_attempt(session, attempt.instant, error, written)
        raise error.at(table=config.name, instant=attempt.instant) from error
