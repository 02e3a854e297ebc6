"""Session: the context, loaders and decisions that all services of one table share."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypedDict

from hudi_ops.commit.apply.decided import TimelineApplier
from hudi_ops.commit.ledger import newest_extra
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.concurrency.conflicts import ConflictStrategy, Contender, strategy_of
from hudi_ops.concurrency.contenders import ContenderReader
from hudi_ops.concurrency.early_conflicts import ConflictWatch
from hudi_ops.concurrency.ended import ends_if_it_fails
from hudi_ops.concurrency.foreign.silent_writers import SilentWriters
from hudi_ops.concurrency.lease.heartbeat_client import process_beats
from hudi_ops.concurrency.lease.lease import BEAT_INTERVAL_S, LeaseRole, Renewal, drop_lease, lease_path
from hudi_ops.concurrency.lease.monitor import WATCH_INTERVAL_S, LeaseMonitor
from hudi_ops.concurrency.lease.own_clock import next_instant
from hudi_ops.concurrency.lease.watcher import WATCHED_ROLES, watching
from hudi_ops.concurrency.markers import delete_markers
from hudi_ops.concurrency.transaction import Decided, Prepare, decide, finish_decided
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.table import TableConfig
from hudi_ops.config.upkeep_settings import UpkeepSettings
from hudi_ops.config.write_settings import METADATA_COMPACT_AFTER, FileSizes, LogFormat, checked_compact_after
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError, Unsupported
from hudi_ops.index.pending_resizes import ResizeReader
from hudi_ops.metadata.reader.layout import Basis, group_counts, kept_partitions, refuse_dropped
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.log.cancelled import cancel_slot, fate_of
from hudi_ops.timeline.log.commit_log import payload_folder, put_payload
from hudi_ops.timeline.log.entries import Complete, Plan, Restore, Savepoint, Void
from hudi_ops.timeline.log.head import older_entries
from hudi_ops.timeline.names import WRITE_ACTIONS, completes_as
from hudi_ops.timeline.state import CommitReader, SlotZero, StateLoader, TableState
from hudi_ops.view.kept_slices import KeptSlices

logger = logging.getLogger(__name__)


class EntryFields(TypedDict):
    """Fields that every commit log entry carries."""

    table_id: str
    decision_id: str
    owner: str
    at_ms: int
    properties_slot: int
    archive_slot: int


@dataclass
class WriterMemory:
    """Facts that the writes of one session leave for its next write.

    Attributes:
        gives_way: the current write waits for older overlapping ones; true while retries remain.
        is_clean: the last write ended well and left nothing to recover.
        recovered_s: monotonic time of the last recovery.
        metadata_deltas: delta commits of the metadata table since its last compaction, as of the last write.
        automatic: id of the table and slot of its properties, and the automatic services recorded there; None: not read yet.
        sealed_rings: instants of replace commits whose rings have their `.commit` files, or need none of this session.
        ended_plans: instants of the plans that the last write cancelled.
        counted_clean: a completed clean, and the number of files that it deleted.
        plan_windows: monotonic time until which writes wait for a plan, by the plan's instant.
        waits: number of commits until an automatic service is tried again, by service.
        metadata_timeline: the metadata table's timeline as the last decision listed it: the next delta is made from it, and checked
            under the lock.
    """

    gives_way: bool = False
    is_clean: bool = False
    recovered_s: float = float("-inf")
    metadata_deltas: int = 0
    automatic: tuple[tuple[str, int], Mapping[str, Mapping[str, str | int]]] | None = None
    sealed_rings: set[str] = field(default_factory=set)
    ended_plans: tuple[str, ...] = ()
    counted_clean: tuple[str, int] = ("", 0)
    plan_windows: dict[str, float] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    metadata_timeline: Timeline | None = None

    def is_turn_of(self, service: str) -> bool:
        """Count one commit; return whether an automatic service may be tried after it."""
        self.waits[service] = max(0, self.waits.get(service, 0) - 1)
        return not self.waits[service]


@dataclass
class Session:
    """State of one process working on one table; not thread-safe.

    `adopter` proposes the commit log of a table that has none; without an adopter such a table is refused.
    `log_format` applies to log files, `file_sizes` to base files that receive new keys. A write compacts the metadata table once
    this has `metadata_compact_after` delta commits. `upkeep`: settings of what cleans and archives keep.
    `memory`: what its writes remember.
    """

    ctx: TableContext
    adopter: SlotZero | None = None
    conflicts: ConflictSettings = field(default_factory=ConflictSettings)
    log_format: LogFormat = "parquet"
    file_sizes: FileSizes = field(default_factory=FileSizes)
    metadata_compact_after: int = METADATA_COMPACT_AFTER
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)
    strategy: ConflictStrategy = field(init=False)
    contenders: ContenderReader = field(init=False)
    silent: SilentWriters = field(init=False)
    commits: CommitReader = field(init=False)
    resizes: ResizeReader = field(init=False)
    slices: KeptSlices = field(init=False)
    loader: StateLoader = field(init=False)
    applier: TimelineApplier = field(init=False)
    memory: WriterMemory = field(default_factory=WriterMemory, init=False)
    _monitors: dict[str, LeaseMonitor] = field(init=False, default_factory=dict)
    _payloads: dict[str, list[str]] = field(init=False, default_factory=dict)
    _untidy: set[str] = field(init=False, default_factory=set)
    _groups: tuple[Basis, Mapping[str, int]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        checked_compact_after(self.metadata_compact_after)
        if self.conflicts.accept_future_instants:
            self.ctx = replace(self.ctx, follows_future=True)
        if "lock_wait_s" in self.conflicts.model_fields_set:
            self.ctx = replace(self.ctx, lock_timeout_s=self.conflicts.lock_wait_s)
        self.strategy = strategy_of(self.conflicts.strategy)
        self.commits = CommitReader(self.ctx.storage)
        self.resizes = ResizeReader(self.ctx.storage, self.commits)
        self.slices = KeptSlices(self.ctx.storage, self.commits)
        self.contenders = ContenderReader(self.ctx.storage, self.commits)
        self.silent = SilentWriters(self.ctx, self.contenders, self.conflicts.foreign_without_heartbeat)
        self.loader = StateLoader(self.ctx.storage, self.commits, self.adopter)
        self.applier = TimelineApplier(self.ctx, self.loader, self.commits)

    def decide(self, prepare: Prepare, purpose: str) -> Decided | None:
        """Claim the next slot for the entry of `prepare`; see `concurrency.transaction.decide`."""
        return decide(self.ctx, self.loader, self.applier, prepare, purpose)

    def finish_decided(self) -> TableState:
        """Apply decided but unfinished entries; requires the table lock."""
        return finish_decided(self.loader, self.applier)

    def entry(self, state: TableState, decision_id: str) -> EntryFields:
        """Return the common fields of an entry for the slot after the state's head.

        `decision_id` is the same for every try of a decision, in any process.
        """
        return EntryFields(
            table_id=state.log.table_id,
            decision_id=decision_id,
            owner=str(self.ctx.owner),
            at_ms=self.ctx.clock.now_ms(),
            properties_slot=state.log.properties_slot,
            archive_slot=state.log.archive_slot,
        )

    def next_time(self, times: frozenset[str], state: TableState) -> str:
        """Return the next free time above all of `times`.

        Raises:
            Unavailable: the newest time lies too far in the future.
        """
        return next_instant(self.ctx, times, state)

    def put_payload(self, instant: str, slot: int, body: bytes) -> str:
        """Put the bytes that a COMPLETE or PLAN in `slot` will point to; return their path."""
        path = put_payload(self.ctx.storage, instant, slot, body)
        self.applier.remember(path, body)
        self._payloads.setdefault(instant, []).append(path)
        return path

    def put_delta(self, delta: MetadataDelta) -> str:
        """Put the records that a COMPLETE will add to the metadata table; return their path."""
        body = delta.to_bytes()
        path = f"{payload_folder(delta.instant)}/metadata-{hashlib.sha256(body).hexdigest()[:16]}"
        self.ctx.storage.put(path, body)
        self.applier.remember_delta(path, delta)
        self._payloads.setdefault(delta.instant, []).append(path)
        return path

    def drop_delta(self, entry: Complete) -> None:
        """Delete the metadata delta of a completed instant; the metadata table holds its records."""
        if entry.metadata:
            with best_effort(entry.instant):
                remove_paths(self.ctx.storage, Reason.COMPLETED, [entry.metadata])

    def metadata_groups(self, basis: Basis, config: TableConfig) -> Mapping[str, int]:
        """Return the number of file groups of each metadata table partition, counted once per basis.

        Raises:
            Unsupported: a partition has file groups to which keys are not hashed by number.
            Conflict: another process builds or drops a partition now.
        """
        if self._groups is None or self._groups[0] != basis:
            try:
                counts = group_counts(self.ctx.storage, config, kept_partitions(config))
            except Unsupported:
                refuse_dropped(self.ctx.storage, config)
                raise
            self._groups = basis, counts
        return self._groups[1]

    def watch(self, action: str, intent: Footprint) -> ConflictWatch:
        """Return the conflict watch of a write with footprint `intent`."""
        is_on = self.conflicts.early_detection
        return ConflictWatch(
            self.ctx,
            self.contenders,
            Contender("", action, intent, owner=str(self.ctx.owner)),
            self.conflicts.wait_s,
            self.silent,
            minds_completed=is_on,
            minds_running=is_on and self.memory.gives_way,
            strategy=self.strategy,
        )

    @contextmanager
    def keep(
        self, instant: str, role: LeaseRole = "write", *, epoch: int | None = None, leased_s: float | None = None
    ) -> Iterator[LeaseMonitor]:
        """Renew the lease of an instant until the context ends; yield its monitor.

        `epoch`: the attempt's; None: the newest in the loaded part of the log. `leased_s`: monotonic time just before the lease was
        taken; None: now.
        """
        renewal = Renewal(self.ctx, instant, role, self.ctx.clock.monotonic_s() if leased_s is None else leased_s)
        interval_s = WATCH_INTERVAL_S if role in WATCHED_ROLES else BEAT_INTERVAL_S
        monitor = LeaseMonitor(self.ctx, renewal, epoch, self.loader.known_log, interval_s)
        self._monitors[instant] = monitor
        beats = self.ctx.beats or process_beats()
        with (
            ends_if_it_fails(self.ctx, instant),
            beats.every(BEAT_INTERVAL_S, renewal),
            watching(self.ctx, monitor) if role in WATCHED_ROLES else nullcontext(),
        ):
            yield monitor

    def longest_gap_s(self, instant: str) -> float:
        """Return the longest time without a landed heartbeat of an instant; 0 without a monitor."""
        monitor = self._monitors.get(instant)
        return monitor.longest_gap_s if monitor is not None else 0.0

    def drop_lost_payloads(self, instant: str, decided: Decided | None, *, alone: bool = False) -> None:
        """Delete the payloads of lost tries of an instant, once `decided`.

        The payload that the slot names stays. `alone`: no other process can have tried, so payloads are not listed. If a payload
        cannot be deleted, the lease is kept, so that a later write finds the payload.
        """
        mine = self._payloads.pop(instant, [])
        if decided is None or not isinstance(decided.entry, Complete | Plan | Savepoint | Restore):
            return
        self._untidy.add(instant)
        with best_effort(instant):
            tried = mine if alone else [info.path for info in self.ctx.storage.list(payload_folder(instant))]
            lost = {path for path in tried if path not in decided.entry.notes}
            for path in sorted(lost):
                with best_effort(instant):
                    remove_paths(self.ctx.storage, Reason.LOST, [path])
                    lost.discard(path)
            if not lost:
                self._untidy.discard(instant)

    def drop_refused_payloads(self, instant: str) -> None:
        """Delete this session's payloads of a refused instant, except those that a slot names."""
        with best_effort(instant):
            fate = fate_of(self.ctx.storage, self.loader.load(), instant)
            named: frozenset[str] = getattr(fate[1], "notes", frozenset()) if fate is not None else frozenset()
            mine = self._payloads.pop(instant, [])
            remove_paths(self.ctx.storage, Reason.LOST, [path for path in mine if path not in named])

    def release(self, instant: str, markers: Sequence[str] | None = None) -> None:
        """Delete the markers and the lease of a completed instant, after its last heartbeat.

        `markers` are all its markers, if no other process can have put any; None: they are listed.
        """
        monitor = self._monitors.pop(instant, None)
        with best_effort(instant):
            if markers is None:
                delete_markers(self.ctx.storage, instant)
            if monitor is not None:
                monitor.renewal.settle()
            # Delete the lease last: by a dead lease the next write finds markers and payloads that could not be deleted.
            lease = [] if instant in self._untidy else [lease_path(instant)]
            self._untidy.discard(instant)
            remove_paths(self.ctx.storage, Reason.COMPLETED, [*(markers or ()), *lease])
        self.memory.is_clean = True

    def drop_name(self, instant: str) -> None:
        """Drop the lease of an instant whose name is on the timeline or no longer in use."""
        monitor = self._monitors.pop(instant, None)
        with best_effort(instant):
            if monitor is not None:
                monitor.renewal.settle()
            drop_lease(self.ctx, instant)

    def newest_extra(self, state: TableState) -> Mapping[str, str]:
        """Return the newest hudi_ops commit's extra metadata; after foreign archiving, from the log."""
        extra = newest_extra(self.ctx.storage, self.commits, state.timeline)
        if extra is not None:
            return extra
        entry = self.newest_complete(state)
        if entry is None:
            return {}
        return CommitMetadata.from_bytes(self.ctx.storage.get(entry.payload), entry.payload).extra

    def newest_complete(self, state: TableState, upto: str | None = None) -> Complete | None:
        """Return the newest COMPLETE of a write that was neither voided nor undone, or None.

        Args:
            upto: newest instant that the write may have; None: any.
        """
        voided, undone = set(state.log.voided), set[str]()
        for slot, entry in chain(reversed(list(state.log.since(-1))), older_entries(self.ctx.storage, state.log)):
            if isinstance(entry, Void):
                voided.add(entry.slot)
            elif isinstance(entry, Restore):
                undone.update(entry.undone)
            elif not isinstance(entry, Complete) or slot in voided or entry.instant in undone:
                continue
            elif completes_as(entry.action) in WRITE_ACTIONS and (upto is None or entry.instant <= upto):
                return entry
        return None

    def was_cancelled(self, state: TableState, instant: str) -> bool:
        """Return whether a CANCEL slot of any age names an instant."""
        return cancel_slot(self.ctx.storage, state, instant) is not None


@contextmanager
def best_effort(instant: str) -> Iterator[None]:
    """Log and swallow clean-up errors: the write is complete; `recover` removes leftovers."""
    try:
        yield
    except HudiOpsError as error:
        logger.warning("leftovers of %s stay until the next ingest: %s", instant, error)
