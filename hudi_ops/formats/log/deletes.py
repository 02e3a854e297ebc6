"""Contents of DELETE blocks, version 3: keys and their ordering values, both ways, by column.

The records have no length in front, so where one ends follows from its values alone. Reading takes every byte that can begin a
record for a beginning, finds where each of them would end, all at once, and then follows the one chain that is there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat
from itertools import count as count_up
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from hudi_ops.errors import Corrupt, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.formats.avro.decimals import decimals_of
from hudi_ops.formats.avro.encode import join
from hudi_ops.formats.avro.varints import (
    Bytes,
    Longs,
    as_text,
    first_invalid,
    fixed_at,
    padded,
    pieces,
    read_varints,
    spans,
    unzigzag,
    varint_rows,
    zigzag,
)
from hudi_ops.formats.log.orderings import (
    DECIMAL,
    FIXED_BYTES,
    SIZED,
    TYPES,
    VARINTS,
    Branch,
    length_rows,
    ordering_pieces,
)

VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
WINDOW_BYTES: Final = 1 << 20
_SMALL_BLOCKS_MAX, _SMALL_BLOCK_RECORDS = 10_000, 16
"""Writers make one block, and work in Python is done for each: many of a few records are only made to take long."""
_SMALLEST_RECORD: Final = 4
"""Key's branch and length, partition path's branch, ordering value's branch."""
_SOME: Final = 2
"""Index 1 of a union as it is written: the text of a nullable text."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted keys.

    `ordering` is None when every delete is unconditional; a null in it makes that one so.
    """

    keys: pa.Array
    ordering: pa.Array | None


def decode_deletes(content: bytes | pa.Buffer, path: str) -> list[Deletes]:
    """Read the content of a DELETE block.

    Args:
        content: of the block.
        path: file it came from, for errors.

    Returns:
        The deletes in their order, one for each run of records with ordering values of one type. An unconditional one (no
        ordering value, or the integer 0, which writers put in its place) belongs to the run before it.

    Raises:
        Corrupt: the bytes do not follow the format; names the record.
        Unsupported: an older version of the block, or several ordering fields.

    Source: docs/format.md §6.9.
    """
    if len(content) < _HEAD.size:
        _fail(path, f"{len(content)} bytes", "version and length")
    version, length = _HEAD.unpack_from(content)
    if version != VERSION:
        _fail(path, f"version {version}", f"version {VERSION}", error=Unsupported)
    if length != len(content) - _HEAD.size:
        _fail(path, f"a list of {length} bytes", f"one of {len(content) - _HEAD.size} bytes")
    reader = _Reader(padded(content), len(content), path)
    reader.follow()
    return reader.runs()


def encode_deletes(deletes: Deletes, partition_path: str) -> bytes:
    """The content of a DELETE block; equal arguments give equal bytes.

    Unconditional deletes are written as Apache Hudi writes them, with the integer 0; beside ordering values of another type with
    none at all. An integer 0 of 32 bits therefore is unconditional for every reader.

    Args:
        deletes: keys without null; ordering values of the same length.
        partition_path: of the file group.

    Raises:
        InvalidRequest: a key is null, or the lengths differ.
        Unsupported: ordering values of a type that a delete cannot carry.

    Source: docs/format.md §6.9.
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


class _Reader:
    """One list of delete records; a window of its bytes at a time, so that memory is bounded by the window, whatever they are."""

    def __init__(self, data: Bytes, end: int, path: str) -> None:
        self._data, self._end, self._path = data, end, path
        self._start = self._stop = 0
        self._found: list[tuple[Longs, Longs, Bytes, Longs]] = []

    def _look(self, start: int) -> None:
        """Every byte of a window that says "a text follows", read as a record: where its parts lie and where it ends."""
        data, end = self._data, self._end
        self._start, self._stop = start, min(start + WINDOW_BYTES, end)
        (at,) = np.nonzero(data[start : self._stop] == _SOME)
        self._at: Longs = at + start
        self._key_at, self._key_bytes, after = self._text(self._at + 1)
        is_text = data[self._clip(after)] == _SOME
        _, _, behind_path = self._text(self._clip(after + 1))
        is_path = is_text | (data[self._clip(after)] == 0)
        branch_at = np.where(is_text, behind_path, after + 1)
        is_good = (after < end) & is_path & (branch_at < end)
        self._branch_at = self._clip(branch_at)
        code = data[self._branch_at]
        self._branch = code >> np.uint8(1)
        self._value_at = self._branch_at + 1
        after = self._after_values()
        is_good &= ((code & 1) == 0) & (code <= 2 * Branch.TIMESTAMP_MICROS) & (after <= end)
        self._after: Longs = np.where(is_good, after, -1)
        # Steps within the window; behind it, and at damage, a chain stays where it is.
        size = self._stop - start
        self._step = np.full((size + 1, 1), size, np.int32)
        self._step[at, 0] = np.where(is_good, np.minimum(after - start, size), size)

    def _after_values(self) -> Longs:
        after = self._value_at.copy()
        for branch, size in FIXED_BYTES.items():
            after[self._branch == branch] += size
        for branches, is_text in ((VARINTS, False), (SIZED, True)):
            (which,) = np.nonzero(np.isin(self._branch, branches))
            at = self._clip(self._value_at[which])
            moved = self._text(at)[2] if is_text else read_varints(self._data, at)[1]
            after[which] = np.where(moved > at, moved, self._end + 1)
        return after

    def _text(self, at: Longs) -> tuple[Longs, Longs, Longs]:
        """Where texts begin whose lengths stand at these positions, those lengths, and where they end; beyond the end if bad."""
        at = self._clip(at)
        raw, begin = read_varints(self._data, at)
        length = unzigzag(raw)
        is_good = (begin > at) & (length >= 0) & (length <= self._end - begin)
        return begin, np.where(is_good, length, 0), np.where(is_good, begin + length, self._end + 1)

    def _clip(self, at: Longs) -> Longs:
        """Positions that may be looked at: those beyond the content fall on the padding."""
        return np.minimum(at, self._end)

    def follow(self) -> None:
        """Find the records, over all blocks of the list; the list fills the content."""
        at, records = _HEAD.size, 0
        for blocks in count_up():
            count, at = self._varint(at)
            if count == 0:
                break
            if blocks > _SMALL_BLOCKS_MAX and records < blocks * _SMALL_BLOCK_RECORDS:
                found = f"{records} records in {blocks} blocks of a list"
                _fail(self._path, found, "the records of a block beside each other", error=Unsupported)
            if count < 0:
                size, at = self._varint(at)
                count = -count
                if not 0 <= size <= self._end - at:
                    _fail(self._path, f"a block of {size} bytes", f"at most {self._end - at} bytes")
            if count > (self._end - at) // _SMALLEST_RECORD:
                _fail(self._path, f"{count} records in {self._end - at} bytes", "at least 4 bytes a record")
            last = records + count
            while records < last:
                if not self._start <= at < self._stop:
                    self._look(at)
                places, at = self._chain(at, last - records, records)
                self._found.append((
                    self._key_at[places],
                    self._key_bytes[places],
                    self._branch[places],
                    self._value_at[places],
                ))
                records += len(places)
        if at != self._end:
            _fail(self._path, f"{self._end - at} bytes behind the list", "none")

    def _chain(self, at: int, count: int, number: int) -> tuple[Longs, int]:
        """The candidates that are the next records, as far as they begin in the window, and where the last of them ends."""
        # One call into C a record: the place behind a record, looked up in a table of all places.
        steps = min(count, len(self._at) + 1) - 1
        chain = np.fromiter(accumulate(repeat(0, steps), self._step.item, initial=at - self._start), np.int64)
        chain = chain[chain < self._stop - self._start] + self._start
        places = np.searchsorted(self._at, chain)
        last = int(places[-1])
        if last == len(self._at) or self._at[last] != chain[-1] or self._after[last] < 0:
            self._refuse(int(chain[-1]), number + len(chain) - 1)
        return places, int(self._after[last])

    def _varint(self, at: int) -> tuple[int, int]:
        place = np.array([min(at, self._end)])
        raw, after = read_varints(self._data, place)
        if not place[0] < after[0] <= self._end:
            _fail(self._path, f"no count at offset {at}", "the number of records in a block of the list")
        return int(unzigzag(raw)[0]), int(after[0])

    def _refuse(self, at: int, number: int) -> NoReturn:
        """A record that cannot be read: says why, as far as it can be told."""
        (places,) = np.nonzero(self._at == at)
        if not len(places):
            _fail(self._path, f"no key in record {number}, at offset {at}", "a key in each record")
        place = places[0]
        if self._data[self._branch_at[place]] == 2 * Branch.ARRAY and self._branch_at[place] < self._end:
            _fail(self._path, f"several ordering fields in record {number}", "one ordering field", error=Unsupported)
        _fail(self._path, f"a broken record {number}, at offset {at}", "key, partition path and ordering value")

    def runs(self) -> list[Deletes]:
        """The records that were found."""
        if not self._found:
            return []
        key_at, key_bytes, self._branch, self._value_at = map(np.concatenate, zip(*self._found, strict=True))
        keys = self._as_text(spans(self._data, key_at, key_bytes), "key", 0)
        is_free = self._branch == Branch.NULL
        (ints,) = np.nonzero(self._branch == Branch.INT)
        is_free[ints] = self._data[self._value_at[ints]] == 0
        # Unconditional records take the branch of the record before them, those at the beginning of the one after them.
        (bound,) = np.nonzero(~is_free)
        if not len(bound):
            return [Deletes(keys, None)]
        nearest = bound[np.maximum(np.searchsorted(bound, np.arange(len(is_free)), side="right") - 1, 0)]
        branch = self._branch[nearest]
        edges = [0, *(np.nonzero(np.diff(branch))[0] + 1).tolist(), len(branch)]
        return [
            Deletes(keys.slice(start, end - start), self._values(Branch(int(branch[start])), start, end, is_free))
            for start, end in pairwise(edges)
        ]

    def _values(self, branch: Branch, start: int, end: int, is_free: np.ndarray) -> pa.Array:
        (bound,) = np.nonzero(~is_free[start:end])
        values = self._read_values(branch, self._value_at[start:end][bound], start + bound)
        if len(bound) == end - start:
            return values
        mask = is_free[start:end]
        return values.take(pa.array(np.where(mask, 0, np.cumsum(~mask) - 1), mask=mask))

    def _read_values(self, branch: Branch, at: Longs, number: Longs) -> pa.Array:
        data = self._data
        if branch is Branch.BOOLEAN:
            if data[at].max() > 1:
                _fail(self._path, f"no boolean in record {number[np.argmax(data[at] > 1)]}", "0 or 1")
            return pa.array(data[at] == 1)
        if branch in (Branch.FLOAT, Branch.DOUBLE):
            return pa.array(fixed_at(data, at, "<f4" if branch is Branch.FLOAT else "<f8"))
        if branch in VARINTS:
            values = unzigzag(read_varints(data, at)[0])
            if branch in (Branch.INT, Branch.DATE):
                narrow = values.astype(np.int32)
                if (narrow != values).any():
                    _fail(self._path, f"a long in record {number[np.argmax(narrow != values)]}", "an int")
                return pa.array(narrow).view(TYPES[branch])
            longs = pa.array(values).view(TYPES[branch])
            if branch is Branch.TIME_MICROS and (bad := first_invalid(longs)) is not None:
                _fail(self._path, f"no time of a day in record {number[bad]}", str(TYPES[branch]))
            return longs
        begin, length, _ = self._text(at)
        values = spans(data, begin, length)
        if branch is Branch.STRING:
            return self._as_text(values, "ordering value", number)
        if branch is Branch.BYTES:
            return values
        decimals, bad = decimals_of(data, begin, length, DECIMAL)
        if bad is not None:
            _fail(self._path, f"no decimal in record {number[bad]}", f"a number of {DECIMAL.precision} digits")
        return decimals

    def _as_text(self, values: pa.BinaryArray, what: str, number: Longs | int) -> pa.StringArray:
        text, bad = as_text(values)
        if bad is not None:
            place = bad if isinstance(number, int) else int(number[bad])
            _fail(self._path, f"a {what} that is no text in record {place}", "UTF-8")
        return text


def _data(records: pa.Array) -> list[pa.Buffer]:
    """The bytes of an array of bytes that is no slice."""
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
