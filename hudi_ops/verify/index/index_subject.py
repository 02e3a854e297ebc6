"""What the metadata table is held against: the table's files and slices at one reading, all or a sample of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from hudi_ops.metadata.records.partitions import MetadataPartition, build_again, is_kept
from hudi_ops.timeline.active import load_timeline
from hudi_ops.verify.report import Findings
from hudi_ops.verify.subject import Subject
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice, visible_slices

logger = logging.getLogger(__name__)


class DataUnread(Exception):
    """A file of the table itself could not be read or merged, so that nothing was held against it; holds the error."""

    def __init__(self, error: HudiOpsError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def reading_data() -> Iterator[None]:
    """Tell errors of the table's own files from those of its metadata table.

    Raises:
        DataUnread: in the place of an error of reading.
    """
    try:
        yield
    except HudiOpsError as error:
        raise DataUnread(error) from error


SHOWN_MAX = 10
"""Differences of one kind that are reported one by one; the others are counted."""


@dataclass(frozen=True)
class IndexSubject:
    """A table and its metadata table. `sample` is how many files are opened; None: all. `index` is the table's; None: not known."""

    table: Subject
    sample: int | None = None
    index: IndexKind | None = None

    @cached_property
    def metadata(self) -> MetadataTable:
        """The metadata table, listed after the table's files and before its timeline: what is complete in it is known there.

        Its partitions are listed at once, and again where somebody compacted it meanwhile.

        Raises:
            Unavailable: storage did not answer, or somebody compacts without end.
        """
        for _ in range(_TRIES - 1):
            try:
                return self._opened()
            except Unavailable as error:
                logger.info("the metadata table is opened once more: %s", error)
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
    def named(self) -> tuple[MetadataPartition, ...]:
        """Partitions that readers use and that are known here."""
        return tuple(MetadataPartition(name) for name in self.table.config.metadata_partitions if is_kept(name))

    @cached_property
    def files(self) -> Mapping[str, list[DataFile]]:
        """Data files as listed, by partition path."""
        found: dict[str, list[DataFile]] = {}
        for one in self.table.data_files:
            file = DataFile(
                one.partition_path, one.info.path, one.name.file_id, one.name.instant, one.info.size_bytes, one.is_log
            )
            found.setdefault(one.partition_path, []).append(file)
        return found

    @cached_property
    def slices(self) -> list[Slice]:
        """What readers see."""
        table = self.table
        return visible_slices(table.config, table.timeline, table.commits, self.files)

    @cached_property
    def sampled(self) -> list[Slice]:
        """The slices whose files are opened: all, or as many as hold about `sample` files, spread by chance but always the same."""
        if self.sample is None:
            return self.slices
        chosen, left = [], self.sample
        for one in sorted(self.slices, key=lambda each: blake2b(each.file_id.encode(), digest_size=8).digest()):
            if left <= 0:
                break
            chosen.append(one)
            left -= len(files_of(one))
        return chosen

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's columns, without meta columns."""
        return table_schema(self.table.config, self.table.timeline, self.table.commits)

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of base files."""
        return stored_schema(self.schema, self.table.config.populate_meta_fields)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those with statistics."""
        return statistics_of(self.schema, self.table.config, load_index_definitions(self.table.storage)).columns

    @cached_property
    def facts(self) -> Sequence[FileStatistics]:
        """Of all files of the sampled slices, as they are: ranges and filters, where the metadata table says such things."""
        stats = {MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS} & set(self.named)
        wanted = StatisticsRequest(self.columns if stats else (), bloom=MetadataPartition.BLOOM_FILTERS in self.named)
        if not wanted:
            return ()
        template = FileStatisticsTask(self.table.storage, "", 0, self.stored_schema, wanted)
        files = [file for one in self.sampled for file in files_of(one)]
        tasks = [replace(template, path=file.path, size_bytes=file.size_bytes) for file in files]
        with reading_data():
            return self.table.engine.map(statistics_of_file, tasks)

    def live_keys(self) -> Iterable[tuple[Slice, pa.Array]]:
        """Record keys of the sampled slices, a few slices at a time."""
        return self.keys_of(self.sampled)

    def keys_of(self, slices: Sequence[Slice]) -> Iterable[tuple[Slice, pa.Array]]:
        """Record keys of slices, a few slices at a time."""
        with reading_data():
            spec = MergeRules.of(self.table.config, self.schema).keys
        for start in range(0, len(slices), _AT_A_TIME):
            held = slices[start : start + _AT_A_TIME]
            with reading_data():
                tasks = key_tasks(self.table.storage, self.table.config, self.table.timeline, self.schema, spec, held)
                keys = self.table.engine.map(keys_of_slice, tasks)
            yield from zip(held, keys, strict=True)


_AT_A_TIME = 64
_TRIES = 3
"""How often the metadata table is opened, while it is compacted."""


@dataclass
class Differences:
    """Collects differences of one partition of the metadata table, and reports the first of each kind."""

    findings: Findings
    partition: MetadataPartition
    _counts: dict[str, int] = field(default_factory=dict)

    def report(self, severity: str, kind: str, what: str, where: str = "", next_step: str = "") -> None:
        """Report one, unless there were many of its kind.

        Args:
            severity: error, warning or info.
            kind: what they have in common, in plain words.
            what: names key, expected and found.
            where: path below the table's root.
            next_step: what to do; empty: build the partition anew.
        """
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= SHOWN_MAX:
            self._put(severity, what, where, next_step)

    def close(self) -> None:
        """Say how many were not reported."""
        for kind, count in self._counts.items():
            if count > SHOWN_MAX:
                self._put("info", f"{count - SHOWN_MAX} more: {kind}", "", "")

    def _put(self, severity: str, what: str, where: str, next_step: str) -> None:
        invariant = f"metadata-{self.partition.replace('_', '-')}"
        step = next_step or ("" if severity == "info" else build_again(self.partition))
        getattr(self.findings, severity)(invariant, f"{self.partition}: {what}", where, step)


def files_of(one: Slice) -> list[DataFile]:
    """Base and log files of a slice."""
    return [*([one.base] if one.base is not None else []), *one.logs]
