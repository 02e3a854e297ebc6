"""Record keys of a base file or a slice, by the key column or the key fields alone."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    storage: Storage
    base: str | None
    base_bytes: int
    schema: pa.Schema
    keys: KeySpec | None = None
    logs: tuple[tuple[str, int], ...] = ()
    merging: tuple[MergeRules, BlockInstants] | None = None


def keys_of_slice(task: SliceKeysTask) -> pa.Array:
    """Return the record keys of a slice after merging, each once, in no order.

    Raises:
        Corrupt: a file cannot be read.
        Unsupported: a log block holds records that cannot be merged here.
        NotFound: a file is gone: cleaned since it was listed.
        Unavailable: the storage did not deliver it.
        Internal: log files without merge rules.
    """
    if not task.logs:
        base = pa.array([], pa.string())
        return base if task.base is None else pc.unique(keys_of_base(task.storage, task.base, task.schema, task.keys))
    if task.merging is None:
        raise Internal("The keys of log files were requested without merge rules", found=task.logs[0][0])
    rules, instants = task.merging
    wanted = _key_columns(task.schema, task.keys)
    scan = SliceTask(task.storage, task.base, task.base_bytes, task.logs, rules, instants, wanted, tuple(wanted.names))
    return pc.unique(_keys(SliceScan(scan).table(), task.keys))


def keys_of_base(storage: Storage, path: str, schema: pa.Schema, keys: KeySpec | None) -> pa.Array:
    """Return the record keys of a base file, row by row.

    Raises:
        Corrupt: it cannot be read.
        NotFound: it is gone.
        Unavailable: the storage did not deliver it.
    """
    wanted = _key_columns(schema, keys)
    return _keys(conform(BaseFileReader(storage, path).read(wanted.names), wanted, path), keys)


def _key_columns(schema: pa.Schema, keys: KeySpec | None) -> pa.Schema:
    # In the table's present types: a key's text depends on the unit of a timestamp.
    return pa.schema([schema.field(name) for name in (keys.fields if keys is not None else (RECORD_KEY,))])


def _keys(rows: pa.Table, keys: KeySpec | None) -> pa.Array:
    if keys is not None:
        return record_keys(rows, keys)
    column = rows.column(RECORD_KEY)
    return pa.concat_arrays([pa.array([], pa.string()), *column.chunks])
