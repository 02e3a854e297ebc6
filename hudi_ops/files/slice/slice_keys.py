"""Record keys of a base file or a slice, by the key column or the key fields alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.errors import Internal
from hudi_ops.files.base.base_file import BaseFileReader, conform
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask
from hudi_ops.kernels.keys.keys import KeySpec, record_keys
from hudi_ops.storage.protocol import Storage


@dataclass(frozen=True)
class SliceKeysTask:
    """File slice whose keys are wanted; picklable.

    Attributes:
        base: path of its base file below the table's root; None: it has none.
        schema: columns of the table's base files, in its present types; see `stored_schema`.
        keys: how record keys are made in a table without meta columns; None: files have them in a column.
        logs: paths and sizes of its log files, in the order in which they are merged.
        merging: merge rules, and the instants whose blocks count; needed where there are log files.
        columns: columns to read beside the keys, for `keyed_rows_of_slice`.
    """

    storage: Storage
    base: str | None
    base_bytes: int
    schema: pa.Schema
    keys: KeySpec | None = None
    logs: tuple[tuple[str, int], ...] = ()
    merging: tuple[MergeRules, BlockInstants] | None = None
    columns: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Size of all its files."""
        return self.base_bytes + sum(size_bytes for _, size_bytes in self.logs)


def keys_of_slice(task: SliceKeysTask) -> pa.Array:
    """Return the record keys of a slice after merging, each once, in no order.

    Raises:
        Corrupt: a file cannot be read.
        Unsupported: a log block holds records that cannot be merged here.
        NotFound: a file is gone: cleaned since it was listed.
        Unavailable: the storage did not deliver it.
        Internal: log files without merge rules.
    """
    return pc.unique(keyed_rows_of_slice(replace(task, columns=()))[0])


def keyed_rows_of_slice(task: SliceKeysTask) -> tuple[pa.Array, pa.Table]:
    """Return the record key of each row of a slice after merging, and its `columns`.

    Raises:
        Internal: log files without merge rules. Others as `keys_of_slice`.
    """
    wanted = _key_columns(task.schema, task.keys, task.columns)
    if not task.logs:
        rows = _rows_of_base(task.storage, task.base, wanted) if task.base is not None else wanted.empty_table()
    elif task.merging is None:
        raise Internal("The keys of log files were requested without merge rules", found=task.logs[0][0])
    else:
        merge_rules, instants = task.merging
        rows = SliceScan(
            SliceTask(
                task.storage, task.base, task.base_bytes, task.logs, merge_rules, instants, wanted, tuple(wanted.names)
            )
        ).table()
    return _keys(rows, task.keys), rows.select(task.columns)


def keys_of_base(storage: Storage, path: str, schema: pa.Schema, keys: KeySpec | None) -> pa.Array:
    """Return the record keys of a base file, row by row.

    Raises:
        Corrupt: it cannot be read.
        NotFound: it is gone.
        Unavailable: the storage did not deliver it.
    """
    return _keys(_rows_of_base(storage, path, _key_columns(schema, keys)), keys)


def _rows_of_base(storage: Storage, path: str, wanted: pa.Schema) -> pa.Table:
    return conform(BaseFileReader(storage, path).read(wanted.names), wanted, path)


def _key_columns(schema: pa.Schema, keys: KeySpec | None, columns: Sequence[str] = ()) -> pa.Schema:
    # In the table's present types: a key's text depends on the unit of a timestamp.
    names = dict.fromkeys((*(keys.fields if keys is not None else (RECORD_KEY,)), *columns))
    return pa.schema([schema.field(name) for name in names])


def _keys(rows: pa.Table, keys: KeySpec | None) -> pa.Array:
    if keys is not None:
        return record_keys(rows, keys)
    column = rows.column(RECORD_KEY)
    return pa.concat_arrays([pa.array([], pa.string()), *column.chunks])
