"""Tables on disk with small files that a clustering would merge."""

from __future__ import annotations

from pathlib import Path

from tests.unit.health.states_read_cost import batch, table_at


def small_files_missed(tmp_path: Path) -> str:
    """A table with three small files in each of two partitions, and one in a third."""
    table = table_at(tmp_path / "small", table_type="cow", index="bloom")
    for number in range(3):
        table.ingest(batch(number * 20, number * 20 + 20, parts=2), operation="bulk_insert")
    table.ingest(batch(2_000, 2_003, parts=3), operation="bulk_insert")
    return str(tmp_path / "small")
