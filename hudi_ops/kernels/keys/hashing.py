"""Java's string and list hashes over Arrow, and the bucket of a key in the simple index.

A writer that puts a key into another bucket than Apache Hudi does makes duplicates as soon as both write one table. So every
rule here is checked against vectors of Hudi's own `BucketIdentifier` (tests/unit/kernels/BucketVectors.java).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.keys.key_pieces import BLOCK_ROWS, parsed_values, plain_strings, raw_bytes

_CELLS_PER_STEP = 1 << 18


def java_string_hash(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Return `String.hashCode()` of every value, over UTF-16 code units; 0 for a null."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        codes = pc.fill_null(values.indices, 0).to_numpy(zero_copy_only=False)
        distinct = java_string_hash(values.dictionary)
        hashes = distinct[codes] if len(distinct) else np.zeros(len(values), np.int32)
        return np.where(np.asarray(values.is_null()), np.int32(0), hashes)
    hashes = np.zeros(len(values), np.uint32)
    for start in range(0, len(values), BLOCK_ROWS):
        units, lengths = _code_units(pc.fill_null(values.slice(start, BLOCK_ROWS), ""))
        hashes[start : start + BLOCK_ROWS] = _polynomial(units, lengths)
    return hashes.view(np.int32)


def bucket_ids(hash_values: Sequence[pa.Array], num_buckets: int) -> npt.NDArray[np.int32]:
    """Return the bucket of every row: `(List.hashCode() & 0x7fffffff) % num_buckets`.

    `hash_values` are columns as `bucket_hash_values` returns them. A null says that the row's list has no value at that place
    (lists may differ in length); a null *value* is the empty string here. Source: docs/format §10.1.

    Raises:
        InvalidRequest: there is no column, the columns differ in length, or `num_buckets` is below 1.
    """
    if num_buckets < 1:
        raise InvalidRequest(
            f"The number of buckets is {num_buckets}.",
            expected="1 or more",
            found=str(num_buckets),
            next_step="Set hoodie.bucket.index.num.buckets to 1 or more.",
        )
    lengths = {len(column) for column in hash_values}
    if len(lengths) != 1:
        raise InvalidRequest(
            "Bucket hashing needs one or more columns of one length.",
            expected="columns of one length",
            found=f"lengths {sorted(lengths)}",
            next_step="Pass the columns that bucket_hash_values returned.",
        )
    hashes = np.ones(lengths.pop(), np.uint32)
    for column in hash_values:
        longer = hashes * np.uint32(31) + java_string_hash(column).view(np.uint32)
        hashes = longer if column.null_count == 0 else np.where(np.asarray(column.is_valid()), longer, hashes)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(num_buckets)).astype(np.int32)


def bucket_hash_values(record_keys: pa.Array | pa.ChunkedArray, hash_fields: Sequence[str]) -> list[pa.Array]:
    """Parse the values that the simple bucket index hashes out of record keys.

    The rules are exactly those of Apache Hudi 1.1.1. A key that lacks a comma or a colon is hashed whole. Any other is taken for
    `f:v,f:v`: a comma ends a value when the next comma or colon after it is a colon. The values of the hash fields
    (`hoodie.bucket.index.hash.field`; empty: all) follow the order of the key; when none of the fields occurs, the whole key is
    hashed. `__null__` and `__empty__` hash like the empty string. Source: docs/format §10.1; Apache Hudi 1.1.1,
    KeyGenUtils.extractRecordKeysByFields.

    Raises:
        Unsupported: a key on which Apache Hudi's own parser never ends: its last field is not a hash field and holds a colon.
            Raised by `parsed_values`.
    """
    if isinstance(record_keys, pa.ChunkedArray):
        record_keys = record_keys.combine_chunks()
    keys = plain_strings(record_keys)
    wanted = list(hash_fields) if list(hash_fields) != [""] else []
    if not (raw_bytes(keys)[0] == ord(",")).any():
        return [keys]
    composite = pc.and_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))
    rows = np.flatnonzero(np.asarray(composite))
    if len(rows) == 0:
        return [keys]
    counts, values = parsed_values(keys if len(rows) == len(keys) else keys.take(pa.array(rows)), wanted)
    if len(rows) == len(keys) and counts.min() == counts.max():
        width = int(counts[0])  # the usual case: every key has the same fields
        return [values.take(pa.array(np.arange(place, len(values), width))) for place in range(width)]
    return _ragged_columns(keys, rows, counts, values)


def group_hash(partition_path: str, bucket: int) -> int:
    """Return 31 bits for a file group's write tokens, equal in every attempt and machine."""
    return zlib.crc32(f"{partition_path}/{bucket}".encode()) & 0x7FFFFFFF


def _code_units(values: pa.Array) -> tuple[npt.NDArray[np.unsignedinteger], npt.NDArray[np.int64]]:
    """Return the UTF-16 code units (bytes if all are ASCII), and the count of each value."""
    data, offsets = raw_bytes(values)
    if len(data) == 0 or int(data.max()) < 0x80:
        return data, np.diff(offsets)
    # One unit per character, two for those of four bytes; continuation bytes (10xxxxxx) are not characters.
    units = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    before = np.concatenate(([0], np.cumsum(units)))
    utf16 = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), "<u2")
    return utf16, np.diff(before[offsets])


def _polynomial(units: npt.NDArray[np.unsignedinteger], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return for each value the sum of unit[i] * 31^(length - 1 - i), modulo 2^32."""
    hashes = np.zeros(len(lengths), np.uint32)
    if len(units) == 0:
        return hashes
    powers = np.cumprod(np.concatenate(([1], np.full(int(lengths.max()), 31))), dtype=np.uint32)
    if int(lengths.min()) == int(lengths.max()):
        return _matrix_hash(units.reshape(len(lengths), -1), powers)
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order], append=-1)) + 1
    for begin, end in zip(np.concatenate(([0], ends[:-1])).tolist(), ends.tolist(), strict=True):
        rows = order[begin:end]
        length = int(lengths[rows[0]])
        step = max(1, _CELLS_PER_STEP // max(1, length))
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            hashes[part] = _matrix_hash(units[starts[part][:, None] + np.arange(length)], powers)
    return hashes


def _matrix_hash(matrix: npt.NDArray[np.unsignedinteger], powers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return one hash per row of equally long values."""
    weights = powers[: matrix.shape[1]][::-1]
    hashes = np.empty(len(matrix), np.uint32)
    step = max(1, _CELLS_PER_STEP // max(1, matrix.shape[1]))
    for at in range(0, len(matrix), step):
        hashes[at : at + step] = matrix[at : at + step].astype(np.uint32) @ weights
    return hashes


def _ragged_columns(
    keys: pa.Array, rows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], values: pa.Array
) -> list[pa.Array]:
    """Return columns for keys of which only `rows` are composite, with `counts` values."""
    starts = np.cumsum(counts) - counts
    columns = []
    for place in range(int(counts.max())):
        source = np.full(len(keys), -1, np.int64)
        source[rows[counts > place]] = starts[counts > place] + place
        picked = values.take(pa.array(source, mask=source < 0))
        if place == 0:
            whole = np.ones(len(keys), bool)
            whole[rows] = False
            picked = pc.if_else(pa.array(whole), keys, picked)
        columns.append(picked)
    return columns
