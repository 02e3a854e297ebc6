"""Listed base and log files, with the facts that their names hold."""

from __future__ import annotations

from dataclasses import dataclass

CDC_SUFFIX = ".cdc"
"""Suffix of the names of change-data files."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One base or log file; `path` is relative to the table's root."""

    partition_path: str
    path: str
    file_id: str
    instant: str
    size_bytes: int
    is_log: bool = False

    @property
    def name(self) -> str:
        """Last segment of the path."""
        return self.path.rpartition("/")[2]

    @property
    def is_cdc(self) -> bool:
        """Whether it is a change-data file, which holds no rows of the table."""
        return self.is_log and self.path.endswith(CDC_SUFFIX)
