"""One command to a reader's process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        table: unused; the harness passes a folder of its own.
        path: folder of the table to read.
        columns: names; None: all.
        partition: the one partition whose rows are wanted; None: of all.
        key: the one record key that is wanted; None: all.
        keeps: what an earlier read of this process kept may be used.
    """

    table: str
    path: str
    columns: list[str] | None
    partition: str | None
    key: str | None
    keeps: bool

    @property
    def where(self) -> str | None:
        """The condition as SQL; None: all rows."""
        if self.partition is not None:
            return f"dt = '{self.partition}'"
        return f"record_key = '{self.key}'" if self.key is not None else None
