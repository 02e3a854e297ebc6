"""Metadata table records of a write and of a clean (docs/protocol §18, §20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_ops.commit.apply.delta_maker import DeltaMaker, completed_of
from hudi_ops.commit.apply.entries import entries_of_write
from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.errors import Conflict
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics, StatisticsRequest
from hudi_ops.metadata.definitions import Statistics, secondary_columns, statistics_of
from hudi_ops.metadata.index_kind import Terms, WrittenFiles
from hudi_ops.metadata.kinds.registry import kinds_of, wanted_by
from hudi_ops.metadata.reader.layout import kept_partitions, load_index_definitions
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.column_stats import default_index_version
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema


def wanted_facts(session: Session, state: TableState, schema: pa.Schema) -> StatisticsRequest:
    """Return the file statistics that a write must collect for the metadata table of `state`.

    `schema` holds the table's columns from this write on, without meta columns.

    Raises:
        Unsupported: the metadata table has a partition that hudi_ops does not keep.
    """
    wanted = wanted_by(kinds_of(kept_partitions(state.config)))
    columns: tuple[str, ...] = ()
    definitions = load_index_definitions(session.ctx.storage) if wanted.ranges or wanted.entries else {}
    if wanted.ranges:
        columns = statistics_of(schema, state.config, definitions).columns
    secondary_columns(wanted.entries, schema, state.config, definitions)  # refuses those that are not kept
    return wanted.request(columns)


@dataclass
class WriteDeltaMaker(DeltaMaker):
    """Maker of a write's metadata delta; reads its files again where facts are missing.

    `schema` holds the table's columns from this write on, without meta columns.
    """

    write: Write
    schema: pa.Schema
    puts_each_key_once: bool = field(default=False, init=False)
    """Whether no two files of the write hold the same key, as far as its tasks reported keys."""

    def made(self, state: TableState) -> dict[str, Records]:
        """Return the records of the write's files.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
            Conflict: a record index appeared, and the write's files do not say which keys it removed.
        """
        kinds = kinds_of(kept_partitions(state.config))
        facts = self._facts(state)
        definitions = load_index_definitions(self.session.ctx.storage)
        instant, wanted = self.attempt.instant, wanted_by(kinds)
        columns = secondary_columns(wanted.entries, self.schema, state.config, definitions)
        written = WrittenFiles(
            file_changes(self.write.stats),
            facts,
            ms_of_instant(instant, state.zone),
            hidden=self.write.hidden_keys,
            are_located=state.log.properties.facts.index == "record_index",
            added_columns=self._nulls_of_added_columns(state) if wanted.added_columns else (),
            entries=entries_of_write(self.session, state, instant, self.write, self.schema, columns) if columns else {},
        )
        terms = Terms(state.config.version, instant, statistics_of(self.schema, state.config, definitions))
        made = {kind.name: kind.of_write(written, terms) for kind in kinds}
        if (located := made.get(MetadataPartition.RECORD_INDEX)) is not None:
            added = sum(len(file.added) for file in facts if file.added is not None)
            self.puts_each_key_once = len(located.keys) == added
        return made

    def raised(self, state: TableState) -> Sequence[Records]:
        """Return deletes of files that later requests added, if these completed first."""
        return list(_removals(self.session, state, self.write.removed).values()) if self.write.removed else ()

    def _nulls_of_added_columns(self, state: TableState) -> list[FileStatistics]:
        """Return statistics of added columns: null in every partition so far.

        Once one partition has a record for a column, Apache Hudi skips partitions without one; and a range of the write's rows
        alone would claim that the partition has no nulls (docs/format §14.7).
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

    def made(self, state: TableState) -> dict[str, Records]:
        """Return deletes of the files, and of their statistics and filters.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
        """
        return _removals(self.session, state, self.removed)


def _removals(session: Session, state: TableState, removed: FilesByPartition) -> dict[str, Records]:
    """Return deletes of files, and of their statistics and filters."""
    config = state.config
    kinds = [kind for kind in kinds_of(kept_partitions(config)) if kind.removed is not None]
    statistics = Statistics({}, default_index_version(config.version))
    if wanted_by(kinds).ranges:
        schema = table_schema(config, state.timeline, session.commits)
        statistics = statistics_of(schema, config, load_index_definitions(session.ctx.storage))
    terms = Terms(config.version, "", statistics)
    return {kind.name: kind.removed(removed, terms) for kind in kinds if kind.removed is not None}


def file_changes(stats: Sequence[WriteStat]) -> Mapping[str, FileChanges]:
    """Return the files that a write adds, with exact sizes, by partition path."""
    added: dict[str, dict[str, int]] = {}
    for stat in stats:
        added.setdefault(stat.partition_path, {})[stat.file_name] = stat.file_size_in_bytes
    return {path: FileChanges(added=files) for path, files in added.items()}
