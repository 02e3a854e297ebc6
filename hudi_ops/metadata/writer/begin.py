"""First files of a metadata table, and of a new partition of an existing one.

Every name, and all bytes that readers use, follow from the arguments: a repetition puts the same files.

Source: docs/format §14.1, §14.2, §14.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.config.table import TableConfig
from hudi_ops.files.names import base_file_name, log_file_name
from hudi_ops.formats import partition_metadata, properties
from hudi_ops.formats.hfile.reader import write_hfile
from hudi_ops.formats.log.hfile_blocks import encode_empty_init_log
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, group_id
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.schema import commit_schema
from hudi_ops.metadata.writer.commit import ACTION
from hudi_ops.storage.claim import ensure
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.names import completed_name, inflight_name, requested_name

PROPERTIES_PATH = f"{FOLDER}/.hoodie/hoodie.properties"
OPERATION = "BULK_INSERT_PREPPED"
_FIRST = "0-0-0"
"""Write token of the log files with which file groups begin."""


@dataclass(frozen=True)
class Beginning:
    """Partition to begin: instant, completion time (for `begin_partition` alone), and records."""

    partition: str
    instant: str
    completion_time: str = ""
    groups: int = 1
    records: Records | None = None


def metadata_properties(config: TableConfig) -> dict[str, str]:
    """Return `hoodie.properties` of the metadata table; some reader requires each entry."""
    name = f"{config.name}_metadata"
    return {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(config.version),
        "hoodie.table.initial.version": str(config.version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.checksum": properties.table_checksum(name),
    }


def begin_metadata(storage: Storage, config: TableConfig, beginnings: Sequence[Beginning], now_ms: int) -> None:
    """Put a metadata table's properties, and begin partitions, which readers still ignore.

    Raises:
        OutcomeUnknown: a file could not be settled; the next try settles it.
    """
    put_properties(storage, config, now_ms)
    for beginning in beginnings:
        begin_partition(storage, config.version, beginning, now_ms)


def put_properties(storage: Storage, config: TableConfig, now_ms: int) -> None:
    """Put the properties of a metadata table, unless they exist."""
    body = properties.dumps(metadata_properties(config), comment="Properties of a metadata table", now_ms=now_ms)
    ensure(storage, PROPERTIES_PATH, body)


def begin_partition(storage: Storage, version: int, beginning: Beginning, now_ms: int) -> None:
    """Begin one partition (docs/format §14.3).

    Puts an empty log file for each file group, base files for those with records, then its delta commit.
    """
    request_beginning(storage, beginning.instant)
    stats = begin_groups(storage, beginning, now_ms)
    complete_beginning(storage, version, beginning.instant, beginning.completion_time, stats)


def request_beginning(storage: Storage, instant: str) -> None:
    """Put a pending instant, at which partitions begin, onto the metadata table's timeline."""
    for name_of in (requested_name, inflight_name):
        ensure(storage, f"{TIMELINE_FOLDER}/{name_of(instant, ACTION)}", b"")


def begin_groups(storage: Storage, beginning: Beginning, now_ms: int) -> list[WriteStat]:
    """Put the first files of a partition; readers ignore them until its instant is complete."""
    folder = f"{FOLDER}/{beginning.partition}"
    metafile = partition_metadata.dumps(beginning.instant, 1, now_ms)
    ensure(storage, f"{folder}/{partition_metadata.FILE_NAME}", metafile)
    init = encode_empty_init_log(beginning.instant)
    for number in range(beginning.groups):
        name = log_file_name(group_id(beginning.partition, number), beginning.instant, 1, _FIRST)
        ensure(storage, f"{folder}/{name}", init)
    stats = []
    for number, part in (beginning.records.by_group(beginning.groups) if beginning.records is not None else {}).items():
        file_id = group_id(beginning.partition, number)
        name = base_file_name(file_id, number, 0, beginning.instant).replace(".parquet", ".hfile")
        data = write_hfile(part.keys, part.values, schema=part.schema)
        ensure(storage, f"{folder}/{name}", data)
        stats.append(_stat(beginning, file_id, name, len(part.keys), len(data)))
    return stats


def complete_beginning(
    storage: Storage, version: int, instant: str, completion_time: str, stats: Sequence[WriteStat]
) -> None:
    """Complete an instant at which partitions begin."""
    commit = CommitMetadata(operation=OPERATION, stats=tuple(stats), extra={"schema": commit_schema(version)})
    done = completed_name(instant, ACTION, completion_time)
    ensure(storage, f"{TIMELINE_FOLDER}/{done}", commit.to_bytes())


def _stat(beginning: Beginning, file_id: str, name: str, rows: int, size_bytes: int) -> WriteStat:
    return WriteStat(
        file_id=file_id,
        path=f"{beginning.partition}/{name}",
        partition_path=str(beginning.partition),
        num_writes=rows,
        num_inserts=rows,
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
    )
