"""Plans and results of table services, as typed values (docs/format §3.2).

Plans are requested files, results completed ones. Both are Avro in every table version; JSON is read, too, as in commits of layout
1. Depending on action and version, the files hold bare names, absolute paths or URIs: here they are always bare file names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.json_text import load_json
from hudi_ops.storage.paths import is_path
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, requested_name

_CHILD_NODES = "clustering.group.child.node"
_CHILD_PARTITION = "clustering.group.partition"

T = TypeVar("T")
FilesByPartition: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """File slice that a plan works on; `base_file` is empty when it has log files only."""

    partition_path: str
    file_id: str
    base_file: str
    log_files: tuple[str, ...]
    base_instant: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class CompactionPlan:
    """Slices to merge, each into a new base file of its group.

    Log compactions plan the same way. `unplanned` are the partitions with log files that the plan leaves out. Apache Hudi 1.1
    looks for the next plan's slices only in these and in the partitions that were written since (docs/format §3.2).
    """

    slices: tuple[PlannedSlice, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
    unplanned: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedGroup:
    """Slices that a clustering merges into `outputs` file groups.

    `extra` describes the nodes of a hash ring, where a resize made the group.
    """

    slices: tuple[PlannedSlice, ...]
    outputs: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplacePlan:
    """Groups of slices to be replaced together by a clustering; none for overwrites.

    `children` are (partition path, first part of the file id) of the groups that a resize of consistent hashing makes: while
    it is pending, writers put their rows into these as well, under the plan's instant (docs/format §6.1). `unplanned` are the
    partitions in which Apache Hudi 1.1 has to look for its next plan, as in `CompactionPlan`.
    """

    operation: str
    groups: tuple[PlannedGroup, ...]
    strategy: str = ""
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    children: frozenset[tuple[str, str]] = frozenset()
    unplanned: tuple[str, ...] = ()

    @property
    def slices(self) -> tuple[PlannedSlice, ...]:
        """Return the slices of all groups."""
        return tuple(slice_ for group in self.groups for slice_ in group.slices)


@dataclass(frozen=True)
class CleanPlan:
    """Files to delete by a clean.

    `earliest_retained` is the oldest instant whose snapshot stays readable, or empty; `last_completed` the newest completed write
    that its planner saw. `paths` are the files as the plan spells them: a wrong plan may name some outside the table.
    """

    policy: str
    earliest_retained: str
    files: FilesByPartition
    partitions: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    paths: FilesByPartition = field(default_factory=dict)
    earliest_action: str = "commit"
    last_completed: str = ""


@dataclass(frozen=True)
class CleanResult:
    """Files that a clean deleted, failed to delete, and planned to delete.

    A file that is only in the last group did not exist; Apache Hudi lists such a file as failed, too.
    """

    earliest_retained: str
    files: FilesByPartition
    failed: FilesByPartition
    planned: FilesByPartition = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, frozenset[str]]:
        """All these files, by partition path; cleans removed those that do not exist any more."""
        parts = (self.files, self.failed, self.planned)
        return {
            path: frozenset(name for part in parts for name in part.get(path, ())) for part in parts for path in part
        }


@dataclass(frozen=True)
class RollbackPlan:
    """Instant that a rollback undoes, and the files that it will delete.

    `strange` are paths of the plan that name no file within the table; they are not in `files`. A program that executed the plan
    would delete the files at these paths, or fail.
    """

    target: str
    target_action: str
    files: FilesByPartition
    strange: tuple[str, ...] = ()


@dataclass(frozen=True)
class RolledBack:
    """Instants that a rollback undid, and the files that it deleted."""

    targets: tuple[str, ...]
    files: FilesByPartition


@dataclass(frozen=True)
class RestorePlan:
    """Instants that a restore undoes, newest first, and the savepoint that it restores."""

    targets: tuple[str, ...]
    savepoint: str = ""


@dataclass(frozen=True)
class Savepoint:
    """Files that a savepoint protects."""

    made_by: str
    at_ms: int
    comments: str
    files: FilesByPartition


@dataclass(frozen=True)
class IndexPlan:
    """Metadata partitions that an index build fills, with the newest instant covered."""

    partitions: tuple[tuple[str, str], ...]


Plan: TypeAlias = CompactionPlan | ReplacePlan | CleanPlan | RollbackPlan | RestorePlan | IndexPlan
Result: TypeAlias = CleanResult | RolledBack | RestorePlan | Savepoint | IndexPlan


def read_plan(storage: Storage, timeline: Timeline, instant: Instant) -> Plan | None:
    """Read the plan in an instant's requested file; None if it has none.

    Raises:
        Corrupt: the bytes are no plan of that action.
    """
    if instant.action not in _PLANS or State.REQUESTED not in instant.states:
        return None
    path = timeline.path(requested_name(instant.time, instant.action))
    with suppress(NotFound):
        return decode_plan(instant.action, data, path) if (data := storage.get(path)) else None
    return None


def read_result(storage: Storage, timeline: Timeline, instant: Instant) -> Result | None:
    """Read the result of a service action; None for pending instants and for writes.

    Raises:
        Corrupt: the bytes are no result of that action.
    """
    if instant.kind not in _RESULTS or not instant.is_completed:
        return None
    with suppress(NotFound):
        return decode_result(instant.kind, storage.get(path := timeline.path(instant.file_name)), path)
    return None


def decode_plan(action: str, data: bytes, path: str = "") -> Plan | None:
    """Decode the plan of an action given by its pending word; None for actions without plans.

    Raises:
        Corrupt: the bytes are no plan of that action.
    """
    return _decoded(_PLANS.get(action), data, path)


def decode_result(kind: str, data: bytes, path: str = "") -> Result | None:
    """Decode the result of an action given by its completed word; None for writes.

    Raises:
        Corrupt: the bytes are no result of that action.
    """
    return _decoded(_RESULTS.get(kind), data, path)


def _decoded(decode: Callable[[Mapping[str, Any]], T] | None, data: bytes, path: str) -> T | None:
    if decode is None:
        return None
    try:
        what = "the record that Apache Hudi writes for its action"
        record = load_json(data, path or "a plan", what) if data[:1] == b"{" else avro.read_one(data, path)
        return decode(record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(
            f"{path or 'a plan'} has fields of an unexpected kind: {error}",
            expected="the record that Apache Hudi writes for its action",
            next_step="run `hudi-ops verify`; restore the file from a copy of the table",
        ) from error


def _compaction(record: Mapping[str, Any]) -> CompactionPlan:
    return CompactionPlan(
        tuple(map(_slice, record["operations"] or ())),
        record.get("extraMetadata") or {},
        tuple(record.get("missingSchedulePartitions") or ()),
    )


def _replace(record: Mapping[str, Any]) -> ReplacePlan:
    operation, plan = record["operationType"] or "", record["clusteringPlan"] or {}
    strategy = plan.get("strategy") or {}
    groups = plan.get("inputGroups") or ()
    return ReplacePlan(
        operation,
        tuple(map(_group, groups)),
        strategy.get("strategyClassName") or "",
        strategy.get("strategyParams") or {},
        {**(record.get("extraMetadata") or {}), **(plan.get("extraMetadata") or {})},
        frozenset(child for group in groups for child in _children(group.get("extraMetadata") or {})),
        tuple(plan.get("missingSchedulePartitions") or ()),
    )


def _group(record: Mapping[str, Any]) -> PlannedGroup:
    slices, outputs = tuple(map(_slice, record["slices"] or ())), record.get("numOutputFileGroups")
    metrics, extra = record.get("metrics") or {}, record.get("extraMetadata") or {}
    return PlannedGroup(slices, 1 if outputs is None else outputs, metrics, extra)


def _children(extra: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the file groups that a resize makes of an input group, from its extra metadata."""
    for node in load_json(extra.get(_CHILD_NODES) or "[]", _CHILD_NODES, "nodes of a hash ring"):
        if node["fileIdPrefix"] is not None:
            yield extra.get(_CHILD_PARTITION) or "", node["fileIdPrefix"]


def _slice(record: Mapping[str, Any]) -> PlannedSlice:
    return PlannedSlice(
        partition_path=record.get("partitionPath") or "",
        file_id=record["fileId"] or "",
        base_file=_name(record.get("dataFilePath") or ""),
        log_files=_names(record.get("deltaFilePaths") or ()),
        base_instant=record.get("baseInstantTime") or "",
        metrics=record.get("metrics") or {},
    )


def _clean_plan(record: Mapping[str, Any]) -> CleanPlan:
    paths = {key: tuple(names) for key, names in (record.get("filesToBeDeletedPerPartition") or {}).items()}
    for partition, infos in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        paths[partition] = paths.get(partition, ()) + tuple(info["filePath"] or "" for info in infos)
    retained = record["earliestInstantToRetain"] or {}
    return CleanPlan(
        policy=record["policy"],
        earliest_retained=retained.get("timestamp") or "",
        files={partition: _names(found) for partition, found in paths.items()},
        partitions=tuple(record.get("partitionsToBeDeleted") or ()),
        extra=record.get("extraMetadata") or {},
        paths=paths,
        earliest_action=retained.get("action") or "commit",
        last_completed=record.get("lastCompletedCommitTimestamp") or "",
    )


def _clean_result(record: Mapping[str, Any]) -> CleanResult:
    return CleanResult(
        earliest_retained=record["earliestCommitToRetain"] or "",
        files=_per_partition(record, "successDeleteFiles"),
        failed=_per_partition(record, "failedDeleteFiles"),
        planned=_per_partition(record, "deletePathPatterns"),
        extra=record.get("extraMetadata") or {},
    )


def _rollback_plan(record: Mapping[str, Any]) -> RollbackPlan:
    files: dict[str, tuple[str, ...]] = {}
    strange: list[str] = []
    for request in record["RollbackRequests"] or ():
        partition = request["partitionPath"]
        paths = [*(request.get("filesToBeDeleted") or ()), *(request.get("logBlocksToBeDeleted") or {})]
        usable = [path for path in paths if _is_within(partition, path)]
        strange += [path for path in paths if not _is_within(partition, path)]
        files[partition] = files.get(partition, ()) + _names(usable)
    target = record["instantToRollback"]
    return RollbackPlan(target["commitTime"], target["action"], files, tuple(strange))


def _is_within(partition: str, path: str) -> bool:
    """Return whether a path of a plan is within its partition, without `.`, `..` or empty parts.

    It may be absolute or a URI.
    """
    below = path.partition("://")[2] or path
    return is_path(below.lstrip("/")) and (not partition or is_path(partition))


def _rolled_back(record: Mapping[str, Any]) -> RolledBack:
    return RolledBack(tuple(record["commitsRollback"]), _per_partition(record, "successDeleteFiles"))


def _restore_plan(record: Mapping[str, Any]) -> RestorePlan:
    targets = tuple(each["commitTime"] for each in record["instantsToRollback"])
    return RestorePlan(targets, record.get("savepointToRestoreTimestamp") or "")


def _restore_result(record: Mapping[str, Any]) -> RestorePlan:
    return RestorePlan(tuple(record["instantsToRollback"]))


def _savepoint(record: Mapping[str, Any]) -> Savepoint:
    return Savepoint(
        made_by=record["savepointedBy"],
        at_ms=record["savepointedAt"],
        comments=record["comments"],
        files=_per_partition(record, "savepointDataFile"),
    )


def _index(record: Mapping[str, Any]) -> IndexPlan:
    infos = record["indexPartitionInfos"] or ()
    return IndexPlan(tuple((info["metadataPartitionPath"] or "", info["indexUptoInstant"] or "") for info in infos))


def _per_partition(record: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    return {
        partition: _names(details[key] or ())
        for partition, details in (record["partitionMetadata"] or {}).items()
        if details is not None
    }


def _names(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(_name(path) for path in paths)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


_PLANS: Mapping[str, Callable[[Mapping[str, Any]], Plan]] = {
    "compaction": _compaction,
    "logcompaction": _compaction,
    "clustering": _replace,
    "replacecommit": _replace,
    "clean": _clean_plan,
    "rollback": _rollback_plan,
    "restore": _restore_plan,
    "indexing": _index,
}
_RESULTS: Mapping[str, Callable[[Mapping[str, Any]], Result]] = {
    "clean": _clean_result,
    "rollback": _rolled_back,
    "restore": _restore_result,
    "savepoint": _savepoint,
    "indexing": _index,
}
