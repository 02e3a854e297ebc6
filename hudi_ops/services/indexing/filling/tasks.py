"""Read statistics of files and keys of slices for a build of the metadata table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.monitor import LeaseMonitor
from hudi_ops.engine.progress import Progress, Tally
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.slice.slice_keys import keys_of_slice
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.doubled_keys import count_doubled, key_tasks
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.metadata.definitions import Statistics
from hudi_ops.metadata.index_kind import KeysAt
from hudi_ops.metadata.kinds.registry import kinds_of, wanted_by
from hudi_ops.metadata.records.records import no_keys
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


class FactReader:
    """Reads the statistics and keys for one build, through its engine.

    Args:
        monitor: of the build's lease; it is checked between waves, and stops one that runs.
        schema: the table's columns, without meta columns.
    """

    def __init__(
        self,
        session: Session,
        state: TableState,
        engine: Engine,
        monitor: LeaseMonitor,
        progress: Callable[[Progress], None],
        schema: pa.Schema,
        partitions: Sequence[str],
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
        self._keys: dict[Group, pa.Array] = {}

    def facts(self, files: Sequence[DataFile]) -> list[FileStatistics]:
        """Return the wanted statistics of files; none if none are wanted."""
        if not self._wanted:
            return []
        template = FileStatisticsTask(self._session.ctx.storage, "", 0, self._stored, self._wanted)
        tasks = [replace(template, path=file.path, size_bytes=file.size_bytes) for file in files if not file.is_cdc]
        return self._map("files", statistics_of_file, tasks)

    def located(self, slices: Sequence[Slice]) -> list[KeysAt]:
        """Return the keys of slices if the build needs keys; keep them for later comparison."""
        if not self._wants_keys:
            return []
        config = self.state.config
        spec = computed_keys(config, self.state.log.properties.facts)
        tasks = key_tasks(self._session.ctx.storage, config, self.state.timeline, self._schema, spec, slices)
        found = self._map("keys", keys_of_slice, tasks)
        self._keys |= {slice_.key: keys for slice_, keys in zip(slices, found, strict=True)}
        return [self._at(slice_, keys) for slice_, keys in zip(slices, found, strict=True)]

    def moved(self, changed: Sequence[tuple[Slice | None, Slice | None]]) -> tuple[list[KeysAt], pa.Array]:
        """Return the new keys of changed slices, and the keys that none of them has any more."""
        if not self._wants_keys:
            return [], no_keys()
        # A build that an earlier executor announced has not read them.
        self.located([before for before, _ in changed if before is not None and before.key not in self._keys])
        groups = [slice_.key for pair in changed if (slice_ := pair[1] or pair[0]) is not None]
        before = [self._keys.pop(group, no_keys()) for group in groups]
        new = self.located([after for _, after in changed if after is not None])
        of_group = {(keys.partition_path, keys.file_id): keys for keys in new}
        added: list[KeysAt] = []
        gone = [no_keys()]
        for group, old in zip(groups, before, strict=True):
            now = of_group.get(group)
            if now is not None:
                added.append(replace(now, keys=_without(now.keys, old)))
            gone.append(_without(old, now.keys) if now is not None else old)
        return added, joined(gone, pa.string())

    def forget(self, changed: Sequence[tuple[Slice | None, Slice | None]]) -> None:
        """Forget the keys of slices that changed; they are read again when they are compared."""
        for pair in changed:
            for slice_ in pair:
                if slice_ is not None:
                    self._keys.pop(slice_.key, None)

    def doubled_keys(self) -> int | None:
        """Return the number of keys in more than one of the slices; None if no keys are wanted."""
        return count_doubled(list(self._keys.values())) if self._wants_keys else None

    def _at(self, slice_: Slice, keys: pa.Array) -> KeysAt:
        instant = slice_.base.instant if slice_.base is not None else slice_.logs[0].instant
        return KeysAt(*slice_.key, ms_of_instant(instant, self.state.zone), keys)

    def _map(self, what: str, task: Callable[[I], R], inputs: Sequence[I]) -> list[R]:
        found: list[R] = []
        sizes = [getattr(one, "size_bytes", 0) for one in inputs]
        tally = Tally(self._progress, what, len(inputs), sum(sizes))
        for outcomes in in_waves(self._engine, task, inputs, self._monitor, WAVE):
            tally.add(sum(sizes[len(found) : len(found) + len(outcomes)]), len(outcomes))
            found += outcomes
            logger.info("%s: read %s of %s", what, len(found), len(inputs))
        return found


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """Return the keys that are not among others."""
    return keys.filter(pc.invert(pc.is_in(keys, others)))
