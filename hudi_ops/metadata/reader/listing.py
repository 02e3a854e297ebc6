"""Listing by the partition `files` of the metadata table, and the choice of a listing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, groupby, pairwise
from typing import Literal, get_args

import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.file_lists import file_maps
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY, partition_name, partition_path
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, rebuild_command
from hudi_ops.metadata.records.records import Records
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import Keep, Listing, StorageListing, Walked
from hudi_ops.view.slices import is_partitioned

ListingChoice = Literal["auto", "storage", "metadata"]
"""Source of the listing: the metadata table where there is one; storage; or only the metadata table."""

_FILES = MetadataPartition.FILES
_WHERE = f"{FOLDER}/{_FILES.value}"

WHOLE_BYTES = 256 << 10
"""Up to this size all of `files` is read at once; of more, first the list of partitions."""

_LOOKED_UP_MAX = 0.5
"""Share of all partitions; if more of them are wanted, everything is read, which is no more work than looking for them."""


class MetadataListing:
    """Listing of files by the metadata table, in a few requests.

    Up to `whole_bytes` all of `files` is read at once; of more, first the list of partitions.
    """

    source: Literal["storage", "metadata"] = "metadata"

    def __init__(self, metadata: MetadataTable, *, is_partitioned: bool, whole_bytes: int = WHOLE_BYTES) -> None:
        self._metadata = metadata
        self._whole_bytes = whole_bytes
        self._is_partitioned = is_partitioned

    def files(self, partitions: Sequence[str]) -> dict[str, list[DataFile]]:
        """Return base and log files by sorted partition path; raise as `MetadataTable.read` does."""
        found = self._listed(partitions)
        return {path: _data_files(path, found.get(path, {})) for path in partitions}

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """Return all partitions with base and log files; raise as `MetadataTable.read` does.

        `may_prune_folders` has no effect: partitions are known without their folders.
        """
        if not self._is_partitioned:
            return Walked(self.files([""]))
        if keep is None or self._size_bytes <= self._whole_bytes:
            found = self._listed(None)
            partitions = sorted(found)
            kept = _kept(partitions, keep)
        else:
            partitions = sorted(self._listed([]))
            kept = _kept(partitions, keep)
            found = self._listed(kept if len(kept) <= _LOOKED_UP_MAX * len(partitions) else None)
        files = {path: _data_files(path, found[path]) for path in kept}
        return Walked(files, tuple(sorted(set(partitions) - set(kept))))

    @property
    def _size_bytes(self) -> int:
        return sum(file.size_bytes for slice_ in self._metadata.slices(_FILES) for file in slice_.files)

    def _listed(self, partitions: Sequence[str] | None) -> dict[str, dict[str, int]]:
        """Return sizes by file name of each listed partition, at least of the requested ones."""
        keys = None if partitions is None else [ALL_PARTITIONS_KEY, *map(partition_name, partitions)]
        (parts,) = self._metadata.parts(_FILES, keys=keys)
        return folded_files(parts, _WHERE)


def open_listing(
    storage: Storage,
    config: TableConfig,
    metadata: MetadataTable | None,
    choice: ListingChoice = "auto",
    engine: LocalEngine | None = None,
) -> Listing:
    """Return the listing that a read uses; `engine` limits the folders listed at a time.

    Raises:
        Unsupported: the metadata table was requested, and none can be used.
    """
    is_held = metadata is not None and choice != "storage" and metadata.holds(_FILES)
    if metadata is not None and is_held:
        return MetadataListing(metadata, is_partitioned=is_partitioned(config))
    if choice == "metadata":
        raise Unsupported(
            "the table cannot be listed by its metadata table",
            table=config.name,
            expected="version 8 or 9, and a metadata table with the partition files and all completed writes",
            found=f"version {config.version}, partitions: {', '.join(config.metadata_partitions) or 'none'}",
            next_step=f"read with listing=auto, or run {rebuild_command()}",
        )
    return StorageListing(storage, is_partitioned=is_partitioned(config), engine=engine)


def listing_choice(text: str) -> ListingChoice:
    """Parse a listing choice of a caller.

    Raises:
        InvalidRequest: there is no such choice.
    """
    for choice in get_args(ListingChoice):
        if text == choice:
            chosen: ListingChoice = choice
            return chosen
    raise InvalidRequest(
        f"{text} is not a kind of listing",
        expected=" or ".join(get_args(ListingChoice)),
        found=text,
        next_step="name one of these, or leave it out for auto",
        field="listing",
    )


def _kept(partitions: Sequence[str], keep: Keep | None) -> list[str]:
    return list(compress(partitions, keep(partitions))) if keep is not None and partitions else list(partitions)


def _data_files(partition: str, sizes: dict[str, int]) -> list[DataFile]:
    found = []
    for file in sorted(sizes):
        name = parse_data_file(file)
        if name is not None:
            path = data_path(partition, file)
            found.append(DataFile(partition, path, name.file_id, name.instant, sizes[file], name.is_log))
    return found


_Entries = tuple[list[str], list[int], list[bool]]
"""Names, sizes, and whether they are deleted."""


def folded_files(parts: Sequence[Records], where: str) -> dict[str, dict[str, int]]:
    """Return sizes by file name by partition path, from parts of the one group, oldest first.

    A file that is deleted and added again exists; of two sizes the larger one counts. Source: docs/format.md §14.7.

    Raises:
        Corrupt: a value does not follow its schema.
    """
    held: dict[str, dict[str, int]] = {}
    for part, entries in zip(parts, _entries(parts, where), strict=True):
        for key in part.deletes.to_pylist():
            held.pop(key, None)
        for key, (names, sizes, flags) in zip(part.keys.to_pylist(), entries, strict=True):
            files = held.get(key)
            if files is None:
                held[key] = {
                    name: size for name, size, is_deleted in zip(names, sizes, flags, strict=True) if not is_deleted
                }
                continue
            for name, size, is_deleted in zip(names, sizes, flags, strict=True):
                if is_deleted:
                    files.pop(name, None)
                else:
                    files[name] = max(size, files.get(name, 0))
    partitions = held.pop(ALL_PARTITIONS_KEY, {})
    return {partition_path(name): held.get(name, {}) for name in sorted(partitions)}


def _entries(parts: Sequence[Records], where: str) -> Iterator[list[_Entries]]:
    """Yield the entries of each part, in order, decoding records of one schema together."""
    for schema, alike in groupby(parts, key=lambda part: part.schema):
        same = list(alike)
        _, maps = file_maps(joined([part.values for part in same], pa.binary()), schema, where)
        names, offsets = maps.keys.to_pylist(), maps.offsets.to_pylist()
        sizes, flags = (maps.items.field(at).to_pylist() for at in (0, 1))
        said = [(names[start:stop], sizes[start:stop], flags[start:stop]) for start, stop in pairwise(offsets)]
        first = 0
        for part in same:
            yield said[first : first + len(part.keys)]
            first += len(part.keys)
