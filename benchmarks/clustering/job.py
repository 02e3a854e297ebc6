"""One command to an engine's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        table: folder of the table.
        base: folder of its rows.
        curve: order of the rows, in the words of `SortOrder`.
        columns: sort columns.
        partitioned: whether the table has partitions.
        files: files of each partition before the clustering.
        outputs: files of each partition after it, of ours.
        memory_bytes: memory that one task may take, of ours.
    """

    table: str
    base: str
    curve: str
    columns: list[str]
    partitioned: bool
    files: int
    outputs: int
    memory_bytes: int

    def sources(self) -> list[Path]:
        """The source files."""
        return sorted(Path(self.base).glob("*.parquet"))
