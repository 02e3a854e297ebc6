"""Describe a metadata table: partitions, file groups, files, deltas since its compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import INIT_PREFIX, MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, is_kept
from hudi_ops.metadata.writer.compaction import compactions, deltas_since_compaction
from hudi_ops.services.base.result import Result
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.settings.properties_file import load_config


@dataclass(frozen=True)
class PartitionFacts:
    """One partition. `state` is `used`, `being built`, or `left`: files that no reader uses.

    `log_files` and `log_bytes` count what a reader merges with the newest base files; `bytes` counts all files. `slice_log_files`:
    most log files of a slice, without the empty ones that begin a file group.
    """

    name: str
    state: str
    kept: bool
    file_groups: int
    base_files: int
    log_files: int
    bytes: int
    log_bytes: int
    slice_log_files: int = 0


@dataclass(frozen=True)
class PendingDelta:
    """A pending instant of a metadata table's own timeline.

    Attributes:
        instant: its request time.
        action: its pending word.
        of_data: pending word of the instant of the data table with this time; empty: none is pending.
    """

    instant: str
    action: str
    of_data: str


@dataclass(frozen=True)
class MetadataFacts(Result):
    """A metadata table.

    `behind` names completed writes that it lacks, so readers ignore it; `pending` are the pending instants of its timeline.
    """

    table: str
    partitions: tuple[PartitionFacts, ...]
    deltas_since_compaction: int
    last_compaction: str | None
    bytes: int
    behind: tuple[str, ...]
    pending: tuple[PendingDelta, ...] = ()

    @property
    def slice_log_files(self) -> int:
        """Return the most log files of a slice, of the partitions that readers use."""
        return max((one.slice_log_files for one in self.partitions if one.state == "used"), default=0)


def describe_metadata(storage: Storage) -> MetadataFacts:
    """Describe the metadata table of a table; without partitions where there is none.

    The whole folder is listed in one call, with the metadata table's timeline and history.

    Raises:
        InvalidRequest: the path is not a table.
    """
    config = load_config(storage)
    data = load_timeline(storage, config)
    own = load_metadata_timeline(storage)
    instants = MetadataInstants(own, data, ArchivedTimes(storage))
    listed = _by_partition(storage.list(FOLDER))
    names = sorted({*config.all_metadata_partitions, *listed})
    states = {
        **dict.fromkeys(config.metadata_partitions_inflight, "being built"),
        **dict.fromkeys(config.metadata_partitions, "used"),
    }
    found = tuple(_facts(name, states.get(name, "left"), listed.get(name, ()), instants) for name in names)
    return MetadataFacts(
        table=config.name,
        partitions=found,
        deltas_since_compaction=deltas_since_compaction(own),
        last_compaction=max(compactions(own), default=None),
        bytes=sum(partition.bytes for partition in found),
        behind=instants.missing if config.metadata_partitions else (),
        pending=tuple(PendingDelta(one.time, one.action, _pending_word(data, one.time)) for one in own.pending),
    )


def _pending_word(data: Timeline, time: str) -> str:
    return next((one.action for one in data.by_time.get(time, ()) if not one.is_completed), "")


def _by_partition(files: Iterable[FileInfo]) -> dict[str, list[FileInfo]]:
    """Return the files of each partition by its name, from a listing of the metadata table."""
    found: dict[str, list[FileInfo]] = {}
    for info in files:
        name, _, rest = info.path.removeprefix(f"{FOLDER}/").partition("/")
        if rest and "/" not in rest and not name.startswith("."):
            found.setdefault(name, []).append(info)
    return found


def _facts(name: str, state: str, files: Collection[FileInfo], instants: MetadataInstants) -> PartitionFacts:
    bases: dict[str, str] = {}
    logs: list[tuple[str, str, int]] = []
    for info in files:
        parsed = parse_data_file(info.name)
        if parsed is None:
            continue
        if parsed.is_log:
            logs.append((parsed.file_id, parsed.instant, info.size_bytes))
        elif instants.is_committed(parsed.instant):
            bases[parsed.file_id] = max(parsed.instant, bases.get(parsed.file_id, ""))
    upon = instants.lie_upon([(written, bases.get(file_id, "")) for file_id, written, _ in logs])
    newest = [log for log, is_newest in zip(logs, upon, strict=True) if is_newest]
    of_groups = Counter(file_id for file_id, written, _ in newest if not written.startswith(INIT_PREFIX))
    return PartitionFacts(
        name=name,
        state=state,
        kept=is_kept(name),
        file_groups=len({*bases, *(file_id for file_id, _, _ in logs)}),
        base_files=len(bases),
        log_files=len(newest),
        bytes=sum(info.size_bytes for info in files),
        log_bytes=sum(size for _, _, size in newest),
        slice_log_files=max(of_groups.values(), default=0),
    )
