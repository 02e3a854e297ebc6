"""Refuse a value of a source that is larger than the memory for rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest

VALUE_BYTES_MAX = 2**31 - 1
"""Most bytes of a value: Arrow's arrays of texts hold 2 GiB."""
_is = pa.types
_LISTS = (_is.is_list, _is.is_large_list, _is.is_fixed_size_list, _is.is_list_view, _is.is_large_list_view)
_VIEWS = {pa.string_view(), pa.binary_view()}
_TEXTS = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()} | _VIEWS


@dataclass(frozen=True)
class ReadLimits:
    """Limits in decoded bytes, of a run of rows and of a value.

    `where` names the file in errors.
    """

    run_bytes: int
    value_bytes: int = VALUE_BYTES_MAX
    where: str = ""


def too_large(where: str, column: str | None, row: int, limit_bytes: int, *, is_exact: bool = True) -> InvalidRequest:
    """Return the error for a value above the limit.

    `row` counts from 0; it is the first possible one if it is not exact. Then a whole page of Parquet may be meant.
    """
    named = f"column {column}" if column is not None else "a column"
    place = f"row {row}" if is_exact else f"row {row} or a later one"
    value = "a value that is" if is_exact else "a value, or a page of values,"
    return InvalidRequest(
        f"{where}, {place}: {named} holds {value} larger than memory_bytes",
        expected=f"values of at most {limit_bytes} bytes, the memory for incoming rows",
        found="a larger one",
        next_step="give the engine more memory_bytes, or shorten the value in the source"
        + ("" if is_exact else ", or write its file with pages of 1 MiB"),
        file=where,
        field=column,
        row=row,
    )


def refuse_large_values(rows: pa.Table, limit_bytes: int, where: str) -> None:
    """Refuse rows with a text or bytes above the limit.

    Only rows that are larger together are looked at.

    Raises:
        too_large: there is one; it is an `InvalidRequest`, and its row counts from the first of these rows.
    """
    if rows.nbytes <= limit_bytes:
        return
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if _longest(column) > limit_bytes:
            raise too_large(where, name, _first_above(column, limit_bytes), limit_bytes)


def _first_above(column: pa.ChunkedArray, limit_bytes: int) -> int:
    """Return the first row that holds a text above the limit; there is one."""
    first, count = 0, len(column)
    while count > 1:
        half = count // 2
        if _longest(column.slice(first, half)) > limit_bytes:
            count = half
        else:
            first, count = first + half, count - half
    return first


def _longest(values: pa.Array | pa.ChunkedArray) -> int:
    """Return the bytes of the longest text in values of any type."""
    if isinstance(values, pa.ChunkedArray):
        return max(map(_longest, values.chunks), default=0)
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _longest(values.storage)
    if _is.is_dictionary(kind):
        return _longest(values.dictionary.take(values.indices.unique().drop_null()))
    if _is.is_struct(kind):
        return max(map(_longest, values.flatten()), default=0)
    if _is.is_map(kind):
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        return max(_longest(part.slice(begin, end - begin)) for part in (values.keys, values.items))
    if any(is_kind(kind) for is_kind in _LISTS):
        return _longest(values.flatten())
    if kind not in _TEXTS:
        return 0
    sizes = pc.binary_length(values.cast(pa.large_binary()) if kind in _VIEWS else values)
    return pc.max(sizes).as_py() or 0
