"""Task that rewrites the slices of a plan group into new base files, and its result.

A task runs on any engine. Its input holds everything that it needs, and its result goes back as a value. Names and bytes of the
files follow from the input, so every attempt of a task writes the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.config.columns import FILE_NAME, RECORD_KEY
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.memory import RUN_BYTES_MIN
from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings, conform, encode_base_file, stored_schema
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.base.repeated_columns import decode_columns
from hudi_ops.files.base.writer import NOTHING_REPLACED, ROW_GROUP_BYTES, BaseFileWriter, ReplacedFile
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.files.slice.slice_join import StreamLimits
from hudi_ops.files.slice.slice_scan import NOTHING_MERGED, MergeCounts, SliceScan, SliceTask
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.services.base.cost import COPIES, FOLDED_MAX, memory_of
from hudi_ops.services.base.service import Run
from hudi_ops.services.base.slices import merging_of
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice

WrittenFile: TypeAlias = tuple[WriteStat, FileStatistics | None]
"""Statistics of a written file: for the commit, and for the metadata table."""
FILTER_FORMS = 3
"""Copies of a filter's size in memory while a file is read or written: its bits, and its text."""
_FILTER_BYTES_FREE = 32 << 10
"""A filter of at most this size fits beside any limit."""
GROUPS_IN_MEMORY = 8
"""Memory of a streamed file, as a multiple of its row group: read, held, encoded and filtered at a time."""
_JOIN_SHARE, _BATCH_SHARE = 4, 16
_HELD_BYTES_MAX = 2 << 30
"""Most memory of rows that are held whole, with their copy: Arrow's arrays of texts hold 2 GiB."""


@dataclass(frozen=True, kw_only=True)
class RewriteTask:
    """One plan group to rewrite; picklable.

    Attributes:
        sources: slices of the group, in the plan's order.
        merging: as `services.base.slices.merging_of` returns it.
        stored: columns of base files.
        number: place of the group's first output in the plan; part of the file names.
        memory_bytes: memory that the task may take.
        wanted: statistics for the metadata table.
        spill_folder: folder for what exceeds the memory; None: the system's folder for temporary files (`TMPDIR`).
    """

    storage: Storage
    table_name: str
    partition_path: str
    sources: tuple[Slice, ...]
    merging: tuple[MergeRules, BlockInstants]
    stored: pa.Schema
    instant: str
    epoch: int
    number: int
    memory_bytes: int
    settings: WriterSettings = field(default_factory=WriterSettings)
    wanted: StatisticsRequest = NO_FACTS
    spill_folder: str | None = None

    @property
    def bytes_in(self) -> int:
        """Return the bytes of the files that are read."""
        return sum(source.bytes_in for source in self.sources)

    @property
    def scanned(self) -> pa.Schema:
        """Return the columns that are read: all but the file name."""
        return pa.schema([column for column in self.stored if column.name != FILE_NAME])

    @property
    def limits(self) -> StreamLimits:
        """Return the limits of a slice that is streamed."""
        batch_bytes = max(RUN_BYTES_MIN, self.memory_bytes // _BATCH_SHARE)
        return StreamLimits(self.memory_bytes // _JOIN_SHARE, batch_bytes, self.spill_folder)

    def refuse_small_limit(self, filter_bytes: int) -> None:
        """Refuse a limit that is too small for the filter of a new file, which is never split.

        Raises:
            InvalidRequest: it is too small; names the smallest one.
        """
        least = FILTER_FORMS * filter_bytes
        if self.memory_bytes < least and filter_bytes > _FILTER_BYTES_FREE:
            raise InvalidRequest(
                f"memory_bytes is too small for a base file of {self.table_name} in {self.partition_path or 'its only partition'}",
                expected=f"at least {least} bytes, {FILTER_FORMS} times the filter over its keys",
                found=f"{self.memory_bytes}",
                next_step=f"give {least} or more, or make the file groups smaller",
                table=self.table_name,
                instant=self.instant,
                setting="memory_bytes",
                minimum=least,
            )

    def read(self, source: Slice) -> tuple[pa.Table, MergeCounts]:
        """Read a slice; a column of few values stays a dictionary if no log files are merged."""
        if source.logs or source.base is None:
            scan = SliceScan(SliceTask.of(self.storage, source, *self.merging, self.scanned))
            return scan.table(), scan.counts
        reader = BaseFileReader(self.storage, source.base.path, keep_encoded=True)
        check_stop()
        rows = conform(reader.read(self.scanned.names), self.scanned, source.base.path)
        return decode_columns(rows, self.merging[0].key_columns.names), NOTHING_MERGED

    def scan(self, source: Slice, schema: pa.Schema) -> SliceScan | FileScan:
        """Open a slice whose rows are streamed, with the columns of `schema`."""
        if source.logs or source.base is None:
            wanted = SliceTask.of(self.storage, source, *self.merging, schema)
            return SliceScan(wanted, streaming=True, limits=self.limits)
        base = FileTask(self.storage, source.base.path, source.base.size_bytes, schema, tuple(schema.names))
        return FileScan(base, streaming=True, batch_bytes=self.limits.batch_bytes)

    def pieces(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of all slices piece by piece; their order does not depend on the columns."""
        for source in self.sources:
            for batch in self.scan(source, schema).batches():
                yield pa.Table.from_batches([batch])

    def unfolded_bytes(self) -> float | None:
        """Return the expected bytes of base rows in memory; None if all rows fit into memory.

        If the result is a number, the slices are streamed. It follows from file sizes and, near the limit, from the first rows of
        each file, since repeated values compress well. So every attempt gets the same answer.
        """
        limit_bytes = min(self.memory_bytes, _HELD_BYTES_MAX)
        expected = memory_of(self.bytes_in)
        if FOLDED_MAX * expected <= limit_bytes:
            return None
        bases = [BaseFileReader(self.storage, source.base.path) for source in self.sources if source.base is not None]
        base_bytes = sum(reader.unfolded_bytes(self.scanned.names) for reader in bases)
        log_bytes = sum(source.log_bytes for source in self.sources)
        return base_bytes if max(expected, base_bytes * COPIES + memory_of(log_bytes)) > limit_bytes else None

    def new_file(self, file_id: str, place: int, previous: DataFile | None = None) -> BaseFileOutput:
        """Return the base file at a place among the outputs; `previous`: the one that it replaces."""
        name = base_file_name(file_id, self.number + place, self.epoch, self.instant)
        return BaseFileOutput(self.storage, self.instant, self.partition_path, file_id, name, previous)

    def encoded(self, rows: pa.Table, base: DataFile | None = None, added: int = 0) -> pa.Buffer:
        """Encode the rows of a base file.

        With `base`, its filter is used again: it holds the keys of all rows but the last `added` ones.
        """
        if base is None:
            return encode_base_file(rows, self.table_name, self.settings)
        reader = BaseFileReader(self.storage, base.path)
        if RECORD_KEY not in self.stored.names or reader.footer.bloom is None:
            return encode_base_file(rows, self.table_name, self.settings, previous=reader.parquet)
        keys = rows.column(RECORD_KEY).slice(rows.num_rows - added)
        return encode_base_file(rows, self.table_name, self.settings, reader.footer.bloom, keys, reader.parquet)

    def put_rows(self, output: BaseFileOutput, rows: pa.Table, base: DataFile | None = None) -> WrittenFile:
        """Write a file of rows that are in memory; `base` as in `encoded`."""
        check_stop()
        rows = output.named(rows, self.stored)
        body = self.encoded(rows, base)
        output.put(body)
        return self.written(output, body, rows.num_rows, rows, self.keys_brought(rows))

    def writer(self, keys: int, replaced: ReplacedFile = NOTHING_REPLACED) -> BaseFileWriter:
        """Return the writer of a streamed file of `keys` rows, whose row groups fit into memory."""
        return BaseFileWriter(
            self.stored,
            self.table_name,
            self.settings,
            keys=keys,
            replaced=replaced,
            row_group_bytes=min(ROW_GROUP_BYTES, max(1, self.memory_bytes // GROUPS_IN_MEMORY)),
            folder=self.spill_folder,
        )

    def put_streamed(
        self, output: BaseFileOutput, pieces: Iterable[pa.Table], count: int, replaced: ReplacedFile = NOTHING_REPLACED
    ) -> WrittenFile:
        """Write a file of `count` rows that come piece by piece, in bounded memory.

        Raises:
            Internal: rows were lost on the way.
        """
        keys = [pa.array([], pa.string())]
        with self.writer(count, replaced) as writer:
            for piece in pieces:
                rows = output.named(piece, self.stored)
                writer.write(rows)
                keys.append(self.keys_brought(rows))
            body = writer.finish()
            if writer.rows != count:
                raise Internal(
                    f"rows of {self.table_name} were lost while their file groups were rewritten",
                    instant=self.instant,
                    expected=f"{count} rows for {output.path}",
                    found=f"{writer.rows} rows",
                )
            output.put(writer.view)
            return self.written(output, body, writer.rows, keys=pc.unique(joined(keys, pa.string())))

    def keys_brought(self, rows: pa.Table) -> pa.Array:
        """Return the record keys of rows for statistics, each once; none if they are not wanted."""
        if not self.wanted.keys:
            return pa.array([], pa.string())
        return pc.unique(joined([self.merging[0].keys_of(rows)], pa.string()))

    def written(
        self,
        output: BaseFileOutput,
        body: pa.Buffer,
        count: int,
        rows: pa.Table | None = None,
        keys: pa.Array | None = None,
    ) -> WrittenFile:
        """Return the statistics of a file of `count` rows in a new file group.

        With `rows`, its columns are not decoded again. `keys` are its record keys, each once, for an index that wants them.
        """
        added, removed = (keys, keys.slice(0, 0)) if keys is not None and self.wanted.keys else (None, None)
        facts = statistics_of_base(output.path, body, self.stored, self.wanted, rows=rows, added=added, removed=removed)
        # As in a clustering of Apache Hudi, all rows count as inserted.
        return output.stat(count, body.size, inserted=count, updated=0, deleted=0), facts


@dataclass(frozen=True)
class RewrittenGroup:
    """Result of a plan group: statistics of each written file, and counts of log records.

    `stats` lacks files that were not written, since they would have no rows. `streamed`: the group was larger than memory.
    """

    stats: tuple[WriteStat, ...]
    facts: tuple[FileStatistics, ...]
    counts: MergeCounts
    rows: int
    streamed: bool

    @classmethod
    def of(cls, files: list[WrittenFile], counts: MergeCounts, *, streamed: bool) -> RewrittenGroup:
        """Return the result of a task that wrote these files."""
        stats = tuple(stat for stat, _ in files)
        facts = tuple(found for _, found in files if found is not None)
        return cls(stats, facts, counts, sum(stat.num_writes for stat in stats), streamed)


def task_fields(run: Run[Any, Any, Any, Any], *, keys: bool) -> dict[str, Any]:
    """Return the fields that all tasks of a run have in common; `keys` as in `wanted_of`.

    Raises:
        Unsupported: the table's merge rule is not known.
    """
    state = run.attempt.begun
    schema = table_schema(state.config, state.timeline, run.session.commits)
    merging = merging_of(state, schema)
    return {
        "storage": run.session.ctx.storage,
        "table_name": state.config.name,
        "merging": merging,
        "stored": stored_schema(schema, merging[0].keys is None),
        "instant": run.attempt.instant,
        "epoch": run.attempt.epoch,
        "memory_bytes": run.task_bytes,
        "wanted": wanted_of(run, keys=keys),
        "spill_folder": run.engine.spill_folder if isinstance(run.engine, LocalEngine) else None,
    }


def wanted_of(run: Run[Any, Any, Any, Any], *, keys: bool) -> StatisticsRequest:
    """Return the statistics of new files for the metadata table; without `keys`, no record keys."""
    state = run.attempt.begun
    schema = table_schema(state.config, state.timeline, run.session.commits)
    wanted = wanted_facts(run.session, state, schema)
    return wanted if keys else replace(wanted, keys=False)
