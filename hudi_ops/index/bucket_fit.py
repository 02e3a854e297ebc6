"""Whether a number of buckets is the one that a table's file groups were made with: told from the keys in their files.

Apache Hudi stores neither the number nor the hash fields, and a writer with others puts rows where nobody looks for them. A key
of hash h lies in bucket b = h mod n, so n divides every h - b: the greatest common divisor of a few keys' differences leaves
hardly a choice (docs/format.md §10.1).
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
"""Rows looked at in each file group."""

SAMPLED_FILES_MAX = 2_000

_WHOLE_HASH = 1 << 31
"""As a number of buckets, it gives a key's hash itself."""


@dataclass(frozen=True)
class SampleTask:
    """The base file of one bucket, to be sampled. `schema` is the table's; `has_meta`: its files hold the keys as text."""

    storage: Storage
    file: DataFile
    bucket: int
    schema: pa.Schema
    keys: KeySpec
    partitions: PartitionSpec
    has_meta: bool


@dataclass(frozen=True)
class KeySample:
    """Keys of one file group, as its file says them."""

    file: DataFile
    bucket: int
    keys: pa.Array


@dataclass(frozen=True)
class Misfit:
    """A key that a number of buckets would look for in another group."""

    file: DataFile
    key: str
    bucket: int
    expected: int


def chosen_groups(groups: Mapping[tuple[str, int], DataFile]) -> list[tuple[int, DataFile]]:
    """(bucket, file) of the groups to sample: all, or evenly spread ones of very many, the highest bucket among them."""
    found = [(bucket, file) for (_, bucket), file in groups.items()]
    if len(found) <= SAMPLED_FILES_MAX:
        return found
    highest = max(range(len(found)), key=lambda at: found[at][0])
    spread = {highest, *(round(at) for at in np.linspace(0, len(found) - 1, SAMPLED_FILES_MAX - 1))}
    return [found[at] for at in sorted(spread)]


def sample_keys(task: SampleTask) -> KeySample:
    """Keys of the first rows of a base file; they must be written as this library would write them.

    Raises:
        Unsupported: record keys or partition paths are made otherwise, so that an upsert would not find its rows.
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
        paths = None  # a value that we refuse to write, in a row that is there already
    if paths is not None and rows.num_rows:
        there = pa.array([task.file.partition_path] * rows.num_rows, pa.string())
        _refuse_other(path, "partition path", paths.cast(pa.string()), there, task.partitions.fields)
    return KeySample(task.file, task.bucket, ours)


def fitting_counts(samples: Sequence[KeySample], hash_fields: Sequence[str]) -> list[int]:
    """Every number of buckets that all sampled keys fit; empty when none does, or when there are no keys."""
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
    """The first sampled key that lies in another bucket than `buckets` would give it."""
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
    """Key fields, other than those tried, with the one number of buckets that all sampled keys fit by them."""
    for length in range(len(key_fields), 0, -1):
        for fields in combinations(key_fields, length):
            try:
                counts = fitting_counts(samples, fields) if fields != tuple(tried) else []
            except Unsupported:
                continue  # Apache Hudi's own parser does not end on such keys, so it cannot have hashed them so
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
                f"{path}: row {row} has a {what} that this library would write otherwise: it would not find its own rows",
                expected=f"{left!r}, of {', '.join(fields) or 'nothing'}",
                found=repr(right),
                next_step="write the table with Apache Hudi; if its key generator is wrongly recorded, correct hoodie.properties",
                file=path,
                **({"record_key": right} if what == "record key" else {}),
            )
