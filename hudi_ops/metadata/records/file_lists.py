"""Records of the partition `files`: partitions and their files (docs/format §14.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from hudi_ops.formats.avro.encode import encode_column, join
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY, partition_name, partition_path
from hudi_ops.metadata.records.partitions import ALL_PARTITIONS_TYPE, MetadataPartition, record_type
from hudi_ops.metadata.records.records import Records, sorted_records
from hudi_ops.metadata.records.values import field_node, head_of, tail_of, types_and_fields

_FILES = MetadataPartition.FILES
Entries = Mapping[str, tuple[int, bool]]
"""Content of one record: size and whether it is deleted, by name."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Changes of an action to the files of one partition.

    Attributes:
        added: sizes in bytes by name; never 0.
        removed: names.
        is_gone: the partition was deleted; then `added` and `removed` are ignored.
    """

    added: Mapping[str, int] = field(default_factory=dict)
    removed: Iterable[str] = ()
    is_gone: bool = False


def files_records(changes: Mapping[str, FileChanges], *, version: int) -> Records:
    """Return the records of an action: one per partition, and a list of those with new files.

    As in Apache Hudi, a deleted partition has a delete, and is marked so in the list. The partition "" is a table without
    partitions.
    """
    lists: dict[str, dict[str, tuple[int, bool]]] = {}
    partitions: dict[str, tuple[int, bool]] = {}
    gone: list[str] = []
    for path in sorted(changes):
        change, name = changes[path], partition_name(path)
        if change.is_gone:
            gone.append(name)
            partitions[name] = (0, True)
            continue
        if change.added:
            partitions[name] = (0, False)
        entries = {file: (size, False) for file, size in change.added.items()}
        entries.update((file, (0, True)) for file in change.removed)
        if entries:
            lists[name] = entries
    if partitions:
        lists[ALL_PARTITIONS_KEY] = partitions
    return entry_records(lists, gone, version=version)


def listing_records(files: Mapping[str, Mapping[str, int]], *, version: int) -> Records:
    """Return the records with which a new metadata table begins, also without partitions."""
    lists = {
        partition_name(path): {name: (size, False) for name, size in files[path].items()} for path in sorted(files)
    }
    lists[ALL_PARTITIONS_KEY] = {partition_name(path): (0, False) for path in sorted(files)}
    return entry_records(lists, (), version=version)


def entry_records(lists: Mapping[str, Entries], gone: Iterable[str], *, version: int) -> Records:
    """Return records of these entries, in the order of `lists`."""
    keys = pa.array(list(lists), pa.string())
    offsets = [0]
    names: list[str] = []
    sizes: list[int] = []
    flags: list[bool] = []
    for entries in lists.values():
        names += entries
        for size, is_deleted in entries.values():
            sizes.append(size)
            flags.append(is_deleted)
        offsets.append(len(names))
    infos = pa.StructArray.from_arrays(
        [pa.array(sizes, pa.int64()), pa.array(flags, pa.bool_())], ["size", "isDeleted"]
    )
    maps = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), infos)
    types = [ALL_PARTITIONS_TYPE if key == ALL_PARTITIONS_KEY else record_type(_FILES) for key in lists]
    return sorted_records(
        _FILES, keys, file_values(pa.array(types, pa.int32()), maps, version=version), list(gone), version=version
    )


def file_values(types: pa.Int32Array, maps: pa.MapArray, *, version: int) -> pa.BinaryArray:
    """Encode records whose entries are maps from name to size and isDeleted."""
    heads = pa.array([head_of(_FILES, kind) for kind in types.to_pylist()], pa.binary())
    body = encode_column(field_node(_FILES, version), maps, "filesystemMetadata")
    return join([heads, *body, tail_of(_FILES)], len(maps))


def file_maps(values: pa.BinaryArray, schema: str, where: str) -> tuple[pa.Int32Array, pa.MapArray]:
    """Decode types and maps of values; `file_values` makes the same values of them."""
    return types_and_fields(_FILES, values, schema, where)


def decoded_entries(records: Records, where: str) -> dict[str, dict[str, tuple[int, bool]]]:
    """Decode the entries of each record by its key, including deleted ones."""
    _, maps = file_maps(records.values, records.schema, where)
    offsets = maps.offsets.to_pylist()
    names = maps.keys.to_pylist()
    infos = list(zip(maps.items.field(0).to_pylist(), maps.items.field(1).to_pylist(), strict=True))
    return {
        key: dict(zip(names[start:stop], infos[start:stop], strict=True))
        for key, start, stop in zip(records.keys.to_pylist(), offsets, offsets[1:], strict=False)
    }


def listed_files(records: Records, where: str) -> dict[str, dict[str, int]]:
    """Return sizes by file name by listed partition path, from merged records.

    A partition without a record of its own has no files.
    """
    entries = decoded_entries(records, where)
    partitions = entries.pop(ALL_PARTITIONS_KEY, {})
    return {
        partition_path(name): {
            file: size for file, (size, is_deleted) in entries.get(name, {}).items() if not is_deleted
        }
        for name in sorted(partitions)
        if not partitions[name][1]
    }
