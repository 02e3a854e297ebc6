"""Check that a number of buckets is the one that a table's file groups were made with.

The keys in the files tell. Apache Hudi stores neither the number nor the hash fields, and a writer with others puts rows into
buckets in which readers do not look for them. A key of hash h lies in bucket b = h mod n, so n divides every h - b: the
greatest common divisor of a few keys' differences leaves hardly a choice (docs/format §10.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import BUCKETS_MAX
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.files.base.base_file import BaseFileReader, conform
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.kernels.keys.keys import KeySpec, PartitionSpec, partition_paths, record_keys
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.file_group import DataFile

SAMPLED_ROWS = 1_000
"""Rows sampled in each file group."""

SAMPLED_FILES_MAX = 2_000

_WHOLE_HASH = 1 << 31
"""Number of buckets with which a key's bucket is its hash."""


@dataclass(frozen=True)
class SampleTask:
    """Base file of one bucket, to be sampled; `has_meta`: it holds the keys as text."""

    storage: Storage
    file: DataFile
    bucket: int
    schema: pa.Schema
    keys: KeySpec
    partitions: PartitionSpec
    has_meta: bool


@dataclass(frozen=True)
class KeySample:
    """Keys of one file group, as stored in its file."""

    file: DataFile
    bucket: int
    keys: pa.Array


@dataclass(frozen=True)
class Misfit:
    """Key that a number of buckets would place in another group."""

    file: DataFile
    key: str
    bucket: int
    expected: int


def chosen_groups(groups: Mapping[tuple[str, int], DataFile]) -> list[tuple[int, DataFile]]:
    """Return (bucket, file) of the groups to sample: all, or evenly spread and the highest."""
    found = [(bucket, file) for (_, bucket), file in groups.items()]
    if len(found) <= SAMPLED_FILES_MAX:
        return found
    highest = max(range(len(found)), key=lambda at: found[at][0])
    spread = {highest, *(round(at) for at in np.linspace(0, len(found) - 1, SAMPLED_FILES_MAX - 1))}
    return [found[at] for at in sorted(spread)]


def sample_keys(task: SampleTask) -> KeySample:
    """Return the keys of the first rows of a base file, written as this library would.

    Raises:
        Unsupported: record keys or partition paths are made differently, so that an upsert would not find its rows.
    """
    path, names = task.file.path, dict.fromkeys((*task.keys.fields, *task.partitions.fields))
    rows = BaseFileReader(task.storage, path).head(SAMPLED_ROWS, [RECORD_KEY, *names])
    fields = pa.schema([field for field in task.schema if field.name in names])
    values = conform(rows, fields, path)
    ours = record_keys(values, task.keys)
    if task.has_meta and rows.num_rows:
        stored = rows.column(RECORD_KEY).combine_chunks().cast(pa.string())
        _refuse_other(path, "record key", ours, stored, task.keys.fields)
    try:
        paths = partition_paths(values, task.partitions)
    except InvalidRequest:
        paths = None  # an existing row has a value that this library refuses to write
    if paths is not None and rows.num_rows:
        there = pa.array([task.file.partition_path] * rows.num_rows, pa.string())
        _refuse_other(path, "partition path", paths.cast(pa.string()), there, task.partitions.fields)
    return KeySample(task.file, task.bucket, ours)


def fitting_counts(samples: Sequence[KeySample], hash_fields: Sequence[str]) -> list[int]:
    """Return every number of buckets that fits all sampled keys; empty without keys."""
    divisor = 0
    for sample in samples:
        differences = np.abs(_hashes(sample, hash_fields) - sample.bucket)
        divisor = int(np.gcd.reduce(np.append(differences, divisor)))
    highest = max((sample.bucket for sample in samples), default=0)
    if divisor == 0:
        return []
    small = [count for count in range(1, min(BUCKETS_MAX, divisor) + 1) if divisor % count == 0]
    return [count for count in small if count > highest]


def first_misfit(samples: Sequence[KeySample], hash_fields: Sequence[str], buckets: int) -> Misfit | None:
    """Return the first sampled key that `buckets` would place in another bucket, or None."""
    for sample in samples:
        expected = _hashes(sample, hash_fields) % buckets
        wrong = np.flatnonzero(expected != sample.bucket)
        if len(wrong):
            at = int(wrong[0])
            return Misfit(sample.file, sample.keys[at].as_py(), sample.bucket, int(expected[at]))
    return None


def other_hash_fields(
    samples: Sequence[KeySample], key_fields: Sequence[str], tried: Sequence[str]
) -> tuple[tuple[str, ...], int] | None:
    """Return untried key fields that fit all sampled keys, and the one number of buckets."""
    for length in range(len(key_fields), 0, -1):
        for fields in combinations(key_fields, length):
            try:
                counts = fitting_counts(samples, fields) if fields != tuple(tried) else []
            except Unsupported:
                continue  # Apache Hudi's own parser does not end on such keys, so it cannot have hashed these fields
            if len(counts) == 1:
                return fields, counts[0]
    return None


def _hashes(sample: KeySample, hash_fields: Sequence[str]) -> npt.NDArray[np.int64]:
    return bucket_ids(bucket_hash_values(sample.keys, hash_fields), _WHOLE_HASH).astype(np.int64)


def _refuse_other(path: str, what: str, ours: pa.Array, stored: pa.Array, fields: Sequence[str]) -> None:
    if ours.equals(stored):
        return
    for row, (left, right) in enumerate(zip(ours.to_pylist(), stored.to_pylist(), strict=True)):
        if left != right:
            raise Unsupported(
                f"{path}: row {row} has a {what} that this library would write otherwise: upserts would not find the "
                "row",
                expected=f"{left!r}, of {', '.join(fields) or 'nothing'}",
                found=repr(right),
                next_step="write the table with Apache Hudi; if its key generator is recorded wrongly, correct hoodie.properties",
                file=path,
                **({"record_key": right} if what == "record key" else {}),
            )
