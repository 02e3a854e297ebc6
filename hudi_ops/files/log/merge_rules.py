"""Rules by which a table merges records of one key, as one value that tasks carry."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.config.columns import IS_DELETED, RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Unsupported
from hudi_ops.kernels.keys.keys import KeySpec, record_keys
from hudi_ops.kernels.merging.merge import Ordering

OPERATION = "_hoodie_operation"
"""Column that some writers add: the operation on the row; `D` deletes it."""

_MARKER = "hoodie.payload.delete."
_PREFIXES = ("hoodie.record.merge.property.", "")
_PARTIAL_UPDATE = "hoodie.table.partial.update.mode"


@dataclass(frozen=True)
class MergeRules:
    """Settings and columns of a table that merging needs.

    Attributes:
        mode: rule for the newer of two rows; by commit time where there is no ordering field.
        ordering: the ordering field, with the table's type; None where nothing is compared.
        keys: how record keys are made in a table without meta columns; None: rows have them in a column.
        key_columns: the columns that hold the key, or of which it is made, with the table's types.
        flags: further columns that can mark a log row as a delete, as far as the table's schema has them.
        marker: the column among `flags` whose value deletes, and that value.
    """

    table: str
    mode: Ordering
    ordering: pa.Field | None
    keys: KeySpec | None
    key_columns: pa.Schema
    flags: pa.Schema
    marker: tuple[str, str] | None

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> MergeRules:
        """Return the rules of a table (docs/format §11).

        Raises:
            Unsupported: rows are merged by a class of Java's, by several ordering fields, by one within a struct, or column
                by column; or keys are made of fields that the table does not have, or has within a struct.
        """
        _refuse_unknown(config, schema)
        names = schema.names
        by = config.ordering_fields[0] if config.ordering_fields else None
        is_by_event = config.merge_mode == "EVENT_TIME_ORDERING" and by in names
        marker = _marker(config, schema)
        flagging = dict.fromkeys([IS_DELETED, OPERATION, *(marker[:1] if marker else ())])
        if config.populate_meta_fields:
            keys, key_columns = None, pa.schema([pa.field(RECORD_KEY, pa.string())])
        else:
            keys = KeySpec(config.record_key_fields, config.encodes_key_names)
            key_columns = pa.schema([schema.field(name) for name in config.record_key_fields])
        return cls(
            table=config.name,
            mode=Ordering.EVENT_TIME if is_by_event else Ordering.COMMIT_TIME,
            ordering=schema.field(by) if is_by_event else None,
            keys=keys,
            key_columns=key_columns,
            flags=pa.schema([schema.field(name) for name in flagging if name in names]),
            marker=marker,
        )

    @property
    def of_base(self) -> pa.Schema:
        """Columns of a base row that decide."""
        return _distinct([*self.key_columns, *([self.ordering] if self.ordering is not None else [])])

    @property
    def of_log(self) -> pa.Schema:
        """Columns of a log row that decide."""
        return _distinct([*self.of_base, *self.flags])

    def keys_of(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Return the record keys of rows that have `key_columns`; null where the key column is.

        Raises:
            InvalidRequest: keys are made of fields, and one is null. Raised by `record_keys`.
        """
        return rows.column(RECORD_KEY) if self.keys is None else record_keys(rows, self.keys)

    def ordering_of(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Return the ordering values of rows that have `of_base`; None where nothing is compared."""
        return rows.column(self.ordering.name) if self.ordering is not None else None


def _distinct(fields: list[pa.Field]) -> pa.Schema:
    return pa.schema(list({field.name: field for field in fields}.values()))


def _refuse_unknown(config: TableConfig, schema: pa.Schema) -> None:
    within = [name for name in config.ordering_fields if name not in schema.names and _is_nested(name, schema)]
    missing = [name for name in config.record_key_fields if name not in schema.names]
    partial = config.raw.get(_PARTIAL_UPDATE, "").strip().upper()
    reason = ""
    if config.merge_mode == "CUSTOM":
        payload = config.raw.get("hoodie.compaction.payload.class") or config.raw.get(
            "hoodie.table.legacy.payload.class"
        )
        reason = f"hoodie.record.merge.mode=CUSTOM, payload class {payload or 'unknown'}"
    elif len(config.ordering_fields) > 1:
        reason = f"several ordering fields: {', '.join(config.ordering_fields)}"
    elif config.merge_mode == "EVENT_TIME_ORDERING" and within:
        # A field that the schema lacks orders nothing; a nested one orders the rows for every other reader.
        reason = f"an ordering field within a struct: {within[0]}"
    elif not config.populate_meta_fields and missing:
        reason = f"record keys made of {missing[0]}, which is not a column of the table"
    elif partial not in {"", "NONE"}:
        reason = f"{_PARTIAL_UPDATE}={partial}"
    if reason:
        raise Unsupported(
            "this table has rows in log files, and an unknown merge rule",
            table=config.name,
            expected="COMMIT_TIME_ORDERING, or EVENT_TIME_ORDERING by one field, whole rows",
            found=reason,
            next_step="compact the table with Apache Hudi, or read only its base files with query='read_optimized'",
        )


def _is_nested(name: str, schema: pa.Schema) -> bool:
    root, dot, _ = name.partition(".")
    return bool(dot) and root in schema.names


def _marker(config: TableConfig, schema: pa.Schema) -> tuple[str, str] | None:
    for prefix in _PREFIXES:
        field, value = (config.raw.get(f"{prefix}{_MARKER}{part}") for part in ("field", "marker"))
        if field and value is not None and field in schema.names:
            return field, value
    return None
