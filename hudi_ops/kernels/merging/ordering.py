"""Ordering values as Java compares them; Arrow orders NaN differently."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest, Unsupported


def comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert `values` to a type whose `<` and `==` are those of Java's `compareTo`.

    Nulls stay null. Doubles become integers of the same order: -0.0 before 0.0, and NaN above everything (one NaN for all
    its bit patterns). Strings compare by UTF-8 bytes, as Spark does. Dictionary-encoded values are decoded.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not pa.types.is_floating(values.type):
        return values
    missing = np.asarray(values.is_null())
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits), mask=missing)


def ranks(values: pa.Array) -> npt.NDArray[np.generic]:
    """Return integers in the order of `comparable` values; the integer of a null is arbitrary."""
    is_kind = pa.types
    if is_kind.is_null(values.type):
        return np.zeros(len(values), np.int8)
    if is_kind.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif is_kind.is_temporal(values.type) and values.type.bit_width in {32, 64}:
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    if is_kind.is_integer(values.type):
        return np.asarray(pc.fill_null(values, 0))
    return np.asarray(pc.rank(values, "ascending", tiebreaker="dense"))


def comparable_pair(
    base: pa.Array | pa.ChunkedArray, incoming: pa.Array | pa.ChunkedArray
) -> tuple[pa.Array, pa.Array]:
    """Convert both sides to the base's type, made comparable.

    Raises:
        InvalidRequest: the incoming values do not fit the base's type.
    """
    if isinstance(incoming, pa.ChunkedArray):
        incoming = incoming.combine_chunks()
    try:
        converted = incoming if incoming.type == base.type else incoming.cast(base.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest(
            f"The ordering values of the incoming rows do not fit the table's: {error}",
            expected=str(base.type),
            found=str(incoming.type),
            next_step="Deliver the ordering field in the table's type.",
        ) from error
    return comparable(base), comparable(converted)


def ordering_of_deletes(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert ordering values of a delete block to the type of the table's column.

    A delete carries one of few types: times may come as whole numbers, and decimals come with 15 digits after the point.

    Raises:
        Unsupported: they do not fit the column.

    Source: docs/format §11.3.
    """
    try:
        if pa.types.is_integer(values.type) and pa.types.is_temporal(kind):
            width = pa.int32() if kind.bit_width == 32 else pa.int64()
            return values.cast(width).cast(kind)
        # A time is given in microseconds, not in the column's unit.
        return values.cast(kind, safe=not (pa.types.is_temporal(values.type) and pa.types.is_temporal(kind)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Unsupported(
            f"the ordering values of deletes do not fit the table's ordering field: {error}",
            expected=str(kind),
            found=str(values.type),
            next_step="compact the table with the program that wrote the deletes",
        ) from error
