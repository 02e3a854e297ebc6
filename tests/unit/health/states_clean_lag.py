"""Tables on disk that need a clean."""

from __future__ import annotations

from pathlib import Path

from tests.unit.health.kept_tables import kept_table


def clean_lag_missed(tmp_path: Path) -> str:
    """A table whose rows were replaced ten times, and that was never cleaned."""
    table = kept_table(tmp_path)
    for _ in range(10):
        table.write(0, 1)
    return table.path
