"""Ordering values of deletes: the branches of their union and their encoding."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import Unsupported
from hudi_ops.formats.avro.decimals import minimal_pieces
from hudi_ops.formats.avro.encode import Piece
from hudi_ops.formats.avro.varints import Bytes, Longs, pieces, varint_rows, zigzag

DECIMAL: Final = pa.decimal128(30, 15)


class Branch(IntEnum):
    """Type of an ordering value, by position in the union; the block has no schema."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12


VARINTS: Final = (Branch.INT, Branch.LONG, Branch.DATE, Branch.TIME_MICROS, Branch.TIMESTAMP_MICROS)
TYPES: Final = {
    Branch.BOOLEAN: pa.bool_(),
    Branch.INT: pa.int32(),
    Branch.LONG: pa.int64(),
    Branch.FLOAT: pa.float32(),
    Branch.DOUBLE: pa.float64(),
    Branch.BYTES: pa.binary(),
    Branch.STRING: pa.string(),
    Branch.DATE: pa.date32(),
    Branch.DECIMAL: DECIMAL,
    Branch.TIME_MICROS: pa.time64("us"),
    Branch.TIMESTAMP_MICROS: pa.timestamp("us", "UTC"),
}


def branch_of(kind: pa.DataType) -> Branch:
    """Return the branch in which ordering values of this type are written.

    Raises:
        Unsupported: no branch fits.
    """
    is_type = pa.types
    tests: list[tuple[Callable[[pa.DataType], bool], Branch]] = [
        (is_type.is_null, Branch.INT),
        (is_type.is_boolean, Branch.BOOLEAN),
        (lambda one: one in {pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()}, Branch.INT),
        (lambda one: one in {pa.int64(), pa.uint32()}, Branch.LONG),
        (is_type.is_float32, Branch.FLOAT),
        (is_type.is_float64, Branch.DOUBLE),
        (lambda one: one in {pa.binary(), pa.large_binary()}, Branch.BYTES),
        (lambda one: is_type.is_string(one) or is_type.is_large_string(one), Branch.STRING),
        (is_type.is_date32, Branch.DATE),
        (is_type.is_decimal, Branch.DECIMAL),
        (lambda one: is_type.is_time64(one) and one.unit == "us", Branch.TIME_MICROS),
        (lambda one: is_type.is_timestamp(one) and one.unit in {"us", "ms", "s"}, Branch.TIMESTAMP_MICROS),
    ]
    for fits, branch in tests:
        if fits(kind):
            return branch
    raise Unsupported(
        "A delete cannot carry ordering values of this type",
        expected="a number, text, bytes, date, time or timestamp",
        found=str(kind),
        next_step="delete without ordering values, or choose another ordering field",
    )


def ordering_pieces(ordering: pa.Array | None, rows: int) -> list[Piece]:
    """Encode each ordering value after its branch; unconditional deletes as Apache Hudi does.

    Raises:
        Unsupported: no branch fits the type, or a value does not fit its branch.
    """
    branch = Branch.INT if ordering is None else branch_of(ordering.type)
    if ordering is None or ordering.null_count == rows:
        return [bytes([2 * Branch.INT, 0])]
    try:
        values = ordering.cast(
            pa.timestamp("us", ordering.type.tz) if branch is Branch.TIMESTAMP_MICROS else TYPES[branch]
        )
    except pa.ArrowInvalid as error:
        raise Unsupported(
            "A delete cannot carry these ordering values",
            expected=str(TYPES[branch]),
            found=f"{ordering.type}: {error}",
            next_step="delete without ordering values, or choose another ordering field",
        ) from error
    is_null = ordering.is_null().to_numpy(zero_copy_only=False)
    heads = np.where(is_null, 0, 2 * branch).astype(np.uint8)
    if branch is Branch.INT:
        heads[:] = 2 * branch
        values, is_null = values.fill_null(0), np.zeros(rows, bool)
    if branch in VARINTS:
        narrow = values.view(pa.int32() if branch in (Branch.INT, Branch.DATE) else pa.int64())
        numbers, lengths = varint_rows(zigzag(narrow.fill_null(0).to_numpy().astype(np.int64)))
        return [_headed(heads, numbers, lengths, is_null)]
    if branch is Branch.BOOLEAN:
        flags = values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8).reshape(-1, 1)
        return [_headed(heads, flags, np.ones(rows, np.int64), is_null)]
    if branch in (Branch.FLOAT, Branch.DOUBLE):
        floats = values.fill_null(0).to_numpy()
        width = floats.dtype.itemsize
        return [_headed(heads, floats.view(np.uint8).reshape(-1, width), np.full(rows, width), is_null)]
    if branch is Branch.DECIMAL:
        values = minimal_pieces(values)
    numbers, lengths = length_rows(values)
    return [_headed(heads, numbers, lengths, is_null), values.cast(pa.binary())]


def _headed(heads: Bytes, rows: Bytes, lengths: Longs, is_null: np.ndarray) -> pa.BinaryArray:
    """Put a byte before each row; a null is that byte alone."""
    return pieces(np.concatenate([heads.reshape(-1, 1), rows], axis=1), np.where(is_null, 0, lengths) + 1)


def length_rows(values: pa.Array) -> tuple[Bytes, Longs]:
    """Encode the number of bytes of each text, in variable length; 0 for null."""
    return varint_rows(zigzag(pc.binary_length(values).fill_null(0).to_numpy().astype(np.int64)))
