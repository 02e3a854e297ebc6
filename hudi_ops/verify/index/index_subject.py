"""Files and slices of a table, all or a sample, to compare its metadata table with."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import pyarrow as pa

from hudi_ops.config.table import IndexKind
from hudi_ops.errors import HudiOpsError, Unavailable
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.slice.slice_keys import keys_of_slice
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.index.doubled_keys import key_tasks
from hudi_ops.metadata.definitions import statistics_of
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.partitions import MetadataPartition, is_kept, rebuild_command
from hudi_ops.timeline.active import load_timeline
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

logger = logging.getLogger(__name__)


class DataUnread(Exception):
    """A data file could not be read or merged, so nothing was compared with it; holds the error."""

    def __init__(self, error: HudiOpsError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def reading_data() -> Iterator[None]:
    """Raise errors of reading the table's own files as `DataUnread`.

    Raises:
        DataUnread: from any error of this library.
    """
    try:
        yield
    except HudiOpsError as error:
        raise DataUnread(error) from error


SHOWN_MAX = 10
"""Differences of one kind that are reported one by one; further ones are counted."""


@dataclass(frozen=True)
class IndexSubject:
    """A table and its metadata table. `sample`: files to open, or all; `index`: None if unknown."""

    table: Subject
    sample: int | None = None
    index: IndexKind | None = None

    @cached_property
    def metadata(self) -> MetadataTable:
        """The metadata table, listed after the table's files and before its timeline is read again.

        All partitions are listed at once, and again if a compaction removed files during the listing.

        Raises:
            Unavailable: storage did not answer, or compactions interrupted each try.
        """
        for _ in range(_TRIES - 1):
            try:
                return self._opened()
            except Unavailable as error:
                logger.info("opening the metadata table once more: %s", error)
        return self._opened()

    def _opened(self) -> MetadataTable:
        own = load_metadata_timeline(self.table.storage)
        again = load_timeline(self.table.storage, self.table.config)
        instants = MetadataInstants(own, again, self.table.commits.archived)
        found = MetadataTable(self.table.storage, self.table.config, instants, self.table.engine)
        for partition in self.named:
            found.slices(partition)
        return found

    @property
    def named(self) -> tuple[str, ...]:
        """Partitions that readers use and that this library checks."""
        return tuple(filter(is_kept, self.table.config.metadata_partitions))

    @cached_property
    def sampled(self) -> list[Slice]:
        """The slices to open: all, or a stable pseudo-random choice with about `sample` files."""
        if self.sample is None:
            return self.table.slices
        chosen, left = [], self.sample
        for slice_ in sorted(
            self.table.slices, key=lambda each: blake2b(each.file_id.encode(), digest_size=8).digest()
        ):
            if left <= 0:
                break
            chosen.append(slice_)
            left -= len(files_of(slice_))
        return chosen

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of base files."""
        return stored_schema(self.table.schema, self.table.config.populate_meta_fields)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with statistics."""
        return statistics_of(self.table.schema, self.table.config, load_index_definitions(self.table.storage)).columns

    @cached_property
    def facts(self) -> Sequence[FileStatistics]:
        """Ranges and filters of the sampled files, as far as the metadata table stores them."""
        stats = {MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS} & set(self.named)
        wanted = StatisticsRequest(self.columns if stats else (), bloom=MetadataPartition.BLOOM_FILTERS in self.named)
        if not wanted:
            return ()
        template = FileStatisticsTask(self.table.storage, "", 0, self.stored_schema, wanted)
        files = [file for slice_ in self.sampled for file in files_of(slice_) if not self._is_left(file)]
        tasks = [replace(template, path=file.path, size_bytes=file.size_bytes) for file in files]
        with reading_data():
            return self.table.engine.map(statistics_of_file, tasks)

    def _is_left(self, file: DataFile) -> bool:
        """Return whether a log file is a leftover of a write beside a resize.

        It carries the instant of the resize, so that readers open it, although the write that put it failed. They leave its blocks
        out, and no completed write names it, so no index knows it.
        """
        table = self.table
        if not file.is_log or file.path in table.named or file.path in table.named_besides:
            return False
        instant = table.later.find(file.instant)
        return instant is not None and instant.kind == "replacecommit"

    def live_keys(self) -> Iterable[tuple[Slice, pa.Array]]:
        """Yield the record keys of the sampled slices."""
        return self.keys_of(self.sampled)

    def keys_of(self, slices: Sequence[Slice]) -> Iterable[tuple[Slice, pa.Array]]:
        """Yield the record keys of slices, read `AT_A_TIME` slices at a time."""
        with reading_data():
            spec = MergeRules.of(self.table.config, self.table.schema).keys
        for start in range(0, len(slices), AT_A_TIME):
            held = slices[start : start + AT_A_TIME]
            with reading_data():
                tasks = key_tasks(
                    self.table.storage, self.table.config, self.table.timeline, self.table.schema, spec, held
                )
                keys = self.table.engine.map(keys_of_slice, tasks)
            yield from zip(held, keys, strict=True)


AT_A_TIME = 64
_TRIES = 3
"""Attempts to open the metadata table while it is being compacted."""


@dataclass
class Differences:
    """Differences of one metadata partition; the first `SHOWN_MAX` of each kind are reported."""

    findings: Findings
    partition: str
    _counts: dict[str, int] = field(default_factory=dict)

    def report(self, severity: str, kind: str, what: str, where: str = "", next_step: str = "") -> None:
        """Report a difference, unless `SHOWN_MAX` of its kind were reported."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= SHOWN_MAX:
            self._put(severity, what, where, next_step)

    def close(self) -> None:
        """Report the number of the other differences."""
        for kind, count in self._counts.items():
            if count > SHOWN_MAX:
                self._put("info", f"{count - SHOWN_MAX} more: {kind}", "", "")

    def _put(self, severity: str, what: str, where: str, next_step: str) -> None:
        invariant = f"metadata-{self.partition.replace('_', '-')}"
        step = next_step or ("" if severity == "info" else rebuild_command(self.partition))
        getattr(self.findings, severity)(invariant, f"{self.partition}: {what}", where, step)


def files_of(slice_: Slice) -> list[DataFile]:
    """Return base and log files of a slice."""
    return [*([slice_.base] if slice_.base is not None else []), *slice_.logs]
