"""Describe the timeline and the state of any table that can be opened, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hudi_ops.clock import Clock, SystemClock
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.config.upkeep_settings import UpkeepSettings
from hudi_ops.context import TableContext
from hudi_ops.errors import Corrupt, HudiOpsError, NotFound, Unsupported
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.read.prune import with_metadata
from hudi_ops.services.base.result import Result
from hudi_ops.services.inspect.notes import note_of, result_note
from hudi_ops.services.inspect.sizes import sizes_by_reason
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.cancel.aborted import AbortedPlan, read_aborted
from hudi_ops.timeline.cancel.aborted_history import load_aborted
from hudi_ops.timeline.content.archived import ArchivedInstant, load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import decode_result, read_plan, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Log, Pointer, automatic_of, read_slot
from hudi_ops.timeline.log.entries import ADOPTS
from hudi_ops.timeline.log.head import open_log
from hudi_ops.timeline.names import WRITE_ACTIONS, State
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.slices import SliceColumns, newest_slices
from hudi_ops.view.columns.table_view import view_of
from hudi_ops.view.listing import Listing, StorageListing
from hudi_ops.view.schema import row_schema, table_schema

LAST_INSTANTS = 5


@dataclass(frozen=True, slots=True)
class TimelineRow(Result):
    """One instant. `owner` works on it while it is pending, `slot` decided it; None: unknown."""

    time: str
    action: str
    state: str
    completion_time: str = ""
    operation: str = ""
    files: int | None = None
    rows_written: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    bytes_written: int | None = None
    owner: str = ""
    slot: int | None = None
    note: str = ""
    archived: bool = False


@dataclass(frozen=True)
class TableSummary(Result):
    """Settings and content of a table.

    File groups, files, bytes and rows count what readers see now; `rows` is None if write statistics are missing. The other bytes
    are those of `inspect.sizes`. `automatic` names the services that writers run after commits. `columns` are (name, type).
    `commit_log` describes the commit log. `why_not_writable` is empty if this library can write the table.
    """

    name: str
    path: str
    version: int
    type: str
    layout: int
    keys: tuple[str, ...]
    key_generator: str
    meta_fields: bool
    hive_style: bool
    url_encode: bool
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: str
    columns: tuple[tuple[str, str], ...]
    index: str
    buckets: int | None
    buckets_min: int | None
    buckets_max: int | None
    hash_fields: tuple[str, ...]
    timezone: str
    commit_log: str
    partitions: int
    file_groups: int
    base_files: int
    log_files: int
    total_bytes: int
    as_of_bytes: int
    held_bytes: int | None
    pending_bytes: int
    leftover_bytes: int | None
    rows: int | None
    metadata_partitions: tuple[str, ...]
    automatic: tuple[str, ...]
    writable: bool
    why_not_writable: str
    last_instants: tuple[TimelineRow, ...]
    pending_instants: tuple[TimelineRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain values; columns as objects with name and type."""
        return super().as_dict() | {"columns": [{"name": name, "type": kind} for name, kind in self.columns]}


def describe_timeline(
    storage: Storage,
    *,
    archived: bool = False,
    limit: int | None = None,
    known: Mapping[tuple[str, str, str], TimelineRow] | None = None,
    only: Collection[str] | None = None,
) -> list[TimelineRow]:
    """Return the timeline's instants, oldest first.

    Args:
        archived: include archived instants; those of layout 1 cannot be read, and one row without a time notes that.
        limit: number of the newest instants; None: all.
        known: rows of completed instants by request time, action and completion time: their files are not read again.
        only: request times of the instants that are wanted; None: all.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: its settings cannot be read.
    """
    config = load_config(storage)
    timeline = load_timeline(storage, config)
    reader = _Reader(storage, timeline, CommitReader(storage))
    aborted = [plan for plan in timeline.aborted if plan.state is State.ABORTED]
    wanted = [one for one in (*timeline.instants, *aborted) if only is None or one.time in only]
    chosen = _newest(sorted(wanted, key=lambda one: one.time), limit)
    before = known or {}
    rows = [before.get((one.time, one.action, one.completion_time)) or reader.row(one) for one in chosen]
    if archived and (limit is None or len(rows) < limit):
        history = load_history(storage, config, with_content=True)
        active = {(instant.time, instant.kind) for instant in timeline}
        older = [_archived_row(old) for old in history.instants if (old.time, old.action) not in active]
        recorded = {plan.time for plan in aborted}
        moved = (plan for plan in load_aborted(storage) if plan.instant not in recorded)
        older = sorted((*older, *(_aborted_row(plan, is_archived=True) for plan in moved)), key=lambda row: row.time)
        if history.note:
            older.insert(0, TimelineRow("", "", "archived", note=history.note, archived=True))
        rows = sorted([*_newest(older, None if limit is None else limit - len(rows)), *rows], key=lambda row: row.time)
    return rows


def describe_table(storage: Storage, upkeep: UpkeepSettings | None = None, clock: Clock | None = None) -> TableSummary:
    """Return a table's settings, schema, visible content, and whether it can be written.

    Args:
        storage: of the table.
        upkeep: settings of its writers; None: the defaults.
        clock: tells which holds have expired; None: this machine's.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: its settings or a commit cannot be read.
    """
    config = load_config(storage)
    timeline = load_timeline(storage, config)
    commits = CommitReader(storage)
    reader = _Reader(storage, timeline, commits)
    listing, listed = with_metadata(
        storage, config, timeline, "auto", lambda metadata: _walked(storage, config, metadata)
    )
    lists_all = isinstance(listing, StorageListing)
    view = view_of(config, timeline, commits, listed, are_named=not lists_all and commits.is_ours_alone(timeline))
    slices = newest_slices(view)
    ctx = TableContext(storage=storage, locks=None, clock=clock or SystemClock())
    sizes = sizes_by_reason(ctx, view, listed, slices, lists_all=lists_all)
    log = load_log(storage, timeline, commits)
    facts = log.properties.facts if log is not None else None
    why_not = _why_not_writable(config, log)
    return TableSummary(
        name=config.name,
        path=storage.uri,
        version=config.version,
        type=config.table_type,
        layout=config.layout,
        keys=config.record_key_fields,
        key_generator=config.key_generator,
        meta_fields=config.populate_meta_fields,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        partition_fields=config.partition_fields,
        ordering_fields=config.ordering_fields,
        merge_mode=config.merge_mode,
        columns=_columns(config, timeline, commits),
        index=facts.index if facts is not None else "",
        buckets=facts.buckets if facts is not None and facts.has_buckets else None,
        buckets_min=facts.buckets_min if facts is not None and facts.has_ring else None,
        buckets_max=facts.buckets_max if facts is not None and facts.has_ring else None,
        hash_fields=facts.hash_fields if facts is not None else (),
        timezone=_zone(config, facts),
        commit_log=_log_state(storage, log),
        partitions=len(listed),
        file_groups=len(slices),
        base_files=len(slices.rows) - len(slices.logs),
        log_files=len(slices.logs),
        total_bytes=int(view.files.sizes[slices.rows].sum()),
        as_of_bytes=sizes.as_of,
        held_bytes=sizes.held,
        pending_bytes=sizes.pending,
        leftover_bytes=sizes.leftover,
        rows=None if len(slices.logs) else _rows(timeline, commits, slices),
        metadata_partitions=config.metadata_partitions,
        automatic=(upkeep or UpkeepSettings()).automatic(automatic_of(storage, log)),
        writable=not why_not,
        why_not_writable=why_not,
        last_instants=tuple(map(reader.row, timeline.instants[-LAST_INSTANTS:])),
        pending_instants=tuple(map(reader.row, timeline.pending)),
    )


def _walked(storage: Storage, config: TableConfig, metadata: MetadataTable | None) -> tuple[Listing, FileColumns]:
    listing = open_listing(storage, config, metadata)
    return listing, listing.walk().files


@dataclass(frozen=True)
class _Reader:
    """Makes rows of the instants of one timeline."""

    storage: Storage
    timeline: Timeline
    commits: CommitReader

    def row(self, instant: Instant) -> TimelineRow:
        plain = TimelineRow(instant.time, instant.action, instant.state.name.lower(), instant.completion_time)
        try:
            if instant.state is State.ABORTED:
                return _aborted_row(read_aborted(self.storage, self.timeline, instant))
            if instant.is_completed and instant.is_write:
                metadata = self.commits.metadata(self.timeline, instant)
                return plain if metadata is None else _counted(plain, metadata)
            result = read_result(self.storage, self.timeline, instant)
            plan = read_plan(self.storage, self.timeline, instant) if result is None else None
            note = result_note(result) if result is not None else note_of(plan)
        except (Corrupt, NotFound) as error:
            # Users list instants when a file is damaged: one bad file must not hide the others.
            note = f"cannot be read: {error.what}"
        return replace(plain, owner="" if instant.is_completed else self._owner(instant.time), note=note)

    def _owner(self, time: str) -> str:
        lease = read_lease(self.storage, time)
        if lease is None:
            return ""
        return str(lease.owner) if lease.owner is not None else "Apache Hudi"


def _counted(row: TimelineRow, metadata: CommitMetadata) -> TimelineRow:
    numbers = metadata.numbers
    replaced = sum(map(len, (metadata.replaced or {}).values()))
    return replace(
        row,
        operation=metadata.operation,
        files=len(numbers.paths),
        rows_written=numbers.total("num_writes"),
        inserted=numbers.total("num_inserts"),
        updated=numbers.total("num_update_writes"),
        deleted=numbers.total("num_deletes"),
        bytes_written=numbers.total("total_write_bytes"),
        slot=_slot(metadata),
        note=f"replaces {replaced} file groups" if replaced else "",
    )


def _slot(metadata: CommitMetadata) -> int | None:
    try:
        pointer = Pointer.decode(metadata.extra)
    except (ValueError, TypeError) as error:
        raise Corrupt(f"{POINTER_KEY} of a commit cannot be read: {error}") from error
    return pointer.slot if pointer is not None else None


def _archived_row(old: ArchivedInstant) -> TimelineRow:
    plain = TimelineRow(old.time, old.action, "completed", old.completion_time, archived=True)
    try:
        if old.action in WRITE_ACTIONS and old.metadata:
            return _counted(plain, CommitMetadata.from_bytes(old.metadata, f"archived {old.time}"))
        note = result_note(decode_result(old.action, old.metadata, f"archived {old.time}") if old.metadata else None)
    except Corrupt as error:
        note = f"cannot be read: {error.what}"
    return replace(plain, note=note)


def _aborted_row(plan: AbortedPlan, *, is_archived: bool = False) -> TimelineRow:
    return TimelineRow(
        plan.instant, plan.action, "aborted", owner=plan.requester, note=plan.reason, archived=is_archived
    )


def _newest(values: Any, limit: int | None) -> Any:
    return values if limit is None else values[max(0, len(values) - limit) :]


def _columns(config: TableConfig, timeline: Timeline, commits: CommitReader) -> tuple[tuple[str, str], ...]:
    try:
        schema = row_schema(config, table_schema(config, timeline, commits))
    except (Unsupported, Corrupt):
        # A table without a write, or a type that we cannot read: the other facts are still shown.
        return ()
    return tuple((field.name, str(field.type)) for field in schema)


def load_log(storage: Storage, timeline: Timeline, commits: CommitReader) -> Log | None:
    """Return the table's commit log; None before an adoption."""
    newest = commits.newest_with(timeline, POINTER_KEY)
    return open_log(storage, Pointer.decode(newest.extra) if newest is not None else None)


def _why_not_writable(config: TableConfig, log: Log | None) -> str:
    try:
        refuse_unwritable(config)
    except HudiOpsError as error:
        return error.found or error.what
    return "it has no commit log: the first write, or `hudi-ops adopt`, begins one" if log is None else ""


def _zone(config: TableConfig, facts: TableFacts | None) -> str:
    if not config.is_in_local_time:
        return "UTC"
    return facts.timezone if facts is not None else "local time of its writers"


def _log_state(storage: Storage, log: Log | None) -> str:
    if log is None:
        return "none"
    first = read_slot(storage, 0)
    begun = "adopted" if first is not None and first.decision_id.startswith(ADOPTS) else "made"
    return f"since the table was {begun}, newest slot {log.head}"


def _rows(timeline: Timeline, commits: CommitReader, slices: SliceColumns) -> int | None:
    """Return the rows of base files by write statistics; None if a writer is archived."""
    counted: dict[str, int] = {}
    for instant in timeline.completed_writes:
        metadata = commits.metadata(timeline, instant)
        if metadata is not None:
            numbers = metadata.numbers
            counted.update(zip((path.lstrip("/") for path in numbers.paths), numbers.values["num_writes"], strict=True))
    visible = slices.paths()
    return sum(counted[path] for path in visible) if visible <= counted.keys() else None
