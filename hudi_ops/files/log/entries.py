"""Log file blocks as entries to merge: deciding columns in the table's types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import IS_DELETED
from hudi_ops.errors import Corrupt, HudiOpsError
from hudi_ops.files.log.log_file import LogBlock, LogFileReader
from hudi_ops.files.log.merge_rules import OPERATION, MergeRules
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.merging.log_merge import LogEntries
from hudi_ops.kernels.merging.ordering import ordering_of_deletes

_OPERATION_DELETE = "D"


def entries_of_rows(heads: pa.Table, rules: MergeRules, reader: LogFileReader, block: LogBlock) -> LogEntries:
    """Return the entries of a data block with the columns `rules.of_log` (docs/format §11.3).

    Raises:
        Corrupt: a row has no record key.
    """
    return _of_rows(heads, keys_of_rows(heads, rules, reader, block), rules)


def keys_of_rows(heads: pa.Table, rules: MergeRules, reader: LogFileReader, block: LogBlock) -> pa.Array:
    """Return the record keys of rows of a data block.

    `heads` has the columns `rules.key_columns`.

    Raises:
        Corrupt: a row has no record key.
    """
    keys = _array(rules.keys_of(heads))
    if keys.null_count:
        raise Corrupt(
            f"the log file {reader.path} has rows without a record key, in the block at offset {block.offset}",
            table=rules.table,
            instant=block.instant,
            expected="a key in each row",
            found=f"{keys.null_count} of {len(keys)} rows without one",
            next_step="run `hudi-ops verify`; restore the file from a copy",
        )
    return keys


def entries_as_written(
    rows: pa.Table | None, keys: pa.Array, deletes: Deletes | None, rules: MergeRules
) -> list[LogEntries]:
    """Return the entries of a new log file as readers read them: its rows, then its deletes.

    `rows` has the columns `rules.of_log` in the table's types; None: there are none.
    """
    found = [_of_rows(rows, keys, rules)] if rows is not None else []
    if deletes is None:
        return found
    everything = np.ones(len(deletes.keys), bool)
    is_compared = rules.ordering is not None and deletes.ordering is not None
    unconditional = everything
    if deletes.ordering is not None:
        unconditional = np.asarray(deletes.ordering.is_null()) | _is_default(deletes.ordering)
    ordering = deletes.ordering if is_compared else None
    return [*found, LogEntries(deletes.keys, ordering, everything, everything, unconditional)]


def entries_of_deletes(rules: MergeRules, reader: LogFileReader, block: LogBlock) -> LogEntries:
    """Return the entries of a DELETE block.

    Raises:
        Corrupt: the block cannot be read.
        Unsupported: ordering values that do not fit the table's column.
        Unavailable: the storage did not deliver the block.
    """
    parts = []
    kind = rules.ordering.type if rules.ordering is not None else None
    for deletes in reader.deletes(block):
        count = len(deletes.keys)
        everything = np.ones(count, bool)
        ordering = None
        if deletes.ordering is not None and kind is not None:
            try:
                ordering = ordering_of_deletes(deletes.ordering, kind)
            except HudiOpsError as error:
                raise error.at(table=rules.table, instant=block.instant) from None
        unconditional = everything if deletes.ordering is None else np.asarray(deletes.ordering.is_null())
        parts.append(LogEntries(deletes.keys, ordering, everything, everything, unconditional))
    return LogEntries.joined(parts, kind)


def _of_rows(heads: pa.Table, keys: pa.Array, rules: MergeRules) -> LogEntries:
    ordering = rules.ordering_of(heads)
    values = _array(ordering) if ordering is not None else None
    nothing, deleting = np.zeros(len(keys), bool), _deleting(heads, rules)
    return LogEntries(keys, values, deleting, of_delete_block=nothing, is_unconditional=deleting & _is_default(values))


def _is_default(values: pa.Array | None) -> npt.NDArray[np.bool_] | bool:
    """Return which ordering values are integer 0, which a delete without a value carries."""
    if values is None or values.type not in {pa.int8(), pa.int16(), pa.int32()}:
        return False
    return np.asarray(pc.fill_null(pc.equal(values, 0), False), bool)


def _deleting(heads: pa.Table, rules: MergeRules) -> npt.NDArray[np.bool_]:
    found = np.zeros(heads.num_rows, bool)
    names = rules.flags.names
    if IS_DELETED in names and pa.types.is_boolean(rules.flags.field(IS_DELETED).type):
        found |= np.asarray(pc.fill_null(heads.column(IS_DELETED), False), bool)
    if OPERATION in names:
        found |= _equals(heads.column(OPERATION), _OPERATION_DELETE)
    if rules.marker is not None:
        found |= _equals(heads.column(rules.marker[0]), rules.marker[1])
    return found


def _equals(column: pa.ChunkedArray, text: str) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(pc.equal(column.cast(pa.string()), text), False), bool)


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays([pa.array([], values.type), *values.chunks])
