"""Tables on disk that processes of the past left: the command line, which has the clock of this machine, finds them old."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from tests.definitions import create_table
from tests.tables import BY_HAND, DEFINITION, rows, table_of

HOUR_MS = 3_600_000


class Aged:
    """A table on disk and the clock of its processes, which begins some hours ago."""

    def __init__(self, folder: Path, definition: Any = DEFINITION, *batches: pa.Table, hours: float = 48) -> None:
        self.path = str(folder / "aged")
        self.clock = ManualClock(SystemClock().now_ms() - round(hours * HOUR_MS), tick_ms=1)
        create_table(self.table("creator")._session, definition)
        for batch in batches:
            self.table("writer").ingest(batch)

    def table(self, actor: str, **settings: Any) -> Table:
        """The table in a process of the past, which neither cleans nor archives by itself."""
        return table_of(open_storage(self.path), self.clock, actor, **{"upkeep": BY_HAND, **settings})

    def put(self, path: str, body: bytes = b"") -> None:
        """Put a file as another program does."""
        open_storage(self.path).put(path, body)

    def date_back(self, instant: str, hours: float = 1) -> None:
        """Let the heartbeat of an instant be that old."""
        beaten_s = SystemClock().now_ms() / 1000 - hours * 3600
        os.utime(Path(self.path) / lease_path(instant), (beaten_s, beaten_s))


def batch(part: str, value: int) -> pa.Table:
    """Eight rows of a partition."""
    return rows(*((f"{part}-{n}", part, value, value, None) for n in range(8)))
