"""Columns that get statistics (docs/format §14.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from hudi_ops.config.columns import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from hudi_ops.formats.arrow_types import is_vector
from hudi_ops.metadata.records.stat_values import value_kind

_META: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
_OPERATION: Final = "_hoodie_operation"
COLUMNS_MAX: Final = 32


def indexed_columns(
    schema: pa.Schema, *, index_version: int, has_meta_columns: bool = True, source_fields: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns that get statistics.

    These are the columns of the definition, and those that Apache Hudi would add on its next write: it follows the schema, and
    writes its columns into the definition afterwards. A file without the range of such a column would then be read as one with
    nulls only. Columns that the schema lacks, or that have no bounds, are left out.
    """
    own = [
        field.name
        for field in schema
        if field.name not in META_COLUMNS
        and field.name != _OPERATION
        and not is_vector(field)
        and value_kind(field.type, index_version) is not None
    ]
    chosen = [name for name in source_fields if _has_bounds(schema, name, index_version, has_meta_columns)]
    return tuple(dict.fromkeys([*(_META if has_meta_columns else ()), *chosen, *own[:COLUMNS_MAX]]))


def _has_bounds(schema: pa.Schema, name: str, index_version: int, has_meta_columns: bool) -> bool:
    if name in META_COLUMNS:
        return has_meta_columns
    fields: pa.Schema | pa.StructType = schema
    kind: pa.DataType | None = None
    for part in name.split("."):
        at = -1 if kind is not None and not pa.types.is_struct(kind) else (kind or fields).get_field_index(part)
        if at < 0:
            return False
        field = (kind or fields).field(at)
        if is_vector(field):
            return False
        kind = field.type
    return kind is not None and value_kind(kind, index_version) is not None
