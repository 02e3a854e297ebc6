"""Refuse a value of a source that is larger than the memory for rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest

VALUE_BYTES_MAX = 2**31 - 1
"""Most bytes of a value: Arrow's arrays of texts hold 2 GiB."""
_is = pa.types


def too_large(where: str, column: str | None, row: int, limit_bytes: int, *, is_exact: bool = True) -> InvalidRequest:
    """Return the error for a value above the limit.

    `row` counts from 0; it is the first possible one if it is not exact.
    """
    named = f"column {column}" if column is not None else "a column"
    return InvalidRequest(
        f"{where}, row {row}:{'' if is_exact else ' or a later one:'} {named} holds a value that is larger than memory_bytes",
        expected=f"values of at most {limit_bytes} bytes, the memory for incoming rows",
        found="a larger one",
        next_step="give the engine more memory_bytes, or shorten the value in the source",
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
        if not (_is.is_string(column.type) or _is.is_binary(column.type)):
            continue
        sizes = pc.binary_length(column)
        if (pc.max(sizes).as_py() or 0) > limit_bytes:
            raise too_large(where, name, pc.index(pc.greater(sizes, limit_bytes), True).as_py(), limit_bytes)
