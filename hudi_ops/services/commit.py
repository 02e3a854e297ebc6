"""The commit of a write: validate against what completed meanwhile, and decide its COMPLETE entry. No partition is listed here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import refuse_changed_properties, refuse_overlap
from hudi_ops.concurrency.fate import refuse_settled
from hudi_ops.concurrency.keeper import refuse_starved
from hudi_ops.errors import Busy, Conflict, Corrupt
from hudi_ops.formats.avro_schema import to_arrow, to_avro
from hudi_ops.services.ledger import TAKEN_KEY, pointers
from hudi_ops.services.session import Session
from hudi_ops.services.strangers import is_shared
from hudi_ops.services.void import seen_by
from hudi_ops.timeline.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.entries import Complete, Entry
from hudi_ops.timeline.footprint import BUCKET_DIGITS, Footprint, footprint_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.plans import CompactionPlan, Plan, PlannedSlice, ReplacePlan, read_plan
from hudi_ops.timeline.reserve import known_times, next_after
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import schema_text


@dataclass(frozen=True)
class Write:
    """What an attempt wants to complete: its operation as Apache Hudi names it, its files, its extra metadata, and its schema.

    `replaced` are the file ids that it hides, by partition path; None for all but replace commits. `schema` holds the table's
    columns from this write on; None: as they are, word for word.
    """

    operation: str
    stats: Sequence[WriteStat]
    extra: Mapping[str, str] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    replaced: Mapping[str, tuple[str, ...]] | None = None
    schema: pa.Schema | None = None

    def metadata(self, extra: Mapping[str, str]) -> CommitMetadata:
        """What the completed file says."""
        return CommitMetadata(operation=self.operation, stats=tuple(self.stats), extra=extra, replaced=self.replaced)


def complete_write(session: Session, attempt: Attempt, write: Write) -> Complete:
    """Decide that an attempt's files count, and apply it; its markers and lease are the caller's to clear.

    Raises:
        Conflict: something that overlaps completed first, or the table's settings or columns changed; nothing of the attempt is
            visible.
        Busy: a plan of Apache Hudi that touches the same file groups is pending.
        Cancelled: somebody cancelled the attempt, or may take it for dead.
        OutcomeUnknown: decided or not; the next write settles it.
    """
    footprint = footprint_of(write.metadata({}), sources=write.sources)

    def prepare(state: TableState, slot: int) -> Entry | None:
        refuse_settled(session.ctx.storage, attempt, state)
        refuse_starved(session.longest_gap_s(attempt.instant), partial(is_shared, session, state), attempt.instant)
        refuse_changed_properties(attempt.begun.config.raw, state.config.raw, attempt.instant)
        _refuse_vanished(attempt, state)
        _refuse_changed_schema(session, attempt, state)
        refuse_overlap(footprint, attempt.instant, _completed_since(session, attempt, state))
        _refuse_pending(session, write, footprint, attempt, state)
        now_ms = session.ctx.clock.now_ms()
        completion = next_after(known_times(state.timeline, state.log), now_ms, state.config.name, state.zone)
        body = _metadata(session, state, slot, write).to_bytes()
        payload = session.put_payload(attempt.instant, slot, body)
        return Complete(
            **session.entry(state, f"complete {attempt.instant} {attempt.epoch}"),
            instant=attempt.instant,
            action=attempt.action,
            epoch=attempt.epoch,
            completion_time=completion,
            payload=payload,
            **seen_by(state, completion),
        )

    decided = session.decide(prepare, f"{write.operation.lower()} {attempt.instant}")
    if decided is None or not isinstance(decided.entry, Complete) or not decided.applied:
        raise Conflict(
            "a writer without the commit log came between decision and completed file",
            table=attempt.begun.config.name,
            instant=attempt.instant,
            expected="Apache Hudi writers that take the same ZooKeeper lock",
            next_step="run the same call again; check the lock settings of the other writer",
        )
    session.drop_lost_payloads(attempt.instant, decided, alone=attempt.epoch == 0)
    return decided.entry


def _metadata(session: Session, state: TableState, slot: int, write: Write) -> CommitMetadata:
    carried = pointers(session.newest_extra(state))
    # Carried over as it is written, with what Arrow does not know of: enums, defaults, comments.
    schema = schema_text(state.config, state.timeline, session.commits)[0]
    if write.schema is not None:
        schema = json.dumps(to_avro(write.schema, state.config.name), separators=(",", ":"))
    pointer = Pointer(state.log.table_id, slot, state.log.properties_slot, state.log.archive_slot)
    extra = {
        "schema": schema,
        **carried,
        **write.extra,
        POINTER_KEY: pointer.encode(),
    }
    return write.metadata(extra)


def _refuse_vanished(attempt: Attempt, state: TableState) -> None:
    """A restore, or a rollback of a completed write, takes away what this attempt was built upon.

    Raises:
        Conflict: a write that had completed when the attempt began is gone, and was not archived.
    """
    now = {(one.time, one.completion_time) for one in state.timeline.completed_writes}
    for instant in attempt.begun.timeline.completed_writes:
        if instant.time >= state.timeline.start and (instant.time, instant.completion_time) not in now:
            raise Conflict(
                f"{instant.action} {instant.time}, upon which this attempt was built, was undone meanwhile",
                table=state.config.name,
                instant=attempt.instant,
                next_step="run the same call again: it starts from the table as it is now",
            )


def _refuse_changed_schema(session: Session, attempt: Attempt, state: TableState) -> None:
    """The attempt's rows were read, and its files written, in the columns that the table had when it began.

    Raises:
        Conflict: another write changed them since.
    """
    begun = attempt.begun
    texts = [schema_text(one.config, one.timeline, session.commits) for one in (begun, state)]
    if texts[0][0] == texts[1][0]:
        return
    before, now = (to_arrow(*text) for text in texts)
    if not now.equals(before):
        changed = [field.name for field in now if field.name not in before.names or field != before.field(field.name)]
        raise Conflict(
            "the table's columns changed since the attempt began",
            table=state.config.name,
            instant=attempt.instant,
            found=", ".join(changed) or "another order, or fewer",
            next_step="run the same call again: it starts from the table as it is now",
        )


def _refuse_pending(session: Session, write: Write, footprint: Footprint, attempt: Attempt, state: TableState) -> None:
    """A clustering that Apache Hudi planned will replace its input groups as they were: what is written to them now would be lost.

    A compaction would read what a replaced group holds, which a cleaner may have removed by then.

    Raises:
        Busy: the plan touches what this attempt wrote or replaces, or cannot be read.
    """
    waited_for = {"clustering"} if write.replaced is None else {"clustering", "compaction", "logcompaction"}
    for instant in state.timeline.pending:
        if instant.action not in waited_for:
            continue
        try:
            plan = read_plan(session.ctx.storage, state.timeline, instant)
        except Corrupt:
            plan = None
        slices = _inputs(plan)
        inputs = frozenset((one.partition_path, one.file_id[:BUCKET_DIGITS]) for one in slices or ())
        if slices is None or footprint.overlap(Footprint(inputs)):
            raise Busy(
                f"{instant.action} {instant.time} is pending on the same file groups",
                table=state.config.name,
                instant=attempt.instant,
                expected="no pending plan that replaces what this write touches",
                found="a plan that cannot be read" if slices is None else f"{len(inputs)} input groups",
                next_step=f"let Apache Hudi execute or roll back the {instant.action}, then run the same call again",
            )


def _inputs(plan: Plan | None) -> list[PlannedSlice] | None:
    """File groups that a plan works on; None when there is none that can be read."""
    if isinstance(plan, ReplacePlan):
        return [one for group in plan.groups for one in group]
    return list(plan.slices) if isinstance(plan, CompactionPlan) else None


def _completed_since(
    session: Session, attempt: Attempt, state: TableState
) -> Iterator[tuple[Instant, Footprint | None]]:
    """(instant, footprint) of every write that completed since the attempt began, with a slot or without."""
    seen = {(one.time, one.completion_time) for one in attempt.begun.timeline.completed_writes}
    for instant in state.timeline.completed_writes:
        if (instant.time, instant.completion_time) in seen:
            continue
        metadata = session.commits.metadata(state.timeline, instant)
        if metadata is None:
            yield instant, None
            continue
        taken = metadata.extra.get(TAKEN_KEY)
        sources = frozenset({taken}) if taken else frozenset()
        yield instant, footprint_of(metadata, sources=sources)
