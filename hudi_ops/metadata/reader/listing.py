"""Listing by the partition `files` of the metadata table, and the choice of a listing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Literal, get_args

import pyarrow as pa

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.metadata.reader.folded_files import folded_files
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY, partition_name
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, rebuild_command
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.listing import Keep, Listing, Source, StorageListing, Walked
from hudi_ops.view.slices import is_partitioned

ListingChoice = Literal["auto", "storage", "metadata"]
"""Source of the listing: the metadata table where there is one; storage; or only the metadata table."""

_FILES = MetadataPartition.FILES
_WHERE = f"{FOLDER}/{_FILES.value}"

WHOLE_BYTES = 256 << 10
"""Up to this size all of `files` is read at once; of more, first the list of partitions."""

_LOOKED_UP_MAX = 0.5
"""Share of all partitions; if more of them are wanted, everything is read, which is no more work than looking for them."""


_MANY = 10_000
"""After a listing of more files the unused memory of Arrow is returned to the system."""


class MetadataListing:
    """Listing of files by the metadata table, in a few requests.

    Up to `whole_bytes` all of `files` is read at once; of more, first the list of partitions.
    """

    source: Source = "metadata"

    def __init__(self, metadata: MetadataTable, *, is_partitioned: bool, whole_bytes: int = WHOLE_BYTES) -> None:
        self._metadata = metadata
        self._whole_bytes = whole_bytes
        self._is_partitioned = is_partitioned

    @property
    def is_whole(self) -> bool:
        """Whether all of `files` is read at once."""
        return not self._is_partitioned or self._size_bytes <= self._whole_bytes

    def files(self, partitions: Sequence[str]) -> FileColumns:
        """Return base and log files by partition path; raise as `MetadataTable.read` does."""
        return self._listed(partitions).of_partitions(partitions)

    def walk(self, keep: Keep | None = None, *, may_prune_folders: bool = False) -> Walked:
        """Return all partitions with base and log files; raise as `MetadataTable.read` does.

        `may_prune_folders` has no effect: partitions are known without their folders.
        """
        if not self._is_partitioned:
            return Walked(self.files([""]))
        if keep is None or self.is_whole:
            found = self._listed(None)
            partitions = found.partitions
            kept = _kept(partitions, keep)
        else:
            partitions = self._listed([]).partitions
            kept = _kept(partitions, keep)
            found = self._listed(kept if len(kept) <= _LOOKED_UP_MAX * len(partitions) else None)
        if found.count > _MANY:
            # Records and temporary columns took several times the memory of the result; Arrow would keep it for later.
            pa.default_memory_pool().release_unused()
        return Walked(found.of_partitions(kept), tuple(sorted(set(partitions) - set(kept))))

    @property
    def _size_bytes(self) -> int:
        return sum(file.size_bytes for slice_ in self._metadata.slices(_FILES) for file in slice_.files)

    def _listed(self, partitions: Sequence[str] | None) -> FileColumns:
        """Return the files of all listed partitions, at least of the requested ones."""
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
