"""Encoder of Arrow arrays as Avro values, by column.

A column gives its bytes as a row of pieces, each an Arrow array of bytes with one value a row; joined piece by piece they are
the records. Text is copied unchanged, with its length as the piece before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.avro.decimals import fixed_rows, minimal_pieces
from hudi_ops.formats.avro.nodes import Form, Node
from hudi_ops.formats.avro.varints import Bytes, Longs, binary, pieces, varint_rows, zigzag

Piece: TypeAlias = pa.Array | bytes
"""Bytes for each row without nulls, or the same bytes for all."""

_END: Final = b"\x00"


def encode_column(node: Node, column: pa.ChunkedArray | pa.Array, where: str) -> list[Piece]:
    """Encode one field of every record; return its pieces in order.

    Each distinct value of a dictionary-encoded column is encoded once.

    Raises:
        InvalidRequest: a value does not fit the type.
    """
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(values.type):
        return _encode(node, _cast(node, values, where), where)
    distinct = values.dictionary
    if len(distinct) == 0 or len(values) < len(distinct) or distinct.null_count:
        return _encode(node, _cast(node, values.cast(values.type.value_type), where), where)
    if values.null_count:
        # Null is one more value to take: the last.
        places = values.indices.fill_null(len(distinct)).cast(pa.int64())
        distinct = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
    else:
        places = values.indices
    joined = join(_encode(node, _cast(node, distinct, where), where), len(distinct))
    return [joined[0].as_py()] if len(joined) == 1 else [joined.take(places)]


def join(parts: list[Piece], rows: int) -> pa.BinaryArray:
    """Join the pieces of each row in one array."""
    arrays = [part for part in parts if isinstance(part, pa.Array)]
    if len(parts) == 1 and arrays:
        return arrays[0].fill_null(b"") if arrays[0].null_count else arrays[0]
    if not arrays:
        one = b"".join(parts)
        return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([one], pa.binary())).cast(pa.binary())
    given = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*given, b"", null_handling="replace", null_replacement=b"")


def row_lengths(parts: list[Piece], rows: int) -> Longs:
    """Return the number of bytes of each row."""
    total = np.zeros(rows, np.int64)
    for part in parts:
        if isinstance(part, pa.Array):
            lengths = pc.binary_length(part)
            total += (lengths.fill_null(0) if lengths.null_count else lengths).to_numpy()
        else:
            total += len(part)
    return total


def _cast(node: Node, values: pa.Array, where: str) -> pa.Array:
    if values.type == node.arrow:
        return values
    try:
        return values.cast(node.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidRequest(
            f"The column {where!r} does not fit the schema of the log block: {error}",
            expected=str(node.arrow),
            found=str(values.type),
            next_step="cast the column, or change the table's schema first",
        ) from error


def _encode(node: Node, values: pa.Array, where: str, head: Bytes | None = None) -> list[Piece]:
    """Encode values without null, or the values of a union's branch.

    For a branch of a union, `head` has its number for each row; a null is encoded as this number alone.
    """
    if node.form is Form.UNION:
        return _union(node, values, where)
    if head is None and values.null_count and node.form is not Form.NULL:
        _refuse(where, f"{values.null_count} nulls", "a value in each row")
    if node.form is Form.NULL:
        return []
    if node.form in _WRITERS:
        return _WRITERS[node.form](node, values, where, head)
    if head is not None and values.null_count:
        # A null's content has no bytes at all: only present values are written, then spread.
        present = values.drop_null()
        inner = join(_encode(node, present, where), len(present))
        mask = values.is_null().to_numpy(zero_copy_only=False)
        places = pa.array(np.maximum(np.cumsum(~mask) - 1, 0), mask=mask)
        return [pieces(head.reshape(-1, 1)), inner.take(places) if len(inner) else pa.nulls(len(values), pa.binary())]
    before: list[Piece] = [] if head is None else [pieces(head.reshape(-1, 1))]
    if node.form is Form.RECORD:
        for place, (name, child) in enumerate(zip(node.names, node.children, strict=True)):
            before += _encode(child, values.field(place), f"{where}.{name}")
        return before
    return [*before, *_repeated(node, values, where)]


def _union(node: Node, values: pa.Array, where: str) -> list[Piece]:
    valued = [at for at, child in enumerate(node.children) if child.form is not Form.NULL]
    null_at = next((at for at, child in enumerate(node.children) if child.form is Form.NULL), None)
    if len(valued) > 1:
        return _dense(node, values, where, null_at)
    nulls = len(values) if not valued else values.null_count
    if nulls and null_at is None:
        _refuse(where, f"{nulls} nulls", "a value in each row")
    if not valued or (nulls == len(values) and nulls):
        return [_branch(null_at or 0)]
    head = np.full(len(values), 2 * valued[0], np.uint8)
    if nulls:
        head[values.is_null().to_numpy(zero_copy_only=False)] = 2 * (null_at or 0)
    return _encode(node.children[valued[0]], values, where, head)


def _dense(node: Node, values: pa.UnionArray, where: str, null_at: int | None) -> list[Piece]:
    """Encode a union of several types: each on its own, then in the rows' order."""
    codes = values.type_codes.to_numpy()
    offsets = values.offsets.to_numpy()
    valued = [at for at, child in enumerate(node.children) if child.form is not Form.NULL]
    written: list[pa.Array] = []
    order = np.empty(len(codes), np.int64)
    count = 0
    for code, at in enumerate(valued):
        (which,) = np.nonzero(codes == code)
        child = values.field(code).take(pa.array(offsets[which]))
        if child.null_count and null_at is None:
            _refuse(where, f"{child.null_count} nulls", "a value in each row")
        is_null = child.is_null().to_numpy(zero_copy_only=False)
        kept = child.drop_null() if child.null_count else child
        bodies = join([_branch(at), *_encode(node.children[at], kept, where)], len(kept))
        order[which[~is_null]] = count + np.arange(len(kept))
        written.append(bodies)
        count += len(kept)
        if is_null.any():
            order[which[is_null]] = count
            written.append(pa.array([_branch(null_at or 0)], pa.binary()))
            count += 1
    return [pa.concat_arrays(written).take(pa.array(order))] if written else []


def _repeated(node: Node, values: pa.Array, where: str) -> list[Piece]:
    """Encode lists and maps: one block of all items, then the end; empty ones as the end."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    if len(values) == 0:
        return [_END]
    first, last = int(offsets[0]), int(offsets[-1])
    if node.form is Form.MAP:
        columns = [values.keys, values.items]
        labels = [f"{where}.key", f"{where}.value"]
    else:
        columns, labels = [values.values], [f"{where}[]"]
    parts: list[Piece] = []
    for child, column, label in zip(node.children, columns, labels, strict=True):
        parts += _encode(child, column.slice(first, last - first), label)
    items = join(parts, last - first)
    ends = np.frombuffer(items.buffers()[1], np.int32)[items.offset : items.offset + len(items) + 1]
    bodies = binary(
        ends[offsets - first] if len(items) else np.zeros(len(values) + 1), items.buffers()[2] or pa.py_buffer(b"")
    )
    counts = np.diff(offsets).astype(np.int64)
    rows, lengths = varint_rows(zigzag(counts))
    return [pieces(rows, np.where(counts, lengths, 0)), bodies, _END]


def _boolean(_node: Node, values: pa.Array, _where: str, head: Bytes | None) -> list[Piece]:
    flags = (values.fill_null(False) if values.null_count else values).to_numpy(zero_copy_only=False)
    return [_headed(head, flags.astype(np.uint8).reshape(-1, 1), None, values)]


def _int(_node: Node, values: pa.Array, _where: str, head: Bytes | None) -> list[Piece]:
    numbers = values.view(pa.int32())
    numbers = numbers.fill_null(0) if numbers.null_count else numbers
    return [_headed(head, *varint_rows(zigzag(numbers.to_numpy().astype(np.int64))), values)]


def _long(_node: Node, values: pa.Array, _where: str, head: Bytes | None) -> list[Piece]:
    numbers = values.view(pa.int64())
    numbers = numbers.fill_null(0) if numbers.null_count else numbers
    return [_headed(head, *varint_rows(zigzag(numbers.to_numpy())), values)]


def _floating(node: Node, values: pa.Array, _where: str, head: Bytes | None) -> list[Piece]:
    # As integers: a conversion would lose the bits of a NaN.
    width = node.fixed_bytes or 0
    numbers = values.view(pa.int32() if width == 4 else pa.int64())
    numbers = numbers.fill_null(0) if numbers.null_count else numbers
    return [_headed(head, numbers.to_numpy().view(np.uint8).reshape(-1, width), None, values)]


def _enum(node: Node, values: pa.Array, where: str, head: Bytes | None) -> list[Piece]:
    places = pc.index_in(values, pa.array(node.names, pa.string()), skip_nulls=True)
    if places.null_count != values.null_count:
        _refuse(where, "another text", f"one of {', '.join(node.names)}")
    numbers = places.fill_null(0).to_numpy().astype(np.int64)
    return [_headed(head, *varint_rows(zigzag(numbers)), values)]


def _fixed(node: Node, values: pa.Array, where: str, head: Bytes | None) -> list[Piece]:
    if node.is_decimal:
        rows, bad = fixed_rows(values, node.size_bytes)
        if bad is not None:
            _refuse(where, f"{values[bad]} in row {bad}", f"a decimal of {node.size_bytes} bytes")
    else:
        size = node.size_bytes
        held = np.frombuffer(values.buffers()[1] or b"", np.uint8)
        rows = held[values.offset * size : (values.offset + len(values)) * size].reshape(len(values), size)
    return [_headed(head, rows, None, values)]


def _sized(node: Node, values: pa.Array, _where: str, head: Bytes | None) -> list[Piece]:
    texts = minimal_pieces(values) if node.is_decimal else values.cast(pa.binary())
    lengths = pc.binary_length(texts)
    lengths = lengths.fill_null(0) if lengths.null_count else lengths
    return [_headed(head, *varint_rows(zigzag(lengths.to_numpy().astype(np.int64))), values), texts]


def _headed(head: Bytes | None, rows: Bytes, lengths: Longs | None, values: pa.Array) -> pa.BinaryArray:
    """Put the branch's number before each row; a null is that number alone."""
    if head is None:
        return pieces(rows, lengths)
    rows = np.concatenate([head.reshape(-1, 1), rows], axis=1)
    if lengths is not None:
        lengths = lengths + 1
    if values.null_count:
        is_null: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
        lengths = np.where(is_null, 1, rows.shape[1] if lengths is None else lengths)
    return pieces(rows, lengths)


def _branch(at: int) -> bytes:
    return varint_rows(zigzag(np.array([at])))[0].tobytes()


def _refuse(where: str, found: str, expected: str) -> NoReturn:
    raise InvalidRequest(
        f"The column {where!r} does not fit the schema of the log block",
        expected=expected,
        found=found,
        next_step="correct the rows, or change the table's schema first",
    )


_Writer: TypeAlias = Callable[[Node, pa.Array, str, Bytes | None], list[Piece]]

_WRITERS: Final[Mapping[Form, _Writer]] = {
    Form.BOOLEAN: _boolean,
    Form.INT: _int,
    Form.LONG: _long,
    Form.FLOAT: _floating,
    Form.DOUBLE: _floating,
    Form.ENUM: _enum,
    Form.FIXED: _fixed,
    Form.BYTES: _sized,
    Form.STRING: _sized,
}
