"""Where a view's files come from: by listing storage, or (a later room) from the metadata table."""

from __future__ import annotations

from typing import Protocol

from hudi_ops.files.names import parse_data_file
from hudi_ops.formats import partition_metadata
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.file_group import DataFile


class Listing(Protocol):
    """Files of a table, visible or not."""

    def partitions(self) -> list[str]:
        """Partition paths, sorted; `""` for a table without partitions."""
        ...

    def files(self, partition_path: str) -> list[DataFile]:
        """Base and log files of one partition, sorted by path; names that Apache Hudi would not read are left out."""
        ...


class StorageListing:
    """Lists folders. A partition is a folder with a `.hoodie_partition_metadata` file (docs/format.md §1.1)."""

    def __init__(self, storage: Storage, *, is_partitioned: bool) -> None:
        self._storage = storage
        self._is_partitioned = is_partitioned

    def partitions(self) -> list[str]:
        """Partition paths, sorted; walks the tree below the root, without `.hoodie`."""
        if not self._is_partitioned:
            return [""]
        found, todo = [], [""]
        while todo:
            prefix = todo.pop()
            folder = self._storage.list_folder(prefix)
            if prefix and any(info.name.startswith(partition_metadata.FILE_NAME) for info in folder.files):
                found.append(prefix)
            # A folder that begins with a dot may be a partition: other readers look into it too (docs/format.md §6.6).
            todo += [f"{prefix}/{name}" if prefix else name for name in folder.folders if prefix or name != ".hoodie"]
        return sorted(found)

    def files(self, partition_path: str) -> list[DataFile]:
        """Base and log files of one partition."""
        found = []
        for info in self._storage.list_folder(partition_path).files:
            name = parse_data_file(info.name)
            if name is not None:
                found.append(
                    DataFile(partition_path, info.path, name.file_id, name.instant, info.size_bytes, name.is_log)
                )
        return found
