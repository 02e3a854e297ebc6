"""A metadata table over a table of ours, put together file by file: what its writers would have left, one delta for each write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa

from hudi_ops.config.logged_settings import settings_of
from hudi_ops.config.table import METADATA_PARTITIONS, IndexKind, TableConfig, TableFacts
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.formats.hfile.reader import write_hfile
from hudi_ops.formats.log.hfile_blocks import encode_empty_init_log, encode_metadata_log
from hudi_ops.metadata.indexed_columns import indexed_columns
from hudi_ops.metadata.reader.merge import compacted, merge
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records
from hudi_ops.metadata.records.column_stats import column_stats_records
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition, group_id
from hudi_ops.metadata.records.record_index import record_index_records
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.read.plan import Opened
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import read_slot, slot_path
from hudi_ops.timeline.log.entries import Properties, encode_entry
from hudi_ops.timeline.log.unique_keys import counted_until
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.settings.properties_file import load_config, read_properties, write_properties
from hudi_ops.view.schema import table_schema

GROUPS: Mapping[MetadataPartition, int] = {
    MetadataPartition.FILES: 1,
    MetadataPartition.COLUMN_STATS: 2,
    MetadataPartition.PARTITION_STATS: 1,
    MetadataPartition.BLOOM_FILTERS: 3,
    MetadataPartition.RECORD_INDEX: 4,
}
Parts = dict[MetadataPartition, Records]


def make_metadata(path: Path, *, compacted_after: int = 0) -> None:
    """Give a table a metadata table with all partitions.

    Args:
        path: of the table.
        compacted_after: so many writes are in base files, the later ones in log files.
    """
    storage = LocalStorage(str(path))
    opened = Opened.of(storage)
    put_init(storage)
    parts: list[Parts] = []
    for number, instant in enumerate(opened.timeline.completed_writes, 1):
        records = _records(storage, opened, instant)
        parts.append(records)
        put_delta(storage, instant.time, instant.completion_time, records, opened.config.version)
        if number == compacted_after:
            _compact(storage, parts, opened.config.version, instant)
    name_partitions(path, list(MetadataPartition))


def name_partitions(path: Path, partitions: Sequence[str]) -> None:
    """Let the properties name these partitions, and no others."""
    storage = LocalStorage(str(path))
    named = {METADATA_PARTITIONS: ",".join(sorted(partitions))}
    write_properties(storage, {**read_properties(storage), **named}, 1_795_255_260_000, first=False)


def say_index(path: Path, index: IndexKind) -> None:
    """Let slot 0 of the commit log say that all writers find keys by this index; a table without a log gets that slot.

    It also says that no key lies in two file groups, as of the newest write.
    """
    storage = LocalStorage(str(path))
    config = load_config(storage)
    said = {
        "facts": TableFacts(index=index, buckets=0, hash_fields=config.record_key_fields),
        "doubled_keys": 0,
        "counted_until": counted_until(load_timeline(storage, config)),
    }
    held = read_slot(storage, 0)
    if held is None:
        held = Properties(
            table_id="made",
            decision_id="adopt made",
            owner="a test",
            at_ms=0,
            properties_slot=-1,
            archive_slot=-1,
            facts=said["facts"],
            settings=settings_of(config.raw),
        )
    storage.put(slot_path(0), encode_entry(held.model_copy(update=said)))


def put_init(storage: Storage) -> None:
    """All partitions, empty."""
    for number, (partition, groups) in enumerate(GROUPS.items()):
        init = f"{number:017d}"
        for group in range(groups):
            name = f".{group_id(partition, group)}_{init}.log.1_0-0-0"
            storage.put(f"{FOLDER}/{partition}/{name}", encode_empty_init_log(init))
        _put_instant(storage, init, init, "deltacommit")


def _records(storage: LocalStorage, opened: Opened, instant: Instant) -> Parts:
    config, version = opened.config, opened.config.version
    metadata = opened.commits.metadata(opened.timeline, instant)
    assert metadata is not None
    facts = [
        _facts(storage, opened, stat.path, stat.prev_base_file)
        for stat in metadata.stats
        if stat.path not in ("", "null")
    ]
    changes: dict[str, dict[str, int]] = {}
    for fact in facts:
        changes.setdefault(fact.partition_path, {})[fact.name] = fact.size_bytes
    plain = table_schema(config, opened.timeline, opened.commits)
    schema = stored_schema(plain, config.populate_meta_fields)
    columns = {name: schema.field(name).type for name in _columns(config, schema)}
    return {
        MetadataPartition.FILES: files_records(
            {partition: FileChanges(added=sizes) for partition, sizes in changes.items()}, version=version
        ),
        MetadataPartition.COLUMN_STATS: column_stats_records(facts, version=version),
        MetadataPartition.PARTITION_STATS: partition_stats_records(
            facts, version=version, tight=False, columns=columns
        ),
        MetadataPartition.BLOOM_FILTERS: bloom_filter_records(facts, instant.time, version=version),
        MetadataPartition.RECORD_INDEX: record_index_records(facts, ms_of_instant(instant.time), version=version),
    }


def _facts(storage: LocalStorage, opened: Opened, path: str, previous: str | None) -> FileStatistics:
    config = opened.config
    plain = table_schema(config, opened.timeline, opened.commits)
    schema = stored_schema(plain, config.populate_meta_fields)
    info = storage.head(path)
    assert info is not None
    folder = path.rpartition("/")[0]
    wanted = StatisticsRequest(_columns(config, schema), bloom=True, keys=True)
    before = f"{folder}/{previous}".lstrip("/") if previous and not path.rpartition("/")[2].startswith(".") else None
    rules = MergeRules.of(config, plain)
    return statistics_of_file(
        FileStatisticsTask(storage, path, info.size_bytes, schema, wanted, rules=rules, previous=before)
    )


def _columns(config: TableConfig, schema: pa.Schema) -> tuple[str, ...]:
    return indexed_columns(schema, index_version=2 if config.version >= 9 else 1)


def put_delta(storage: Storage, time: str, completion: str, parts: Parts, version: int) -> None:
    """The log files of one delta commit, and its completed instant."""
    for partition, records in parts.items():
        for group, own in records.by_group(GROUPS[partition]).items():
            body = encode_metadata_log(own.keys, own.values, own.deletes, time, record_schema(version), str(partition))
            storage.put(f"{FOLDER}/{partition}/.{group_id(partition, group)}_{time}.log.1_0-0-0", body)
    _put_instant(storage, time, completion, "deltacommit")


def _compact(storage: LocalStorage, parts: Sequence[Parts], version: int, last: Instant) -> None:
    time = str(int(last.completion_time) + 1)
    for partition, groups in GROUPS.items():
        whole = reduce(lambda older, newer: merge(older, newer, version=version), (one[partition] for one in parts))
        for group, own in compacted(whole, version=version).by_group(groups).items():
            body = write_hfile(own.keys, own.values, schema=record_schema(version))
            storage.put(f"{FOLDER}/{partition}/{group_id(partition, group)}_0-0-0_{time}.hfile", body)
    _put_instant(storage, time, str(int(time) + 1), "commit")


def _put_instant(storage: Storage, time: str, completion: str, action: str) -> None:
    pending = "compaction" if action == "commit" else action
    storage.put(f"{TIMELINE_FOLDER}/{time}.{pending}.requested", b"")
    storage.put(f"{TIMELINE_FOLDER}/{time}.{pending}.inflight", b"")
    storage.put(f"{TIMELINE_FOLDER}/{time}_{completion}.{action}", b"")
