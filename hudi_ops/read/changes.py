"""Read the changes of a table: rows of the writes that completed in an interval, in order.

This is Apache Hudi's incremental query: for each row that one of the writes changed, it returns the newest state in the files of
these writes. Rows that a write only copied into a new file are not changes, and deleted rows are not returned (docs/format
§9.7). docs/protocol §15 says why consumers can rely on the order.

Records of log files are merged only with records of the interval, never with older rows. So a record is returned even if an older
row with a larger ordering value wins against it, and a delete only removes rows of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import compress, takewhile
from typing import Any

from hudi_ops.clock import Clock
from hudi_ops.concurrency.foreign.fence import earliest_live, in_both_orders
from hudi_ops.concurrency.lease.lease import list_leases
from hudi_ops.config.columns import COMMIT_TIME
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Corrupt, HudiOpsError, InvalidRequest, NotFound, Unavailable, Unsupported
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.kernels.condition import member
from hudi_ops.metadata.prune.sought import LeftOut
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.read.as_of import refuse_future
from hudi_ops.read.checkpoints import (
    BEGIN_ANEW,
    checkpoint_at,
    checkpoint_meant,
    lowered,
    newest_completion,
    refuse_forgotten,
    refuse_other_table,
    table_id_of,
)
from hudi_ops.read.plan import Opened, ReadPlan, ReadRequest, Wanted
from hudi_ops.read.prune import by_statistics, with_metadata
from hudi_ops.read.scan import Scan
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.archived import ArchivedHistory, load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.checkpoint import Checkpoint
from hudi_ops.timeline.names import WRITE_ACTIONS
from hudi_ops.timeline.settings.settings_check import open_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.changes import CompletedWrite, changed_slices, resizes_named
from hudi_ops.view.columns.slices import SliceColumns, with_all_columns
from hudi_ops.view.schema import row_schema, table_schema


@dataclass(frozen=True)
class ChangesRequest:
    """Request for changes: the interval of writes, and the columns and rows of theirs to read.

    Attributes:
        since: beginning: a checkpoint, a completion time or an ISO time; None: before all writes on both timelines.
        until: end, in the same forms; None: the newest completed write.
        fence: return only writes that were requested before every write that may still complete.
        timezone: time zone of the table's instants; used only if the table does not record it.
    """

    read: ReadRequest
    since: str | None = None
    until: str | None = None
    fence: bool = False
    timezone: str | None = None


@dataclass(frozen=True)
class CoveredInstant:
    """A completed write whose changes are returned; counts are those of its statistics."""

    time: str
    completion_time: str
    action: str
    operation: str
    inserted: int
    updated: int
    deleted: int
    replaced_groups: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class ChangesPlan:
    """Files to read, writes whose rows are returned, and both ends of the interval.

    `is_bounded`: `until` or the fence excluded writes that had already completed.
    """

    read: ReadPlan
    instants: tuple[CoveredInstant, ...]
    since: Checkpoint
    checkpoint: Checkpoint
    is_bounded: bool


class Changes(Scan):
    """Rows of a fixed set of writes. Each use reads the same files again."""

    def __init__(self, plan: ChangesPlan, threads: int | None = None) -> None:
        super().__init__(plan.read, threads)
        self._changes = plan

    @property
    def instants(self) -> tuple[CoveredInstant, ...]:
        """The writes whose rows are returned, in order of completion."""
        return self._changes.instants

    @property
    def since(self) -> str:
        """Return the completion time after which the writes completed; empty for the earliest."""
        return self._changes.since.completed

    @property
    def checkpoint(self) -> str:
        """Return the `since` of the next call. Store it after the rows are stored, never before.

        Raises:
            InvalidRequest: a limit may have cut off rows, which no later read would return.
        """
        self._refuse_cut()
        return self._changes.checkpoint.encode()

    def _gone(self, error: NotFound) -> HudiOpsError:
        why = super()._gone(error)
        if not self._changes.is_bounded or isinstance(why, Corrupt):
            return why
        return InvalidRequest(
            f"a file of these changes was cleaned away: {error.what}",
            table=self._plan.table,
            expected="files that newer ones have not replaced yet, or that the cleaner still keeps",
            found="no such file",
            next_step="ask without `until` and without a fence: newer files hold these rows, as they are now",
        )


def plan_changes(
    storage: Storage, request: ChangesRequest, clock: Clock, commits: CommitReader | None = None
) -> ChangesPlan:
    """Choose the covered writes and the files to read; no data file is opened.

    Raises:
        InvalidRequest: a wrong column, filter, beginning or end, a beginning in the future; or the table no longer records all
            writes since the beginning.
        Unsupported: the table has no meta columns, or this library does not know how to merge its log files.
        Unavailable: instants were archived faster than they could be read.
        Corrupt: the settings contradict the commit log.
    """
    reader = commits or CommitReader(storage)
    config = open_config(storage, reader.settings)
    _refuse_without_meta_columns(config.name, config.populate_meta_fields)
    since, until = (checkpoint_meant(storage, text, request.timezone) for text in (request.since, request.until))
    seen = look(storage, config, with_leases=request.fence)
    opened = Opened(config, seen.timeline, reader)
    table_id = table_id_of(opened)
    for one in (since, until):
        refuse_other_table(config.name, table_id, one)
    # Read after the active timeline: an instant that is archived in between is then found twice instead of missed.
    history = load_history(storage, config)
    refuse_forgotten(storage, config, opened.timeline, history, since)
    refuse_future(config, opened.timeline, since.completed, clock)
    fence = earliest_live(storage, clock, opened.timeline, seen.reserved) if request.fence else ""
    waiting = _waiting(opened.timeline, history, since)
    horizon = seen.horizon_with(history)
    chosen = [one for one in waiting if one[0] <= horizon and (request.until is None or until.is_consumed(*one[::-1]))]
    if request.fence:
        chosen = _before(fence, waiting, chosen)
    is_bounded = (request.fence or request.until is not None) and len(chosen) < len(waiting)
    writes = _read_writes(storage, opened, chosen)
    checkpoint = checkpoint_at(table_id, opened.timeline, chosen, lowered(since, horizon, opened.timeline, history))
    covered = tuple(_covered(one) for one in writes)
    return ChangesPlan(_plan_files(storage, opened, request.read, writes), covered, since, checkpoint, is_bounded)


@dataclass(frozen=True)
class Seen:
    """Timeline with all writes that completed up to `horizon`, and the leases listed before it.

    `start` is the start of the timeline at the first listing; `reserved` are the instants that had a lease.
    """

    timeline: Timeline
    horizon: str
    start: str
    reserved: tuple[str, ...] = ()

    def horizon_with(self, history: ArchivedHistory) -> str:
        """Return the horizon, or a later completion of a write archived before the first listing."""
        left = (
            one.completion_time for one in history.instants if one.action in WRITE_ACTIONS and one.time < self.start
        )
        return max([self.horizon, *left])


def look(storage: Storage, config: TableConfig, *, with_leases: bool) -> Seen:
    """List the timeline twice.

    The second listing contains every write that completed before the newest write of the first.

    One listing is not enough: it may take several requests. If two writes complete between them, it may contain only the later one,
    and a checkpoint at that write would skip the earlier one.
    """
    first = load_timeline(storage, config)
    reserved = tuple(list_leases(storage)) if with_leases else ()
    return Seen(load_timeline(storage, config), newest_completion(first), first.start, reserved)


def _waiting(timeline: Timeline, history: ArchivedHistory, since: Checkpoint) -> list[tuple[str, str]]:
    """Return sorted (completion time, request time) of completed writes that `since` lacks."""
    found = {one.time: one.completion_time for one in timeline.completed_writes}
    for one in history.instants:
        if one.action in WRITE_ACTIONS:
            found.setdefault(one.time, one.completion_time or one.time)
    return sorted((completed, time) for time, completed in found.items() if not since.is_consumed(time, completed))


def _before(fence: str, waiting: Sequence[tuple[str, str]], chosen: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    wanted = frozenset(chosen)
    leading = sum(1 for _ in takewhile(wanted.__contains__, waiting))
    return list(waiting[: in_both_orders(waiting, leading, fence)])


def _read_writes(storage: Storage, opened: Opened, chosen: Sequence[tuple[str, str]]) -> list[CompletedWrite]:
    """Read the commit metadata of the writes, from the active or the archived timeline.

    Raises:
        Unavailable: a write is on neither timeline any more.
    """
    found: dict[str, tuple[str, CommitMetadata]] = {}
    for _, time in chosen:
        instant = opened.timeline.find(time)
        metadata = opened.commits.metadata(opened.timeline, instant) if instant and instant.is_completed else None
        if instant is not None and metadata is not None:
            found[time] = (instant.action, metadata)
    missing = frozenset(time for _, time in chosen) - found.keys()
    if missing:
        for one in load_history(storage, opened.config, with_content=True, only=missing).instants:
            if one.action in WRITE_ACTIONS:
                found[one.time] = (one.action, CommitMetadata.from_bytes(one.metadata or b"", f"archived {one.time}"))
    for _, time in chosen:
        if time not in found:
            raise Unavailable(
                "a write vanished while its changes were looked up: restored away, or archived in this moment",
                table=opened.config.name,
                instant=time,
                next_step="ask again",
            )
        _refuse_silent(opened.config.name, time, found[time][1])
    return [CompletedWrite(time, completed, *found[time]) for completed, time in chosen]


def _plan_files(storage: Storage, opened: Opened, request: ReadRequest, writes: Sequence[CompletedWrite]) -> ReadPlan:
    config = opened.config
    plain = row_schema(config, table_schema(config, opened.timeline, opened.commits))
    only = member(COMMIT_TIME, [one.time for one in writes]) if writes else None
    wanted = Wanted.of(config, plain, request, only)
    is_layout_1 = config.layout == 1
    earlier = [] if is_layout_1 else _resizes(storage, opened, writes)
    slices = changed_slices(writes, logs_name_their_base=is_layout_1, earlier=earlier)
    touched = sorted({one.partition_path for one in slices})
    keep, _ = wanted.partitions(config)
    kept = list(compress(touched, keep(touched))) if keep is not None and touched else touched
    are_kept = frozenset(kept)
    read = with_all_columns(config, SliceColumns.of_slices([one for one in slices if one.partition_path in are_kept]))

    def narrowed(metadata: MetadataTable | None) -> tuple[SliceColumns, LeftOut]:
        sought = wanted.sought(config, request)
        return by_statistics(metadata, read, sought, LeftOut()) if metadata is not None else (read, LeftOut())

    # Without a condition of the caller the indexes exclude little: each file has rows of these writes.
    asked = request.listing if request.is_filtered else "storage"
    archived = opened.commits.archived
    read, left_out = with_metadata(storage, config, opened.timeline, asked, narrowed, archived=archived)
    instants = BlockInstants.of(config, opened.timeline, only=frozenset(one.time for one in writes))
    tasks = wanted.tasks(storage, config, read, instants)
    skipped = tuple(one for one in touched if one not in are_kept)
    return ReadPlan(config.name, wanted.output, tasks, request.limit, tuple(kept), skipped, left_out)


def _resizes(storage: Storage, opened: Opened, writes: Sequence[CompletedWrite]) -> list[CompletedWrite]:
    """Return the resizes that log files of the writes name, if completed by the interval's end."""
    named, end = resizes_named(writes), max((one.completion_time for one in writes), default="")
    found = []
    for time in named:
        instant = opened.timeline.find(time)
        metadata = opened.commits.metadata(opened.timeline, instant) if instant and instant.is_completed else None
        if instant is not None and metadata is not None and instant.completion_time <= end:
            found.append(CompletedWrite(time, instant.completion_time, instant.action, metadata))
    left = frozenset(time for time in named if opened.timeline.find(time) is None)
    archived = load_history(storage, opened.config, with_content=True, only=left).instants if left else ()
    for one in archived:
        completed = one.completion_time or one.time
        if one.action in WRITE_ACTIONS and completed <= end:
            metadata = CommitMetadata.from_bytes(one.metadata or b"", f"archived {one.time}")
            found.append(CompletedWrite(one.time, completed, one.action, metadata))
    return found


def _covered(write: CompletedWrite) -> CoveredInstant:
    stats = write.metadata.stats
    return CoveredInstant(
        write.time,
        write.completion_time,
        write.action,
        write.metadata.operation,
        inserted=sum(one.num_inserts for one in stats),
        updated=sum(one.num_update_writes for one in stats),
        deleted=sum(one.num_deletes for one in stats),
        replaced_groups=sum(map(len, (write.metadata.replaced or {}).values())),
    )


def _refuse_without_meta_columns(table: str, are_there: bool) -> None:
    if not are_there:
        raise Unsupported(
            "this table's files do not tell which write each row is from, so its changes cannot be told from rows carried over",
            table=table,
            expected="hoodie.populate.meta.fields=true",
            found="false",
            next_step="read the whole table, or compare it with the read as of an earlier instant",
        )


def _refuse_silent(table: str, time: str, metadata: CommitMetadata) -> None:
    """Refuse a completed file without content: Apache Hudi silently skips such a write.

    Raises:
        Corrupt: the completed file has no content.
    """
    if metadata.operation == "UNKNOWN" and not metadata.stats and not metadata.extra:
        raise Corrupt(
            "a completed write does not say which files it wrote: its completed file is empty",
            table=table,
            instant=time,
            expected="commit metadata",
            found="none",
            next_step=BEGIN_ANEW,
        )
