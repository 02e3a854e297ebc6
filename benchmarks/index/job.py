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
        updates: folder of rows that are written into log files; empty: none.
        buckets: of the table, before the resize.
        split_bytes: size above which a bucket is split.
    """

    table: str
    base: str
    updates: str
    buckets: int
    split_bytes: int

    def sources(self, folder: str) -> list[Path]:
        """The source files of a folder."""
        return sorted(Path(folder).glob("*.parquet"))
