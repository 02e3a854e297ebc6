"""Find the files with the changes of some writes: their newest slice of each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hudi_ops.errors import Unsupported
from hudi_ops.files.names import parse_data_file
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order

_NO_FILE = frozenset({"", "null"})


@dataclass(frozen=True)
class CompletedWrite:
    """A completed write and its commit metadata, from the active or the archived timeline."""

    time: str
    completion_time: str
    action: str
    metadata: CommitMetadata


def changed_slices(
    writes: Sequence[CompletedWrite], *, logs_name_their_base: bool = False, earlier: Sequence[CompletedWrite] = ()
) -> list[Slice]:
    """Return slices with the newest state of the rows of writes, by partition and file id.

    Groups that one of the writes replaced are left out: their rows are deleted, or are in a new group that the writes made. A log
    file older than the newest base file of its group is left out: that base file contains its rows. During a resize a write puts
    its rows into the old groups and into the new ones. The log files of a new group count if the resize completed and made the
    group; otherwise those of the old group count.

    Args:
        logs_name_their_base: log files carry the instant of their base file (version 6), not their writer's.
        earlier: resizes whose instants `resizes_named` returns, if they completed by the end of the interval.

    Raises:
        Unsupported: a write names a file that is no data file of Hudi's.

    Source: docs/format §9.2, §9.7.
    """
    replaced = {group for write in (*writes, *earlier) for group in write.metadata.replaced_groups}
    completed = {write.time: write.completion_time for write in (*writes, *earlier)}
    made = {write.time: write.metadata.made_groups for write in (*writes, *earlier)}
    groups: dict[tuple[str, str], dict[str, DataFile]] = {}
    for write, file in _files(writes):
        key = (file.partition_path, file.file_id)
        is_hidden = file.instant != write.time and file.instant not in completed and not logs_name_their_base
        resized = made.get(file.instant) if file.instant != write.time else None
        is_left_out = resized is not None and key not in resized
        if key not in replaced and not is_hidden and not is_left_out:
            groups.setdefault(key, {})[file.path] = file
    slices = []
    for key, files in sorted(groups.items()):
        base = max((one for one in files.values() if not one.is_log), key=lambda one: one.instant, default=None)
        logs = [
            one
            for one in files.values()
            if one.is_log and (base is None or _counted_from(one, completed, logs_name_their_base) >= base.instant)
        ]
        slices.append(Slice(*key, base, merge_order(logs)))
    return slices


def resizes_named(writes: Sequence[CompletedWrite]) -> list[str]:
    """Return instants of resizes that log files of the writes carry (docs/format §6.1)."""
    own = {write.time for write in writes}
    return sorted({file.instant for _, file in _files(writes) if file.is_log} - own)


def _files(writes: Iterable[CompletedWrite]) -> Iterable[tuple[CompletedWrite, DataFile]]:
    for write in writes:
        for stat in write.metadata.stats:
            if stat.path not in _NO_FILE and not (file := _data_file(write, stat)).is_cdc:
                yield write, file


def _data_file(write: CompletedWrite, stat: WriteStat) -> DataFile:
    name = parse_data_file(stat.file_name)
    if name is None:
        raise Unsupported(
            f"a write names a file of an unknown kind: {stat.path}",
            instant=write.time,
            expected="a base file in Parquet, or a log file",
            found=stat.file_name,
            next_step="read these changes with Apache Hudi",
        )
    size = stat.file_size_in_bytes or stat.total_write_bytes
    return DataFile(stat.partition_path, stat.path.lstrip("/"), name.file_id, name.instant, size, name.is_log)


def _counted_from(log: DataFile, completed: dict[str, str], logs_name_their_base: bool) -> str:
    return log.instant if logs_name_their_base else completed.get(log.instant, log.instant)
