"""Engines of the bucket index: how the hash of a key leads to its file group.

The first step of a write splits rows by a number that follows from the key. With the simple engine it is the bucket itself. With
a ring it is the node of the ring, where that is known by then, or the node of the initial ring, a *lane*. A ring may change before
the write is decided. `RingLookup` then maps these numbers to nodes, and reads no row where a number is one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.config.table import BUCKETS_MAX, IndexKind, TableFacts
from hudi_ops.errors import Internal, InvalidRequest, Unsupported
from hudi_ops.index.ring import HASHES, INITIAL, RING_BUCKETS_MAX, RING_MOST, TOP, Ring, nodes_at, step_of
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.kernels.keys.xxhash import ring_hashes

Hashes = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

_RING_BITS = 31

_DEPTH_MAX = 20
"""Deepest directory: a million ranges, 8 MB. Deeper rings are searched."""


@dataclass(frozen=True, eq=False, slots=True)
class Ranges:
    """Ranges of hashes that split the rows of a partition.

    They are those of the nodes of one version of its ring.
    """

    instant: str
    values: Numbers
    """The highest hash of each range, ascending; the first range also holds the hashes above the last value."""


RangesOf: TypeAlias = Callable[[str, int, int], Ranges | None]
"""Function of a partition path, its rows in a run and the run's rows; it returns None for the ranges of the initial ring."""


class BucketEngine(Protocol):
    """Engine of a table; picklable, so that executors split rows where they read them."""

    @property
    def count(self) -> int:
        """Number of parts into which the rows of a partition are split."""
        ...

    def numbers(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """Return the part of each record key: a bucket, or a lane."""
        ...


@dataclass(frozen=True, slots=True)
class SimpleEngine:
    """Java's hash of the key, modulo the number of buckets."""

    count: int
    hash_fields: tuple[str, ...] | None
    """None: the whole key, for indexes that look keys up."""

    def numbers(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """Return the bucket of each record key."""
        hashed = [keys] if self.hash_fields is None else bucket_hash_values(keys, self.hash_fields)
        return bucket_ids(hashed, self.count)


@dataclass(frozen=True, slots=True)
class RingEngine:
    """Hash ring of each partition, for the engines consistent and extendible."""

    count: int
    hash_fields: tuple[str, ...]
    is_extendible: bool = False

    def hashes(self, keys: pa.Array) -> Hashes:
        """Return the place of each record key on every ring."""
        return ring_hashes(bucket_hash_values(keys, self.hash_fields))

    def numbers(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """Return the lane of each record key: its node in the initial ring."""
        return lanes_of(self.hashes(keys), self.count)

    def initial(self) -> Ranges:
        """Return the ranges of the lanes."""
        lanes = np.arange(1, self.count + 1, dtype=np.int64)
        return Ranges(INITIAL, np.minimum(lanes * step_of(self.count), TOP))

    def split(
        self, keys: pa.Array, codes: npt.NDArray[np.integer], paths: Sequence[str], ranges_of: RangesOf
    ) -> npt.NDArray[np.int32]:
        """Return the number of each record key: its range among those of its partition.

        The partition of a key is `paths[code]`.
        """
        hashes = self.hashes(keys)
        if len(paths) == 1:
            return self._numbers(hashes, ranges_of(paths[0], len(keys), len(keys)))
        numbers = lanes_of(hashes, self.count)
        for code, rows in enumerate(np.bincount(codes, minlength=len(paths)).tolist()):
            ranges = ranges_of(paths[code], rows, len(keys)) if rows else None
            if ranges is not None and not self._is_initial(ranges):
                (own,) = np.nonzero(codes == code)
                numbers[own] = self._numbers(hashes[own], ranges)
        return numbers

    def _numbers(self, hashes: Hashes, ranges: Ranges | None) -> npt.NDArray[np.int32]:
        if ranges is None or self._is_initial(ranges):
            return lanes_of(hashes, self.count)
        return self._lookup(ranges.values).nodes_of(hashes).astype(np.int32)

    def _is_initial(self, ranges: Ranges) -> bool:
        return np.array_equal(ranges.values, self.initial().values)

    def lookup(self, ring: Ring) -> RingLookup:
        """Return the lookup with which this engine finds the nodes of a ring."""
        return self._lookup(ring.values)

    def _lookup(self, values: Numbers) -> RingLookup:
        return RingLookup(values, _directory(values) if self.is_extendible else None)


@dataclass(frozen=True, eq=False, slots=True)
class RingLookup:
    """Finds the node of a hash, in a directory of equal ranges or by a search."""

    values: Numbers
    directory: Numbers | None

    def nodes_of(self, hashes: Hashes) -> Numbers:
        """Return the number of the node that holds each hash."""
        if self.directory is None:
            return _searched(self.values, hashes)
        return self.directory[_slots(hashes, len(self.directory))]

    def nodes_in(self, some: Sequence[int], ranges: Ranges) -> list[list[int]]:
        """Return for some ranges the nodes that hold hashes of each."""
        given, nodes = np.array(some, np.int64), len(self.values)
        first, last = (ranges.values[given - 1] + 1) % HASHES, ranges.values[given]
        low, high = nodes_at(self.values, first), nodes_at(self.values, last)
        # A range that leaves its first node and ends in it again has all nodes.
        is_whole = (low == high) & ((self.values[low] - first) % HASHES < (last - first) % HASHES)
        high = high + nodes * ((high < low) | is_whole)  # past the end of the ring
        high = np.minimum(high, low + nodes - 1)
        return [
            [at % nodes for at in range(begin, end + 1)] for begin, end in zip(low.tolist(), high.tolist(), strict=True)
        ]


def engine_of(facts: TableFacts) -> BucketEngine:
    """Return the engine of a table with the bucket index.

    Raises:
        Internal: the table has another index.
    """
    if facts.has_ring:
        return RingEngine(facts.buckets, facts.hash_fields, facts.index == "extendible_bucket")
    if not facts.has_buckets:
        raise Internal(f"a table with the index {facts.index} has no bucket engine")
    return SimpleEngine(facts.buckets, facts.hash_fields)


def ring_engine_of(facts: TableFacts) -> RingEngine:
    """Return the engine of a table with hash rings.

    Raises:
        Internal: the table has none.
    """
    if isinstance(engine := engine_of(facts), RingEngine):
        return engine
    raise Internal(f"a table with the index {facts.index} has no hash rings")


def lanes_of(hashes: Hashes, lanes: int) -> npt.NDArray[np.int32]:
    """Return the node of each hash in an initial ring, whose ranges are equally wide."""
    return (np.maximum(hashes - 1, 0) // np.int32(step_of(lanes))).astype(np.int32)


def bucket_limits(
    index: IndexKind, table_type: str, buckets: int, lowest: int | None, highest: int | None, table: str
) -> tuple[int, int]:
    """Return the fewest and the most buckets of a partition; 0 and 0 for the simple engine.

    Where no limit is given a ring can shrink to one bucket, and grow to `RING_MOST`.

    Raises:
        InvalidRequest: the numbers contradict each other or the engine.
        Unsupported: a hash ring in a copy-on-write table.
    """
    if index not in {"consistent_bucket", "extendible_bucket"}:
        if lowest is not None or highest is not None:
            raise InvalidRequest(
                "only tables with a hash ring have a fewest and a most number of buckets",
                table=table,
                expected="bucket_engine consistent or extendible, or neither buckets_min nor buckets_max",
                found=f"index {index} with buckets_min or buckets_max",
                field="buckets_min" if lowest is not None else "buckets_max",
            )
        return 0, 0
    if table_type != "MERGE_ON_READ":
        raise Unsupported(
            "a copy-on-write table cannot have hash rings",
            table=table,
            expected="a merge-on-read table, or the bucket engine simple",
            found=table_type,
            next_step="pass the type mor, or the bucket engine simple: Apache Hudi resizes merge-on-read tables only",
            field="bucket_engine",
        )
    least = 1 if lowest is None else lowest
    most = max(buckets, RING_MOST) if highest is None else highest
    if not 1 <= least <= buckets <= most <= BUCKETS_MAX or buckets > RING_BUCKETS_MAX:
        raise InvalidRequest(
            f"a hash ring of {buckets} buckets cannot stay between {least} and {most} buckets",
            table=table,
            expected=f"1 <= buckets_min <= buckets <= buckets_max <= {BUCKETS_MAX}, and at most {RING_BUCKETS_MAX} buckets",
            found=f"buckets_min {least}, buckets {buckets}, buckets_max {most}",
            next_step="correct the three numbers",
            field="buckets",
        )
    if index == "extendible_bucket" and buckets & (buckets - 1):
        raise InvalidRequest(
            f"an extendible hash ring cannot begin with {buckets} buckets",
            table=table,
            expected="a power of two: its ranges are halves of others",
            found=str(buckets),
            next_step=f"pass {1 << (buckets.bit_length() - 1)} or {1 << buckets.bit_length()} buckets",
            field="buckets",
        )
    return least, most


def _searched(values: Numbers, hashes: Hashes) -> Numbers:
    """Return the node of each hash.

    Many hashes are looked up in equal slots first, of which few hold more than one node.
    """
    bits = min(len(values).bit_length() + 3, _DEPTH_MAX)
    if len(hashes) < 1 << bits:
        return nodes_at(values, hashes)
    shift = _RING_BITS - bits
    firsts = np.searchsorted(values, np.arange(1 << bits, dtype=np.int64) << shift)
    nodes: Numbers = firsts[hashes >> shift]
    (behind,) = np.nonzero(hashes > np.append(values, TOP)[nodes])
    nodes[behind] = np.searchsorted(values, hashes[behind])
    nodes[nodes == len(values)] = 0
    return nodes


def _directory(values: Numbers) -> Numbers | None:
    """Return the node of each of 2^d equal ranges; None for a ring with other ranges.

    Apache Hudi, which knows no extendible rings, splits nodes a hash beside the middle at one end of the ring.
    """
    ends = np.where(values == TOP, HASHES, values)
    if int(values[-1]) != TOP:
        return None  # the first node has hashes at both ends
    low_bits = int(np.bitwise_or.reduce(ends))
    depth = _RING_BITS - ((low_bits & -low_bits).bit_length() - 1)
    if depth > _DEPTH_MAX:
        return None
    return nodes_at(values, (np.arange(1 << depth, dtype=np.int64) << (_RING_BITS - depth)) + 1)


def _slots(hashes: Hashes, slots: int) -> Numbers:
    return np.maximum(hashes.astype(np.int64) - 1, 0) >> (_RING_BITS - (slots.bit_length() - 1))
