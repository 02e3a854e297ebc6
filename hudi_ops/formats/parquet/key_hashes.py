"""Bit positions of record keys in a bloom filter: Hadoop's chained 32-bit murmur2.

The hash of a key seeds the next hash of the same key. The parts that do not depend on the seed (the mixed words, the tail)
are computed once a key; the rest is two operations a word and hash. Keys are walked in chunks that fit a processor's cache,
longest first, so that the keys which still have a word at some position are always the first of the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest

U32 = npt.NDArray[np.uint32]

_M: Final = np.uint32(0x5BD1E995)
_CHUNK_BYTES: Final = 1 << 18
_MIN_ROWS: Final = 64
_MAX_ROWS: Final = 8192


def text_chunks(keys: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the keys, strings of any layout, as non-empty large_string arrays without nulls.

    Raises:
        InvalidRequest: the array holds nulls, or is not of strings.
    """
    if keys.null_count:
        raise InvalidRequest(
            "A record key is null",
            expected="a key in every row",
            found=f"{keys.null_count} nulls among {len(keys)} keys",
            next_step="set a key in every row",
        )
    value_type = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if not any(
        is_kind(value_type) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    ):
        raise InvalidRequest(
            "Record keys are not text",
            expected="a string column",
            found=str(keys.type),
            next_step="cast the keys to string",
        )
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        if len(chunk):
            yield chunk.cast(pa.large_string())


def positions(keys: pa.Array, bits: int, hashes: int) -> Iterator[tuple[npt.NDArray[Any], list[U32]]]:
    """Yield row numbers of a cache-sized chunk and, per hash, the bit of each of those rows.

    `keys` is a large_string array without nulls. Source: docs/format §7; org.apache.hadoop.util.hash.MurmurHash.
    """
    divisor = np.uint32(bits)
    for numbers, found in hashed(keys, hashes):
        yield numbers, [size - size // divisor * divisor for size in found]


def hashed(keys: pa.Array, hashes: int) -> Iterator[tuple[npt.NDArray[Any], list[U32]]]:
    """Yield row numbers of a cache-sized chunk and the hashes of each of those rows.

    Positions of bits are the remainders of the hashes. `keys` is as in `positions`.
    """
    lengths = pc.binary_length(keys).to_numpy().astype(np.uint32)
    order, keys, lengths = _longest_first(keys, lengths)
    offsets = np.frombuffer(keys.buffers()[1], np.int64, len(keys) + 1, keys.offset * 8)
    buffer = keys.buffers()[2]
    data = np.frombuffer(buffer if buffer is not None else b"", np.uint8)
    start = 0
    while start < len(keys):
        row_bytes = max(int(lengths[start]), 1)
        stop = min(start + min(max(_CHUNK_BYTES // row_bytes, _MIN_ROWS), _MAX_ROWS), len(keys))
        words, counts, tail, factor = _prepare(data, offsets[start:stop], lengths[start:stop])
        yield order[start:stop], _chain(words, counts, tail, factor, lengths[start:stop], hashes)
        start = stop


def _longest_first(keys: pa.Array, lengths: U32) -> tuple[npt.NDArray[Any], pa.Array, U32]:
    if lengths.min() == lengths.max():
        return np.arange(len(keys)), keys, lengths
    # 16-bit numbers are sorted by radix; longer keys are rare, and only need the comparison sort.
    rank = lengths.max() - lengths
    order = np.argsort(rank.astype(np.uint16) if rank.max() < 1 << 16 else rank, kind="stable")
    return order, keys.take(pa.array(order)), lengths[order]


def _prepare(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], lengths: U32
) -> tuple[U32, list[int], U32, U32]:
    """Mix the words of a chunk, longest keys first.

    Returns:
        words: one row a word position, one column a key, mixed; columns beyond a key's words are not set.
        counts: for each word position, how many keys have a word there.
        tail: the last one to three bytes of each key, 0 for none.
        factor: what the tail step multiplies by: murmur's constant, 1 for no tail.
    """
    rows = len(lengths)
    words = np.empty((int(lengths[0]) // 4, rows), np.uint32)
    tail = np.zeros(rows, np.uint32)
    # Runs of equal length lie side by side in `data`, hence are matrices.
    edges = [0, *(np.flatnonzero(lengths[1:] != lengths[:-1]) + 1).tolist(), rows]
    for first, last in pairwise(edges):
        length = int(lengths[first])
        begin = int(offsets[first])
        block = data[begin : begin + (last - first) * length].reshape(last - first, length)
        whole = length // 4 * 4
        if whole:
            words[: whole // 4, first:last] = np.ascontiguousarray(block[:, :whole]).view("<u4").T
        # Java bytes are signed: a byte above 0x7F sets all higher bits of the tail.
        for at in range(whole, length):
            signed = block[:, at].astype(np.int8).astype(np.int32)
            tail[first:last] ^= (signed << (8 * (length - 1 - at))).view(np.uint32)
    words *= _M
    words ^= words >> np.uint32(24)
    words *= _M
    # Longest first, so the keys with more than `at` words are a prefix.
    counts = np.searchsorted(-(lengths // 4).astype(np.int64), -np.arange(1, len(words) + 1), side="right").tolist()
    return words, counts, tail, np.where(lengths % 4, _M, np.uint32(1))


def _chain(words: U32, counts: list[int], tail: U32, factor: U32, lengths: U32, hashes: int) -> list[U32]:
    is_uniform = not counts or counts[-1] == len(lengths)
    has_tail = bool((lengths % 4).any())
    shifted = np.empty_like(lengths)
    seed = np.zeros_like(lengths)
    found: list[U32] = []
    for _ in range(hashes):
        h = seed ^ lengths
        for at, count in enumerate(counts):
            head = h if is_uniform else h[:count]
            np.multiply(head, _M, out=head)
            np.bitwise_xor(head, words[at] if is_uniform else words[at, :count], out=head)
        if has_tail:
            np.bitwise_xor(h, tail, out=h)
            np.multiply(h, factor, out=h)
        np.right_shift(h, np.uint32(13), out=shifted)
        np.bitwise_xor(h, shifted, out=h)
        np.multiply(h, _M, out=h)
        np.right_shift(h, np.uint32(15), out=shifted)
        np.bitwise_xor(h, shifted, out=h)
        # Java takes |h % bits| of the signed hash, which is |h| % bits; numpy's |-2**31| wraps to the right unsigned.
        found.append(np.abs(h.view(np.int32)).view(np.uint32))
        seed = h
    return found
