"""Tasks that read file statistics and slice keys for the metadata table, each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.slice.slice_keys import keys_of_slice
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.doubled_keys import count_doubled, key_tasks
from hudi_ops.index.simple_bucket import computed_keys
from hudi_ops.metadata.definitions import Statistics
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import no_keys
from hudi_ops.metadata.writer.building import KeysAt, without
from hudi_ops.services.indexing.diff import Group
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

WAVE = 256
"""Tasks that an engine is given at a time: between two waves it is asked whether the build still stands."""

_WITH_RANGES = frozenset({MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS})

I = TypeVar("I")  # noqa: E741 - input of a task
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a build: finished tasks, each a file or the keys of a slice."""

    what: str
    done: int
    total: int


class FactReader:
    """Reads for one build, through its engine.

    Args:
        session: the table.
        state: of the first look.
        engine: runs the tasks.
        check: asked between waves; raises when the build is to end.
        progress: told after each wave.
        schema: the table's columns, without meta columns.
        partitions: that are built.
        statistics: which columns have them.
    """

    def __init__(
        self,
        session: Session,
        state: TableState,
        engine: Engine,
        check: Callable[[], None],
        progress: Callable[[Progress], None],
        schema: pa.Schema,
        partitions: Sequence[MetadataPartition],
        statistics: Statistics,
    ) -> None:
        self._session = session
        self.state = state
        """Which log blocks count, and how instants are to be read; to be set to that of each new look."""
        self._engine = engine
        self._check = check
        self._progress = progress
        self._schema = schema
        self._stored = stored_schema(schema, state.config.populate_meta_fields)
        self._wanted = StatisticsRequest(
            statistics.columns if _WITH_RANGES & set(partitions) else (),
            bloom=MetadataPartition.BLOOM_FILTERS in partitions,
        )
        self._wants_keys = MetadataPartition.RECORD_INDEX in partitions
        self._keys: dict[Group, pa.Array] = {}

    def facts(self, files: Sequence[DataFile]) -> list[FileStatistics]:
        """Facts of files, where any are wanted."""
        if not self._wanted:
            return []
        template = FileStatisticsTask(self._session.ctx.storage, "", 0, self._stored, self._wanted)
        tasks = [replace(template, path=file.path, size_bytes=file.size_bytes) for file in files if not file.is_cdc]
        return self._map("files", statistics_of_file, tasks)

    def located(self, slices: Sequence[Slice]) -> list[KeysAt]:
        """Return the keys of slices with their places, by the time of the slices.

        Keys are kept and compared with later ones.
        """
        if not self._wants_keys:
            return []
        config = self.state.config
        spec = computed_keys(config, self.state.log.properties.facts)
        tasks = key_tasks(self._session.ctx.storage, config, self.state.timeline, self._schema, spec, slices)
        found = self._map("keys", keys_of_slice, tasks)
        for one, keys in zip(slices, found, strict=True):
            self._keys[one.partition_path, one.file_id] = keys
        return [self._at(one, keys) for one, keys in zip(slices, found, strict=True)]

    def moved(self, changed: Sequence[tuple[Slice | None, Slice | None]]) -> tuple[list[KeysAt], pa.Array]:
        """Return keys that changed slices gained, by slice, and keys that no slice has any more."""
        if not self._wants_keys:
            return [], no_keys()
        groups = [(one.partition_path, one.file_id) for pair in changed if (one := pair[1] or pair[0]) is not None]
        before = [self._keys.pop(group, no_keys()) for group in groups]
        new = self.located([after for _, after in changed if after is not None])
        of_group = {(one.partition_path, one.file_id): one for one in new}
        came: list[KeysAt] = []
        gone = [no_keys()]
        for group, old in zip(groups, before, strict=True):
            now = of_group.get(group)
            if now is not None:
                came.append(replace(now, keys=without(now.keys, old)))
            gone.append(without(old, now.keys) if now is not None else old)
        return came, joined(gone, pa.string())

    def doubled_keys(self) -> int | None:
        """Count the record keys in more than one slice, as last read; None if keys are not read."""
        if not self._wants_keys:
            return None
        return count_doubled(list(self._keys.values()))

    def _at(self, one: Slice, keys: pa.Array) -> KeysAt:
        instant = one.base.instant if one.base is not None else one.logs[0].instant
        return KeysAt(one.partition_path, one.file_id, ms_of_instant(instant, self.state.zone), keys)

    def _map(self, what: str, task: Callable[[I], R], inputs: Sequence[I]) -> list[R]:
        found: list[R] = []
        for start in range(0, len(inputs), WAVE):
            self._check()
            found += self._engine.map(task, inputs[start : start + WAVE])
            self._progress(Progress(what, len(found), len(inputs)))
        return found
