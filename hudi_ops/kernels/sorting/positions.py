"""Positions of a column's values in ascending order.

Nulls come first and NaN last, as in the sorts of Spark and so of Apache Hudi; -0.0 equals 0.0, texts and bytes compare by their
bytes. Equal values keep their order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.merging.ordering import comparable
from hudi_ops.kernels.text_order import ascending

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_DIGIT_BITS = 16
"""Bits by which a pass sorts: numpy sorts 16-bit numbers by counting."""
_INT64_DIGITS = 18
"""Digits of a decimal that always fit in the lower one of its two words."""

_is = pa.types


def orderable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert a column to an array of which `positions` and equality are those of this module.

    Floats become integers of the same order, and values of a dictionary their rank in it; other types stay.

    Raises:
        InvalidRequest: a nested type, which has no order.
    """
    kind = column.type.value_type if _is.is_dictionary(column.type) else column.type
    if _is.is_nested(kind):
        raise InvalidRequest(
            f"rows cannot be sorted by values of type {kind}",
            expected="numbers, texts, bytes, booleans, dates or times",
            next_step="name another sort column",
        )
    if _is.is_dictionary(column.type):
        whole = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        return _ranks_in_dictionary(whole.unify_dictionaries().combine_chunks())
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return comparable(pc.add(values, pa.scalar(0.0, kind))) if _is.is_floating(kind) else values


def positions(values: pa.Array) -> Positions:
    """Return the positions of `orderable` values in ascending order; equal ones keep theirs."""
    if _is.is_null(values.type):
        return np.arange(len(values))
    if not values.null_count:
        return _of_valid(values)
    is_null = np.asarray(values.is_null())
    valid = np.flatnonzero(~is_null)
    return np.concatenate([np.flatnonzero(is_null), valid[_of_valid(values.drop_null())]])


def by_words(words: Words) -> Positions:
    """Return the positions of unsigned numbers in ascending order; equal ones keep their order."""
    if not len(words):
        return np.zeros(0, np.int64)
    words = words - words.min()
    order = np.argsort(words.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, int(words.max()).bit_length(), _DIGIT_BITS):
        digits = (words >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _of_valid(values: pa.Array) -> Positions:
    kind = values.type
    if _is.is_string(kind) or _is.is_binary(kind) or _is.is_large_string(kind):
        return ascending(values)
    order: Positions | None = None
    for words in reversed(_words(values)):
        order = by_words(words) if order is None else order[by_words(words[order])]
    return np.asarray(pc.sort_indices(values)).astype(np.int64) if order is None else order


def _words(values: pa.Array) -> list[Words]:
    """Return numbers that sort as the values do, the most significant ones first.

    There are none for types that Arrow sorts.
    """
    kind = values.type
    if _is.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif _is.is_temporal(kind) and kind.bit_width in {32, 64}:
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if _is.is_integer(values.type):
        return [_unsigned(np.asarray(values))]
    if _is.is_decimal128(kind):
        halves = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)[values.offset :][: len(values)]
        low, high = halves[:, 0], halves[:, 1]
        return [_unsigned(low)] if kind.precision <= _INT64_DIGITS else [_unsigned(high), low.view(np.uint64)]
    return []


def _unsigned(numbers: npt.NDArray[np.integer]) -> Words:
    if numbers.dtype == np.uint64:
        return numbers.view(np.uint64)
    return numbers.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)


def _ranks_in_dictionary(values: pa.DictionaryArray) -> pa.Array:
    words = orderable(values.dictionary)
    order = positions(words)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_new(words, order)) - 1
    # A null may also be a value of the dictionary.
    held = pa.array(ranks, mask=np.asarray(words.is_null()))
    return held.take(values.indices)


def is_new(values: pa.Array, order: Positions) -> npt.NDArray[np.bool_]:
    """Return for each place of an order whether its value differs from the one before.

    It is true at the first place. `values` are `orderable`; nulls are equal.
    """
    found = np.ones(len(order), bool)
    if _is.is_null(values.type):
        found[1:] = False
    elif len(order) > 1:
        ordered = values.take(pa.array(order))
        before, after = ordered.slice(0, len(ordered) - 1), ordered.slice(1)
        found[1:] = np.asarray(pc.fill_null(pc.not_equal(before, after), False))
        if ordered.null_count:
            found[1:] |= np.asarray(before.is_null()) != np.asarray(after.is_null())
    return found
