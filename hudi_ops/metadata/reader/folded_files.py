"""Fold the records of the partition `files` into a table's files (docs/format §14.7)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.records.file_lists import file_maps
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY, partition_path
from hudi_ops.metadata.records.records import Records
from hudi_ops.view.columns.files import FileColumns, Longs, none_of

_ORDER = [(name, "ascending") for name in ("key", "name", "part")]


def folded_files(parts: Sequence[Records], where: str) -> FileColumns:
    """Return the data files of each listed partition.

    A file that is deleted and added again exists; of two sizes the larger one counts. A partition without a record of its own has
    no files.

    Args:
        parts: unmerged records of the one group of `files`, oldest first.
        where: names them in errors.

    Raises:
        Corrupt: a value does not follow its schema.
    """
    entries = _folded(_entries(parts, where))
    is_list = pc.equal(entries["key"], ALL_PARTITIONS_KEY)
    listed = sorted(map(partition_path, entries.filter(is_list)["name"].to_pylist()))
    entries = entries.filter(pc.invert(is_list))
    keys = pc.dictionary_encode(entries["key"])
    places = {path: at for at, path in enumerate(listed)}
    of_key = np.array([places.get(partition_path(key), -1) for key in keys.dictionary.to_pylist()], np.int64)
    if not len(of_key):
        return none_of(listed)
    at = of_key[keys.indices.to_numpy()]
    order = np.argsort(at, kind="stable")
    order = order[np.searchsorted(at[order], 0) :]
    taken = pa.array(order)
    counts = np.bincount(at[order], minlength=len(listed)).astype(np.int64)
    return FileColumns.of(listed, counts, entries["name"].take(taken), entries["size"].take(taken))


def _entries(parts: Sequence[Records], where: str) -> pa.RecordBatch:
    """Return the entries of all records, with the numbers of their parts.

    Records of one schema are decoded together. An entry that a later part deletes with its whole record is left out.
    """
    batches = []
    first = 0
    for schema, alike in groupby(parts, key=lambda part: part.schema):
        same = list(alike)
        _, maps = file_maps(joined([part.values for part in same], pa.binary()), schema, where)
        keys = joined([part.keys for part in same], pa.string())
        numbers = np.repeat(np.arange(first, first + len(same)), [len(part.keys) for part in same])
        counts = np.diff(maps.offsets.to_numpy())
        of_record = pa.array(np.repeat(np.arange(len(keys)), counts))
        low, high = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
        batches.append(
            pa.RecordBatch.from_pydict({
                "part": pa.array(np.repeat(numbers, counts)),
                "key": keys.take(of_record),
                "name": maps.keys.slice(low, high - low),
                "size": maps.items.field(0).slice(low, high - low),
                "is_deleted": maps.items.field(1).slice(low, high - low),
            })
        )
        first += len(same)
    if not batches:
        return pa.RecordBatch.from_pydict({
            "part": pa.array([], pa.int64()),
            "key": pa.array([], pa.string()),
            "name": pa.array([], pa.string()),
            "size": pa.array([], pa.int64()),
            "is_deleted": pa.array([], pa.bool_()),
        })
    found = pa.concat_batches(batches)
    for number, part in enumerate(parts):
        if len(part.deletes):
            is_gone = pc.and_(pc.is_in(found["key"], part.deletes), pc.less(found["part"], number))
            found = found.filter(pc.invert(is_gone))
    return found


def _folded(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Return one entry for each file that exists, by key and name."""
    if not entries.num_rows:
        return entries
    entries = entries.take(pc.sort_indices(entries, sort_keys=_ORDER))
    keys, names = entries["key"], entries["name"]
    is_other = pc.or_(pc.not_equal(keys[1:], keys[:-1]), pc.not_equal(names[1:], names[:-1]))
    starts = np.concatenate([[True], is_other.to_numpy(zero_copy_only=False)])
    deleted = entries["is_deleted"].to_numpy(zero_copy_only=False)
    last = np.concatenate([starts[1:], [True]])
    kept = np.flatnonzero(last & ~deleted)
    # The larger of the sizes since the last deletion.
    runs: Longs = np.flatnonzero(starts | np.concatenate([[False], deleted[:-1]]))
    largest = np.maximum.reduceat(entries["size"].to_numpy(), runs)
    sizes = largest[np.searchsorted(runs, kept, side="right") - 1]
    found = entries.take(pa.array(kept))
    return found.set_column(found.schema.get_field_index("size"), "size", pa.array(sizes))
