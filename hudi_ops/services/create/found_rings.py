"""Check the hash rings of a table that Apache Hudi made against its file groups and keys.

Apache Hudi stores the rings, but neither the hash fields nor the limits of their resizes. Keys of every sampled group show whether
the stated fields lead to the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from hudi_ops.config.table import IndexKind, TableConfig, TableFacts
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.index.bucket_engine import bucket_limits, ring_engine_of
from hudi_ops.index.bucket_fit import KeySample
from hudi_ops.index.ring import RING_MOST, Ring
from hudi_ops.index.ring_files import RingReader, ring_path
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

LOGGED_GROUPS_MAX = 100
"""Groups without a base file whose keys are read. Apache Hudi's first writes make such groups."""


class FoundRings:
    """Rings of a table, with the visible slices of their groups."""

    def __init__(self, reader: RingReader, config: TableConfig, slices: Sequence[Slice]) -> None:
        self._reader = reader
        self._config = config
        self._slices = slices

    @cached_property
    def rings(self) -> dict[str, Ring]:
        """Return the ring of each partition with file groups.

        Raises:
            Unsupported: a partition has none: another index made its groups.
        """
        found: dict[str, Ring] = {}
        for path in sorted({slice_.partition_path for slice_ in self._slices}):
            ring = self._reader.read(path)
            if ring is None:
                raise Unsupported(
                    f"partition {path or '.'} has file groups and no hash ring",
                    table=self._config.name,
                    expected=ring_path(path, "00000000000000"),
                    found="no ring that counts",
                    next_step="run `hudi-ops adopt TABLE --services-only`, or restore the ring from a copy of the table",
                )
            found[path] = ring
        return found

    @cached_property
    def files(self) -> dict[tuple[str, int], DataFile]:
        """Return the base file of each (partition path, node)."""
        return {
            (slice_.partition_path, self._node_of(slice_)): slice_.base
            for slice_ in self._slices
            if slice_.base is not None
        }

    @cached_property
    def only_logged(self) -> list[Slice]:
        """Return slices of groups without a base file, some of them if there are many."""
        found = [slice_ for slice_ in self._slices if slice_.base is None and self._node_of(slice_) >= 0]
        return found[:: max(1, len(found) // LOGGED_GROUPS_MAX)]

    def facts(
        self,
        index: IndexKind | None,
        buckets: int | None,
        limits: tuple[int | None, int | None],
        fields: tuple[str, ...],
    ) -> TableFacts:
        """Return the table's facts; the rings say what is not stated.

        Raises:
            InvalidRequest: the number of buckets is not stated and no ring says it, or numbers or index contradict the rings.
            Unsupported: a copy-on-write table, or one with a record index.
        """
        if index is None or not index.endswith("_bucket") or index == "simple_bucket":
            raise InvalidRequest(
                f"the table has hash rings: its index is not {index}",
                table=self._config.name,
                expected="index bucket, bucket engine consistent",
                found=f"index {index}",
                next_step="leave index and bucket engine out, or correct them",
            )
        if MetadataPartition.RECORD_INDEX in self._config.all_metadata_partitions:
            raise Unsupported(
                "the table has hash rings and a record index, which would go on naming file groups that a resize replaced",
                table=self._config.name,
                expected="a metadata table without record_index",
                found=str(MetadataPartition.RECORD_INDEX),
                next_step="drop it with Apache Hudi (DROP INDEX), or adopt the table with --drop-metadata-table",
            )
        counts = sorted({ring.buckets for ring in self.rings.values()})
        if buckets is None and len(counts) != 1:
            raise InvalidRequest(
                "the rings of the table do not say with how many buckets a new partition begins",
                table=self._config.name,
                expected="a number of buckets",
                found=f"rings that began with {', '.join(map(str, counts))} buckets" if counts else "no ring",
                next_step="pass buckets (`hudi-ops adopt TABLE --buckets N`), as in hoodie.bucket.index.num.buckets of the table's "
                "other writers",
            )
        begins = buckets if buckets is not None else counts[0]
        nodes = max((len(ring.prefixes) for ring in self.rings.values()), default=0)
        most = max(RING_MOST, begins, nodes) if limits[1] is None else limits[1]
        least, most = bucket_limits(index, self._config.table_type, begins, limits[0], most, self._config.name)
        return TableFacts(index=index, buckets=begins, hash_fields=fields, buckets_min=least, buckets_max=most)

    def check(self, facts: TableFacts, samples: Sequence[KeySample], logged: Sequence[pa.Array]) -> tuple[int, int]:
        """Check keys against the rings; return the numbers of file groups and of keys.

        Raises:
            InvalidRequest: a key is in another group than its hash says.
            Unsupported: a group belongs to no node.
        """
        engine = ring_engine_of(facts)
        held = [(sample.file.partition_path, sample.bucket, sample.file.path, sample.keys) for sample in samples]
        held += [
            (slice_.partition_path, self._node_of(slice_), slice_.logs[0].path, keys)
            for slice_, keys in zip(self.only_logged, logged, strict=True)
        ]
        for slice_ in self._slices:
            if self._node_of(slice_) < 0:
                raise Unsupported(
                    f"file group {slice_.file_id} belongs to no node of the hash ring of partition {slice_.partition_path or '.'}",
                    table=self._config.name,
                    expected=f"a group of ring {self.rings[slice_.partition_path].instant}",
                    found=slice_.file_id,
                    next_step="run `hudi-ops adopt TABLE --services-only`: hudi-ops would not find the rows of the group",
                )
        for path, node, file, keys in held:
            nodes = engine.lookup(self.rings[path]).nodes_of(engine.hashes(keys))
            wrong = np.flatnonzero(nodes != node)
            if len(wrong):
                key, expected = keys[int(wrong[0])].as_py(), int(nodes[wrong[0]])
                raise InvalidRequest(
                    f"{file}: key {key} is in another file group than the hash ring by {', '.join(facts.hash_fields)} gives",
                    table=self._config.name,
                    expected=f"file group {self.rings[path].file_id(expected)}",
                    found=f"file group {self.rings[path].file_id(node)}",
                    next_step="pass the hash fields of the table's other writers: hoodie.bucket.index.hash.field",
                    file=file,
                    record_key=key,
                )
        return len(held), sum(len(keys) for *_, keys in held)

    def _node_of(self, slice_: Slice) -> int:
        """Return the node of a slice's group, or -1."""
        prefixes = self.rings[slice_.partition_path].prefixes
        prefix = slice_.file_id.removesuffix("-0")
        return prefixes.index(prefix) if prefix in prefixes else -1
