"""Which partitions and file groups a metadata table has, as a write needs to know them before it can add to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hudi_ops.config.table import INDEX_DEFINITIONS_PATH, TableConfig
from hudi_ops.errors import Conflict, NotFound, Unsupported
from hudi_ops.metadata.index_definitions import IndexDefinition, decode_index_definitions
from hudi_ops.metadata.reader import slices
from hudi_ops.metadata.reader.instants import init_instants
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, is_kept
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class Basis:
    """What a delta was made upon: as long as it is the same, so are partitions and file groups.

    A partition that was dropped and made anew begins at another instant of the metadata table, or by a later PROPERTIES slot. While
    one is being filled its groups may appear at any moment, so that they are part of it.
    """

    partitions: tuple[str, ...]
    properties_slot: int
    inits: tuple[str, ...]
    filling: tuple[tuple[MetadataPartition, int], ...] = ()


def basis_of(storage: Storage, state: TableState, own: Timeline) -> Basis:
    """The basis, by the properties, the log, and the metadata table's own timeline."""
    config = state.config
    filling = [one for one in kept_partitions(config) if one in config.metadata_partitions_inflight]
    groups = count_groups(storage, config, filling) if filling else {}
    return Basis(
        tuple(sorted(config.all_metadata_partitions)),
        state.log.properties_slot,
        init_instants(own, state.timeline),
        tuple(sorted(groups.items())),
    )


def load_index_definitions(storage: Storage) -> dict[str, IndexDefinition]:
    """What the table says of its indexes; nothing where it says none.

    Raises:
        Corrupt: it cannot be read.
    """
    try:
        return decode_index_definitions(storage.get(INDEX_DEFINITIONS_PATH))
    except NotFound:
        return {}


def kept_partitions(config: TableConfig) -> tuple[MetadataPartition, ...]:
    """The partitions that a write adds to, readable ones and those that are being built.

    Raises:
        Unsupported: one of a kind that we do not keep; named.
    """
    if strange := unkept_partitions(config):
        raise Unsupported(
            f"its metadata table has partitions that are not kept yet: {', '.join(strange)}",
            table=config.name,
            expected=f"partitions among {', '.join(MetadataPartition)}",
            found=", ".join(strange),
            next_step=f"take them out with `hudi-ops metadata drop TABLE {' '.join(strange)}`, or write it with Apache Hudi alone",
        )
    return tuple(MetadataPartition(name) for name in sorted(config.all_metadata_partitions))


def unkept_partitions(config: TableConfig) -> tuple[str, ...]:
    """Names of its metadata table's partitions that are of a kind we do not keep."""
    return tuple(name for name in sorted(config.all_metadata_partitions) if not is_kept(name))


def count_groups(
    storage: Storage, config: TableConfig, partitions: Iterable[MetadataPartition]
) -> Mapping[MetadataPartition, int]:
    """How many file groups each partition has; nothing but the files says so (docs/format.md §14.2).

    Raises:
        Unsupported: groups that keys are not hashed to by number: a record index that is partitioned.
        Conflict: a partition that the properties name has no files: it is being begun, or dropped.
    """
    found = {}
    for partition in partitions:
        count = slices.count_groups(partition, slices.list_partition(storage, partition))
        if count is None:
            raise Unsupported(
                f"the metadata table's partition {partition} has file groups that are not kept yet",
                table=config.name,
                expected="groups with rising numbers, as every partition but a partitioned record index has",
                found="others",
                next_step=f"`hudi-ops metadata drop TABLE {partition}`, or write it with Apache Hudi alone",
            )
        if not count:
            raise Conflict(
                f"the metadata table's partition {partition} has no files",
                table=config.name,
                expected=f"file groups below {FOLDER}/{partition}, which hoodie.properties names",
                found="none",
                next_step="run the same call again: somebody builds or drops it at this moment. If it stays so, "
                f"`hudi-ops metadata drop TABLE {partition}`",
            )
        found[partition] = count
    return found
