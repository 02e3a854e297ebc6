"""Find infinities in columns, at any depth.

Readers of text turn numbers that are too large into them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_is = pa.types


def first_infinite(column: pa.ChunkedArray, name: str) -> tuple[str, int] | None:
    """Return the dotted path of a field with an infinity, at any depth, and the first row."""
    path = _infinite(column, name)
    if path is None:
        return None
    first, count = 0, len(column)
    while count > 1:
        half = count // 2
        is_later = _infinite(column.slice(first, half), name) is None
        first, count = (first + half, count - half) if is_later else (first, half)
    return path, first


def _infinite(column: pa.ChunkedArray, name: str) -> str | None:
    return next((path for path, floats in floating_fields(column, name) if pc.any(pc.is_inf(floats)).as_py()), None)


def floating_fields(column: pa.ChunkedArray, name: str) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield dotted path and values of each floating-point field, at any depth."""
    kind = column.type
    if _is.is_floating(kind):
        yield name, column
    elif _is.is_struct(kind):
        for at, child in enumerate(column.flatten()):
            yield from floating_fields(child, f"{name}.{kind.field(at).name}")
    elif _is.is_list(kind):
        yield from floating_fields(pc.list_flatten(column), f"{name}[]")
    elif _is.is_map(kind):
        items = [chunk.items.slice(chunk.offsets[0].as_py()) for chunk in column.chunks if len(chunk)]
        yield from floating_fields(pa.chunked_array(items, kind.item_type), f"{name}.value")
