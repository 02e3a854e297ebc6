"""Encode and decode DELETE blocks, version 3: keys and ordering values, by column.

Records have no length prefix: only the values of a record tell where it ends. The reader takes every byte that can begin a record
as a possible start, computes the end of all of them at once, and then follows the chain of records from the first one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import count as count_up, pairwise
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from hudi_ops.errors import Corrupt, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.formats.avro.decode import Decoder, Lanes
from hudi_ops.formats.avro.encode import join
from hudi_ops.formats.avro.items import ItemChain, leap_all
from hudi_ops.formats.avro.nodes import Form, Node
from hudi_ops.formats.avro.varints import (
    Bytes,
    Longs,
    padded,
    pieces,
    read_varints,
    unzigzag,
    varint_rows,
    zigzag,
)
from hudi_ops.formats.log.orderings import (
    DECIMAL,
    TYPES,
    Branch,
    length_rows,
    ordering_pieces,
)

VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
WINDOW_BYTES: Final = 1 << 20
_SMALL_BLOCKS_MAX, _SMALL_BLOCK_RECORDS = 10_000, 16
"""Limits of small blocks. Each takes work in Python, and writers make one block: many small ones are made to take long."""
_SMALLEST_RECORD: Final = 4
"""Key's branch and length, partition path's branch, ordering value's branch."""
_SOME: Final = 2
"""Index 1 of a union as it is written: the text of a nullable text."""

_NULL, _LONG = Node(Form.NULL, pa.null(), min_bytes=0), Node(Form.LONG, pa.int64())
_TEXT = Node(Form.UNION, pa.string(), (_NULL, Node(Form.STRING, pa.string())))
_FORMS = {
    Branch.BOOLEAN: Form.BOOLEAN,
    Branch.INT: Form.INT,
    Branch.LONG: Form.LONG,
    Branch.FLOAT: Form.FLOAT,
    Branch.DOUBLE: Form.DOUBLE,
    Branch.BYTES: Form.BYTES,
    Branch.STRING: Form.STRING,
    Branch.DATE: Form.INT,
    Branch.DECIMAL: Form.BYTES,
    Branch.TIME_MICROS: Form.LONG,
    Branch.TIMESTAMP_MICROS: Form.LONG,
}
_VALUES = {branch: Node(form, TYPES[branch]) for branch, form in _FORMS.items()}
_ORDERING = Node(Form.UNION, pa.null(), (_NULL, *_VALUES.values(), Node(Form.ARRAY, pa.null())))
"""The ordering value. Its last branch holds several ordering fields: it is never read."""

_BROKEN: Final = {
    Branch.BOOLEAN: ("no boolean", "0 or 1"),
    Branch.INT: ("a long", "an int"),
    Branch.DATE: ("a long", "an int"),
    Branch.STRING: ("an ordering value that is no text", "UTF-8"),
    Branch.DECIMAL: ("no decimal", f"a number of {DECIMAL.precision} digits"),
    Branch.TIME_MICROS: ("no time of a day", str(TYPES[Branch.TIME_MICROS])),
}
"""What an error has as found and expected, if a value does not have the type of its branch."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted keys; `ordering` is None, or a null in it, where a delete is unconditional."""

    keys: pa.Array
    ordering: pa.Array | None


def decode_deletes(content: bytes | pa.Buffer, path: str) -> list[Deletes]:
    """Read the content of a DELETE block (docs/format §6.9).

    Returns:
        The deletes in their order, one for each run of records with ordering values of one type. An unconditional one (no
        ordering value, or the integer 0, which writers put in its place) belongs to the run before it.

    Raises:
        Corrupt: the bytes do not follow the format; names the record.
        Unsupported: an older version of the block, or several ordering fields.
    """
    if len(content) < _HEAD.size:
        _fail(path, f"{len(content)} bytes", "version and length")
    version, length = _HEAD.unpack_from(content)
    if version != VERSION:
        _fail(path, f"version {version}", f"version {VERSION}", error=Unsupported)
    if length != len(content) - _HEAD.size:
        _fail(path, f"a list of {length} bytes", f"one of {len(content) - _HEAD.size} bytes")
    data, end = padded(content), len(content)
    return _runs(data, _starts(data, end, path), end, path)


def encode_deletes(deletes: Deletes, partition_path: str) -> bytes:
    """Return the content of a DELETE block; equal arguments give equal bytes.

    An unconditional delete is written with the integer 0, as by Apache Hudi, or without a value beside ordering values of another
    type. So a 32-bit integer 0 is unconditional for every reader. Source: docs/format §6.9.

    Raises:
        InvalidRequest: a key is null, or the lengths differ.
        Unsupported: ordering values of a type that a delete cannot carry.
    """
    keys = deletes.keys.cast(pa.string())
    ordering = deletes.ordering
    if keys.null_count or (ordering is not None and len(ordering) != len(keys)):
        raise InvalidRequest(
            "Deletes need a key each, and an ordering value or null for each key.",
            expected=f"{len(keys)} keys without null",
            found=f"{keys.null_count} nulls, {len(keys) if ordering is None else len(ordering)} ordering values",
        )
    rows, lengths = length_rows(keys)
    key_heads = np.concatenate([np.full((len(keys), 1), _SOME, np.uint8), rows], axis=1)
    path = partition_path.encode()
    path_rows, _ = varint_rows(zigzag(np.array([len(path)])))
    constant = bytes([_SOME]) + path_rows.tobytes() + path
    parts = [pieces(key_heads, lengths + 1), keys.cast(pa.binary()), constant, *ordering_pieces(ordering, len(keys))]
    records = join(parts, len(keys))
    count, _ = varint_rows(zigzag(np.array([len(keys)])))
    body = [count.tobytes(), b"".join(_data(records))] if len(keys) else []
    body.append(b"\x00")
    return b"".join([_HEAD.pack(VERSION, sum(map(len, body))), *body])


def _starts(data: Bytes, end: int, path: str) -> Longs:
    """Find where each record begins, over all blocks of the list; the list fills the content."""
    items = ItemChain((_TEXT, _TEXT, _ORDERING), data, end, window_bytes=WINDOW_BYTES, first_byte=_SOME)
    at, records = _HEAD.size, 0
    found: list[Longs] = []
    for blocks in count_up():
        count, at = _varint(data, at, end, path)
        if count == 0:
            break
        if blocks > _SMALL_BLOCKS_MAX and records < blocks * _SMALL_BLOCK_RECORDS:
            text = f"{records} records in {blocks} blocks of a list"
            _fail(path, text, "the records of a block beside each other", error=Unsupported)
        if count < 0:
            size, at = _varint(data, at, end, path)
            count = -count
            if not 0 <= size <= end - at:
                _fail(path, f"a block of {size} bytes", f"at most {end - at} bytes")
        if count > (end - at) // _SMALLEST_RECORD:
            _fail(path, f"{count} records in {end - at} bytes", "at least 4 bytes a record")
        chain, at = items.follow(at, count)
        records += len(chain)
        if len(chain) < count:
            _refuse(data, at, end, path, records)
        found.append(chain)
    if at != end:
        _fail(path, f"{end - at} bytes behind the list", "none")
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _varint(data: Bytes, at: int, end: int, path: str) -> tuple[int, int]:
    place = np.array([min(at, end)])
    raw, after = read_varints(data, place)
    if not place[0] < after[0] <= end:
        _fail(path, f"no count at offset {at}", "the number of records in a block of the list")
    return int(unzigzag(raw)[0]), int(after[0])


def _refuse(data: Bytes, at: int, end: int, path: str, number: int) -> NoReturn:
    """Refuse a record that cannot be read; name the reason, as far as it is known."""
    if at >= end or data[at] != _SOME:
        _fail(path, f"no key in record {number}, at offset {at}", "a key in each record")
    value_at = int(leap_all((_TEXT, _TEXT), data, np.array([at]), end)[0])
    if 0 <= value_at < end and data[value_at] == 2 * Branch.ARRAY:
        _fail(path, f"several ordering fields in record {number}", "one ordering field", error=Unsupported)
    _fail(path, f"a broken record {number}, at offset {at}", "key, partition path and ordering value")


def _runs(data: Bytes, starts: Longs, end: int, path: str) -> list[Deletes]:
    """Read the records that begin at these places."""
    if not len(starts):
        return []
    decoder = Decoder(data, path)
    lanes = Lanes(starts, np.full(len(starts), end), np.arange(len(starts)))
    keys = _read(decoder, _TEXT, lanes, path, "a key that is no text", "UTF-8")
    decoder.read(_TEXT, lanes, wanted=False)  # the partition path
    branch = np.asarray(decoder.read(_LONG, lanes, wanted=True))
    is_free = branch == Branch.NULL
    (ints,) = np.nonzero(branch == Branch.INT)
    is_free[ints] = data[lanes.at[ints]] == 0
    # Unconditional records take the branch of the record before them; at the beginning, that of the record after them.
    (bound,) = np.nonzero(~is_free)
    if not len(bound):
        return [Deletes(keys, None)]
    nearest = bound[np.maximum(np.searchsorted(bound, np.arange(len(is_free)), side="right") - 1, 0)]
    branch = branch[nearest]
    edges = [0, *(np.nonzero(np.diff(branch))[0] + 1).tolist(), len(branch)]
    runs = []
    for start, stop in pairwise(edges):
        mask = is_free[start:stop]
        one = Branch(int(branch[start]))
        found, expected = _BROKEN.get(one, ("", ""))
        values = _read(decoder, _VALUES[one], lanes.some(start + np.nonzero(~mask)[0]), path, found, expected)
        if mask.any():
            values = values.take(pa.array(np.where(mask, 0, np.cumsum(~mask) - 1), mask=mask))
        runs.append(Deletes(keys.slice(start, stop - start), values))
    return runs


def _read(decoder: Decoder, node: Node, lanes: Lanes, path: str, found: str, expected: str) -> pa.Array:
    """Read a value in each lane.

    Raises:
        Corrupt: a value does not have the type; the error has `found` and the number of the record.
    """
    try:
        return decoder.read(node, lanes, wanted=True)
    except Corrupt as error:
        _fail(path, f"{found} in record {error.details['record']}", expected)


def _data(records: pa.Array) -> list[pa.Buffer]:
    """Return the bytes of a binary array that is not a slice."""
    offsets = np.frombuffer(records.buffers()[1], np.int32 if records.type == pa.binary() else np.int64)
    return [records.buffers()[2].slice(0, int(offsets[len(records)]))] if len(records) else []


def _fail(path: str, found: str, expected: str, error: type[HudiOpsError] = Corrupt) -> NoReturn:
    raise error(
        f"A delete block of {path} {'is damaged' if error is Corrupt else 'is not understood'}",
        expected=expected,
        found=found,
        next_step="run `hudi-ops verify`; restore the file from a copy"
        if error is Corrupt
        else "compact the table with the Apache Hudi that wrote the block",
        path=path,
    )
