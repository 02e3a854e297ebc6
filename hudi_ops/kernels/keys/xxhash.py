"""xxHash32 over Arrow, and the hash of a key on the ring of a consistent bucket index.

A writer that hashes keys differently from Apache Hudi makes duplicates as soon as both write one table. Source:
docs/format §10.3; Apache Hudi 1.1.1, HashID.getXXHash32 and ConsistentBucketIdentifier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.keys.key_pieces import BLOCK_ROWS, raw_bytes

_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393)
)
_STRIPE_BYTES = 16
_WORD_BYTES = 4
_SEEDS = tuple(np.uint32(seed & 0xFFFFFFFF) for seed in (int(_P1) + int(_P2), int(_P2), 0, -int(_P1)))

Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


def ring_hashes(hash_values: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """Return the place of every row on a ring: `xxHash32 & 0x7fffffff` of its values.

    The values are joined without a separator. `hash_values` are columns as `bucket_hash_values` returns them. A null adds nothing,
    as an empty text does.

    Raises:
        InvalidRequest: there is no column, or the columns differ in length.
    """
    lengths = {len(column) for column in hash_values}
    if len(lengths) != 1:
        raise InvalidRequest(
            "Ring hashing needs one or more columns of one length.",
            expected="columns of one length",
            found=f"lengths {sorted(lengths)}",
            next_step="Pass the columns that bucket_hash_values returned.",
        )
    rows = lengths.pop()
    hashes = np.empty(rows, np.uint32)
    for start in range(0, rows, BLOCK_ROWS):
        block = [pc.fill_null(column.slice(start, BLOCK_ROWS), "") for column in hash_values]
        joined = block[0] if len(block) == 1 else pc.binary_join_element_wise(*block, "")
        hashes[start : start + BLOCK_ROWS] = _xxhash32(*raw_bytes(joined))
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int32)


def _xxhash32(data: npt.NDArray[np.uint8], offsets: Places) -> Words:
    """Return xxHash32 with seed 0 of each text `data[offsets[i]:offsets[i + 1]]`."""
    lengths = np.diff(offsets)
    if len(lengths) == 0:
        return np.empty(0, np.uint32)
    # A word at each byte; some bytes of padding let the last text end anywhere.
    padded = np.concatenate((data, np.zeros(_STRIPE_BYTES, np.uint8)))
    if lengths.min() == lengths.max():
        return _finished(_equal_texts(padded, len(lengths), int(lengths[0])))
    # The longest first: those that still have bytes at a step are then the first ones.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[:-1][order], lengths[order]
    words = np.ndarray((len(data) + 1,), np.dtype("<u4"), padded, strides=(1,))
    hashes, at = _striped(words, starts, lengths)
    hashes = _with_tail(hashes + lengths.astype(np.uint32), padded, words, at, starts + lengths)
    found = np.empty_like(hashes)
    found[order] = _finished(hashes)
    return found


def _equal_texts(padded: npt.NDArray[np.uint8], rows: int, length: int) -> Words:
    """Return the hashes of texts of one length, before the last mixing.

    Their words are columns, which are read without an index.
    """

    def column(at: int, kind: str) -> npt.NDArray[np.unsignedinteger]:
        return np.ndarray((rows,), np.dtype(kind), padded, offset=at, strides=(length,))

    hashes, at = np.full(rows, _P5, np.uint32), 0
    if length >= _STRIPE_BYTES:
        lanes = [np.full(rows, seed, np.uint32) for seed in _SEEDS]
        for at in range(0, length - _STRIPE_BYTES + 1, _STRIPE_BYTES):
            for lane, held in enumerate(lanes):
                lanes[lane] = _rotated(held + column(at + lane * _WORD_BYTES, "<u4") * _P2, 13) * _P1
        hashes, at = _joined(lanes), length // _STRIPE_BYTES * _STRIPE_BYTES
    hashes += np.uint32(length)
    for place in range(at, length - _WORD_BYTES + 1, _WORD_BYTES):
        hashes = _rotated(hashes + column(place, "<u4") * _P3, 17) * _P4
    for place in range(length // _WORD_BYTES * _WORD_BYTES, length):
        hashes = _rotated(hashes + column(place, "u1").astype(np.uint32) * _P5, 11) * _P1
    return hashes


def _striped(words: Words, starts: Places, lengths: Places) -> tuple[Words, Places]:
    """Return the hashes after all whole stripes and the place there; `lengths` descend."""
    stripes = lengths // _STRIPE_BYTES
    hashes = np.full(len(lengths), _P5, np.uint32)
    long = int(np.count_nonzero(stripes))
    if long:
        lanes = [np.full(long, seed, np.uint32) for seed in _SEEDS]
        remaining = -stripes[:long]
        for stripe in range(int(stripes[0])):
            count = int(np.searchsorted(remaining, -stripe))  # texts with more than `stripe` stripes
            at = starts[:count] + stripe * _STRIPE_BYTES
            for lane, held in enumerate(lanes):
                held[:count] = _rotated(held[:count] + words[at + lane * _WORD_BYTES] * _P2, 13) * _P1
        hashes[:long] = _joined(lanes)
    return hashes, starts + stripes * _STRIPE_BYTES


def _with_tail(hashes: Words, data: npt.NDArray[np.uint8], words: Words, at: Places, ends: Places) -> Words:
    """Return the hashes after the rest of each text: whole words, then single bytes."""
    for _ in range(_STRIPE_BYTES // _WORD_BYTES - 1):
        rows = np.flatnonzero(ends - at >= _WORD_BYTES)
        hashes[rows] = _rotated(hashes[rows] + words[at[rows]] * _P3, 17) * _P4
        at[rows] += _WORD_BYTES
    for _ in range(_WORD_BYTES - 1):
        rows = np.flatnonzero(at < ends)
        hashes[rows] = _rotated(hashes[rows] + data[at[rows]].astype(np.uint32) * _P5, 11) * _P1
        at[rows] += 1
    return hashes


def _joined(lanes: Sequence[Words]) -> Words:
    first, second, third, fourth = lanes
    return _rotated(first, 1) + _rotated(second, 7) + _rotated(third, 12) + _rotated(fourth, 18)


def _finished(hashes: Words) -> Words:
    for bits, prime in ((15, _P2), (13, _P3)):
        hashes ^= hashes >> np.uint32(bits)
        hashes *= prime
    return hashes ^ (hashes >> np.uint32(16))


def _rotated(values: Words, bits: int) -> Words:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
