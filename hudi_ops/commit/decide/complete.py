"""Validate a write and decide its COMPLETE entry, without listing partitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hudi_ops.commit.apply.metadata_delta import WriteDeltaMaker
from hudi_ops.commit.checks import refuse_changed_columns, refuse_unfit
from hudi_ops.commit.decide.completion import decide_made, entry_of, landed, make_delta_of
from hudi_ops.commit.decide.plan_cancels import PlanCancels, without_waiting
from hudi_ops.commit.ledger import carried_keys, newest_extra, pointers
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Twin, Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import Contender, Role, refuse_completed, refuse_planned, refuse_running
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers, newest_foreign_completion
from hudi_ops.concurrency.lease.monitor import GAP_S_MAX
from hudi_ops.concurrency.transaction import First
from hudi_ops.formats.avro.schema import to_avro
from hudi_ops.timeline.cancel.policy import ENDING
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import footprint_of
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.entries import Complete, Entry
from hudi_ops.timeline.log.reserve import newest_known
from hudi_ops.timeline.log.unique_keys import may_double, newest_count, why_doubtful
from hudi_ops.timeline.names import REWRITING_ACTIONS, WRITE_ACTIONS, completes_as, instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.timeline.unlogged import unlogged_since
from hudi_ops.view.schema import schema_text, table_schema


@dataclass(frozen=True)
class Ahead:
    """Facts read before the lock: newest extra metadata as of `head`, and inspected instants."""

    head: int
    extra: Mapping[str, str]
    inspected: frozenset[str] = frozenset()


def complete_write(
    session: Session,
    attempt: Attempt,
    write: Write,
    *,
    role: Role = "ingest",
    check: Callable[[TableState], None] = lambda state: None,
    twin: Twin | None = None,
) -> Complete:
    """Decide and apply an attempt's completion; the caller releases its markers and lease.

    Pending plans that the write ends (`Contender.ends`) are cancelled first, under the same lock. If the write fails after that,
    they stay cancelled.

    `role` is `service` for actions that replace file groups, ordered by the session's strategy, and `compaction` for actions that
    merge the slices of a plan, which conflict with no write. `check` is called under the lock and may raise `Conflict`. `twin` adds
    files for pending resizes.

    Raises:
        Conflict: an overlapping write completed first or takes precedence, or the table's settings or columns changed;
            nothing of the attempt is visible.
        Busy: a plan that touches the same file groups is pending.
        Cancelled: the attempt was cancelled, or its heartbeat paused so long that others may have taken it for dead.
        Unsupported: its metadata table records cannot be made.
        OutcomeUnknown: storage did not say whether it was decided; the next write settles that.
    """
    footprint = footprint_of(write.metadata(write.extra), attempt.instant, sources=write.sources)
    mine = Contender(attempt.instant, attempt.action, footprint, role, owner=str(session.ctx.owner))
    ahead = read_ahead(session, attempt, write, mine)
    schema = write.schema or table_schema(attempt.begun.config, attempt.begun.timeline, session.commits)
    delta = WriteDeltaMaker(session, attempt, write, schema)

    def make(state: TableState) -> None:
        if cancels.await_window():
            state = session.loader.load()
        if twin is not None:
            delta.write = twin.made(state)
        make_delta_of(delta, state)

    cancels = PlanCancels(session, mine, is_shared=attempt.is_shared)
    make(attempt.seen or attempt.begun)

    def prepare(state: TableState, slot: int) -> Entry | First | None:
        ended: Sequence[Contender] = ()
        if role == "ingest":
            state = cancels.with_plans_put_back(state)
        refuse_unfit(session, attempt, state)
        check(state)
        if twin is not None and not twin.fits(state):
            return None
        if role != "compaction":
            refuse_changed_columns(session, attempt.begun, state, attempt.instant)
            joined = twin.joined if twin is not None else frozenset()
            ended = cancels.still_to_cancel(
                state, _refuse_conflicts(session, attempt, write, mine, ahead, state, cancels, joined)
            )
        if not delta.fits(state) or cancels.is_in_window(ended):
            return None
        if ended:
            return cancels.next_cancel(state, slot, ended)
        completion = session.next_time(newest_known(state.timeline, state.log) | delta.times, state)
        doubt = _may_double(session, state, write, puts_each_once=delta.puts_each_key_once)
        body = _metadata(attempt.instant, session, state, slot, delta.write, ahead, may_double=doubt).to_bytes()
        entry = entry_of(session, attempt, state, completion, session.put_payload(attempt.instant, slot, body))
        added = delta.entry_fields(completion, state)
        return entry.model_copy(update={**added, **observed_completions(state, completion)})

    with cancels:
        decided = decide_made(session, attempt, prepare, make, f"{write.operation.lower()} {attempt.instant}")
    entry = landed(decided, attempt)
    session.drop_lost_payloads(attempt.instant, decided, alone=attempt.epoch == 0)
    session.drop_delta(entry)
    return entry


def _refuse_conflicts(
    session: Session,
    attempt: Attempt,
    write: Write,
    mine: Contender,
    ahead: Ahead,
    state: TableState,
    cancels: PlanCancels,
    joined: Container[str],
) -> list[Contender]:
    """Check a write against completed, planned and running ones; return the plans that it ends."""
    others, strategy = session.contenders, session.strategy
    refuse_completed(mine, others.completed_since(attempt.begun, mine, state))
    pending = []
    for plan in others.plans(state, mine, _exclusive_plans(write)):
        if plan.instant in joined:
            continue  # the write put its rows into the children, too
        is_shared = plan.on_overlap in ENDING and mine.role == "ingest" and cancels.is_shared(state)
        # Apache Hudi may still execute a cancelled plan while it is on the timeline.
        if not plan.is_cancelled or is_shared:
            pending.append(plan.executed_as_planned() if is_shared else plan)
    refuse_planned(mine, (plan for plan in pending if not mine.ends(plan)), strategy)
    if strategy.looks_at_running(mine.role):
        running = others.running(session.ctx, state, attempt.instant, ahead.inspected)
        refuse_running(mine, without_waiting(session, state, mine, running), strategy)
    return [plan for plan in pending if mine.ends(plan)]


def read_ahead(session: Session, attempt: Attempt, write: Write, mine: Contender) -> Ahead:
    """Read instants before the lock, so that only newer ones are read under it.

    Raises:
        Conflict: a live write takes precedence over this one.
    """
    others, strategy = session.contenders, session.strategy
    inspected: frozenset[str] = frozenset()
    if strategy.looks_at_running(mine.role):
        state = session.loader.load()
        inspected = frozenset(instant.time for instant in state.timeline.pending)
        running = others.running(session.ctx, state, attempt.instant)
        refuse_running(mine, without_waiting(session, state, mine, running), strategy)
    else:
        # Ingestion does not list the timeline again: it did so after its own instant was put there.
        state = attempt.seen or attempt.begun
    if mine.role == "compaction":
        return Ahead(state.log.head, session.newest_extra(state))
    for _ in others.completed_since(attempt.begun, mine, state):
        pass
    for _ in others.plans(state, mine, _exclusive_plans(write), reach_back=True):
        pass
    if session.longest_gap_s(attempt.instant) > GAP_S_MAX / 2:
        # This caches the commits that the same call will need under the lock.
        has_foreign_writers(session.ctx.storage, session.commits, state)
    return Ahead(state.log.head, session.newest_extra(state), inspected)


def _exclusive_plans(write: Write) -> frozenset[str]:
    """Return the planned actions that must complete before a write to their groups.

    For every write these are clusterings: a foreign one replaces its input groups as planned and would lose later rows. For a write
    that replaces groups they include compactions: they read slices of replaced groups, which a clean may have removed.
    """
    return frozenset({"clustering"}) if write.replaced is None else REWRITING_ACTIONS


def _newest_extra(session: Session, state: TableState, ahead: Ahead) -> Mapping[str, str]:
    """Return `Session.newest_extra`; after foreign archiving, without reading the whole log."""
    extra = newest_extra(session.ctx.storage, session.commits, state.timeline)
    if extra is not None:
        return extra
    since = [
        entry
        for slot, entry in state.log.completes()
        if slot > ahead.head and completes_as(entry.action) in WRITE_ACTIONS
    ]
    if not since:
        return ahead.extra
    return CommitMetadata.from_bytes(session.ctx.storage.get(since[-1].payload), since[-1].payload).extra


def _may_double(session: Session, state: TableState, write: Write, *, puts_each_once: bool) -> bool | None:
    """Return whether a key may be in two file groups after the write; None: no record index."""
    if state.log.properties.facts.index != "record_index":
        return None

    if may_double(write.operation, is_ours=True) and not (puts_each_once and _is_empty(session, state)):
        return True
    return why_doubtful(session.commits, state.timeline, lambda: newest_count(state.log)) != ""


def _is_empty(session: Session, state: TableState) -> bool:
    """Return whether a table created by hudi_ops has only its first, empty commit."""
    metadata = [session.commits.metadata(state.timeline, write) for write in state.timeline.completed_writes[:2]]
    pointer = Pointer.decode(metadata[0].extra) if len(metadata) == 1 and metadata[0] is not None else None
    return pointer is not None and pointer.slot == 1


def _metadata(
    instant: str, session: Session, state: TableState, slot: int, write: Write, ahead: Ahead, *, may_double: bool | None
) -> CommitMetadata:
    # The stored schema text is carried over, since Arrow does not represent enums, defaults and comments.
    schema = schema_text(state.config, state.timeline, session.commits)[0]
    if write.schema is not None:
        schema = json.dumps(to_avro(write.schema, state.config.name), separators=(",", ":"))
    foreign = newest_foreign_completion(session.commits, state)
    log, before = state.log, _newest_extra(session, state, ahead)
    shared = is_shared_table(session, state, foreign, before)
    pointer = Pointer(log.table_id, slot, log.properties_slot, log.archive_slot, foreign, may_double, shared)
    carried = {"schema": schema, **carried_keys(session.commits, state.timeline, instant), **pointers(before)}
    return write.metadata({**carried, **write.extra, POINTER_KEY: pointer.encode()})


def is_shared_table(session: Session, state: TableState, foreign: str, before: Mapping[str, str]) -> bool:
    """Return whether a foreign writer has ever written the table.

    `foreign` is the completion time of the newest foreign write among recent writes, empty without one; `before` is the newest
    commit's extra metadata.
    """
    if foreign or session.commits.was_adopted(state.log):
        return True
    pointer = Pointer.decode(before)
    return pointer is not None and pointer.shared


SEEN_MS = 10 * 60 * 1000
SEEN_MAX = 64
"""Span in ms below the completion time, and largest number, of observed completions in a COMPLETE."""


def observed_completions(state: TableState, completion_time: str) -> dict[str, Any]:
    """Return what a write's decider saw, from which appliers detect later completions.

    Completions in the log are not repeated. If a clock lags by more than ten minutes, or more than `SEEN_MAX` foreign writes
    completed in that time, appliers detect fewer later completions, but raise no false alarms. Source: docs/protocol §6.
    """
    since = instant_of_ms(ms_of_instant(completion_time) - SEEN_MS)
    newest_first = (write for write in unlogged_since(state, since) if write.completion_time > since)
    recent = sorted((write.completion_time, write.time) for write in islice(newest_first, SEEN_MAX + 1))
    if len(recent) > SEEN_MAX:
        since = recent[0][0]
    plans = [instant.time for instant in state.timeline.pending if instant.action in REWRITING_ACTIONS]
    return {"seen": (*(time for _, time in recent[-SEEN_MAX:]), *plans), "seen_from": since}
