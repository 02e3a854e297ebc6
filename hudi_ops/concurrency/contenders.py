"""Who else writes: what completed since an attempt began, which plans are pending, and which live writes are under way.

Found on the timeline and in the log, so that Apache Hudi's writes count too. What never changes is read once: under the lock one
read is left for each completion and each plan that was not seen before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from hudi_ops.concurrency.conflicts import Contender, Role
from hudi_ops.concurrency.lease.lease import Lease, read_lease
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.context import TableContext
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import (
    BUCKET_DIGITS,
    Footprint,
    Intent,
    decode_footprint,
    footprint_of,
    inputs_of,
    intent_of,
)
from hudi_ops.timeline.content.plans import read_plan
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Pointer, read_slot
from hudi_ops.timeline.log.entries import Cancel, Complete
from hudi_ops.timeline.log.entries import Plan as PlanEntry
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.names import MERGING_ACTIONS, REWRITING_ACTIONS, WRITE_ACTIONS, State, inflight_name
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import CommitReader, TableState


@dataclass
class ContenderReader:
    """Reads what other writes touch, each file once. What could not be read whole is read again: it may be half-written."""

    storage: Storage
    commits: CommitReader
    _plans: dict[str, Footprint] = field(default_factory=dict)
    _intents: dict[str, Intent] = field(default_factory=dict)
    _published: dict[str, PlanEntry] = field(default_factory=dict)

    def completed_since(self, begun: TableState, mine: Contender, now: TableState) -> Iterator[Contender]:
        """Every write that completed since an attempt began, with a slot or without, in no order; ingestion does not meet merges.

        Args:
            begun: the state that the attempt began from.
            mine: the attempt. A plan's instant lies above every time known when it was published: what completed after it was not
                seen by the plan, whenever its execution began.
            now: what is looked at.
        """
        instant = mine.instant
        seen = begun.timeline.completions
        owners = {entry.instant: entry.owner for _, entry in now.log.completes()}
        for one in now.timeline.completed_writes:
            if one.time == instant or lies_behind(one, seen, instant):
                continue
            metadata = self.commits.metadata(now.timeline, one)
            if mine.role == "ingest" and metadata is not None and metadata.is_merge:
                continue
            path = now.timeline.path(one.file_name)
            pointer = Pointer.decode(metadata.extra, path) if metadata is not None else None
            found = Contender(
                one.time,
                one.action,
                footprint_of(metadata) if metadata is not None else None,
                "service" if one.action in REWRITING_ACTIONS else "ingest",
                "completed",
                owners.get(one.time, ""),
                one.completion_time,
                is_foreign=one.time not in owners and pointer is None,
            )
            if not found.owner and pointer is not None and mine.shared(found):
                # Its slot lies below the part of the log that was read. Only who is refused wants to know whose it is.
                entry = read_slot(self.storage, pointer.slot)
                found = replace(found, owner=entry.owner if entry is not None else "")
            yield found
        yield from self._archived(Since(begun, now).archived, mine)
        yield from lost_from_sight(self.storage, begun, now)

    def _archived(self, entries: Iterable[Complete], mine: Contender) -> Iterator[Contender]:
        """Yield the writes that are off the timeline already: the log still has their metadata."""
        for entry in entries:
            if entry.instant == mine.instant or entry.action not in WRITE_ACTIONS | REWRITING_ACTIONS:
                continue
            if mine.role == "ingest" and entry.action in MERGING_ACTIONS:
                continue
            try:
                found = footprint_of(CommitMetadata.from_bytes(self.storage.get(entry.payload), entry.payload))
            except NotFound:
                found = None
            yield Contender(
                entry.instant, entry.action, found, "ingest", "completed", entry.owner, entry.completion_time
            )

    def plans(
        self,
        state: TableState,
        mine: Contender,
        waited_for: frozenset[str] = REWRITING_ACTIONS,
        *,
        reach_back: bool = False,
    ) -> Iterator[Contender]:
        """Pending plans of services, anybody's, but for the one that `mine` executes.

        Args:
            state: decides what is pending.
            mine: the attempt.
            waited_for: pending words of those that matter.
            reach_back: read older slots to find who published a plan that overlaps; not under the lock. Ours are told from those
                without a slot then, also under the lock, since that was kept.
        """
        said = {entry.instant: entry for _, entry in state.log.since(-1) if isinstance(entry, PlanEntry)}
        for one in state.timeline.pending:
            if one.action not in waited_for or one.time == mine.instant:
                continue
            entry = said.get(one.time) or self._published.get(one.time)
            inputs = self.inputs(state.timeline, one, entry)
            found = Contender(one.time, one.action, inputs, "service", "planned", is_foreign=entry is None)
            if entry is None and reach_back and mine.shared(found):
                entry = self._publisher(state, one.time)
            yield replace(found, owner=entry.owner, is_foreign=False) if entry is not None else found

    def _publisher(self, state: TableState, instant: str) -> PlanEntry | None:
        for _, entry in reaching_back(self.storage, state.log, instant).since(-1):
            if isinstance(entry, PlanEntry) and entry.instant == instant:
                self._published[instant] = entry
        return self._published.get(instant)

    def inputs(self, timeline: Timeline, instant: Instant, entry: PlanEntry | None = None) -> Footprint | None:
        """File groups that a plan works on: as its slot says, or its requested file; None when neither can be read."""
        if entry is not None and (said := decode_footprint(entry.footprint)) is not None:
            return said
        if instant.time not in self._plans:
            try:
                inputs = inputs_of(read_plan(self.storage, timeline, instant))
            except Corrupt:
                return None
            if inputs is None:
                return None
            self._plans[instant.time] = inputs
        return self._plans[instant.time]

    def intent(self, timeline: Timeline, instant: Instant) -> Intent | None:
        """What a pending write says it is about to touch; None when it was only requested, or says nothing."""
        if instant.time not in self._intents:
            if State.INFLIGHT not in instant.states:
                return None
            try:
                found = intent_of(self.storage.get(timeline.path(inflight_name(instant.time, instant.action))))
            except NotFound:
                return None  # rolled back, just now
            if found is None:
                return None
            self._intents[instant.time] = found
        return self._intents[instant.time]

    def running(
        self, ctx: TableContext, state: TableState, mine: str, looked_at: frozenset[str] = frozenset()
    ) -> Iterator[Contender]:
        """Writes under way that may still complete: pending, not cancelled, and not known to be dead.

        A lease that is missing proves nothing, since some of Apache Hudi's writers keep none: only an expired one, or one whose
        process has ended, does.

        Args:
            ctx: storage and clock.
            state: decides what is pending.
            mine: an instant to leave out.
            looked_at: more of them: those that were looked at before.
        """
        for one in pending_writes(state.timeline, mine):
            if one.time in looked_at:
                continue
            fate = state.log.fate(one.time)
            if isinstance(fate[1] if fate else None, Cancel):
                continue
            lease = read_lease(ctx.storage, one.time)
            if lease is not None and lease.is_dead(ctx.clock):
                continue
            intent = self.intent(state.timeline, one)
            yield _running(one, intent.footprint if intent is not None else None, lease)

    def older(self, ctx: TableContext, timeline: Timeline, mine: Contender) -> Contender | None:
        """The first live write that began before an attempt and touches the same; None when there is none.

        Ours say in their inflight file what they will touch. Of others only their markers tell; without a live lease they are taken
        for dead, since a mistake here costs work and nothing else.

        Args:
            ctx: storage and clock.
            timeline: where the pending ones are.
            mine: the attempt; with an empty instant everything that is pending began before it.
        """
        for one in pending_writes(timeline, mine.instant):
            if mine.instant and one.time > mine.instant:
                continue
            intent = self.intent(timeline, one)
            if intent is not None and not mine.shared(_running(one, intent.footprint, None)):
                continue
            lease = read_lease(ctx.storage, one.time)
            if lease is None or lease.is_dead(ctx.clock):
                continue
            touched = intent.footprint if intent is not None and intent.is_exact else marked(ctx.storage, one.time)
            found = _running(one, touched, lease)
            if mine.shared(found):
                return found
        return None


def pending_writes(timeline: Timeline, but: str) -> Iterator[Instant]:
    """Ingestion that is on the timeline and has not completed, oldest first, but for one instant."""
    for one in timeline.pending:
        if one.action in WRITE_ACTIONS and one.time != but:
            yield one


def marked(storage: Storage, instant: str) -> Footprint:
    """File groups for which a write has put markers so far."""
    groups = set()
    for marker in list_markers(storage, instant):
        partition, _, name = marker.data_path.rpartition("/")
        groups.add((partition, name[:BUCKET_DIGITS]))
    return Footprint(frozenset(groups))


def lies_behind(one: Instant, seen: Collection[tuple[str, str]], instant: str) -> bool:
    """Whether a completion need not be looked at by an attempt: it was there when it began, and completed below its instant."""
    return (one.time, one.completion_time) in seen and one.completion_time <= instant


def lost_from_sight(storage: Storage, begun: TableState, now: TableState) -> Iterator[Contender]:
    """Writes that were pending when an attempt began, and are neither there now nor undone by anybody: they may have completed.

    A foreign archiver takes completed writes off the timeline; without a slot nothing says then what they touched.
    """
    known = {one.time for one in now.timeline}
    decided = {entry.instant for _, entry in now.log.since(-1) if isinstance(entry, (Cancel, Complete))}
    for one in begun.timeline.pending:
        if not one.is_write or one.time in known or one.time in decided:
            continue
        if one.time < now.timeline.start and rollback_of(storage, now.timeline, one.time) is None:
            yield Contender(one.time, one.action, None, stage="completed", is_foreign=True)


def _running(instant: Instant, footprint: Footprint | None, lease: Lease | None) -> Contender:
    owner = str(lease.owner) if lease is not None and lease.owner is not None else ""
    role: Role = "service" if lease is not None and lease.role in {"plan", "execute"} else "ingest"
    return Contender(instant.time, instant.action, footprint, role, owner=owner, is_foreign=not owner)
