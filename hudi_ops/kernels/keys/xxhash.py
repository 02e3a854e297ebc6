"""xxHash32 over Arrow, and the hash of a key on the ring of a consistent bucket index.

A writer that hashes a key otherwise than Apache Hudi does makes duplicates as soon as both write one table. Source:
docs/format.md §10.3; Apache Hudi 1.1.1, HashID.getXXHash32 and ConsistentBucketIdentifier.
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
_LANES = 4
_WORD_BYTES = 4

Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


def ring_hashes(hash_values: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """Return the place of every row on a ring: `xxHash32 & 0x7fffffff` of its values, joined without a separator.

    `hash_values` are columns as `bucket_hash_values` returns them. A null adds nothing, as an empty text does.

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
    # The longest first: those that still have bytes at a step are then the first ones.
    order = None if lengths.min() == lengths.max() else np.argsort(-lengths, kind="stable")
    starts = offsets[:-1] if order is None else offsets[:-1][order]
    lengths = lengths if order is None else lengths[order]
    # A word at each byte; three bytes of padding let the last text end anywhere.
    padded = np.concatenate((data, np.zeros(_WORD_BYTES, np.uint8)))
    words = np.ndarray((len(data) + 1,), np.dtype("<u4"), padded, strides=(1,))
    hashes, at = _striped(words, starts, lengths)
    hashes += lengths.astype(np.uint32)
    hashes = _with_tail(hashes, padded, words, at, starts + lengths)
    hashes ^= hashes >> np.uint32(15)
    hashes *= _P2
    hashes ^= hashes >> np.uint32(13)
    hashes *= _P3
    hashes ^= hashes >> np.uint32(16)
    if order is None:
        return hashes
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


def _striped(words: Words, starts: Places, lengths: Places) -> tuple[Words, Places]:
    """Return the hashes after all whole stripes of 16 bytes, and the place behind these; `lengths` descend."""
    stripes = lengths // _STRIPE_BYTES
    hashes = np.full(len(lengths), _P5, np.uint32)
    long = int(np.count_nonzero(stripes))
    if long:
        with np.errstate(over="ignore"):
            seeds = (_P1 + _P2, _P2, np.uint32(0), np.uint32(0) - _P1)
        lanes = [np.full(long, seed, np.uint32) for seed in seeds]
        remaining = -stripes[:long]
        for stripe in range(int(stripes[0])):
            count = int(np.searchsorted(remaining, -stripe))  # texts with more than `stripe` stripes
            at = starts[:count] + stripe * _STRIPE_BYTES
            for lane in range(_LANES):
                mixed = lanes[lane][:count] + words[at + lane * _WORD_BYTES] * _P2
                lanes[lane][:count] = _rotated(mixed, 13) * _P1
        hashes[:long] = sum(
            (_rotated(lane, bits) for lane, bits in zip(lanes[1:], (7, 12, 18), strict=True)), _rotated(lanes[0], 1)
        )
    return hashes, starts + stripes * _STRIPE_BYTES


def _with_tail(hashes: Words, data: npt.NDArray[np.uint8], words: Words, at: Places, ends: Places) -> Words:
    """Return the hashes after the last 15 bytes or fewer of each text: whole words, then single bytes."""
    for _ in range(_STRIPE_BYTES // _WORD_BYTES - 1):
        left = ends - at >= _WORD_BYTES
        hashes = np.where(left, _rotated(hashes + words[at] * _P3, 17) * _P4, hashes)
        at = np.where(left, at + _WORD_BYTES, at)
    for _ in range(_WORD_BYTES - 1):
        left = at < ends
        hashes = np.where(left, _rotated(hashes + data[at].astype(np.uint32) * _P5, 11) * _P1, hashes)
        at = np.where(left, at + 1, at)
    return hashes


def _rotated(values: Words, bits: int) -> Words:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
