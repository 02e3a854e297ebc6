"""Texts and bytes that may take 2 GiB and more.

Arrow's plain arrays have offsets of 32 bits. Arrays stay plain as long as they fit, and become `large_string` or
`large_binary` where they do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]

ARRAY_BYTES_MAX = 2**31 - 1
"""Most bytes that the values of a plain array take together."""

_is = pa.types
_PLAIN: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_LARGE: Final = {plain: large for large, plain in _PLAIN.items()}


def joined(arrays: Iterable[pa.Array | pa.ChunkedArray], kind: pa.DataType) -> pa.Array:
    """Concatenate arrays; values that do not fit into the plain type `kind` make it large."""
    flat: list[pa.Array] = []
    for each in arrays:
        flat += each.chunks if isinstance(each, pa.ChunkedArray) else [each]
    if sum(data_bytes(each) for each in flat) > ARRAY_BYTES_MAX:
        return pa.concat_arrays([each.cast(_LARGE[kind]) for each in flat])
    plain = [each if each.type == kind else narrowed(each).cast(kind) for each in flat]
    return pa.concat_arrays(plain) if plain else pa.array([], kind)


def narrowed(values: pa.Array) -> pa.Array:
    """Convert values to a plain array if they fit into one."""
    plain = _PLAIN.get(values.type)
    if plain is None or data_bytes(values) > ARRAY_BYTES_MAX:
        return values
    return _narrow(values, plain)


def places_in(values: pa.Array, others: pa.Array) -> pa.Array:
    """Return the position of each value among others, or null.

    Arrow casts the others to the type of the values, which fails where they do not fit into it.
    """
    return pc.index_in(values.cast(others.type) if others.type in _PLAIN else values, others)


def as_bytes(values: pa.Array) -> pa.Array:
    """Convert texts to bytes without copying."""
    return values.cast(pa.large_binary() if values.type in _PLAIN else pa.binary())


def to_text(values: pa.Array) -> pa.Array:
    """Convert bytes to texts."""
    return values.cast(pa.large_string() if values.type in _PLAIN else pa.string())


def decoded(values: pa.Array) -> pa.Array:
    """Decode bytes that may come as a dictionary."""
    if not _is.is_dictionary(values.type):
        return values
    if data_bytes(values) > ARRAY_BYTES_MAX:
        return values.dictionary.cast(pa.large_binary()).take(values.indices)
    return values.cast(pa.binary())


def byte_lengths(values: pa.Array) -> Longs:
    """Return the bytes of each value; a null takes none."""
    if _is.is_dictionary(values.type):
        of_each = byte_lengths(values.dictionary)
        return of_each[values.indices.fill_null(0).to_numpy()] if len(of_each) else np.zeros(len(values), np.int64)
    lengths = pc.binary_length(values)
    found: Longs = (lengths.fill_null(0) if lengths.null_count else lengths).to_numpy().astype(np.int64)
    return found


def data_bytes(values: pa.Array) -> int:
    """Return the bytes that the values take together; texts and bytes have them in offsets."""
    if _is.is_dictionary(values.type):
        return int(byte_lengths(values).sum())
    if not len(values) or values.buffers()[1] is None:
        return 0
    offsets = _offsets(values)
    return int(offsets[-1]) - int(offsets[0])


def piece(values: pa.Array, start: int, count: int) -> pa.Array:
    """Return `count` values from `start` as a plain array, into which they must fit."""
    part = values.slice(start, count)
    if _is.is_dictionary(part.type):
        return part.cast(pa.binary())
    plain = _PLAIN.get(part.type)
    return part if plain is None else _narrow(part, plain)


def in_pieces(values: pa.Array, bytes_max: int | None = None, each_bytes: int = 0) -> list[pa.Array]:
    """Split values into plain arrays; at least one.

    Args:
        values: texts or bytes.
        bytes_max: most bytes of the values of one array; None: all that fit. A longer value is alone in its array.
        each_bytes: bytes counted for each value besides its own.
    """
    limit = ARRAY_BYTES_MAX if bytes_max is None else bytes_max
    if data_bytes(values) + each_bytes * len(values) <= limit:
        return [piece(values, 0, len(values))]
    places = runs(byte_lengths(values) + each_bytes, limit)
    return [piece(values, low, high - low) for low, high in places]


def runs(lengths: Longs, bytes_max: int) -> list[tuple[int, int]]:
    """Return ranges of adjacent values of at most `bytes_max`; a longer value is alone."""
    ends, bounds = np.cumsum(lengths), [0]
    while bounds[-1] < len(ends):
        begin = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(ends, begin + bytes_max, side="right")), bounds[-1] + 1))
    return list(pairwise(bounds))


def _offsets(values: pa.Array) -> npt.NDArray[np.signedinteger]:
    width = np.int64 if values.type in _PLAIN else np.int32
    found: npt.NDArray[np.signedinteger] = np.frombuffer(values.buffers()[1], width)
    return found[values.offset : values.offset + len(values) + 1]


def _narrow(values: pa.Array, plain: pa.DataType) -> pa.Array:
    """Cast a large array to a plain one; Arrow refuses a slice that begins behind 2 GiB."""
    if not len(values) or values.buffers()[2] is None:
        return values.cast(plain)
    if values.null_count:
        return values.take(pa.array(np.arange(len(values)))).cast(plain)
    offsets = _offsets(values)
    first, last = int(offsets[0]), int(offsets[-1])
    near = pa.py_buffer((offsets - first).astype(np.int32))
    return pa.Array.from_buffers(plain, len(values), [None, near, values.buffers()[2].slice(first, last - first)])
