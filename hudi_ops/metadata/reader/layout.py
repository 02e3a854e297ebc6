"""Partitions and file groups of a metadata table, for writes that add records to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hudi_ops.config.table import INDEX_DEFINITIONS_PATH, TableConfig
from hudi_ops.errors import Conflict, NotFound, Unsupported
from hudi_ops.metadata.index_definitions import IndexDefinition, decode_index_definitions
from hudi_ops.metadata.reader import slices
from hudi_ops.metadata.reader.instants import init_instants
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, form_of, is_kept
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class Basis:
    """State for which a delta was made; while it is the same, so are partitions and file groups.

    A partition that was dropped and built again begins at another instant of the metadata table, or by a later PROPERTIES slot.
    While Apache Hudi fills a partition, its groups may appear at any moment, so `filling` has their number. The groups of an
    announced partition exist already.
    """

    partitions: tuple[str, ...]
    properties_slot: int
    inits: tuple[str, ...]
    filling: tuple[tuple[str, int], ...] = ()


def basis_of(storage: Storage, state: TableState, own: Timeline) -> Basis:
    """Return the basis by the properties, the log, and the metadata table's own timeline."""
    config = state.config
    announced = state.log.properties.announces
    filling = [
        partition
        for partition in kept_partitions(config)
        if partition in config.metadata_partitions_inflight and partition not in announced
    ]
    groups = group_counts(storage, config, filling) if filling else {}
    return Basis(
        tuple(sorted(config.all_metadata_partitions)),
        state.log.properties_slot,
        init_instants(own, state.timeline),
        tuple(sorted(groups.items())),
    )


def load_index_definitions(storage: Storage) -> dict[str, IndexDefinition]:
    """Return the table's index definitions; empty if it has none.

    Raises:
        Corrupt: the file cannot be read.
    """
    try:
        return decode_index_definitions(storage.get(INDEX_DEFINITIONS_PATH))
    except NotFound:
        return {}


def kept_partitions(config: TableConfig) -> tuple[str, ...]:
    """Return the partitions that a write adds to, readable and unfinished ones.

    Raises:
        Unsupported: one of a kind that this library does not maintain; named.
    """
    if strange := unkept_partitions(config):
        raise Unsupported(
            f"its metadata table has partitions that are not maintained yet: {', '.join(strange)}",
            table=config.name,
            expected=f"partitions among {', '.join(MetadataPartition)}",
            found=", ".join(strange),
            next_step=f"drop them with `hudi-ops index TABLE drop {' '.join(strange)}`, or write it with Apache Hudi alone",
        )
    return tuple(form_of(name).name for name in sorted(config.all_metadata_partitions))


def unkept_partitions(config: TableConfig) -> tuple[str, ...]:
    """Return the names of its metadata table's partitions that this library does not maintain."""
    return tuple(name for name in sorted(config.all_metadata_partitions) if not is_kept(name))


def has_partitioned_record_index(storage: Storage, config: TableConfig) -> bool:
    """Return whether the record index is partitioned (docs/format §14.2).

    Raises:
        Corrupt: the index definitions cannot be read.
    """
    name = MetadataPartition.RECORD_INDEX
    held = load_index_definitions(storage).get(name) if name in config.all_metadata_partitions else None
    return held is not None and held.is_partitioned


def refuse_partitioned_record_index(storage: Storage, config: TableConfig) -> None:
    """Refuse a table whose record index has file groups for each partition of the table.

    Raises:
        Unsupported: names it. A global index in its place would not be found by the table's other writers.
        Corrupt: the index definitions cannot be read.
    """
    if has_partitioned_record_index(storage, config):
        raise Unsupported(
            "the table has a partitioned record index, which hudi-ops neither updates nor builds",
            table=config.name,
            expected="a global record index (hoodie.index.type=RECORD_INDEX), or another index",
            found=f"isPartitioned true in {INDEX_DEFINITIONS_PATH}, as hoodie.index.type=RECORD_LEVEL_INDEX makes it",
            next_step="write the table with Apache Hudi alone, and read it here; or have all its writers use another index, drop "
            "the record index with Apache Hudi, then run the same call again",
        )


def refuse_dropped(storage: Storage, config: TableConfig) -> None:
    """Refuse to go on with partitions that were dropped since `config` was read.

    Their folders may be half deleted.

    Raises:
        Conflict: names them.
    """
    gone = sorted({*config.all_metadata_partitions} - {*load_config(storage).all_metadata_partitions})
    if gone:
        raise Conflict(
            f"{', '.join(gone)} of the metadata table was dropped while this write was made",
            table=config.name,
            expected=", ".join(config.all_metadata_partitions),
            found=f"without {', '.join(gone)}",
            next_step="run the same call again",
        )


def group_counts(storage: Storage, config: TableConfig, partitions: Iterable[str]) -> Mapping[str, int]:
    """Return the number of file groups of each partition, by its files (docs/format §14.2).

    Raises:
        Unsupported: groups that keys are not hashed to by number: a record index that is partitioned.
        Conflict: a partition that the properties name has no files: it is being begun, or dropped.
    """
    found = {}
    for partition in partitions:
        count = slices.count_groups(partition, slices.list_partition(storage, partition))
        if count is None:
            refuse_partitioned_record_index(storage, config)
            raise Unsupported(
                f"the metadata table's partition {partition} has file groups that are not maintained yet",
                table=config.name,
                expected="groups with rising numbers",
                found="others",
                next_step=f"`hudi-ops index TABLE drop {partition}`, or write it with Apache Hudi alone",
            )
        if not count:
            raise Conflict(
                f"the metadata table's partition {partition} has no files",
                table=config.name,
                expected=f"file groups below {FOLDER}/{partition}, which hoodie.properties names",
                found="none",
                next_step="run the same call again: the partition is being built or dropped. If this repeats, `hudi-ops "
                f"index TABLE drop {partition}`",
            )
        found[partition] = count
    return found
