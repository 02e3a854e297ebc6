"""Read statistics of files and keys of slices for a build of the metadata table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.monitor import LeaseMonitor
from hudi_ops.engine.progress import Progress, Tally
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.doubled_keys import count_doubled, key_tasks
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.metadata.definitions import Statistics
from hudi_ops.metadata.index_kind import KeysAt
from hudi_ops.metadata.kinds.registry import kinds_of, wanted_by
from hudi_ops.metadata.records.records import no_keys
from hudi_ops.metadata.slice_entries import added_and_removed, entries_of_rows, entries_of_slice
from hudi_ops.services.base.waves import in_waves
from hudi_ops.services.indexing.filling.diff import Group
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

logger = logging.getLogger(__name__)

WAVE = 256
"""Tasks that an engine gets at a time; between two waves the lease is checked."""

I = TypeVar("I")  # noqa: E741 - input of a task
R = TypeVar("R")


@dataclass(frozen=True)
class Moved:
    """Keys, and entries of secondary indexes, that changed slices gained or lost.

    Attributes:
        keys: new keys and entries, with their places.
        gone: keys that left their file group; they may be among `keys`, too.
        gone_entries: entries of secondary indexes that left their file group, by the index's name.
    """

    keys: list[KeysAt]
    gone: pa.Array
    gone_entries: Mapping[str, pa.Array]


class FactReader:
    """Reads the statistics and keys for one build, through its engine.

    Args:
        monitor: of the build's lease; it is checked between waves, and stops one that runs.
        schema: the table's columns, without meta columns.
        partitions: what is built, with the column of each that is a secondary index; empty for others.
    """

    def __init__(
        self,
        session: Session,
        state: TableState,
        engine: Engine,
        monitor: LeaseMonitor,
        progress: Callable[[Progress], None],
        schema: pa.Schema,
        partitions: Mapping[str, str],
        statistics: Statistics,
    ) -> None:
        self._session = session
        self.state = state
        """State of the newest snapshot, set by the build: it decides which log blocks count."""
        self._engine = engine
        self._monitor = monitor
        self._progress = progress
        self._schema = schema
        self._stored = stored_schema(schema, state.config.populate_meta_fields)
        wanted = wanted_by(kinds_of(partitions))
        self._wanted = replace(wanted.request(statistics.columns), keys=False)
        self._wants_keys = wanted.keys
        self._columns = {name: partitions[name] for name in wanted.entries}
        self._read: dict[Group, tuple[pa.Array, ...]] = {}
        """Record keys of slices, then entries of each secondary index."""
        self._repeating: set[Group] = set()
        """Slices whose keys and entries may be in `_read` twice."""

    @property
    def _reads_rows(self) -> bool:
        return self._wants_keys or bool(self._columns)

    def facts(self, files: Sequence[DataFile]) -> list[FileStatistics]:
        """Return the wanted statistics of files; none if none are wanted."""
        if not self._wanted:
            return []
        template = FileStatisticsTask(self._session.ctx.storage, "", 0, self._stored, self._wanted)
        tasks = [replace(template, path=file.path, size_bytes=file.size_bytes) for file in files if not file.is_cdc]
        return self._map("files", statistics_of_file, tasks)

    def located(self, slices: Sequence[Slice]) -> list[KeysAt]:
        """Return the keys of slices if the build needs keys; keep them for later comparison."""
        if not self._reads_rows:
            return []
        found = self._entries(slices, entries_of_slice)
        self._read |= found
        return [self._at(slice_, found[slice_.key]) for slice_ in slices]

    def moved(self, changed: Sequence[tuple[Slice | None, Slice | None]]) -> Moved:
        """Return the keys and entries that slices gained, and those that left their file group."""
        if not self._reads_rows:
            return Moved([], no_keys(), {})
        # A resumed build has not read the slices as they were before.
        self.located([before for before, _ in changed if before is not None and before.key not in self._read])
        nothing = (no_keys(),) * (1 + len(self._columns))
        groups = [slice_.key for pair in changed if (slice_ := pair[1] or pair[0]) is not None]
        before = [self._once(group) or nothing for group in groups]
        for group in groups:
            self._read.pop(group, None)
        new = {slice_.key: slice_ for _, slice_ in changed if slice_ is not None}
        now = self._entries(list(new.values()), entries_of_rows)
        pairs = [(now.get(group, nothing), old) for group, old in zip(groups, before, strict=True)]
        added: list[KeysAt] = []
        gone: list[tuple[pa.Array, ...]] = [nothing]
        for group, (fresh, lost) in zip(groups, self._session.ctx.local_engine.map(_compared, pairs), strict=True):
            if group in new:
                added.append(self._at(new[group], fresh))
            gone.append(lost)
        self._read |= now
        self._repeating |= now.keys()
        whole = tuple(joined(each, pa.string()) for each in zip(*gone, strict=True))
        return Moved(added, whole[0], self._by_index(whole))

    def forget(self, changed: Sequence[tuple[Slice | None, Slice | None]]) -> None:
        """Forget the keys of slices that changed; they are read again when they are compared."""
        for pair in changed:
            for slice_ in pair:
                if slice_ is not None:
                    self._read.pop(slice_.key, None)

    def doubled_keys(self) -> int | None:
        """Return the number of keys in more than one of the slices; None if no keys are wanted."""
        return count_doubled([self._once(group)[0] for group in self._read]) if self._wants_keys else None

    def _once(self, group: Group) -> tuple[pa.Array, ...]:
        """Return the keys and entries of a slice that was read, each once; nothing if it was not."""
        if group in self._repeating and group in self._read:
            self._read[group] = tuple(pc.unique(each) for each in self._read[group])
        self._repeating.discard(group)
        return self._read.get(group, ())

    def _entries(
        self, slices: Sequence[Slice], read: Callable[..., tuple[pa.Array, ...]]
    ) -> dict[Group, tuple[pa.Array, ...]]:
        """Return the record keys of slices, then the entries of each secondary index."""
        config = self.state.config
        spec = computed_keys(config, self.state.log.properties.facts)
        columns = tuple(self._columns.values())
        tasks = key_tasks(self._session.ctx.storage, config, self.state.timeline, self._schema, spec, slices, columns)
        found = self._map("keys", partial(read, version=config.version), tasks)
        return {slice_.key: each for slice_, each in zip(slices, found, strict=True)}

    def _by_index(self, found: tuple[pa.Array, ...]) -> dict[str, pa.Array]:
        return dict(zip(self._columns, found[1:], strict=True))

    def _at(self, slice_: Slice, found: tuple[pa.Array, ...]) -> KeysAt:
        instant = slice_.base.instant if slice_.base is not None else slice_.logs[0].instant
        moment_ms = ms_of_instant(instant, self.state.zone)
        return KeysAt(*slice_.key, moment_ms, found[0], self._by_index(found))

    def _map(self, what: str, task: Callable[[I], R], inputs: Sequence[I]) -> list[R]:
        found: list[R] = []
        sizes = [getattr(one, "size_bytes", 0) for one in inputs]
        tally = Tally(self._progress, what, len(inputs), sum(sizes))
        for outcomes in in_waves(self._engine, task, inputs, self._monitor, WAVE):
            tally.add(sum(sizes[len(found) : len(found) + len(outcomes)]), len(outcomes))
            found += outcomes
            logger.info("%s: read %s of %s", what, len(found), len(inputs))
        return found


def _compared(pair: tuple[tuple[pa.Array, ...], tuple[pa.Array, ...]]) -> tuple[tuple[pa.Array, ...], ...]:
    """Return the added keys and entries of a slice, then the removed ones."""
    return tuple(zip(*(added_and_removed(*each) for each in zip(*pair, strict=True)), strict=True))
