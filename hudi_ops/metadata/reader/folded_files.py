"""Listing from unmerged records of the partition `files` (docs/format.md §14.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import pyarrow as pa

from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.records.file_lists import file_maps
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY, partition_path
from hudi_ops.metadata.records.records import Records

_Entries = tuple[list[str], list[int], list[bool]]
"""Names, sizes, and whether they are deleted."""


def folded_files(parts: Sequence[Records], where: str) -> dict[str, dict[str, int]]:
    """Return sizes by file name by partition path, from parts of the one group, oldest first.

    A file that is deleted and added again exists; of two sizes the larger one counts.

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
