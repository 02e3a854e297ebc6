"""Read the entries of secondary indexes in one file slice: value and record key of each row.

Source: docs/format.md §14.11.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.files.slice.slice_keys import SliceKeysTask, keyed_rows_of_slice
from hudi_ops.formats.large_arrays import joined
from hudi_ops.metadata.records.keys import secondary_keys


def is_indexable(kind: pa.DataType) -> bool:
    """Return whether a column of this type can have a secondary index: texts, whole numbers."""
    return bool(pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind))


def without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """Return the keys, or entries, that are not among others."""
    return keys.filter(pc.invert(pc.is_in(keys, others)))


def entries_of_slice(task: SliceKeysTask, version: int) -> tuple[pa.Array, ...]:
    """Return the record keys of a slice after merging, then the entries of each column.

    Each is there once. The columns are the task's; `version` is that of the table.

    Raises:
        Corrupt: a file cannot be read. Others as `keys_of_slice`.
    """
    keys, rows = keyed_rows_of_slice(task)
    texts = [joined(column.cast(pa.string()).chunks, pa.string()) for column in rows.columns]
    entries = [secondary_keys(each, keys, version) for each in texts]
    return tuple(pc.unique(each) for each in (keys, *entries))
