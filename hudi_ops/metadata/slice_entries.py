"""Read the entries of secondary indexes in file slices: value and record key of each row.

Source: docs/format §14.11.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.slice.slice_keys import SliceKeysTask, keyed_rows_of_slice
from hudi_ops.formats.large_arrays import joined, places_in
from hudi_ops.metadata.records.keys import secondary_keys


def is_indexable(kind: pa.DataType) -> bool:
    """Return whether a column of this type can have a secondary index: texts, whole numbers."""
    return bool(pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind))


def added_and_removed(now: pa.Array, before: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys, or entries, that only `now` has, and those that only `before` has.

    Each is returned once. `before` must hold each once; `now` may hold some twice. One look-up finds both.
    """
    at = places_in(now, before)
    is_gone = np.ones(len(before), bool)
    is_gone[at.drop_null().to_numpy()] = False
    return pc.unique(now.filter(at.is_null())), before.filter(pa.array(is_gone))


def entries_of_slice(task: SliceKeysTask, version: int) -> tuple[pa.Array, ...]:
    """Return the record keys of a slice after merging, then the entries of each column.

    Each is there once. The columns are the task's; `version` is that of the table.

    Raises:
        Corrupt: a file cannot be read. Others as `keys_of_slice`.
    """
    return tuple(pc.unique(each) for each in entries_of_rows(task, version))


def entries_of_rows(task: SliceKeysTask, version: int) -> tuple[pa.Array, ...]:
    """Return the record key of each row of a slice after merging, then its entry of each column.

    Raises:
        Corrupt: a file cannot be read. Others as `keys_of_slice`.
    """
    keys, rows = keyed_rows_of_slice(task)
    texts = [joined(column.cast(pa.string()).chunks, pa.string()) for column in rows.columns]
    return (keys, *(secondary_keys(each, keys, version) for each in texts))


@dataclass(frozen=True)
class ChangedSlice:
    """The slice of a file group before and after a write; None: the group is new, or goes."""

    before: SliceKeysTask | None
    after: SliceKeysTask | None


def changed_entries(changed: ChangedSlice, version: int) -> tuple[tuple[pa.Array, pa.Array], ...]:
    """Return the added and the removed entries of each column.

    Rows are compared by their values. Only of those that differ entries are made, as they are few beside the group. `version` is
    that of the table.

    Raises:
        Corrupt: a file cannot be read. Others as `keys_of_slice`.
    """
    if changed.before is None or changed.after is None:
        (task,) = (one for one in (changed.before, changed.after) if one is not None)
        whole = entries_of_slice(task, version)[1:]
        none = pa.array([], pa.string())
        return tuple((none, each) if changed.after is None else (each, none) for each in whole)
    keys, rows = keyed_rows_of_slice(changed.after)
    old_keys, old_rows = keyed_rows_of_slice(changed.before)
    if any(pc.count_distinct(each).as_py() < len(each) for each in (keys, old_keys)):
        pairs = zip(entries_of_slice(changed.after, version), entries_of_slice(changed.before, version), strict=True)
        return tuple(added_and_removed(new, old) for new, old in list(pairs)[1:])
    at = pc.index_in(keys, value_set=old_keys)
    is_known = at.is_valid().to_numpy(zero_copy_only=False)
    found = []
    for new, old in zip(rows.columns, old_rows.columns, strict=True):
        is_same = _equal(new, old.take(at)) & is_known
        stays = np.zeros(len(old_keys), bool)
        stays[at.filter(pa.array(is_same)).to_numpy()] = True
        found.append((_entries(new, keys, ~is_same, version), _entries(old, old_keys, ~stays, version)))
    return tuple(found)


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return where two columns have the same value, or both none."""
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(one.is_null(), other.is_null()))
    return np.asarray(same.to_numpy(), bool)


def _entries(values: pa.ChunkedArray, keys: pa.Array, chosen: npt.NDArray[np.bool_], version: int) -> pa.Array:
    """Return the entries of the chosen rows."""
    mask = pa.array(chosen)
    texts = values.filter(mask).cast(pa.string())
    return secondary_keys(joined(texts.chunks, pa.string()), keys.filter(mask), version)
