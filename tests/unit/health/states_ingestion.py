"""Tables whose newest rows are old."""

from __future__ import annotations

from pathlib import Path

from tests.tables import MERGE_ON_READ
from tests.unit.health.aged import Aged, batch


def ingestion_missed(tmp_path: Path) -> str:
    """A table whose newest rows are two days old, and whose compaction is a day old."""
    aged = Aged(tmp_path, MERGE_ON_READ, batch("p0", 1), batch("p0", 2))
    aged.clock.advance_ms(24 * 3_600_000)
    aged.table("compactor").compaction.run()
    return aged.path
