"""Split rows by partition and by bucket, or lane of a ring (docs/format §10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.key_generators import time_partition_of
from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.errors import Corrupt
from hudi_ops.index.bucket_engine import BucketEngine, RangesOf, RingEngine, SimpleEngine, engine_of
from hudi_ops.kernels.keys.keys import KeySpec, PartitionSpec, partition_paths, record_keys
from hudi_ops.kernels.merging.split import split_groups, split_rows
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS

LANES = 16
LANES_OF_ONE = 64
"""Lanes of a partition, and of a table without partitions: an engine holds the rows of a lane at a time."""


@dataclass(frozen=True, slots=True)
class Tagger:
    """Settings that route rows to buckets.

    They are picklable, so that executors tag rows where they read them. With an index that looks keys up, the engine gives lanes:
    parts of a batch that are looked up and routed by themselves, by a hash of the whole key.
    """

    keys: KeySpec
    partitions: PartitionSpec
    engine: BucketEngine

    @classmethod
    def of(cls, config: TableConfig, facts: TableFacts) -> Tagger:
        """Return the tagger of a table.

        Raises:
            Unsupported: partition paths that cannot be made.
        """
        return cls(
            keys=key_spec(config, facts),
            partitions=partition_spec(config),
            engine=engine_of(facts)
            if facts.has_buckets
            else SimpleEngine(LANES if config.partition_fields else LANES_OF_ONE, None),
        )

    def split(self, rows: pa.Table, ranges_of: RangesOf | None = None) -> list[tuple[str, int, pa.Table]]:
        """Return the rows of each ascending (partition path, bucket), record key first.

        Args:
            ranges_of: ranges of each partition of a table with hash rings; None: those of the initial ring.

        Raises:
            InvalidRequest: a key or partition value that is missing, null, ambiguous or cannot be used; names field and row.
        """
        return self.split_sized(rows, ranges_of)[0]

    def split_sized(
        self, rows: pa.Table, ranges_of: RangesOf | None = None
    ) -> tuple[list[tuple[str, int, pa.Table]], int]:
        """Return the result of `split`, and the Arrow bytes of all parts."""
        keys = record_keys(rows, self.keys, refuse_ambiguous=True)
        paths = partition_paths(rows, self.partitions)
        names, codes = paths.dictionary.to_pylist(), paths.indices.to_numpy(zero_copy_only=False)
        if ranges_of is not None and isinstance(self.engine, RingEngine):
            buckets = self.engine.split(keys, codes, names, ranges_of)
        else:
            buckets = self.engine.numbers(keys)
        groups = split_groups(codes, buckets)
        parts, size_bytes = split_rows(rows.add_column(0, RECORD_KEY, keys), groups)
        return [(names[group.code], group.bucket, part) for group, part in zip(groups, parts, strict=True)], size_bytes


def key_spec(config: TableConfig, facts: TableFacts) -> KeySpec:
    """Return the key spec; the generator stored at creation wins over the default."""
    named = config.encodes_key_names if facts.encodes_key_names is None else facts.encodes_key_names
    return KeySpec(config.record_key_fields, named)


def computed_keys(config: TableConfig, facts: TableFacts) -> KeySpec | None:
    """Return the rules for keys of base file rows; None: a meta column holds the keys."""
    return None if config.populate_meta_fields else key_spec(config, facts)


def partition_spec(config: TableConfig) -> PartitionSpec:
    """Return the rules for the table's partition paths.

    Raises:
        Unsupported: a time-based key generator with settings that cannot be followed.
    """
    is_timed = config.key_generator == "TIMESTAMP" and config.partition_fields
    time = time_partition_of(config.raw, config.name) if is_timed else None
    return PartitionSpec(config.partition_fields, config.hive_style, config.url_encode, time, config.has_slash_dates)


def bucket_of(file_id: str) -> int | None:
    """Return the bucket that a file id names in its first eight characters, or None."""
    digits = file_id[:BUCKET_DIGITS]
    return int(digits) if len(digits) == BUCKET_DIGITS and digits.isdecimal() else None


class InGroup(Protocol):
    """Member of a file group: a slice, or one of its files."""

    @property
    def partition_path(self) -> str:
        """Its partition."""
        ...

    @property
    def file_id(self) -> str:
        """Its file group."""
        ...


G = TypeVar("G", bound=InGroup)


def groups_by_bucket(members: Iterable[G], table: str) -> dict[tuple[str, int], G]:
    """Return the one group of each (partition path, bucket).

    Raises:
        Corrupt: two live file groups of one bucket, or a group without a bucket: the index cannot route to either.
    """
    found: dict[tuple[str, int], G] = {}
    for member in members:
        bucket = bucket_of(member.file_id)
        other = found.get((member.partition_path, bucket)) if bucket is not None else None
        if bucket is None or other is not None:
            raise Corrupt(
                f"file group {member.file_id} in partition {member.partition_path or '.'} does not fit the table's bucket index",
                table=table,
                expected="one live file group per bucket, its id beginning with eight digits",
                found=f"also file group {other.file_id}" if other is not None else member.file_id,
                next_step="run `hudi-ops verify`",
            )
        found[member.partition_path, bucket] = member
    return found
