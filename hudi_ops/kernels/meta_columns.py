"""Apache Hudi's five meta columns on Arrow tables.

Columns with one value in all rows are dictionaries of one entry, which are made without copying the value and written in a
third of the time; writers hide the Arrow schema, so that they are read back as strings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from hudi_ops.errors import InvalidRequest


def meta_schema() -> list[pa.Field]:
    """Return the five meta fields, in their order on disk: nullable strings."""
    return [pa.field(name, pa.string()) for name in META_COLUMNS]


def add_meta_columns(
    data: pa.Table, *, keys: pa.Array, partition_path: str, instant: str, file_name: str, seqno_prefix: str
) -> pa.Table:
    """Put the five meta columns in front of `data` (docs/format §6.2).

    `instant` has 17 digits; the row number is appended to `seqno_prefix`, `{instant}_{taskPartition}_`. The columns of `data` are
    shared. All new columns but key and sequence number are dictionary-encoded.

    Raises:
        InvalidRequest: `data` has a meta column already, or `keys` has another length.
    """
    held = set(data.column_names)
    clashes = [name for name in META_COLUMNS if name in held]
    if clashes or len(keys) != data.num_rows:
        raise InvalidRequest(
            "The rows cannot be given meta columns.",
            expected=f"{data.num_rows} keys, and no column that begins with _hoodie_",
            found=f"{len(keys)} keys, columns {', '.join(clashes) or 'as expected'}",
            next_step="Remove Apache Hudi's own columns from the source.",
        )
    rows = data.num_rows
    values = {
        COMMIT_TIME: _constant(instant, rows),
        COMMIT_SEQNO: pc.binary_join_element_wise(seqno_prefix, pc.cast(pa.array(np.arange(rows)), pa.string()), ""),
        RECORD_KEY: keys if keys.type == pa.string() else keys.cast(pa.string()),
        PARTITION_PATH: _constant(partition_path, rows),
        FILE_NAME: _constant(file_name, rows),
    }
    meta = [field.with_type(values[field.name].type) for field in meta_schema()]
    schema = pa.schema([*meta, *data.schema], metadata=data.schema.metadata)
    return pa.Table.from_arrays([*(values[name] for name in META_COLUMNS), *data.columns], schema=schema)


def with_file_name(data: pa.Table, file_name: str) -> pa.Table:
    """Replace `_hoodie_file_name` by a dictionary of one entry (docs/format §6.2).

    Raises:
        InvalidRequest: there is no such column.
    """
    place = data.schema.get_field_index(FILE_NAME)
    if place < 0:
        raise InvalidRequest(
            f"The rows have no column {FILE_NAME}.",
            expected="rows read from a base file, meta columns included",
            found=f"columns {', '.join(data.column_names)}",
            next_step="Read the base file with its meta columns.",
        )
    one = _constant(file_name, data.num_rows)
    return data.set_column(place, data.schema.field(place).with_type(one.type), one)


def _constant(value: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string()))
