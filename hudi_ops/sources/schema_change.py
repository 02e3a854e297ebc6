"""Permitted changes of a table's columns: additions, and widening without loss.

Every other difference is refused, and the error names both types. The rules are those under which Apache Hudi and the `hudi`
package read old files beside new ones (docs/format §6.7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NoReturn

import pyarrow as pa

from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.formats.arrow_types import MAX_PRECISION, table_columns, without_nulls
from hudi_ops.sources.casts import is_read_as

_is = pa.types
_NARROWER: Final = {pa.int64(): {pa.int32()}, pa.float64(): {pa.int32(), pa.float32()}}
"""Types that each type holds without loss, decimals aside."""

_FOR_NEW: Final = {**_NARROWER, pa.float64(): {pa.int32(), pa.int64(), pa.float32()}}
"""The same for columns without stored values: integers of one source beside fractions of another, checked value by value."""

_NESTED: Final = "nested"


def merge_schemas(
    table: pa.Schema, sources: Sequence[tuple[str, pa.Schema]], roles: Mapping[str, str] | None = None
) -> pa.Schema:
    """Return the columns of a table after an ingest of these sources (docs/format §6.7).

    Columns are matched by name. Missing columns are added at the end of the table, or of their nested record, as nullable, in the
    order of `sources` (origin, columns). A column becomes wider where the source's type holds every value of the table's; otherwise
    the table's type stays, and the values must fit it. A source column without a type (all null) changes nothing, and columns in
    `roles` (`key`, `partition`, `ordering`) keep their type. Idempotent.

    Raises:
        InvalidRequest: a change that makes readers fail on old files, or looks like a rename; names column, both types
            and what to do.
        Unsupported: an added column has a type that a table cannot hold.
    """
    roles = roles or {}
    known: dict[str, list[tuple[str, pa.DataType]]] = {name: [] for name in table.names}
    for where, schema in sources:
        for field in _typed(schema, table, where):
            known.setdefault(field.name, []).append((where, field.type))
    fields = []
    for field in table:
        role = roles.get(field.name, "")
        wider = [(where, _wider(field, where, kind, field.name, role)) for where, kind in known[field.name]]
        fields.append(field.with_type(_joined(field.name, [("the table", field.type), *wider])))
    held = set(table.names)
    added = [pa.field(name, _joined(name, given)) for name, given in known.items() if name not in held]
    merged = pa.schema([*fields, *added])
    _refuse_names(table, merged)
    _refuse_rename(table, added, sources)
    return merged


def schema_changes(old: pa.Schema, new: pa.Schema) -> tuple[str, ...]:
    """Describe the changes from one schema to the next, one phrase a column.

    For example `added fare: double`, `widened seats: int32 to int64`.
    """
    return tuple(_changes(list(old), list(new), ""))


def _changes(old: list[pa.Field], new: list[pa.Field], parent: str) -> Iterator[str]:
    before = {field.name: field.type for field in old}
    for field in new:
        path = parent + field.name
        if field.name not in before:
            yield f"added {path}: {field.type}"
            continue
        was, now = before[field.name], field.type
        while _is.is_list(now) or _is.is_map(now):
            was, now, path = _inner(was).type, _inner(now).type, path + ("[]" if _is.is_list(now) else ".value")
        if _is.is_struct(now):
            yield from _changes(list(was), list(now), f"{path}.")
        elif was != now:
            yield f"widened {path}: {was} to {now}"


def _typed(schema: pa.Schema, table: pa.Schema, where: str) -> Iterator[pa.Field]:
    """Yield a source's columns as a table would hold them, without those of no type.

    Raises:
        InvalidRequest: a new column is declared not null.
        HudiOpsError: a table cannot have such a column.
    """
    known = {field.name: field.type for field in table}
    # Numbers of 64 unsigned bits, decimals in a new column, may fit an existing one of whole numbers.
    same = {field.name for field in schema if field.name in known and field.type in {known[field.name], pa.uint64()}}
    other = [without_nulls(field) for field in schema if field.name not in same]
    yield from (field for field in schema if field.name in same)
    try:
        columns = table_columns(pa.schema([field for field in other if field is not None]))
    except HudiOpsError as error:
        error.what = f"{where}: {error.what}"
        raise
    for field in columns:
        if field.name not in known:
            _refuse_not_null(where, field, field.name)
        yield field


def _refuse_not_null(where: str, field: pa.Field, path: str) -> None:
    """Refuse an added field that is declared not null: existing rows have no value for it.

    Raises:
        InvalidRequest: the source declares it not null.
    """
    if not field.nullable:
        raise InvalidRequest(
            f"{where}: column {path} is new and declared not null, but existing rows have no value for it",
            expected=f"{path}: {field.type}",
            found=f"{path}: {field.type} not null",
            next_step="declare it nullable in the source",
            file=where,
            field=path,
        )


def _wider(field: pa.Field, where: str, kind: pa.DataType, path: str, role: str = "") -> pa.DataType:
    """Return the table's type after one source's; `role` forbids a wider one.

    Raises:
        InvalidRequest: the types are incompatible.
    """
    table = field.type
    if kind == table:
        return table
    if _is.is_struct(table) and _is.is_struct(kind):
        return _wider_record(table, where, kind, path)
    if (_is.is_list(table) and _is.is_list(kind)) or (_is.is_map(table) and _is.is_map(kind)):
        item, suffix = _inner(table), "[]" if _is.is_list(table) else ".value"
        inner = item.with_type(_wider(item, where, _inner(kind).type, path + suffix, _NESTED))
        return pa.list_(inner) if _is.is_list(table) else pa.map_(table.key_type, inner)
    if not _holds(kind, table, _NARROWER):
        if is_read_as(kind, table):
            return table  # the values decide, as without a change of schema
        next_step = "correct the source, or give it as a column of another name"
        _refuse(where, path, table, kind, f"is {table} in the table and cannot become {kind}", next_step)
    if role == _NESTED:
        return table  # Apache Hudi fails on old files of a widened nested field, so the values must fit the old type.
    if role:
        what = f"is the table's {role} column, {table}, and cannot become {kind}"
        _refuse(where, path, table, kind, what, f"cast it to {table} in the source")
    return kind


def _wider_record(table: pa.StructType, where: str, kind: pa.StructType, path: str) -> pa.DataType:
    given = {field.name: field for field in kind}
    fields = []
    for field in table:
        twin = given.pop(field.name, None)
        wider = field.type if twin is None else _wider(field, where, twin.type, f"{path}.{field.name}", _NESTED)
        fields.append(field.with_type(wider))
    for field in given.values():
        _refuse_not_null(where, field, f"{path}.{field.name}")
    return pa.struct([*fields, *given.values()])


def _joined(name: str, given: Sequence[tuple[str, pa.DataType]]) -> pa.DataType:
    """Return the type that holds the values of all sources.

    Raises:
        InvalidRequest: there is none.
    """
    kind = given[0][1]
    for where, other in given[1:]:
        both = _common(kind, other)
        if both is None:
            what = f"is {kind} in one source and {other} in another"
            _refuse(where, name, kind, other, what, "give the column one type in all sources of an ingest")
        kind = both
    return kind


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type that holds the values of both, or None; records get the fields of both."""
    if _is.is_struct(one) and _is.is_struct(other):
        return _common_record(one, other)
    if (_is.is_list(one) and _is.is_list(other)) or (_is.is_map(one) and _is.is_map(other)):
        inner = _common(_inner(one).type, _inner(other).type)
        if inner is None:
            return None
        item = _inner(one).with_type(inner).with_nullable(_inner(one).nullable or _inner(other).nullable)
        return pa.list_(item) if _is.is_list(one) else pa.map_(one.key_type, item)
    if _is.is_decimal(one) and _is.is_decimal(other):
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(precision, scale) if precision <= MAX_PRECISION else None
    return other if _holds(other, one, _FOR_NEW) else one if one == other or _holds(one, other, _FOR_NEW) else None


def _common_record(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    given = {field.name: field for field in other}
    fields = []
    for field in one:
        twin = given.pop(field.name, None)
        kind = field.type if twin is None else _common(field.type, twin.type)
        if kind is None:
            return None
        fields.append(pa.field(field.name, kind, twin is None or field.nullable or twin.nullable))
    return pa.struct([*fields, *(field.with_nullable(True) for field in given.values())])


def _holds(wide: pa.DataType, narrow: pa.DataType, narrower: Mapping[pa.DataType, set[pa.DataType]]) -> bool:
    """Return whether a type holds every value of another one, and more."""
    if _is.is_decimal(wide) and _is.is_decimal(narrow):
        whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(wide != narrow and whole and wide.scale >= narrow.scale)
    return narrow in narrower.get(wide, ())


def _refuse_names(table: pa.Schema, merged: pa.Schema) -> None:
    """Check names of added columns only: foreign writers may have other rules.

    Raises:
        InvalidRequest: an added name differs from another only in case.
    """
    known = {field.name: field for field in table}
    table_columns(pa.schema([field for field in merged if field.name not in known or field != known[field.name]]))
    lower = {name.lower(): name for name in table.names}
    for name in merged.names[len(table) :]:
        if (other := lower.get(name.lower(), name)) != name:
            raise InvalidRequest(
                f"column {name} is new, and differs from {other} only in case, which Spark cannot tell apart",
                expected=other,
                found=name,
                next_step=f"name it {other} in the source",
                field=name,
            )


def _refuse_rename(table: pa.Schema, added: Sequence[pa.Field], sources: Sequence[tuple[str, pa.Schema]]) -> None:
    """Refuse changes that look like a rename.

    If a column vanishes while one of its type appears, accepting the change would null the old one.

    Raises:
        InvalidRequest: there are such columns.
    """
    named = {name for _, schema in sources for name in schema.names}
    gone = {field.type: field.name for field in reversed(list(table)) if field.name not in named}
    for field in added:
        if (old := gone.get(field.type)) is not None:
            raise InvalidRequest(
                f"column {field.name} is new while {old}, of the same type, is missing: this looks like a rename",
                expected=f"{old}: {field.type}",
                found=f"{field.name}: {field.type}",
                next_step=f"give the column its name in the table, {old}; or, if both are intended, add {field.name} first by an"
                " ingest of no rows that has all columns",
                field=field.name,
            )


def _refuse(where: str, path: str, table: pa.DataType, kind: pa.DataType, what: str, next_step: str) -> NoReturn:
    raise InvalidRequest(
        f"{where}: column {path} {what}",
        expected=f"{path}: {table}",
        found=f"{path}: {kind}",
        next_step=next_step,
        file=where,
        field=path,
    )


def _inner(kind: pa.DataType) -> pa.Field:
    return kind.value_field if _is.is_list(kind) else kind.item_field
