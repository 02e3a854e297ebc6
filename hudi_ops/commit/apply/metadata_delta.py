"""What a write adds to the metadata table: made before the lock, from what the write knows, and asked again under it.

Partitions come and go beside a write. Under the lock one listing tells whether they are still those that the delta was made for;
if not, the lock is given back and the delta made anew, from the write's own files where they have to say more than was asked.

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
    """Which facts the writers of data files shall give.

    Args:
        session: the table.
        state: names the partitions of its metadata table.
        schema: the table's columns, without meta columns, from this write on.

    Raises:
        Unsupported: the metadata table has a partition that we do not keep.
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
    """Makes the delta of one attempt's write, as often as the metadata table changes beside it.

    Args:
        session: the table.
        attempt: whose write it is.
        write: what it wants to complete.
        schema: the table's columns from this write on, without meta columns.
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
    """Completed writes of which the delta says something; None for one that is of its own write alone."""
    _compared: set[str] = field(default_factory=set, init=False)
    """Later requests that completed first, and do not stand against the delta."""
    _own: Timeline | None = field(default=None, init=False)
    puts_each_key_once: bool = field(default=False, init=False)
    """Whether no two of the write's files hold one key, where its writers told their keys."""

    def make(self, state: TableState) -> None:
        """Make the delta for the metadata table as it is now, and put its bundle; to be called without the lock.

        Raises:
            Unsupported: the metadata table has a partition that we do not keep.
            Conflict: somebody builds or drops a partition at this moment; or the table got a record index meanwhile, and the
                write's files do not say which keys it removed; or a later request that completed first stands against it.
        """
        if not state.config.all_metadata_partitions:
            self._basis, self._path, self._delta, self._records = None, "", None, {}
            return
        storage = self.session.ctx.storage
        own = load_metadata_timeline(storage)
        basis = basis_of(storage, state, own)
        self._records = self._made(state)
        self._compared.clear()
        self._look_at_later(state, own)
        self._delta = self._delta_of(list(self._records.values()), basis, state, self.attempt.instant)
        self._basis, self._path = basis, self.session.put_delta(self._delta)

    def fits(self, state: TableState) -> bool:
        """Whether the delta is one for the metadata table as it is now; if not, it is to be made anew, without the lock.

        Raises:
            Conflict: a later request that completed first stands against it.
        """
        self._own, self._is_overtaken = None, False
        self.session.metadata_deltas = 0
        if not state.config.all_metadata_partitions:
            # Dropped meanwhile: the bundle is one of a try that lost, and goes with those.
            self._basis, self._path, self._delta = None, "", None
            return True
        storage = self.session.ctx.storage
        own = load_metadata_timeline(storage)
        self._own = own
        self.session.metadata_deltas = deltas_since_compaction(own) + 1
        if self._basis != basis_of(storage, state, own) or self._upon not in {None, _completed(state)}:
            return False
        self._look_at_later(state, own)
        return True

    def _look_at_later(self, state: TableState, own: Timeline) -> None:
        """What completed first though it was requested later; of those that were not there before the lock, few if any."""
        later = later_deltas(self.attempt.instant, own, state)
        foreign = [one for one in later if not is_ours(one, state)]
        self._is_overtaken = any(one.is_write for one in foreign)
        # Of our own writers only the record index takes anything off.
        telling = later if MetadataPartition.RECORD_INDEX in self._records else foreign
        new = [one for one in telling if one.time not in self._compared]
        refuse_contradicted(self.session.ctx.storage, self._records, self.attempt.instant, new, state.config.version)
        self._compared |= {one.time for one in new}

    @property
    def times(self) -> frozenset[str]:
        """Times of the metadata table's timeline, as of the last question."""
        return self._own.known_times if self._own is not None else frozenset()

    def seen_at(self, completion_time: str) -> str:
        """What is on that timeline beside the delta, by which whoever applies it late tells that somebody came between."""
        if self._own is None:
            return ""
        return digest_of(completed_beside(self._own, self.attempt.instant, completion_time))

    def path_at(self, completion_time: str, state: TableState) -> str:
        """Path of the bundle to decide, for a delta that `fits`; empty for a table without a metadata table.

        Where a later request of Apache Hudi's has completed, `partition_stats` are added once more at the completion time.
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
                told = [*_with_values(facts), *self._nulls_of_added_columns(state)]
                made[partition] = partition_stats_records(
                    told, version=version, tight=False, index_version=stats_version
                )
            elif partition is MetadataPartition.BLOOM_FILTERS:
                made[partition] = bloom_filter_records(facts, instant, version=version)
            elif partition is MetadataPartition.RECORD_INDEX:
                added = sum(len(one.added) for one in facts if one.added is not None)
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
        """That a column which the write adds is null in every partition so far.

        A partition of which a record is missing is passed over by Apache Hudi as soon as another has one, and a range of the
        write's rows alone would say that no row is null (docs/format.md §14.7).
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
        """What is known of the write's files; read back from them where partitions appeared since they were written.

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
        told = {one.path: one for one in write.facts}
        return [
            replace(one, added=told[one.path].added, removed=told[one.path].removed) if one.path in told else one
            for one in self.session.ctx.engine.map(statistics_of_file, tasks)
        ]


def _completed(state: TableState) -> frozenset[str]:
    return frozenset(one.time for one in state.timeline.completed_writes)


def _with_values(facts: Sequence[FileStatistics]) -> list[FileStatistics]:
    """Without log files of deletes alone: what they say of a partition's columns would be that they are of no type."""
    return [one for one in facts if any(each.values for each in one.ranges)]


def file_changes(stats: Sequence[WriteStat]) -> Mapping[str, FileChanges]:
    """Files that a write adds, with their exact sizes, by partition path."""
    added: dict[str, dict[str, int]] = {}
    for stat in stats:
        added.setdefault(stat.partition_path, {})[stat.file_name] = stat.file_size_in_bytes
    return {path: FileChanges(added=files) for path, files in added.items()}
