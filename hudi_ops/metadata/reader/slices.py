"""Newest slices of a metadata partition, from one listing (docs/format §14.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import compress

from hudi_ops.files.names import DataFileName, parse_data_file
from hudi_ops.metadata.reader.instants import MetadataInstants
from hudi_ops.metadata.records.partitions import FOLDER, group_id
from hudi_ops.storage.protocol import FileInfo, Folder, Storage
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import merge_order

_NUMBER = re.compile(r".*-(?P<number>\d{4,})-0")


@dataclass(frozen=True, slots=True)
class MetadataSlice:
    """Files that are read of one file group; `logs` are in merge order.

    Paths are below the data table's root.
    """

    file_id: str
    base: DataFile | None
    logs: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files, in the order in which they are merged."""
        return self.logs if self.base is None else (self.base, *self.logs)


def list_partition(storage: Storage, partition: str) -> Folder:
    """List the folder of a partition; empty when it does not exist."""
    return storage.list_folder(f"{FOLDER}/{partition}")


def count_groups(partition: str, folder: Folder) -> int | None:
    """Return the number of file groups; None if keys are not hashed to them by number.

    Source: docs/format §14.2: only the distinct groups on storage tell the number.
    """
    found = {file.file_id for file in _data_files(partition, folder)}
    numbers = {int(match["number"]) for group in found if (match := _NUMBER.fullmatch(group))}
    is_plain = found == {group_id(partition, number) for number in range(len(found))}
    return len(found) if is_plain and len(numbers) == len(found) else None


def newest_slices(partition: str, folder: Folder, instants: MetadataInstants) -> tuple[MetadataSlice, ...]:
    """Return the newest slice of each file group, by file id; it may have no counting file.

    It is the newest committed base file, and the log files completed after that was requested (docs/format §9.2).
    """
    bases: dict[str, DataFile] = {}
    logs: dict[str, list[tuple[FileInfo, str]]] = {}
    for info in folder.files:
        name = parse_data_file(info.name)
        if name is None:
            continue
        of_group = logs.setdefault(name.file_id, [])
        if name.is_log:
            of_group.append((info, name.instant))
        elif instants.is_committed(name.instant):
            held = bases.get(name.file_id)
            if held is None or held.instant < name.instant:
                bases[name.file_id] = _data_file(partition, info, name)
    counted: list[DataFile] = []
    for file_id, of_group in logs.items():
        # Log files of older slices lie there until they are cleaned: most of a folder.
        merged = instants.completed_below(bases[file_id].instant) if file_id in bases else frozenset()
        counted += [
            _data_file(partition, info, name)
            for info, instant in of_group
            if instant not in merged and instants.counts(instant) and (name := parse_data_file(info.name)) is not None
        ]
    upon = instants.lie_upon([
        (log.instant, base.instant if (base := bases.get(log.file_id)) else "") for log in counted
    ])
    after: dict[str, list[DataFile]] = {}
    for log in compress(counted, upon):
        after.setdefault(log.file_id, []).append(log)
    return tuple(
        MetadataSlice(file_id, bases.get(file_id), merge_order(after.get(file_id, ()))) for file_id in sorted(logs)
    )


def newer_bases(partition: str, folder: Folder, instants: MetadataInstants) -> frozenset[str]:
    """Return times of base files that do not count, above all counting ones of their group.

    A compaction is making them, or gave up; or they were completed since the timeline was listed. In the last case, the slices of
    the timeline may have been cleaned before the folder was listed, and the remaining files would seem complete.
    """
    counted: dict[str, str] = {}
    others: list[DataFile] = []
    for file in _data_files(partition, folder):
        if file.is_log:
            continue
        if instants.is_committed(file.instant):
            counted[file.file_id] = max(counted.get(file.file_id, ""), file.instant)
        else:
            others.append(file)
    return frozenset(file.instant for file in others if file.instant > counted.get(file.file_id, ""))


def _data_files(partition: str, folder: Folder) -> list[DataFile]:
    named = ((info, parse_data_file(info.name)) for info in folder.files)
    return [_data_file(partition, info, name) for info, name in named if name is not None]


def _data_file(partition: str, info: FileInfo, name: DataFileName) -> DataFile:
    return DataFile(str(partition), info.path, name.file_id, name.instant, info.size_bytes, name.is_log)
