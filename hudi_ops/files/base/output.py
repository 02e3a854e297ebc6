"""Put a base file that a task made, and return its statistics for the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from hudi_ops.config.columns import FILE_NAME
from hudi_ops.files.names import data_path
from hudi_ops.files.new_files import NewFile, put_files
from hudi_ops.kernels.meta_columns import with_file_name
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat


class Previous(Protocol):
    """Name the base file that is replaced, and the instant that wrote it."""

    @property
    def name(self) -> str:
        """Its file name."""
        ...

    @property
    def instant(self) -> str:
        """Request time of its writer."""
        ...


@dataclass(frozen=True)
class BaseFileOutput:
    """Name a base file to put; `previous` is the one that it replaces in its file group."""

    storage: Storage
    instant: str
    partition_path: str
    file_id: str
    name: str
    previous: Previous | None

    @property
    def path(self) -> str:
        """Its path below the table's root."""
        return data_path(self.partition_path, self.name)

    def named(self, rows: pa.Table, stored: pa.Schema) -> pa.Table:
        """Add the file name column to rows, which have the other `stored` columns."""
        place = stored.get_field_index(FILE_NAME)
        if place < 0:
            return rows
        empty = pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
        return with_file_name(rows.add_column(place, stored.field(place), empty), self.name)

    def file(self, body: pa.Buffer | memoryview) -> NewFile:
        """Return the file to put."""
        return NewFile(self.path, body, replaces=self.previous is not None, may_be_first=self.previous is None)

    def put(self, body: pa.Buffer | memoryview) -> None:
        """Put the file at once; see `put_files`."""
        put_files(self.storage, self.instant, [self.file(body)])

    def stat(
        self,
        rows: int,
        size_bytes: int,
        *,
        inserted: int,
        updated: int,
        deleted: int,
        other: Mapping[str, Any] | None = None,
    ) -> WriteStat:
        """Return the statistics of the file for the commit metadata.

        `inserted` counts rows with keys that are new to the group, `updated` rows that replace others, `deleted` removed rows.
        """
        return WriteStat(
            file_id=self.file_id,
            path=self.path,
            partition_path=self.partition_path,
            prev_commit=self.previous.instant if self.previous is not None else "null",
            prev_base_file=self.previous.name if self.previous is not None else None,
            num_writes=rows,
            num_inserts=inserted,
            num_update_writes=updated,
            num_deletes=deleted,
            total_write_bytes=size_bytes,
            file_size_in_bytes=size_bytes,
            other=dict(other or {}),
        )
