"""Which files hold what some writes changed: of each file group the newest slice among the files that they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hudi_ops.errors import Unsupported
from hudi_ops.files.names import parse_data_file
from hudi_ops.timeline.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

_NO_FILE = frozenset({"", "null"})


@dataclass(frozen=True)
class CompletedWrite:
    """A completed write with what it says, from the active timeline or from the archived one."""

    time: str
    completion_time: str
    action: str
    metadata: CommitMetadata


def changed_slices(writes: Sequence[CompletedWrite], *, logs_name_their_base: bool = False) -> list[Slice]:
    """Slices that hold the newest state of all that the writes wrote, by partition and file id.

    Groups that one of the writes replaced are left out: their rows are gone, or lie in a new group among those files. A log file
    older than the newest base file of its group is in that base file already.

    Args:
        writes: in any order.
        logs_name_their_base: log files carry the instant of their base file (version 6), not their writer's.

    Raises:
        Unsupported: a write names a file that is no data file of Hudi's.

    Source: docs/format.md §9.2, §9.7.
    """
    replaced = {
        (partition, file_id)
        for write in writes
        for partition, ids in (write.metadata.replaced or {}).items()
        for file_id in ids
    }
    completed = {write.time: write.completion_time for write in writes}
    groups: dict[tuple[str, str], dict[str, DataFile]] = {}
    for file in _files(writes):
        key = (file.partition_path, file.file_id)
        if key not in replaced:
            groups.setdefault(key, {})[file.path] = file
    slices = []
    for key, files in sorted(groups.items()):
        base = max((one for one in files.values() if not one.is_log), key=lambda one: one.instant, default=None)
        logs = [
            one
            for one in files.values()
            if one.is_log and (base is None or _counted_from(one, completed, logs_name_their_base) >= base.instant)
        ]
        slices.append(Slice(*key, base, tuple(sorted(logs, key=lambda one: one.path))))
    return slices


def _files(writes: Iterable[CompletedWrite]) -> Iterable[DataFile]:
    for write in writes:
        for stat in write.metadata.stats:
            if stat.path not in _NO_FILE:
                yield _data_file(write, stat)


def _data_file(write: CompletedWrite, stat: WriteStat) -> DataFile:
    name = parse_data_file(stat.file_name)
    if name is None:
        raise Unsupported(
            f"a write names a file that is none of the kinds known here: {stat.path}",
            instant=write.time,
            expected="a base file in Parquet, or a log file",
            found=stat.file_name,
            next_step="read these changes with Apache Hudi",
        )
    size = stat.file_size_in_bytes or stat.total_write_bytes
    return DataFile(stat.partition_path, stat.path.lstrip("/"), name.file_id, name.instant, size, name.is_log)


def _counted_from(log: DataFile, completed: dict[str, str], logs_name_their_base: bool) -> str:
    return log.instant if logs_name_their_base else completed.get(log.instant, log.instant)
