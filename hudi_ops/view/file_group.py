"""Values of a view: base and log files, as listed, with what their names say."""

from __future__ import annotations

from dataclasses import dataclass

CDC_SUFFIX = ".cdc"
"""End of the name of a log of changes."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One base or log file. `path` is relative to the table's root, sizes in bytes."""

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
        """Whether it is a log of changes, which holds no rows of the table's."""
        return self.is_log and self.path.endswith(CDC_SUFFIX)
