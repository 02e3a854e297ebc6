"""Metadata table records of a write: made before the lock, checked again under it.

Other processes add and drop partitions. Under the lock one listing tells whether they are those that the delta was made for; if
not, the lock is released and the delta made again, from the write's own files where more facts are needed than requested.

Source: docs/protocol.md §18.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Conflict
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics, StatisticsRequest
from hudi_ops.metadata.definitions import statistics_of
from hudi_ops.metadata.index_definitions import stats_index_version
from hudi_ops.metadata.reader.instants import completed_beside, load_metadata_timeline
from hudi_ops.metadata.reader.later_deltas import is_ours, later_deltas, refuse_contradicted
from hudi_ops.metadata.reader.layout import Basis, basis_of, kept_partitions, load_index_definitions
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.bloom_filters import bloom_filter_records
from hudi_ops.metadata.records.column_stats import column_stats_records
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import record_index_records
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.writer.compaction import deltas_since_compaction
from hudi_ops.metadata.writer.delta import MetadataDelta, make_delta
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.completed import digest_of
from hudi_ops.timeline.content.commit_metadata import WriteStat
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
class DeltaMaker:
    """Maker of an attempt's metadata delta, repeated whenever the metadata table changes.

    `schema` holds the table's columns from this write on, without meta columns.
    """

    session: Session
    attempt: Attempt
    write: Write
    schema: pa.Schema
    _basis: Basis | None = field(default=None, init=False)
    _path: str = field(default="", init=False)
    _delta: MetadataDelta | None = field(default=None, init=False)
    _records: Mapping[MetadataPartition, Records] = field(default_factory=dict, init=False)
    _is_overtaken: bool = field(default=False, init=False)
    _upon: frozenset[str] | None = field(default=None, init=False)
    """Completed writes that the delta has records of; None when it only describes its own write."""
    _compared: set[str] = field(default_factory=set, init=False)
    """Later requests that completed first and do not contradict the delta."""
    _own: Timeline | None = field(default=None, init=False)
    puts_each_key_once: bool = field(default=False, init=False)
    """Whether no two of the write's files hold one key, as far as its tasks reported keys."""

    def make(self, state: TableState) -> None:
        """Make the delta for the current metadata table and put it; called without the lock.

        Raises:
            Unsupported: the metadata table has a partition that hudi_ops does not keep.
            Conflict: another process builds or drops a partition now; or the table got a record index since the attempt began, and
                the write's files do not say which keys it removed; or a later request that completed first contradicts it.
        """
        if not state.config.all_metadata_partitions:
            self._basis, self._path, self._delta, self._records = None, "", None, {}
            return
        storage = self.session.ctx.storage
        own = load_metadata_timeline(storage)
        basis = basis_of(storage, state, own)
        self._records = self._made(state)
        self._compared.clear()
        self._compare_later(state, own)
        self._delta = self._delta_of(list(self._records.values()), basis, state, self.attempt.instant)
        self._basis, self._path = basis, self.session.put_delta(self._delta)

    def fits(self, state: TableState) -> bool:
        """Return whether the delta is valid for the current metadata table; else make it again.

        Raises:
            Conflict: a later request that completed first contradicts it.
        """
        self._own, self._is_overtaken = None, False
        self.session.metadata_deltas = 0
        if not state.config.all_metadata_partitions:
            # Dropped since: the delta is deleted with those of lost tries.
            self._basis, self._path, self._delta = None, "", None
            return True
        storage = self.session.ctx.storage
        own = load_metadata_timeline(storage)
        self._own = own
        self.session.metadata_deltas = deltas_since_compaction(own) + 1
        if self._basis != basis_of(storage, state, own) or self._upon not in {None, _completed(state)}:
            return False
        self._compare_later(state, own)
        return True

    def _compare_later(self, state: TableState, own: Timeline) -> None:
        """Compare the delta with later requests that completed first; few are new under the lock."""
        later = later_deltas(self.attempt.instant, own, state)
        foreign = [delta for delta in later if not is_ours(delta, state)]
        self._is_overtaken = any(delta.is_write for delta in foreign)
        # Of hudi_ops deltas only those of the record index remove records.
        relevant = later if MetadataPartition.RECORD_INDEX in self._records else foreign
        new = [delta for delta in relevant if delta.time not in self._compared]
        refuse_contradicted(self.session.ctx.storage, self._records, self.attempt.instant, new, state.config.version)
        self._compared |= {delta.time for delta in new}

    @property
    def times(self) -> frozenset[str]:
        """Times on the metadata table's timeline, as of the last `fits`."""
        return self._own.known_times if self._own is not None else frozenset()

    def seen_at(self, completion_time: str) -> str:
        """Return the digest of that timeline, by which late appliers detect other completions."""
        if self._own is None:
            return ""
        return digest_of(completed_beside(self._own, self.attempt.instant, completion_time))

    def path_at(self, completion_time: str, state: TableState) -> str:
        """Return the path of the delta to decide, once it `fits`; empty without a metadata table.

        After a later foreign request completed first, `partition_stats` are added again at the completion time.
        """
        stats = self._records.get(MetadataPartition.PARTITION_STATS)
        if self._is_overtaken and self._delta is not None and self._basis is not None and stats:
            above = self._delta_of([stats], self._basis, state, completion_time)
            return self.session.put_delta(replace(self._delta, above=above))
        return self._path

    def _delta_of(self, records: Sequence[Records], basis: Basis, state: TableState, instant: str) -> MetadataDelta:
        return make_delta(
            records,
            self.session.metadata_groups(basis, state.config),
            instant=instant,
            version=state.config.version,
            token=f"0-{self.attempt.epoch}-0",
        )

    def _made(self, state: TableState) -> dict[MetadataPartition, Records]:
        partitions, version = kept_partitions(state.config), state.config.version
        self._upon = None
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
        self._upon = _completed(state)
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


def _completed(state: TableState) -> frozenset[str]:
    return frozenset(write.time for write in state.timeline.completed_writes)


def file_changes(stats: Sequence[WriteStat]) -> Mapping[str, FileChanges]:
    """Return the files that a write adds, with exact sizes, by partition path."""
    added: dict[str, dict[str, int]] = {}
    for stat in stats:
        added.setdefault(stat.partition_path, {})[stat.file_name] = stat.file_size_in_bytes
    return {path: FileChanges(added=files) for path, files in added.items()}
