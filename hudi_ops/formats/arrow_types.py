"""Arrow types that a table can hold, and conversions of other types to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from hudi_ops.config.columns import IS_DELETED, META_COLUMNS
from hudi_ops.errors import InvalidRequest, Unsupported

LIST_ITEM: Final = "element"
"""Name of a list's inner field, as Parquet has it."""

MAX_LEVELS: Final = 30
"""Most levels of nested types in a table: Parquet readers have limits, and those of Arrow's are the lowest."""

AVRO_TYPE: Final = b"hudi_ops.avro_type"
"""Key of a field's metadata: the Avro type (JSON) of a column that Arrow holds as fixed bytes, a VECTOR."""

MAX_PRECISION: Final = 38
"""Most digits that a decimal may have, in Arrow's 128 bits as in Spark."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEPT: Final = {
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
}
_WORDS: Final = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.date32(): "date",
}
"""Types whose name in texts of columns is not Arrow's."""

_is = pa.types
_REPLACED: Final = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.uuid(): pa.string(),
    pa.json_(): pa.string(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_UNITS: Final = {"s": "ms", "ms": "ms", "us": "us", "ns": "us"}
_LISTS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def normalise(schema: pa.Schema) -> pa.Schema:
    """Return the schema with which a table stores data of `schema` (docs/format §4, §6.3).

    Types that Hudi and Spark lack become the smallest that hold all their values (`int8` to `int32`, `large_string` to `string`);
    times with a zone become UTC; seconds become milliseconds, nanoseconds microseconds. Metadata is dropped. Idempotent.

    Raises:
        Unsupported: a field's type has no counterpart; the field is named with its full path.
        InvalidRequest: a field's name is no Avro name, or occurs twice.
    """
    return pa.schema(_fields(list(schema), ""))


def table_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a table gets from data of `schema` (docs/format §6.3).

    As `normalise`, and times without a zone become UTC at any depth: a reader in wide use fails on every table that has one.
    Idempotent.

    Raises:
        Unsupported: a field's type has no counterpart.
        InvalidRequest: a name that a table cannot have, is Apache Hudi's own, or differs from another only in case.
    """
    _refuse_deep(schema)
    zoned = pa.schema([_retimed(field, lambda kind: pa.timestamp(kind.unit, "UTC")) for field in normalise(schema)])
    _refuse_same_but_for_case(list(zoned), "")
    taken = [name for name in zoned.names if name.lower() in META_COLUMNS]
    if taken:
        raise InvalidRequest(f"column {taken[0]} is added by Hudi itself", next_step="remove it from the schema")
    if IS_DELETED in zoned.names and zoned.field(IS_DELETED).type != pa.bool_():
        raise InvalidRequest(f"column {IS_DELETED} must be boolean", found=str(zoned.field(IS_DELETED).type))
    return zoned


def without_nulls(field: pa.Field) -> pa.Field | None:
    """Return the field without nested fields of type null; None if no field remains."""
    kind = field.type
    if _is.is_null(kind):
        return None
    if _is.is_struct(kind) and kind.num_fields:
        inner = [inner_field for inner_field in map(without_nulls, kind) if inner_field is not None]
        return field.with_type(pa.struct(inner)) if inner else None
    if _is.is_list(kind) and (item := without_nulls(kind.value_field)) is not None:
        return field.with_type(pa.list_(item))
    return field


def _refuse_deep(schema: pa.Schema) -> None:
    """Refuse types that are nested deeper than readers of Parquet follow.

    Raises:
        Unsupported: names the column.
    """
    for column in schema:
        level, fields = 0, [column]
        while fields:
            level += 1
            fields = [field.type.field(at) for field in fields for at in range(field.type.num_fields)]
            if level > MAX_LEVELS:
                raise Unsupported(
                    f"The column {column.name!r} is nested in more than {MAX_LEVELS} levels",
                    expected=f"at most {MAX_LEVELS} levels of records, lists and maps",
                    found="more levels",
                    next_step="give the inner levels as text",
                    field=column.name,
                )


def in_microseconds(field: pa.Field, held: pa.Field | None = None) -> pa.Field:
    """Return a column with microseconds for milliseconds, at any depth (docs/format §6.3).

    Fields that a table has in `held`, its form of the column, keep their types.
    """
    if held is None:
        return _retimed(field, lambda kind: pa.timestamp("us", kind.tz) if kind.unit == "ms" else kind)
    kind, before = field.type, held.type
    if pa.types.is_struct(kind) and pa.types.is_struct(before):
        known = {inner.name: inner for inner in before}
        return field.with_type(pa.struct([in_microseconds(inner, known.get(inner.name)) for inner in kind]))
    if pa.types.is_list(kind) and pa.types.is_list(before):
        return field.with_type(pa.list_(in_microseconds(kind.value_field, before.value_field)))
    if pa.types.is_map(kind) and pa.types.is_map(before):
        return field.with_type(pa.map_(kind.key_type, in_microseconds(kind.item_field, before.item_field)))
    return field


def _retimed(field: pa.Field, change: Callable[[pa.TimestampType], pa.DataType]) -> pa.Field:
    """Return a column whose times have another type, at any depth."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        return field.with_type(change(kind))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_retimed(kind.value_field, change)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_type, _retimed(kind.item_field, change)))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_retimed(kind.field(at), change) for at in range(kind.num_fields)]))
    return field


def _refuse_same_but_for_case(fields: list[pa.Field], parent: str) -> None:
    """Refuse sibling names that differ only in case; Spark calls every use of them ambiguous.

    Raises:
        InvalidRequest: two siblings have such names, at any depth.
    """
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise InvalidRequest(
                f"columns {parent}{other} and {parent}{field.name} differ only in case, which Spark cannot tell apart",
                expected="names that differ in more than case",
                found=f"{parent}{field.name}",
                next_step="rename one of them in the source",
                field=f"{parent}{field.name}",
            )
        kind = field.type
        inner = [kind.field(at) for at in range(kind.num_fields)]
        _refuse_same_but_for_case(inner, f"{parent}{field.name}.")


def _fields(fields: list[pa.Field], parent: str) -> list[pa.Field]:
    seen: set[str] = set()
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise InvalidRequest(
                f"The field name {parent + field.name!r} cannot be the name of a column",
                expected="letters, digits and _, not a digit first",
                found=repr(field.name),
                next_step="rename the field in the source",
            )
        if field.name in seen:
            raise InvalidRequest(
                f"The field {parent + field.name!r} occurs twice",
                expected="each name once",
                next_step="rename or drop one of them in the source",
            )
        seen.add(field.name)
    return [
        field if is_vector(field) else pa.field(field.name, _type(field.type, parent + field.name), field.nullable)
        for field in fields
    ]


def is_vector(field: pa.Field) -> bool:
    """Return whether a column is a VECTOR, held as fixed bytes (docs/format §6.3)."""
    return AVRO_TYPE in (field.metadata or {})


def _type(kind: pa.DataType, where: str) -> pa.DataType:
    if kind in _KEPT:
        return kind
    if kind in _REPLACED:
        return _REPLACED[kind]
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, where)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp(_UNITS[kind.unit], None if kind.tz is None else "UTC")
    if pa.types.is_decimal(kind):
        return _decimal(kind, where)
    if any(is_list(kind) for is_list in _LISTS):
        item = kind.value_field
        return pa.list_(pa.field(LIST_ITEM, _type(item.type, f"{where}[]"), item.nullable))
    if pa.types.is_map(kind):
        return _map(kind, where)
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct(_fields([kind.field(at) for at in range(kind.num_fields)], f"{where}."))
    raise _unsupported(where, kind, "a boolean, number, string, binary, date, timestamp, decimal, list, map or struct")


def _decimal(kind: pa.DataType, where: str) -> pa.DataType:
    if kind.precision > MAX_PRECISION or not 0 <= kind.scale <= kind.precision:
        raise _unsupported(where, kind, f"at most {MAX_PRECISION} digits, of which none to all after the point")
    return pa.decimal128(kind.precision, kind.scale)


def _map(kind: pa.DataType, where: str) -> pa.DataType:
    key = _type(kind.key_type, f"{where}.key")
    if key != pa.string():
        raise _unsupported(where, kind, "a map with strings as keys")
    item = kind.item_field
    return pa.map_(key, pa.field("value", _type(item.type, f"{where}.value"), item.nullable))


def _unsupported(where: str, kind: pa.DataType, expected: str) -> Unsupported:
    return Unsupported(
        f"The field {where!r} has a type that a table cannot hold",
        expected=expected,
        found=str(kind),
        next_step=how_to_cast(kind) or "cast the field in the source",
    )


def how_to_cast(kind: pa.DataType) -> str:
    """Return how to cast a type that a table cannot hold; empty: no particular way."""
    if _is.is_time(kind):
        return "cast the time in the source: to text, or to the whole number of its microseconds (int64)"
    if _is.is_duration(kind):
        return "cast the duration in the source to a whole number (int64)"
    if _is.is_null(kind):
        return "the column has no value that shows its type: leave it out, or cast it in the source"
    return "cast the field in the source to its storage type" if isinstance(kind, pa.BaseExtensionType) else ""


def type_text(kind: pa.DataType) -> str:
    """Return a type in the words of `Table.create` and docs/tables.md, such as `array<bigint>`."""
    if _is.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{', '.join(f'{field.name}: {column_text(field)}' for field in fields)}>"
    if _is.is_map(kind):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if _is.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if _is.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if _is.is_timestamp(kind):
        return f"timestamp{'' if kind.tz else ' without time zone'}{' in ms' if kind.unit == 'ms' else ''}"
    return _WORDS.get(kind, str(kind))


def column_text(field: pa.Field) -> str:
    """Return the type of a column or nested field, with NOT NULL where it has no nulls."""
    return type_text(field.type) + ("" if field.nullable else " NOT NULL")
