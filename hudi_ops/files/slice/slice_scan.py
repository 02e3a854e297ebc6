"""Scan of one slice.

It merges base rows and log records, and yields them batch by batch, in the table's schema. Keys and ordering values are read
first: those of the logs, then those of the base file. They decide for every row whether it survives. Then rows are read: base
rows in the order of the file, then log rows in the order in which they are merged.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.files.base.row_groups import Constants
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.merged_log import MergedLogRecords
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import FileScan, FileTask, selected, with_constants
from hudi_ops.files.slice.slice_join import USUAL_LIMITS, SliceSides, StreamLimits, join_slice
from hudi_ops.files.slice.survivors import SurvivorCache, Survivors, identity_of
from hudi_ops.kernels.condition import Condition
from hudi_ops.storage.protocol import Storage


class ListedFile(Protocol):
    """Data file: its path below the table's root and its size, as listed."""

    @property
    def path(self) -> str:
        """Return its path."""

    @property
    def size_bytes(self) -> int:
        """Return its size."""


class ListedSlice(Protocol):
    """Files of a slice; log files in the order in which they are merged."""

    @property
    def base(self) -> ListedFile | None:
        """Return its base file, if it has one."""

    @property
    def logs(self) -> Sequence[ListedFile]:
        """Return its log files."""


@dataclass(frozen=True)
class SliceTask:
    """Slice to read; picklable.

    Attributes:
        base: path of its base file below the table's root; None: it has none.
        logs: paths and sizes of its log files, in the order in which they are merged; at least one.
        instants: instants whose blocks count. With `only`, for changes, log records are not merged with base rows of another
            writer; the condition must exclude those rows.
        schema: as in `FileTask`; merging reads further columns by itself.
        columns: as in `FileTask`.
        condition: which of the merged rows are wanted.
        keys: as in `FileTask`.
        constants: as in `FileTask`; of log files, too.
    """

    storage: Storage
    base: str | None
    base_bytes: int
    logs: tuple[tuple[str, int], ...]
    rules: MergeRules
    instants: BlockInstants
    schema: pa.Schema
    columns: tuple[str, ...]
    condition: Condition | None = None
    keys: tuple[str, ...] | None = None
    constants: Constants = ()

    @staticmethod
    def of(
        storage: Storage,
        slice_: ListedSlice,
        rules: MergeRules,
        instants: BlockInstants,
        schema: pa.Schema | None = None,
    ) -> SliceTask:
        """Return the task that reads all rows of a slice: columns of `schema`, or of the keys."""
        base, wanted = slice_.base, rules.key_columns if schema is None else schema
        return SliceTask(
            storage,
            base.path if base is not None else None,
            base.size_bytes if base is not None else 0,
            tuple((log.path, log.size_bytes) for log in slice_.logs),
            rules,
            instants,
            wanted,
            tuple(wanted.names),
        )

    @property
    def path(self) -> str:
        """Path of its base file, or of its first log file."""
        return self.base if self.base is not None else self.logs[0][0]

    @property
    def log_bytes(self) -> int:
        """Size of its log files."""
        return sum(size_bytes for _, size_bytes in self.logs)

    @property
    def size_bytes(self) -> int:
        """Size of all its files."""
        return self.base_bytes + self.log_bytes


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Counts of merging a slice; with a condition or keys, only of processed records.

    Attributes:
        log_records: rows and deletes in the log blocks that count.
        log_blocks: whole blocks of the log files.
        corrupt_blocks: damaged stretches that were skipped.
        updated: base rows that a log row replaced.
        deleted: base rows that a log record deleted.
        inserted: log rows with keys that the base file does not have.
        ignored: keys whose log record lost to the base row.
    """

    log_records: int
    log_blocks: int
    corrupt_blocks: int
    updated: int
    deleted: int
    inserted: int
    ignored: int

    def __add__(self, other: MergeCounts) -> MergeCounts:
        """Return the counts of both."""
        return MergeCounts(*map(operator.add, astuple(self), astuple(other)))


NOTHING_MERGED = MergeCounts(0, 0, 0, 0, 0, 0, 0)


SURVIVORS: SurvivorCache[MergeCounts] = SurvivorCache()
"""Survivors of the slices that this process merged last."""


@dataclass(frozen=True, eq=False)
class _Merged:
    """Outcome of merging: surviving base rows (None: all), surviving log rows, and counts."""

    keep: npt.NDArray[np.bool_] | None
    taken: npt.NDArray[np.int64]
    counts: MergeCounts


class SliceScan:
    """Open slice: footer of the base file and framing of the log files are read.

    Args:
        streaming: hold no more than keys, ordering values and positions of the logs, and a few batches; log blocks are then
            decoded twice.
        limits: of the memory while streaming.

    Raises:
        Corrupt: a file does not follow its format.
        Unsupported: a log block holds records that cannot be merged here.
        NotFound: a file is gone: cleaned since it was listed.
        Unavailable: the storage did not deliver it.
    """

    def __init__(self, task: SliceTask, *, streaming: bool = False, limits: StreamLimits = USUAL_LIMITS) -> None:
        self._task = task
        self._limits = limits if streaming else None
        batch_bytes = limits.batch_bytes if streaming else None
        self._base: FileScan | None = None
        if task.base is not None:
            wanted = (task.schema, task.columns, task.condition, task.keys, task.constants)
            base = FileTask(task.storage, task.base, task.base_bytes, *wanted)
            self._base = FileScan(base, streaming=streaming, batch_bytes=batch_bytes)
        self._logs = MergedLogRecords(
            task.storage,
            [path for path, _ in task.logs],
            task.rules,
            task.instants,
            keys=task.keys,
            # Few log rows have one of some keys: their other columns are read afterwards.
            kept=None if streaming or task.keys is not None else task.schema.names,
            batch_bytes=batch_bytes,
        )
        self._identity = self._identified()
        self.row_groups = self._base.row_groups if self._base is not None else []
        """Numbers of the base file's row groups that may hold wanted rows."""

    @property
    def base(self) -> FileScan | None:
        """The open base file, if the slice has one."""
        return self._base

    @property
    def row_groups_in_file(self) -> int:
        """Number of row groups in the base file."""
        return self._base.row_groups_in_file if self._base is not None else 0

    @property
    def rows(self) -> int:
        """Upper bound of the wanted rows: rows of the read row groups, and log records."""
        return (self._base.rows if self._base is not None else 0) + self.counts.log_records

    @property
    def counts(self) -> MergeCounts:
        """Counts of merging; reads keys and ordering values if needed; raises as `batches` does."""
        return self._outcome.counts

    def count(self) -> int:
        """Count the wanted rows, by keys and ordering values if possible; raise as `batches` does."""
        if self._task.condition is not None:
            return sum(batch.num_rows for batch in self.batches())
        merged, base = self._outcome, self._base.rows if self._base is not None else 0
        return (base if merged.keep is None else int(np.count_nonzero(merged.keep))) + len(merged.taken)

    def table(self) -> pa.Table:
        """Read the wanted rows at once; raise as `batches` does."""
        merged = self._outcome
        parts = [self._base.table(merged.keep)] if self._base is not None else []
        parts += self._log_rows(merged)
        return pa.concat_tables([self._output.empty_table(), *parts])

    def batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows in batches, none of them empty.

        Raises:
            Corrupt: a page or a block cannot be decoded.
            Unsupported: ordering values of deletes that do not fit the table's.
            Unavailable: the storage did not deliver it.
            InvalidRequest: the condition is an expression that cannot be computed, for example a sum that overflows.
        """
        merged = self._outcome
        if self._base is not None:
            yield from self._base.batches(batch_rows, merged.keep)
        for rows in self._log_rows(merged):
            yield from (batch for batch in rows.to_batches() if batch.num_rows)

    @property
    def _output(self) -> pa.Schema:
        return pa.schema([self._task.schema.field(name) for name in self._task.columns])

    def _log_rows(self, merged: _Merged) -> Iterator[pa.Table]:
        for rows in self._logs.rows(merged.taken, self._task.schema):
            filled = with_constants(rows, self._task.constants)
            yield selected(filled, self._task.condition).select(self._task.columns)

    @cached_property
    def _outcome(self) -> _Merged:
        """Outcome of merging, from the cache if this process merged the slice before."""
        if self._identity is None:
            return self._merged
        known = SURVIVORS.get(self._identity)
        if known is not None:
            self._logs.place(known.places)
            return _Merged(
                self._sides.of_groups_read(known.keep, self._every_group), known.taken.astype(np.int64), known.counts
            )
        merged = self._merged
        if self._base is None or self.row_groups == self._every_group:
            SURVIVORS.put(self._identity, Survivors.of(merged.keep, merged.taken, self._logs.places, merged.counts))
        return merged

    @property
    def _sides(self) -> SliceSides:
        return SliceSides(self._logs, self._base, self._task.rules, self._task.instants.only)

    @property
    def _every_group(self) -> list[int]:
        return list(range(self.row_groups_in_file))

    def _identified(self) -> Hashable | None:
        """Return what the survivors depend on; None: only some records are merged."""
        task = self._task
        if task.keys is not None or task.instants.only is not None:
            return None
        base = ((task.base, task.base_bytes),) if task.base is not None else ()
        files = identity_of(task.storage, (*base, *task.logs))
        return None if files is None else (files, len(base), self._logs.chosen, task.rules)

    @cached_property
    def _merged(self) -> _Merged:
        found = join_slice(self._sides, self._limits)
        counts = MergeCounts(
            log_records=self._logs.records,
            log_blocks=self._logs.total_blocks,
            corrupt_blocks=self._logs.corrupt_blocks,
            updated=found.updated,
            deleted=found.deleted,
            inserted=found.inserted,
            ignored=found.ignored,
        )
        return _Merged(found.keep, found.taken, counts)


def open_scan(task: FileTask | SliceTask, *, streaming: bool) -> FileScan | SliceScan:
    """Open the files of a task.

    Raises:
        Corrupt: a file does not follow its format.
        Unsupported: a log block holds records that cannot be merged here.
        NotFound: a file is gone.
        Unavailable: the storage did not deliver it.
    """
    return SliceScan(task, streaming=streaming) if isinstance(task, SliceTask) else FileScan(task, streaming=streaming)
