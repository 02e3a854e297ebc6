"""One command to an engine's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        table: folder of the table.
        source: folder of the rows to write; None with `prepare` of an empty table.
        table_type: `cow` or `mor`.
        partitioned: whether the table has partitions.
        buckets: file groups per partition, where the variant has such.
        operation: `upsert`, `insert` or `bulk_insert`.
        in_memory: the rows are few, and handed over as a table instead of files.
        options: the variant's own settings.
    """

    table: str
    source: str | None
    table_type: str
    partitioned: bool
    buckets: int
    operation: str
    in_memory: bool
    options: dict[str, Any]

    @property
    def files(self) -> list[Path]:
        """The source's files."""
        return sorted(Path(self.source).glob("*.parquet")) if self.source is not None else []
