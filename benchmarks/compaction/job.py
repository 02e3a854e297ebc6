"""One command to an engine's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        table: folder of the table.
        base: folder of the base rows.
        batches: folders of updates and deletes, in their order.
        partitioned: whether the table has partitions.
        buckets: file groups per partition, where the engine has such.
        memory_bytes: what one slice may take of memory, of ours; None: as the engine suggests.
    """

    table: str
    base: str
    batches: list[str]
    partitioned: bool
    buckets: int
    memory_bytes: int | None = None

    def files(self, folder: str) -> list[Path]:
        """The files of one of the folders."""
        return sorted(Path(folder).glob("*.parquet"))
