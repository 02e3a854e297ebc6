"""Lossless casts of a source's values to a table's column types, by an allow-list.

Arrow casts more than it should here: a number to a time, a nested field that the table lacks to nothing, a large number to
infinity. Casts that are not listed below are refused, and the error names both types.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import how_to_cast, type_text, without_nulls
from hudi_ops.formats.uuid_texts import uuid_texts

_Cast: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]
_Is: TypeAlias = Callable[[pa.DataType], bool]

_is = pa.types
_INT32_MAX: Final = 2**31 - 1
_SHOWN_MAX: Final = 60
"""Characters of a value that an error shows."""


class _Misfit(Exception):
    """Reason why a column does not fit; never leaves this module."""

    def __init__(self, field: str, why: str, expected: str, found: str, next_step: str = "") -> None:
        super().__init__(why)
        self.field, self.why, self.expected, self.found, self.next_step = field, why, expected, found, next_step


def is_read_as(source: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether flat values of one type may be read as another, if each of them fits."""
    return source == kind or any(from_kind(source) and to_kind(kind) for from_kind, to_kind, _ in _ALLOWED)


def fit_column(column: pa.ChunkedArray, field: pa.Field, where: str, *, fill: bool = False) -> pa.ChunkedArray:
    """Convert a column to the type of `field` without changing a value.

    Integers, floats and decimals become wider ones, and narrower ones if every value survives; a float is refused if converting it
    back gives another value. Texts become dates, times and decimals (ISO), dates become times, and times other units without loss;
    a time without a zone is UTC. Bytes become text if they are UTF-8. Encodings (dictionary, view, large) do not matter. Nested
    values are compared by name; with `fill` a missing nested field that may be null is null. An unknown nested field of type null
    is left out.

    Raises:
        InvalidRequest: a type that is not read as the table's, a value that does not fit, text that is not UTF-8, an unknown
            or missing nested field, or a null where none may be (details: `file`, `field` with its dotted path, and `row`, from
            0, where a value is at fault).
    """
    try:
        return _fit_chunks(column, field, fill)
    except _Misfit as misfit:
        row, error = _first_misfit(column, field, fill) or (None, misfit)
        refusal = InvalidRequest(
            f"{where}{'' if row is None else f', row {row}'}: column {error.field} does not fit the table: {error.why}",
            expected=error.expected,
            found=error.found if row is None else shown_value(column, row),
            next_step=error.next_step or "correct the source; values are never cut or turned into nulls",
            file=where,
            field=error.field,
        )
        if row is not None:
            refusal.details["row"] = row
        raise refusal from error


def shown_value(column: pa.ChunkedArray, row: int) -> str:
    """Return the value in a row, as errors show it; Python has no dates beyond the year 9999."""
    value = column.slice(row, 1)
    try:
        text = repr(value[0].as_py())
    except (OverflowError, ValueError):  # not UTF-8, or a year that Python does not know
        text = "other bytes" if _holds(column.type, _is_text) else value.chunk(0).to_string(skip_new_lines=True)[1:-1]
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _first_misfit(column: pa.ChunkedArray, field: pa.Field, fill: bool) -> tuple[int, _Misfit] | None:
    """Return the first row that does not fit, and why; None: the type is at fault."""

    def misfit(first: int, count: int) -> _Misfit | None:
        try:
            _fit_chunks(column.slice(first, count), field, fill)
        except _Misfit as error:
            return error
        return None

    first, count = 0, len(column)
    while count > 1:
        half = count // 2
        first, count = (first, half) if misfit(first, half) else (first + half, count - half)
    found = misfit(first, count)
    return None if found is None or misfit(0, 0) else (first, found)


def _fit_chunks(column: pa.ChunkedArray, field: pa.Field, fill: bool) -> pa.ChunkedArray:
    _refuse_unsound(column, field.name)
    fitted = column
    if column.type != field.type or _has_inner_rules(field.type):
        chunks = column.chunks or [pa.array([], column.type)]
        fitted = pa.chunked_array([_fit(chunk, field.type, field.name, fill) for chunk in chunks], field.type)
    if not field.nullable and fitted.null_count:
        raise _Misfit(field.name, "it holds a null", f"{field.type}, not null", f"{fitted.null_count} nulls")
    return fitted


def _fit(array: pa.Array, kind: pa.DataType, path: str, fill: bool) -> pa.Array:
    source = array.type
    if source == kind and not _has_inner_rules(kind):
        return array
    if _is.is_dictionary(source):
        return _fit(_decoded(array), kind, path, fill)
    if _is.is_run_end_encoded(source):
        return _fit(pc.run_end_decode(array), kind, path, fill)
    if isinstance(source, pa.BaseExtensionType):
        texts = uuid_texts(array.storage) if source == pa.uuid() and _is_text(kind) else array.storage
        return _fit(texts, kind, path, fill)
    if _is.is_null(source):
        return pa.nulls(len(array), kind)
    if _is.is_struct(source) and _is.is_struct(kind):
        return _fit_struct(array, kind, path, fill)
    if _is_any_list(source) and _is.is_list(kind):
        return _fit_list(array, kind, path, fill)
    if _is.is_map(source) and _is.is_map(kind):
        return _fit_map(array, kind, path, fill)
    if _is_any_list(source) and _is.is_map(kind):
        return _fit_map(_map_of(array, path), kind, path, fill)
    cast = next((c for from_kind, to_kind, c in _ALLOWED if from_kind(source) and to_kind(kind)), None)
    if cast is None:
        raise _Misfit(path, f"{source} cannot be converted to {kind}", str(kind), str(source), how_to_cast(source))
    try:
        return cast(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        is_other = _is_text(source) and "lose data" not in str(error)  # Arrow's reason would repeat the whole text
        why = f"a text is no {type_text(kind)}" if is_other else str(error)
        raise _Misfit(path, why, str(kind), str(source)) from error


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    # Arrow cannot take from views, the form of Polars categories.
    values = array.dictionary
    if _is.is_string_view(values.type) or _is.is_binary_view(values.type):
        plain = pa.large_string() if _is.is_string_view(values.type) else pa.large_binary()
        array = pa.DictionaryArray.from_arrays(array.indices, values.cast(plain))
    return array.dictionary_decode()


def _fit_struct(array: pa.StructArray, kind: pa.StructType, path: str, fill: bool) -> pa.Array:
    given = [array.type.field(at).name for at in range(array.type.num_fields)]
    wanted = [kind.field(at) for at in range(kind.num_fields)]
    names = [field.name for field in wanted]
    for at, name in enumerate(given):
        if name not in names and without_nulls(array.type.field(at)) is None:
            continue
        if name not in names or given.count(name) > 1:
            why = "occurs twice" if name in names else "is not in the table"
            raise _Misfit(f"{path}.{name}", f"this nested field {why}", ", ".join(names), ", ".join(given))
    missing = next((field.name for field in wanted if field.name not in given and not (fill and field.nullable)), None)
    if missing is not None:
        why = "this nested field is missing"
        raise _Misfit(f"{path}.{missing}", why, ", ".join(names), ", ".join(given))
    children = array.flatten()  # The content of a null struct is ignored.
    fitted = []
    for field in wanted:
        if field.name not in given:
            fitted.append(pa.nulls(len(array), field.type))
            continue
        child = _fit(children[given.index(field.name)], field.type, f"{path}.{field.name}", fill)
        if not field.nullable and child.null_count:
            if pc.any(pc.and_(child.is_null(), array.is_valid())).as_py():
                raise _Misfit(f"{path}.{field.name}", "it holds a null", f"{field.type}, not null", "null")
            child = pc.coalesce(child, pa.scalar(_placeholder(field.type), field.type))
        fitted.append(child)
    return pa.StructArray.from_arrays(fitted, fields=wanted, mask=array.is_null())


def _has_inner_rules(kind: pa.DataType) -> bool:
    """Return whether a nested field is declared not null.

    pyarrow lets arrays of such a type hold nulls all the same.
    """
    if _is.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return any(not field.nullable or _has_inner_rules(field.type) for field in fields)
    inner = kind.item_field if _is.is_map(kind) else kind.value_field if _is_any_list(kind) else None
    return inner is not None and (not inner.nullable or _has_inner_rules(inner.type))


def _placeholder(kind: pa.DataType) -> object:
    """Return a value for a not-null field of a null struct.

    Arrow neither casts nor writes the struct without one.
    """
    if _is.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {field.name: None if field.nullable else _placeholder(field.type) for field in fields}
    if _is_any_list(kind) or _is.is_map(kind):
        return []
    if _is.is_fixed_size_binary(kind) and not _is.is_decimal(kind):
        return bytes(kind.byte_width)
    plain = ((_is_text, ""), (_is_bytes, b""), (_is.is_boolean, False), (_is.is_decimal, Decimal(0)))
    return next((value for is_kind, value in plain if is_kind(kind)), 0)


def _fit_list(array: pa.Array, kind: pa.ListType, path: str, fill: bool) -> pa.Array:
    # Not Arrow's cast: it turns a list view into empty lists.
    values = _fit(array.flatten(), kind.value_type, f"{path}[]", fill)
    _refuse_nulls(values, kind.value_field, f"{path}[]")
    counts = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    if offsets[-1] > _INT32_MAX:
        raise _Misfit(path, "too many values in lists", f"at most {_INT32_MAX} a chunk", str(offsets[-1]))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind, mask=array.is_null())


def _fit_map(array: pa.MapArray, kind: pa.MapType, path: str, fill: bool) -> pa.Array:
    offsets = np.asarray(array.offsets)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = _fit(array.keys.slice(first, count), kind.key_type, f"{path}.key", fill)
    items = _fit(array.items.slice(first, count), kind.item_type, f"{path}.value", fill)
    _refuse_nulls(items, kind.item_field, f"{path}.value")
    shifted = pa.array(offsets - first, pa.int32())
    return pa.MapArray.from_arrays(shifted, keys, items, type=kind, mask=array.is_null())


def _map_of(entries: pa.Array, path: str) -> pa.MapArray:
    """Return lists of records of key and value, as the reader of JSON has them, as maps.

    Raises:
        _Misfit: they are other lists, or a key is null or there twice.
    """
    if not _is.is_struct(entries.type.value_type) or [one.name for one in entries.type.value_type] != ["key", "value"]:
        raise _Misfit(path, f"{entries.type} cannot be converted to a map", "map", str(entries.type))
    counts = np.asarray(pc.fill_null(pc.list_value_length(entries), 0), np.int64)
    flat = entries.flatten()
    keys, items = flat.flatten()
    if flat.null_count or keys.null_count:
        raise _Misfit(f"{path}.key", "it holds a null", "a key for each value", "null")
    pairs = pa.table({"map": np.repeat(np.arange(counts.size), counts), "key": keys})
    if pairs.group_by(["map", "key"]).aggregate([]).num_rows < pairs.num_rows:
        raise _Misfit(f"{path}.key", "a key is there twice", "each key once in a map", "a repeated key")
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, items, mask=entries.is_null())


def _refuse_nulls(values: pa.Array, field: pa.Field, path: str) -> None:
    if not field.nullable and values.null_count:
        raise _Misfit(path, "it holds a null", f"{field.type}, not null", "null")


def _safe(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array.cast(kind)


def _whole_to_decimal(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # Cast straight to the decimal, Arrow would require digits for every number of the integer's type.
    digits = 20 if array.type == pa.uint64() else 19
    return array.cast(pa.decimal128(digits, 0)).cast(kind)


def _same_on_return(array: pa.Array, kind: pa.DataType) -> pa.Array:
    wide = array.cast(pa.float32()) if array.type == pa.float16() else array
    fitted = wide.cast(kind)
    lost = pc.and_(pc.is_finite(wide), pc.not_equal(fitted.cast(wide.type), wide))
    place = pc.index(lost, True).as_py()
    if place >= 0:
        raise pa.ArrowInvalid(f"the value {wide[place].as_py()!r} is not exact as {kind}")
    return fitted


def _rounded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast to another floating-point type, rounded; a finite value must not become infinite.

    Raises:
        ArrowInvalid: a finite value would become infinite.
    """
    fitted = (array.cast(pa.float32()) if array.type == pa.float16() else array).cast(kind)
    lost = pc.and_(pc.is_inf(fitted), pc.invert(pc.is_inf(array.cast(pa.float64()))))
    place = pc.index(lost, True).as_py()
    if place >= 0:
        raise pa.ArrowInvalid(f"the value {array[place].as_py()!r} is too large for {kind}")
    return fitted


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse ISO texts as times; a text without a zone is UTC, as in every other source."""
    texts = texts.cast(pa.string())
    if kind.tz is None:
        return texts.cast(pa.timestamp("us")).cast(kind)
    has_zone = pc.match_substring_regex(texts, r"\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    plain = pc.if_else(has_zone, pa.scalar(None, pa.string()), texts).cast(pa.timestamp("us"))
    zoned = pc.if_else(has_zone, texts, pa.scalar(None, pa.string())).cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(zoned, plain.cast(pa.timestamp("us", "UTC"))).cast(kind)


def _parsed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return texts.cast(pa.string()).cast(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(_is.is_string(kind) or _is.is_large_string(kind) or _is.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    variants = (_is.is_binary, _is.is_large_binary, _is.is_binary_view, _is.is_fixed_size_binary)
    # Arrow stores a decimal in a fixed number of bytes.
    return not _is.is_decimal(kind) and any(is_kind(kind) for is_kind in variants)


def _is_any_list(kind: pa.DataType) -> bool:
    variants = (_is.is_list, _is.is_large_list, _is.is_fixed_size_list, _is.is_list_view, _is.is_large_list_view)
    return any(is_kind(kind) for is_kind in variants)


_ALLOWED: Final[tuple[tuple[_Is, _Is, _Cast], ...]] = (
    (_is.is_integer, _is.is_integer, _safe),
    (_is.is_integer, _is.is_floating, _safe),
    (_is.is_integer, _is.is_decimal, _whole_to_decimal),
    (_is.is_floating, _is.is_integer, _safe),  # pandas delivers integers with nulls as floats
    (_is.is_floating, _is.is_floating, _rounded),
    (_is.is_floating, _is.is_decimal, _same_on_return),
    (_is.is_decimal, _is.is_decimal, _safe),
    (_is_text, _is_text, _safe),
    (_is_text, _is.is_date, _parsed),
    (_is_text, _is.is_timestamp, _times),
    (_is_text, _is.is_decimal, _parsed),
    (_is_bytes, _is_bytes, _safe),
    (_is_bytes, _is_text, _safe),
    (_is.is_date, _is.is_date, _safe),
    (_is.is_date, _is.is_timestamp, _safe),
    (_is.is_timestamp, _is.is_timestamp, _safe),
)


def _refuse_unsound(column: pa.ChunkedArray, name: str) -> None:
    """Refuse text that is not UTF-8, and decimals with more digits than their type.

    Arrow's readers of CSV and JSON count digits before they append zeros: 1234.5 passes for a decimal(5, 2).

    Raises:
        _Misfit: there is one.
    """
    if not _holds(column.type, lambda kind: _is_text(kind) or bool(_is.is_decimal(kind))):
        return
    problem = next(filter(None, map(_problem, column.chunks)), "")
    if "Decimal value" in problem:
        kind = type_text(column.type) if _is.is_decimal(column.type) else str(column.type)
        raise _Misfit(name, "a decimal has more digits than its type", kind, "more digits")
    if problem:
        raise _Misfit(name, "its text is not UTF-8", "UTF-8", "other bytes")


def _holds(kind: pa.DataType, is_it: _Is) -> bool:
    """Return whether a type is of a kind, or holds one at any depth."""
    if _is.is_dictionary(kind) or _is.is_run_end_encoded(kind):
        return _holds(kind.value_type, is_it)
    return is_it(kind) or any(_holds(kind.field(at).type, is_it) for at in range(kind.num_fields))


def _problem(array: pa.Array) -> str:
    """Return what Arrow finds wrong in the values of an array; empty: nothing."""
    found = _said(array)
    if found and _is.is_nested(array.type):
        # Of a slice of lists all values are validated, those of other rows too: a copy has its own alone.
        return _said(array.take(pa.array(np.arange(len(array)))))
    return found


def _said(array: pa.Array) -> str:
    try:
        array.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        return str(error)
    return ""
