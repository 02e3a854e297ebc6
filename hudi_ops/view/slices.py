"""Describe file slices: a base file, and the log files upon it (docs/format §9.1, §9.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from hudi_ops.config.table import TableConfig
from hudi_ops.files.names import log_order, parse_data_file
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.listing import StorageListing

METADATA_TABLE_KEYS = "HOODIE_TABLE_METADATA"
"""Key generator of metadata tables, which have partitions but no partition fields."""


@dataclass(frozen=True)
class Slice:
    """One file group as readers see it now; `logs` are in the order in which they are merged."""

    partition_path: str
    file_id: str
    base: DataFile | None
    logs: tuple[DataFile, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Partition path and file id."""
        return self.partition_path, self.file_id

    @property
    def base_bytes(self) -> int:
        """Bytes of the base file."""
        return self.base.size_bytes if self.base is not None else 0

    @property
    def log_bytes(self) -> int:
        """Bytes of the log files."""
        return sum(file.size_bytes for file in self.logs)

    @property
    def bytes_in(self) -> int:
        """Bytes that a merge of the slice reads."""
        return self.base_bytes + self.log_bytes


def is_partitioned(config: TableConfig) -> bool:
    """Whether rows lie in folders below the table's root."""
    return bool(config.partition_fields) or config.key_generator == METADATA_TABLE_KEYS


def list_table(storage: Storage, config: TableConfig) -> FileColumns:
    """List data files by partition path, in parallel."""
    return StorageListing(storage, is_partitioned=is_partitioned(config)).walk().files


def replaced_groups(commits: CommitReader, timeline: Timeline) -> frozenset[tuple[str, str]]:
    """Return (partition path, file id) of the groups that completed replace commits hide.

    Raises:
        Corrupt: commit metadata cannot be read.
    """
    writes = (write for write in timeline.completed_writes if write.kind == "replacecommit")
    read = (commits.metadata(timeline, write) for write in writes)
    return frozenset(group for metadata in read if metadata is not None for group in metadata.replaced_groups)


def merge_order(logs: Iterable[DataFile]) -> tuple[DataFile, ...]:
    """Sort the log files of a slice by request time, the order in which they are merged."""
    return tuple(sorted(logs, key=lambda log: merge_key(log.path)))


@lru_cache(maxsize=65_536)
def merge_key(path: str) -> tuple[str, int, str, bool]:
    """Return the sort key of a log file within its slice."""
    last = path.rpartition("/")[2]
    name = parse_data_file(last)
    return log_order(name) if name is not None else ("", 0, last, False)
