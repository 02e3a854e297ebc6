"""Metadata table at one reading: merged records of its partitions (docs/format §14)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Corrupt, Unavailable
from hudi_ops.formats.large_arrays import as_bytes, narrowed
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.merge import current, merge
from hudi_ops.metadata.reader.slice_files import WantedRecords, read_records
from hudi_ops.metadata.reader.slices import MetadataSlice, count_groups, list_partition, newer_bases, newest_slices
from hudi_ops.metadata.records.keys import SECONDARY_V2, secondary_prefix
from hudi_ops.metadata.records.partitions import FOLDER, group_numbers, rebuild_command
from hudi_ops.metadata.records.records import Records, empty
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.storage.protocol import Folder, Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.view.listing import is_near

logger = logging.getLogger(__name__)

NEAR_BYTES = 8 << 20
"""Files of a near storage up to this size are read one after the other: starting threads takes longer."""

_ALONE = LocalEngine(1)
_OLDEST_VERSION = 8


class MetadataTable:
    """Metadata table of a data table, beside one reading of that table's timeline.

    Created by `open_metadata`. Partitions are listed on first use, each once. Not safe between threads.
    """

    def __init__(
        self, storage: Storage, config: TableConfig, instants: MetadataInstants, engine: LocalEngine | None = None
    ) -> None:
        self._storage = storage
        self._config = config
        self._engine = engine or LocalEngine()
        self._listed: dict[str, tuple[MetadataSlice, ...]] = {}
        self._is_current: bool | None = None
        self._is_far = not is_near(storage.uri)
        self.instants = instants
        """Instants that count."""

    @property
    def storage(self) -> Storage:
        """Storage of the data table."""
        return self._storage

    @property
    def version(self) -> int:
        """Version of the table."""
        return self._config.version

    def holds(self, partition: str) -> bool:
        """Return whether a partition is complete, and keys are hashed to its groups by number.

        One that is being filled may still lack records.
        """
        return partition in self._config.metadata_partitions and bool(self.slices(partition))

    @property
    def is_current(self) -> bool:
        """Whether all its records are of writes that are complete on the timeline as read.

        Records of a file are always true; the location of a key, or the content of a partition, may be later than the timeline.
        The timeline is listed once more if it is needed.
        """
        if self._is_current is None:
            unseen = self.instants.unseen
            again = load_timeline(self._storage, self._config) if unseen else self.instants.data
            self._is_current = not any(again.find(time) for time in unseen)
        return self._is_current

    def slices(self, partition: str) -> tuple[MetadataSlice, ...]:
        """Return the newest slice of each file group by number; none if groups have no numbers.

        Raises:
            Unavailable: the metadata table was compacted since its timeline was listed, and may have been cleaned: open it again.
        """
        if partition not in self._listed:
            folder = list_partition(self._storage, partition)
            self._refuse_outrun(partition, folder)
            is_plain = bool(count_groups(partition, folder))
            self._listed[partition] = newest_slices(partition, folder, self.instants) if is_plain else ()
        return self._listed[partition]

    def read(self, partition: str) -> Records:
        """Read all records of a partition.

        Raises:
            Corrupt: a file does not follow its format, or `holds` says no.
            Unsupported: a log block that counts is of a kind that is not read.
            Unavailable: a file is gone, or the storage did not deliver it.
        """
        return self._merged(partition, self.parts(partition))

    def lookup(self, partition: str, keys: pa.Array | Sequence[str]) -> Records:
        """Read the records with these keys, from the groups they hash to; raise as `read`."""
        return self._merged(partition, self.parts(partition, keys=keys))

    def parts(
        self,
        partition: str,
        *,
        keys: pa.Array | Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Records]]:
        """Return per file group its unmerged parts, oldest first; raise as `read` does.

        `prefixes` of keys are looked up in all file groups.
        """
        groups = self._groups(partition)
        if keys is not None:
            return self._parts(partition, self._by_group(partition, groups, keys))
        wanted = WantedRecords(
            prefixes=None if prefixes is None else tuple(sorted({prefix.encode() for prefix in prefixes}))
        )
        return self._parts(partition, [(group, wanted) for group in groups])

    def of_values(self, partition: str, values: Sequence[str]) -> Records:
        """Read the records of a secondary index for these values; raise as `read`."""
        prefixes = pa.array([secondary_prefix(value, self.version) for value in values], pa.string())
        groups = self._groups(partition)
        if self.version < SECONDARY_V2:
            return self._merged(partition, self.parts(partition, prefixes=prefixes.to_pylist()))
        numbers = group_numbers(prefixes, len(groups), partition, self.version)
        wanted = []
        for number in np.unique(numbers).tolist():
            own = prefixes.filter(pa.array(numbers == number)).to_pylist()
            wanted.append((groups[number], WantedRecords(prefixes=tuple(sorted({one.encode() for one in own})))))
        return self._merged(partition, self._parts(partition, wanted))

    def _by_group(
        self, partition: str, groups: Sequence[MetadataSlice], keys: pa.Array | Sequence[str]
    ) -> list[tuple[MetadataSlice, WantedRecords]]:
        wanted = pc.unique(keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string()))
        wanted = wanted.take(pc.sort_indices(as_bytes(wanted)))
        numbers = group_numbers(wanted, len(groups), partition, self.version)
        return [
            (groups[number], WantedRecords(keys=narrowed(wanted.filter(pa.array(numbers == number)))))
            for number in np.unique(numbers).tolist()
        ]

    def _refuse_outrun(self, partition: str, folder: Folder) -> None:
        """Refuse a listing that a compaction may have outrun.

        If slices were cleaned before the folder was listed, reading again finds newer base files.

        Raises:
            Unavailable: as `slices` does.
        """
        newer = newer_bases(partition, folder, self.instants)
        if not newer:
            return
        again = replace(self.instants, own=load_metadata_timeline(self._storage))
        completed = sorted(time for time in newer if again.is_committed(time))
        if completed:
            raise Unavailable(
                f"the metadata table was compacted at {completed[-1]} while it was opened",
                table=self._config.name,
                path=f"{FOLDER}/{partition}",
                expected="base files of instants that its timeline had when it was listed",
                found=", ".join(completed),
                next_step="read again",
            )

    def _groups(self, partition: str) -> tuple[MetadataSlice, ...]:
        if not self.holds(partition):
            raise Corrupt(
                f"the metadata table has no readable partition {partition}",
                table=self._config.name,
                expected=f"{FOLDER}/{partition} with file groups from 0000 on, and its name in the properties",
                found=", ".join(self._config.metadata_partitions) or "none",
                next_step=f"run {rebuild_command(partition)}",
            )
        return self.slices(partition)

    def _parts(self, partition: str, wanted: Sequence[tuple[MetadataSlice, WantedRecords]]) -> list[list[Records]]:
        """Read the wanted records of each slice; files are read in parallel where that pays."""
        files = [(number, file, one) for number, (held, one) in enumerate(wanted) for file in held.files]
        engine = self._engine if self._is_far or sum(file.size_bytes for _, file, _ in files) > NEAR_BYTES else _ALONE
        read = engine.map(
            lambda task: read_records(self._storage, partition, *task[1:], self.instants.counts, self.version), files
        )
        parts: list[list[Records]] = [[] for _ in wanted]
        for (number, _, _), of_file in zip(files, read, strict=True):
            parts[number] += [records for records in of_file if records]
        return parts

    def _merged(self, partition: str, parts: Sequence[Sequence[Records]]) -> Records:
        # From the oldest on: a deleted file cancels only an older entry.
        merged = [reduce(self._merge, part) for part in parts if part]
        while len(merged) > 1:
            # Of groups, which share no key; as a tree, since each merge copies.
            pairs = [self._merge(records, other) for records, other in zip(merged[::2], merged[1::2], strict=False)]
            merged = [*pairs, *merged[len(pairs) * 2 :]]
        found = current(merged[0], version=self.version) if merged else empty(partition, record_schema(self.version))
        return replace(found, deletes=found.deletes.slice(0, 0))

    def _merge(self, older: Records, newer: Records) -> Records:
        return merge(older, newer, version=self.version)


def open_metadata(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    engine: LocalEngine | None = None,
    archived: ArchivedTimes | None = None,
) -> MetadataTable | None:
    """Open the metadata table of a data table; None if there is no reliable one.

    There is none in versions before 8, where the properties name no partition, and where its folder is gone; one that lacks
    completed writes of the data table is ignored with a warning. `timeline` must have been read before.
    """
    if config.version < _OLDEST_VERSION or not config.metadata_partitions:
        return None
    instants = MetadataInstants(load_metadata_timeline(storage), timeline, archived or ArchivedTimes(storage))
    if not instants.own.completed_writes:
        logger.warning(
            "the properties of %s name a metadata table that does not exist: storage is listed; run %s",
            config.name,
            rebuild_command(),
        )
        return None
    if instants.missing:
        logger.warning(
            "the metadata table of %s is not used: it lacks %d completed writes, the first %s; run %s",
            config.name,
            len(instants.missing),
            instants.missing[0],
            rebuild_command(),
        )
        return None
    return MetadataTable(storage, config, instants, engine)
