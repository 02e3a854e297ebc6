"""Decide the COMPLETE of any action; writes add to it in `commit.decide.complete`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from hudi_ops.commit.apply.delta_maker import DeltaMaker
from hudi_ops.commit.apply.metadata_delta import RemovalDeltaMaker
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.foreign.foreign_starts import STARTS_WITHIN_S, await_started, is_starting
from hudi_ops.concurrency.transaction import Decided, Prepare
from hudi_ops.errors import Busy, Cancelled, Conflict, Unsupported
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.log.entries import Complete, Entry
from hudi_ops.timeline.log.reserve import newest_known
from hudi_ops.timeline.state import TableState

MAKES_MAX = 50
"""Most times that an attempt makes its metadata delta or child logs again, after changes of the table that affect them."""


@dataclass(frozen=True)
class Body:
    """Completed file of a non-write action.

    Attributes:
        make: returns the bytes of the file for a state and a completion time.
        removed: names of the files that the action deleted, by partition path; the metadata table forgets them.
    """

    make: Callable[[TableState, str], bytes]
    removed: FilesByPartition = field(default_factory=dict)


def complete_action(
    session: Session, attempt: Attempt, body: Body, check: Callable[[TableState], bool | None]
) -> Decided | None:
    """Decide and apply the completion of a non-write action; the caller releases its lease.

    The actions are clean, savepoint, restore, indexing and rollback. `check` is called under the lock and returns False when there
    is nothing to decide.

    Returns:
        The decision, which may have been voided (`Decided.applied`); None when nothing was decided.

    Raises:
        Busy: the lock was not free in time.
        Cancelled: the action was cancelled or taken over; its payloads are deleted.
        OutcomeUnknown: storage did not say whether it was decided; the next write settles that.
    """
    delta = RemovalDeltaMaker(session, attempt, body.removed)
    is_moot = False

    def make(state: TableState) -> None:
        make_delta_of(delta, state)

    if body.removed:
        make(session.loader.load())

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal is_moot
        is_moot = check(state) is False
        if is_moot or (body.removed and not delta.fits(state)):
            return None
        completion = session.next_time(newest_known(state.timeline, state.log) | delta.times, state)
        path = session.put_payload(attempt.instant, slot, body.make(state, completion))
        entry = entry_of(session, attempt, state, completion, path)
        if not body.removed:
            return entry
        return entry.model_copy(update=delta.entry_fields(completion, state))

    try:
        decided = decide_made(
            session, attempt, prepare, make, f"complete {attempt.action} {attempt.instant}", lambda: is_moot
        )
    except Cancelled:
        session.drop_refused_payloads(attempt.instant)
        raise
    if decided is None:
        session.drop_refused_payloads(attempt.instant)
    elif decided.applied:  # if voided, another executor may be about to complete the instant with its own payload
        session.drop_lost_payloads(attempt.instant, decided)
        if isinstance(decided.entry, Complete):
            session.drop_delta(decided.entry)
    return decided


def landed(decided: Decided | None, attempt: Attempt) -> Complete:
    """Return the COMPLETE of a decision that was applied.

    Raises:
        Conflict: it was voided, or another process decided the instant.
    """
    if decided is not None and isinstance(decided.entry, Complete) and decided.applied:
        return decided.entry
    raise Conflict(
        "a foreign writer came between decision and completed file",
        table=attempt.begun.config.name,
        instant=attempt.instant,
        expected="Apache Hudi writers that take the same ZooKeeper lock",
        next_step="run the same call again; check the lock settings of the other writer",
    )


def entry_of(session: Session, attempt: Attempt, state: TableState, completion: str, payload: str) -> Complete:
    """Return the COMPLETE of an attempt at a completion time."""
    return Complete(
        **session.entry(state, f"complete {attempt.instant} {attempt.epoch}"),
        instant=attempt.instant,
        action=attempt.action,
        epoch=attempt.epoch,
        completion_time=completion,
        payload=payload,
    )


def decide_made(
    session: Session,
    attempt: Attempt,
    prepare: Prepare,
    make: Callable[[TableState], None],
    purpose: str,
    is_moot: Callable[[], bool] = lambda: False,
) -> Decided | None:
    """Decide; if prepared files no longer fit the state, call `make` and decide again.

    The prepared files are the metadata delta and the child logs. The delta must be made again after the metadata table's partitions
    changed, the child logs after a resize was planned or cancelled, or another write took their version. `is_moot` returns whether
    `prepare` found nothing to decide; then the result is None.

    Raises:
        Conflict: the state changed `MAKES_MAX` times.
    """
    for _ in range(MAKES_MAX):
        decided = _decide_once_started(session, attempt, prepare, purpose)
        if decided is not None or is_moot():
            return decided
        make(session.loader.load())
    raise Conflict(
        f"metadata partitions or resizes of the table changed {MAKES_MAX} times while this attempt was decided",
        table=attempt.begun.config.name,
        instant=attempt.instant,
        expected="builds, drops and resizes that come to an end",
        next_step="run the same call again once they have",
    )


def make_delta_of(delta: DeltaMaker, state: TableState) -> None:
    """Make an attempt's delta before any decision, so that after a failure the outcome is known.

    Raises:
        Unsupported: its records cannot be made.
    """
    try:
        delta.make(state)
    except (pa.ArrowException, MemoryError, OverflowError) as error:  # other exceptions are bugs
        raise Unsupported(
            f"the metadata table records of this write cannot be made: {error or type(error).__name__}",
            table=state.config.name,
            instant=delta.attempt.instant,
            expected="records that Arrow can hold in memory",
            found=type(error).__name__,
            next_step="write fewer rows at a time; if few rows fail too, report it, and drop the metadata table until it is fixed",
        ) from error


def _decide_once_started(session: Session, attempt: Attempt, prepare: Prepare, purpose: str) -> Decided | None:
    """Decide; release the lock while a foreign writer has a heartbeat but no inflight file.

    Raises:
        Busy: foreign writers kept starting for longer than a heartbeat lasts, or the lock was not free in time.
    """
    until_s = session.ctx.clock.monotonic_s() + 2 * STARTS_WITHIN_S
    while True:
        try:
            return session.decide(prepare, purpose)
        except Busy as error:
            if not is_starting(error) or session.ctx.clock.monotonic_s() >= until_s:
                raise
            await_started(session.ctx, session.loader.load(), attempt.instant)
