"""Writes that an attempt may conflict with: later completions, pending plans, live writes.

They are read from the timeline and the log, so foreign writes count, too. Immutable facts are cached: under the lock only one read
remains for each completion and plan that is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from hudi_ops.concurrency.conflicts import Contender, Role
from hudi_ops.concurrency.lease.lease import Lease, read_lease
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.concurrency.vain_waits import waited_in_vain
from hudi_ops.config.requests.starvation import WAIT_S_MAX
from hudi_ops.context import TableContext
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.cancel.policy import ENDING, OVERLAP_KEY
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
from hudi_ops.timeline.content.plans import ReplacePlan, read_plan
from hudi_ops.timeline.content.rollbacks import rollback_of
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Log, Pointer, read_slot
from hudi_ops.timeline.log.entries import Cancel, Complete, Plan as PlanEntry, cancel_of
from hudi_ops.timeline.log.head import reaching_back
from hudi_ops.timeline.names import MERGING_ACTIONS, REWRITING_ACTIONS, WRITE_ACTIONS, State, inflight_name
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import CommitReader, TableState


@dataclass
class ContenderReader:
    """Reader of other writes' footprints; each file is read once, unless it was half-written."""

    storage: Storage
    commits: CommitReader
    _plans: dict[str, Footprint] = field(default_factory=dict)
    _contents: dict[str, tuple[tuple[Footprint, ...], bool]] = field(default_factory=dict)
    _intents: dict[str, Intent] = field(default_factory=dict)
    _published: dict[str, PlanEntry | None] = field(default_factory=dict)
    _cancelled: set[str] = field(default_factory=set)
    _taken: set[str] = field(default_factory=set)
    _ended: dict[str, bool] = field(default_factory=dict)
    _owners: dict[int, str] = field(default_factory=dict)

    def completed_since(self, begun: TableState, mine: Contender, now: TableState) -> Iterator[Contender]:
        """Yield writes that completed since an attempt began, with or without a slot, unordered.

        Merges are skipped if `mine` is ingestion. For the executor of a plan every write with a completion time above the plan's
        instant counts, whenever the execution began: the plan was made without it.
        """
        instant = mine.instant
        decided = now.log.completed
        for write in unseen(now.timeline, begun.timeline.completions, instant):
            if write.time == instant:
                continue
            metadata = self.commits.metadata(now.timeline, write)
            if mine.role == "ingest" and metadata is not None and metadata.is_merge:
                continue
            path = now.timeline.path(write.file_name)
            pointer = Pointer.decode(metadata.extra, path) if metadata is not None else None
            found = Contender(
                write.time,
                write.action,
                footprint_of(metadata, write.time) if metadata is not None else None,
                "service" if write.action in REWRITING_ACTIONS else "ingest",
                "completed",
                decided[write.time].owner if write.time in decided else "",
                write.completion_time,
                is_foreign=write.time not in decided and pointer is None,
            )
            if not found.owner and pointer is not None and mine.shared(found):
                # Its slot is below the loaded part of the log; only a refusal needs the owner.
                found = replace(found, owner=self._owner(pointer.slot))
            yield found
        yield from self._archived(Since(begun, now).archived, mine)
        yield from vanished(self.storage, begun, now)

    def _owner(self, slot: int) -> str:
        if slot not in self._owners:
            entry = read_slot(self.storage, slot)
            self._owners[slot] = entry.owner if entry is not None else ""
        return self._owners[slot]

    def _archived(self, entries: Iterable[Complete], mine: Contender) -> Iterator[Contender]:
        """Yield completed writes that left the timeline; the log still has their metadata."""
        for entry in entries:
            if entry.instant == mine.instant or entry.action not in WRITE_ACTIONS | REWRITING_ACTIONS:
                continue
            if mine.role == "ingest" and entry.action in MERGING_ACTIONS:
                continue
            try:
                metadata = CommitMetadata.from_bytes(self.storage.get(entry.payload), entry.payload)
                found = footprint_of(metadata, entry.instant)
            except NotFound:
                found = None
            yield Contender(
                entry.instant, entry.action, found, "ingest", "completed", entry.owner, entry.completion_time
            )

    def plans(
        self,
        state: TableState,
        mine: Contender,
        exclusive: frozenset[str] = REWRITING_ACTIONS,
        *,
        reach_back: bool = False,
    ) -> Iterator[Contender]:
        """Yield pending plans with an action in `exclusive`, or that a write may end; not `mine`.

        `reach_back`: also search older slots for the PLAN entry, which distinguishes our plans from foreign ones. Not under the
        lock: there the cached answers are used.
        """
        planned = [
            one for one in state.timeline.pending if one.action in REWRITING_ACTIONS and one.time != mine.instant
        ]
        if not planned:
            return
        entries = {entry.instant: entry for _, entry in state.log.since(-1) if isinstance(entry, PlanEntry)}
        for plan in planned:
            entry = entries.get(plan.time) or self._published.get(plan.time)
            is_asked = reach_back and plan.time not in self._published
            if plan.action not in exclusive and not self._is_ended(state.timeline, plan, entry, is_read=is_asked):
                continue
            inputs = self.inputs(state.timeline, plan, entry)
            found = Contender(plan.time, plan.action, inputs, "service", "planned", is_foreign=entry is None)
            if entry is None and is_asked and mine.shared(found):
                entry = self._publisher(state, plan.time)
            if entry is not None:
                is_cancelled = plan.time in self._cancelled or _is_cancelled(state.log, plan.time)
                is_taken = plan.time in self._taken or state.log.takeover(plan.time) is not None
                found = _published_by(found, entry, is_cancelled=is_cancelled, is_taken=is_taken)
                is_kept = mine.role == "ingest" and found.on_overlap == "shrink" and not found.is_cancellable
                if is_kept and mine.shared(found):
                    found = replace(found, remaining=self._remaining(state, plan, found))
            if plan.action in exclusive or found.on_overlap in ENDING:
                yield found

    def is_resize(self, timeline: Timeline, instant: str) -> bool:
        """Return whether a pending plan makes groups into which writers put their rows as well."""
        found = timeline.find(instant)
        return found is not None and self._content(timeline, found)[1]

    def _remaining(self, state: TableState, plan: Instant, planned: Contender) -> tuple[Footprint, ...]:
        """Return the plan groups that no completed write has touched since the plan."""
        left = self._content(state.timeline, plan)[0]
        for write in self.completed_since(state, planned, state):
            touched = write.footprint
            if touched is None:
                return ()
            if not touched.children:  # a write beside a resize has put its rows into the children, too
                left = tuple(group for group in left if not group.overlap(touched))
        return left

    def _content(self, timeline: Timeline, plan: Instant) -> tuple[tuple[Footprint, ...], bool]:
        """Return the plan groups of a clustering, and whether it is a resize.

        There are none if the plan cannot be read.
        """
        if plan.time not in self._contents:
            try:
                said = read_plan(self.storage, timeline, plan)
            except Corrupt:
                return (), False
            groups = said.groups if isinstance(said, ReplacePlan) else ()
            keys = [[(one.partition_path, one.file_id) for one in group.slices] for group in groups]
            is_resize = isinstance(said, ReplacePlan) and bool(said.children)
            self._contents[plan.time] = tuple(map(Footprint.of_groups, keys)), is_resize
        return self._contents[plan.time]

    def _is_ended(self, timeline: Timeline, plan: Instant, entry: PlanEntry | None, *, is_read: bool) -> bool:
        """Return whether a write may end a plan, by its slot or its requested file, if that is read."""
        if entry is not None or not is_read:
            return entry is not None and entry.on_overlap in ENDING
        if plan.time not in self._ended:
            try:
                extra = getattr(read_plan(self.storage, timeline, plan), "extra", {})
            except Corrupt:
                return False
            self._ended[plan.time] = extra.get(OVERLAP_KEY) in ENDING
        return self._ended[plan.time]

    def _publisher(self, state: TableState, instant: str) -> PlanEntry | None:
        """Return the PLAN of an instant, or None; cached, since no PLAN can be added later."""
        known = reaching_back(self.storage, state.log, instant)
        found = (entry for _, entry in known.own if isinstance(entry, PlanEntry) and entry.instant == instant)
        self._published[instant] = next(found, None)
        if _is_cancelled(known, instant):
            self._cancelled.add(instant)
        if known.takeover(instant) is not None:
            self._taken.add(instant)
        return self._published[instant]

    def inputs(self, timeline: Timeline, instant: Instant, entry: PlanEntry | None = None) -> Footprint | None:
        """Return a plan's input groups, from its slot or requested file; None: unreadable."""
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
        """Return the intent in a pending write's inflight file; None without one."""
        if instant.time not in self._intents:
            if State.INFLIGHT not in instant.states:
                return None
            try:
                found = intent_of(self.storage.get(timeline.path(inflight_name(instant.time, instant.action))))
            except NotFound:
                return None  # rolled back since
            if found is None:
                return None
            self._intents[instant.time] = found
        return self._intents[instant.time]

    def running(
        self, ctx: TableContext, state: TableState, mine: str, inspected: frozenset[str] = frozenset()
    ) -> Iterator[Contender]:
        """Yield pending writes that may still complete: not cancelled, and not known to be dead.

        A write counts as dead only if its lease has expired or its process has ended; one without a lease counts as running, since
        some foreign writers keep none. `mine` and the `inspected` instants are skipped.
        """
        for write in pending_writes(state.timeline, mine):
            if write.time in inspected:
                continue
            if cancel_of(state.log.fate(write.time)) is not None:
                continue
            lease = read_lease(ctx.storage, write.time)
            if lease is not None and lease.is_dead(ctx.clock):
                continue
            intent = self.intent(state.timeline, write)
            yield _running(write, intent.footprint if intent is not None else None, lease)

    def older(self, ctx: TableContext, timeline: Timeline, mine: Contender) -> Contender | None:
        """Return the first overlapping live write that began before an attempt, or None.

        The footprint of a hudi_ops write is the intent in its inflight file, that of a foreign write its markers. A write without a
        live lease counts as dead: a mistake here costs only work. If `mine.instant` is empty, every pending write counts as older.
        A write for which this process waited in vain does not count.
        """
        for write in pending_writes(timeline, mine.instant):
            if mine.instant and write.time > mine.instant:
                continue
            intent = self.intent(timeline, write)
            if intent is not None and not mine.shared(_running(write, intent.footprint, None)):
                continue
            lease = read_lease(ctx.storage, write.time)
            if lease is None or lease.is_dead(ctx.clock):
                continue
            touched = intent.footprint if intent is not None and intent.is_exact else marked(ctx.storage, write.time)
            found = _running(write, touched, lease)
            if mine.shared(found) and not waited_in_vain(ctx, write.time):
                return found
        return None


def pending_writes(timeline: Timeline, but: str) -> Iterator[Instant]:
    """Yield pending ingestion, oldest first, except one instant."""
    for instant in timeline.pending:
        if instant.action in WRITE_ACTIONS and instant.time != but:
            yield instant


def marked(storage: Storage, instant: str) -> Footprint:
    """Return the file groups for which a write has put markers so far."""
    groups = set()
    for marker in list_markers(storage, instant):
        partition, _, name = marker.data_path.rpartition("/")
        groups.add((partition, name[:BUCKET_DIGITS]))
    return Footprint(frozenset(groups))


def unseen(now: Timeline, seen: frozenset[tuple[str, str]], instant: str) -> list[Instant]:
    """Return the writes that completed after an attempt began, or above its instant."""
    return now.completed_beyond(seen, instant)


def vanished(storage: Storage, begun: TableState, now: TableState) -> Iterator[Contender]:
    """Yield writes that were pending and vanished without a rollback: they may have completed.

    A foreign archiver removes completed writes from the timeline; without a slot their footprint is unknown.
    """
    if not begun.timeline.pending:
        return
    known = now.timeline.by_time
    decided = {entry.instant for _, entry in now.log.since(-1) if isinstance(entry, (Cancel, Complete))}
    for pending in begun.timeline.pending:
        if not pending.is_write or pending.time in known or pending.time in decided:
            continue
        if pending.time < now.timeline.start and rollback_of(storage, now.timeline, pending.time) is None:
            yield Contender(pending.time, pending.action, None, stage="completed", is_foreign=True)


def _running(instant: Instant, footprint: Footprint | None, lease: Lease | None) -> Contender:
    owner = str(lease.owner) if lease is not None and lease.owner is not None else ""
    role: Role = "service" if lease is not None and lease.role in {"plan", "execute"} else "ingest"
    return Contender(instant.time, instant.action, footprint, role, owner=owner, is_foreign=not owner)


def _is_cancelled(log: Log, instant: str) -> bool:
    return cancel_of(log.fate(instant)) is not None


def _published_by(plan: Contender, entry: PlanEntry, *, is_cancelled: bool, is_taken: bool) -> Contender:
    return replace(
        plan,
        owner=entry.owner,
        is_foreign=False,
        on_overlap=entry.on_overlap,
        is_cancellable=entry.cancellable,
        is_cancelled=is_cancelled,
        is_taken=is_taken,
        wait_s=min(entry.cancel_wait_s, WAIT_S_MAX),
        planned_ms=entry.at_ms,
    )
