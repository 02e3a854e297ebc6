"""Metadata table records of a write and of a clean (docs/protocol.md §18, §20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_ops.commit.apply.delta_maker import DeltaMaker, completed_of
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.errors import Conflict
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics, StatisticsRequest
from hudi_ops.metadata.definitions import statistics_of
from hudi_ops.metadata.index_definitions import stats_index_version
from hudi_ops.metadata.reader.layout import kept_partitions, load_index_definitions
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records, removed_filters
from hudi_ops.metadata.records.column_stats import column_stats_records, removed_stats
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import record_index_records
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema

_WITH_RANGES = {MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS}


def wanted_facts(session: Session, state: TableState, schema: pa.Schema) -> StatisticsRequest:
    """Return the file statistics that a write must collect for the metadata table of `state`.

    `schema` holds the table's columns from this write on, without meta columns.

    Raises:
        Unsupported: the metadata table has a partition that hudi_ops does not keep.
    """
    partitions = frozenset(kept_partitions(state.config))
    columns: tuple[str, ...] = ()
    if partitions & _WITH_RANGES:
        columns = statistics_of(schema, state.config, load_index_definitions(session.ctx.storage)).columns
    return StatisticsRequest(
        columns, bloom=MetadataPartition.BLOOM_FILTERS in partitions, keys=MetadataPartition.RECORD_INDEX in partitions
    )


@dataclass
class WriteDeltaMaker(DeltaMaker):
    """Maker of a write's metadata delta; reads its files again where facts are missing.

    `schema` holds the table's columns from this write on, without meta columns.
    """

    write: Write
    schema: pa.Schema
    puts_each_key_once: bool = field(default=False, init=False)
    """Whether no two of the write's files hold one key, as far as its tasks reported keys."""

    def made(self, state: TableState) -> dict[MetadataPartition, Records]:
        """Return the records of the write's files.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
            Conflict: a record index appeared, and the write's files do not say which keys it removed.
        """
        partitions, version = kept_partitions(state.config), state.config.version
        facts = self._facts(state)
        stats_version = stats_index_version(load_index_definitions(self.session.ctx.storage), version)
        instant = self.attempt.instant
        made: dict[MetadataPartition, Records] = {}
        for partition in partitions:
            if partition is MetadataPartition.FILES:
                made[partition] = files_records(file_changes(self.write.stats), version=version)
            elif partition is MetadataPartition.COLUMN_STATS:
                made[partition] = column_stats_records(facts, version=version, index_version=stats_version)
            elif partition is MetadataPartition.PARTITION_STATS:
                # Without log files of deletes alone: their column records would have no type.
                told = [file for file in facts if any(column.values for column in file.ranges)]
                told += self._nulls_of_added_columns(state)
                made[partition] = partition_stats_records(
                    told, version=version, tight=False, index_version=stats_version
                )
            elif partition is MetadataPartition.BLOOM_FILTERS:
                made[partition] = bloom_filter_records(facts, instant, version=version)
            elif partition is MetadataPartition.RECORD_INDEX:
                added = sum(len(file.added) for file in facts if file.added is not None)
                made[partition] = record_index_records(
                    facts,
                    ms_of_instant(instant, state.zone),
                    version=version,
                    hidden=self.write.hidden_keys,
                    are_located=state.log.properties.facts.index == "record_index",
                )
                self.puts_each_key_once = len(made[partition].keys) == added
        return made

    def raised(self, state: TableState) -> Sequence[Records]:
        """Return deletes of files that later requests, completed before, have added."""
        return list(_removals(self.session, state, self.write.removed).values()) if self.write.removed else ()

    def _nulls_of_added_columns(self, state: TableState) -> list[FileStatistics]:
        """Return statistics of added columns: null in every partition so far.

        Apache Hudi skips a partition without a record as soon as another has one, and a range of the write's rows alone would
        claim that no row is null (docs/format.md §14.7).
        """
        begun = self.attempt.begun
        if self.write.schema is None or not begun.timeline.completed_writes:
            return []
        definitions = load_index_definitions(self.session.ctx.storage)
        before = statistics_of(
            table_schema(begun.config, begun.timeline, self.session.commits), state.config, definitions
        )
        now = statistics_of(self.schema, state.config, definitions)
        ranges = tuple(
            ColumnRange(name, pa.nulls(1, kind), pa.nulls(1, kind), nulls=1, values=1)
            for name, kind in now.types.items()
            if name not in before.types
        )
        if not ranges:
            return []
        self._upon = completed_of(state)
        storage = self.session.ctx.storage
        archived = self.session.commits.archived
        metadata = open_metadata(storage, state.config, state.timeline, archived=archived)
        listing = open_listing(storage, state.config, metadata)
        return [FileStatistics("", path, "", 0, False, ranges) for path in listing.walk().files]

    def _facts(self, state: TableState) -> Sequence[FileStatistics]:
        """Return the statistics of the write's files, read again for partitions added since.

        Raises:
            Conflict: a record index appeared, and they do not say which keys the write removed.
        """
        write = self.write
        needed = wanted_facts(self.session, state, self.schema)
        if not needed or write.wanted.covers(needed) or not (write.stats or write.replaced):
            return write.facts
        if needed.keys and not write.wanted.keys:
            raise Conflict(
                "the table got a record index while the attempt ran, and its files do not say which keys it removed",
                table=state.config.name,
                instant=self.attempt.instant,
                expected="a metadata table with the partitions that it had when the attempt began",
                found=", ".join(state.config.all_metadata_partitions),
                next_step="run the same call again: it asks its writers for keys",
            )
        stored = stored_schema(self.schema, state.config.populate_meta_fields)
        template = FileStatisticsTask(self.session.ctx.storage, "", 0, stored, replace(needed, keys=False))
        tasks = [replace(template, path=stat.path, size_bytes=stat.file_size_in_bytes) for stat in write.stats]
        told = {file.path: file for file in write.facts}
        return [
            replace(file, added=told[file.path].added, removed=told[file.path].removed) if file.path in told else file
            for file in self.session.ctx.engine.map(statistics_of_file, tasks)
        ]


@dataclass
class RemovalDeltaMaker(DeltaMaker):
    """Maker of the metadata delta of an action that deleted files.

    `removed` holds the names of the deleted files by partition path. Statistics of partitions stay: they may be wider than their
    files.
    """

    removed: FilesByPartition

    def made(self, state: TableState) -> dict[MetadataPartition, Records]:
        """Return deletes of the files, and of their statistics and filters.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
        """
        return _removals(self.session, state, self.removed)


def _removals(session: Session, state: TableState, removed: FilesByPartition) -> dict[MetadataPartition, Records]:
    """Return deletes of files, and of their statistics and filters."""
    config, version = state.config, state.config.version
    files = [(path, name) for path, names in sorted(removed.items()) for name in names]
    made: dict[MetadataPartition, Records] = {}
    for partition in kept_partitions(config):
        if partition is MetadataPartition.FILES:
            changes = {path: FileChanges(removed=names) for path, names in removed.items() if names}
            made[partition] = files_records(changes, version=version)
        elif partition is MetadataPartition.COLUMN_STATS:
            schema = table_schema(config, state.timeline, session.commits)
            columns = statistics_of(schema, config, load_index_definitions(session.ctx.storage)).columns
            made[partition] = removed_stats(files, columns, version=version)
        elif partition is MetadataPartition.BLOOM_FILTERS:
            made[partition] = removed_filters(files, version=version)
    return made


def file_changes(stats: Sequence[WriteStat]) -> Mapping[str, FileChanges]:
    """Return the files that a write adds, with exact sizes, by partition path."""
    added: dict[str, dict[str, int]] = {}
    for stat in stats:
        added.setdefault(stat.partition_path, {})[stat.file_name] = stat.file_size_in_bytes
    return {path: FileChanges(added=files) for path, files in added.items()}
