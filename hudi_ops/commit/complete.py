"""The commit of a write: validate against what completed meanwhile, and decide its COMPLETE entry. No partition is listed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.commit.apply.metadata_delta import DeltaMaker
from hudi_ops.commit.checks import refuse_changed_columns, refuse_unfit
from hudi_ops.commit.ledger import pointers
from hudi_ops.commit.observed import observed_completions
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import (
    Contender,
    Role,
    refuse_completed,
    refuse_planned,
    refuse_running,
)
from hudi_ops.concurrency.foreign.foreign_starts import STARTS_WITHIN_S, await_started, is_starting
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers, newest_foreign_completion
from hudi_ops.concurrency.lease.monitor import GAP_S_MAX
from hudi_ops.concurrency.transaction import Decided, Prepare
from hudi_ops.errors import Busy, Cancelled, Conflict, Unsupported
from hudi_ops.formats.avro.schema import to_avro
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import footprint_of
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.entries import Complete, Entry
from hudi_ops.timeline.log.reserve import known_times
from hudi_ops.timeline.log.unique_keys import may_double, newest_count, why_doubtful
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import schema_text, table_schema

METADATA_TRIES = 10
"""How often the metadata table may change under one write before it gives up; each change is somebody's build or drop."""


@dataclass(frozen=True)
class Body:
    """What an action other than a write completes with.

    Attributes:
        make: returns the bytes of the completed file, from the state in which it is decided and its completion time.
    """

    make: Callable[[TableState, str], bytes]


@dataclass(frozen=True)
class Ahead:
    """What was read before the lock: the newest extra metadata as of `head`, and whom a service looked at already."""

    head: int
    extra: Mapping[str, str]
    looked_at: frozenset[str] = frozenset()


def complete_write(
    session: Session,
    attempt: Attempt,
    write: Write,
    *,
    role: Role = "ingest",
    check: Callable[[TableState], None] = lambda state: None,
) -> Complete:
    """Decide that an attempt's files count, and apply it; its markers and lease are the caller's to clear.

    Args:
        session: the table.
        attempt: whose files they are.
        write: what completes.
        role: `service` for what replaces file groups: the session's strategy says to whom it gives way; `compaction` for what
            merges the slices of a plan, which meets nobody.
        check: what a service itself asks of the state in which it completes, raising `Conflict`; called under the lock.

    Raises:
        Conflict: something that overlaps completed first or has to be given way to, or the table's settings or columns changed;
            nothing of the attempt is visible.
        Busy: a plan that touches the same file groups is pending.
        Cancelled: somebody cancelled the attempt, or may take it for dead.
        Unsupported: what it adds to the metadata table cannot be made.
        OutcomeUnknown: decided or not; the next write settles it.
    """
    footprint = footprint_of(write.metadata(write.extra), sources=write.sources)
    mine = Contender(attempt.instant, attempt.action, footprint, role, owner=str(session.ctx.owner))
    ahead = read_ahead(session, attempt, write, mine)
    schema = write.schema or table_schema(attempt.begun.config, attempt.begun.timeline, session.commits)
    delta = DeltaMaker(session, attempt, write, schema)
    _make_delta(delta, attempt.seen or attempt.begun)

    def prepare(state: TableState, slot: int) -> Entry | None:
        refuse_unfit(session, attempt, state)
        check(state)
        if role != "compaction":
            refuse_changed_columns(session, attempt.begun, state, attempt.instant)
            _refuse_met(session, attempt, write, mine, ahead, state)
        if not delta.fits(state):
            return None
        completion = session.next_time(known_times(state.timeline, state.log) | delta.times, state)
        doubt = _may_double(session, state, write, puts_each_once=delta.puts_each_key_once)
        body = _metadata(session, state, slot, write, ahead, may_double=doubt).to_bytes()
        entry = _entry(session, attempt, state, completion, session.put_payload(attempt.instant, slot, body))
        added = {"metadata": delta.path_at(completion, state), "metadata_seen": delta.seen_at(completion)}
        return entry.model_copy(update={**added, **observed_completions(state, completion)})

    decided = _decided(session, attempt, prepare, delta, f"{write.operation.lower()} {attempt.instant}")
    entry = landed(decided, attempt)
    session.drop_lost_payloads(attempt.instant, decided, alone=attempt.epoch == 0)
    session.drop_delta(entry)
    return entry


def complete_action(
    session: Session, attempt: Attempt, body: Body, check: Callable[[TableState], bool | None]
) -> Decided | None:
    """Decide that an action other than a write is complete, and apply it: clean, savepoint, restore, indexing, rollback.

    Its lease and markers are the caller's to clear.

    Args:
        session: the table.
        attempt: whose action.
        body: makes the completed file.
        check: checks the state in which it is decided, and returns False where there is nothing to decide. Called under the lock.

    Returns:
        The decision, which may have been voided (`Decided.applied`); None where there was nothing to decide.

    Raises:
        Busy: the lock was not free in time.
        Cancelled: the action was cancelled or taken over; its payloads are gone.
        OutcomeUnknown: storage did not say whether it was decided; the next write settles that.
    """

    def prepare(state: TableState, slot: int) -> Entry | None:
        if check(state) is False:
            return None
        completion = session.next_time(known_times(state.timeline, state.log), state)
        path = session.put_payload(attempt.instant, slot, body.make(state, completion))
        return _entry(session, attempt, state, completion, path)

    try:
        decided = _decide_once_started(session, attempt, prepare, f"complete {attempt.action} {attempt.instant}")
    except Cancelled:
        session.drop_refused_payloads(attempt.instant)
        raise
    if decided is None:
        session.drop_refused_payloads(attempt.instant)
    elif decided.applied:  # else another executor may be about to complete it with a payload of its own
        session.drop_lost_payloads(attempt.instant, decided)
    return decided


def landed(decided: Decided | None, attempt: Attempt) -> Complete:
    """Return the COMPLETE of a decision that was applied.

    Raises:
        Conflict: it was voided, or another process decided the instant.
    """
    if decided is not None and isinstance(decided.entry, Complete) and decided.applied:
        return decided.entry
    raise Conflict(
        "a writer without the commit log came between decision and completed file",
        table=attempt.begun.config.name,
        instant=attempt.instant,
        expected="Apache Hudi writers that take the same ZooKeeper lock",
        next_step="run the same call again; check the lock settings of the other writer",
    )


def _entry(session: Session, attempt: Attempt, state: TableState, completion: str, payload: str) -> Complete:
    return Complete(
        **session.entry(state, f"complete {attempt.instant} {attempt.epoch}"),
        instant=attempt.instant,
        action=attempt.action,
        epoch=attempt.epoch,
        completion_time=completion,
        payload=payload,
    )


def _decided(session: Session, attempt: Attempt, prepare: Prepare, delta: DeltaMaker, purpose: str) -> Decided:
    """Decide, and make the delta anew each time the metadata table is not the one any more that it was made for.

    Raises:
        Conflict: it changed again and again.
    """
    for _ in range(METADATA_TRIES):
        decided = _decide_once_started(session, attempt, prepare, purpose)
        if decided is not None:
            return decided
        _make_delta(delta, session.loader.load())
    raise Conflict(
        f"the metadata table got or lost partitions {METADATA_TRIES} times while this attempt was decided",
        table=attempt.begun.config.name,
        instant=attempt.instant,
        expected="builds and drops that come to an end",
        next_step="run the same call again once they have",
    )


def _make_delta(delta: DeltaMaker, state: TableState) -> None:
    """Make an attempt's delta; nothing is decided by then, so that whatever fails is certain.

    Raises:
        Unsupported: its records cannot be made.
    """
    try:
        delta.make(state)
    except (pa.ArrowException, MemoryError, OverflowError) as error:  # a mistake of ours is to look like one
        raise Unsupported(
            f"what this write adds to the metadata table cannot be made: {error or type(error).__name__}",
            table=state.config.name,
            instant=delta.attempt.instant,
            expected="records that Arrow can hold in memory",
            found=type(error).__name__,
            next_step="write fewer rows at a time; if it repeats with few, report it, and drop the metadata table meanwhile",
        ) from error


def _refuse_met(
    session: Session, attempt: Attempt, write: Write, mine: Contender, ahead: Ahead, state: TableState
) -> None:
    """Check a write against all that it may not pass.

    Raises:
        Conflict: something that overlaps completed first, or has to be given way to.
        Busy: a plan that touches the same file groups is pending.
    """
    others, strategy = session.contenders, session.strategy
    refuse_completed(mine, others.completed_since(attempt.begun, mine, state))
    refuse_planned(mine, others.plans(state, mine, _waited_for(write)), strategy)
    if strategy.looks_at_running(mine.role):
        refuse_running(mine, others.running(session.ctx, state, attempt.instant, ahead.looked_at), strategy)


def _decide_once_started(session: Session, attempt: Attempt, prepare: Prepare, purpose: str) -> Decided | None:
    """Decide, with the lock given back while a writer of Apache Hudi is starting.

    Raises:
        Busy: one after the other has begun for longer than a heartbeat lasts; or the lock was not to be had.
    """
    until_s = session.ctx.clock.monotonic_s() + 2 * STARTS_WITHIN_S
    while True:
        try:
            return session.decide(prepare, purpose)
        except Busy as error:
            if not is_starting(error) or session.ctx.clock.monotonic_s() >= until_s:
                raise
            await_started(session.ctx, session.loader.load(), attempt.instant)


def read_ahead(session: Session, attempt: Attempt, write: Write, mine: Contender) -> Ahead:
    """Read before the lock whatever can be: under it, only what appeared since is left to read.

    Raises:
        Conflict: a live write is under way to which this one gives way.
    """
    others, strategy = session.contenders, session.strategy
    looked_at: frozenset[str] = frozenset()
    if strategy.looks_at_running(mine.role):
        state = session.loader.load()
        looked_at = frozenset(one.time for one in state.timeline.pending)
        refuse_running(mine, others.running(session.ctx, state, attempt.instant), strategy)
    else:
        # For ingestion not even a listing: it was read when the attempt was put on the timeline.
        state = attempt.seen or attempt.begun
    if mine.role == "compaction":
        return Ahead(state.log.head, session.newest_extra(state))
    for _ in others.completed_since(attempt.begun, mine, state):
        pass
    for _ in others.plans(state, mine, _waited_for(write), reach_back=True):
        pass
    if session.longest_gap_s(attempt.instant) > GAP_S_MAX / 2:
        # It may be asked under the lock: the commits that it reads are known by then.
        has_foreign_writers(session.ctx.storage, session.commits, state)
    return Ahead(state.log.head, session.newest_extra(state), looked_at)


def _waited_for(write: Write) -> frozenset[str]:
    """A clustering that Apache Hudi planned will replace its input groups as they were: what is written to them now would be lost.

    A compaction would read what a replaced group holds, which a cleaner may have removed by then.
    """
    return frozenset({"clustering"}) if write.replaced is None else REWRITING_ACTIONS


def _newest_extra(session: Session, state: TableState, ahead: Ahead) -> Mapping[str, str]:
    """As `Session.newest_extra`, without reading the whole log under the lock where a foreign archiver took our commits away."""
    newest = session.commits.newest_with(state.timeline, POINTER_KEY)
    if newest is not None:
        return newest.extra
    since = [entry for slot, entry in state.log.completes() if slot > ahead.head and entry.action != "rollback"]
    if not since:
        return ahead.extra
    return CommitMetadata.from_bytes(session.ctx.storage.get(since[-1].payload), since[-1].payload).extra


def _may_double(session: Session, state: TableState, write: Write, *, puts_each_once: bool) -> bool | None:
    """Whether a record key may lie in two file groups once the write has completed; None where no reader asks that."""
    if state.log.properties.facts.index != "record_index":
        return None

    if may_double(write.operation, is_ours=True) and not (puts_each_once and _is_empty(session, state)):
        return True
    return why_doubtful(session.commits, state.timeline, lambda: newest_count(state.log)) != ""


def _is_empty(session: Session, state: TableState) -> bool:
    """Whether no write has put rows into a table of ours: its first commit is on the timeline, and none has files."""
    metadata = [session.commits.metadata(state.timeline, one) for one in state.timeline.completed_writes[:2]]
    pointer = Pointer.decode(metadata[0].extra) if len(metadata) == 1 and metadata[0] is not None else None
    return pointer is not None and pointer.slot == 1


def _metadata(
    session: Session, state: TableState, slot: int, write: Write, ahead: Ahead, *, may_double: bool | None
) -> CommitMetadata:
    carried = pointers(_newest_extra(session, state, ahead))
    # Carried over as it is written, with what Arrow does not know of: enums, defaults, comments.
    schema = schema_text(state.config, state.timeline, session.commits)[0]
    if write.schema is not None:
        schema = json.dumps(to_avro(write.schema, state.config.name), separators=(",", ":"))
    stranger = newest_foreign_completion(session.commits, state)
    log = state.log
    pointer = Pointer(log.table_id, slot, log.properties_slot, log.archive_slot, stranger, may_double)
    extra = {
        "schema": schema,
        **carried,
        **write.extra,
        POINTER_KEY: pointer.encode(),
    }
    return write.metadata(extra)
