"""Tables on disk with too long a timeline, which something keeps archives from shortening."""

from __future__ import annotations

from pathlib import Path

from tests.unit.health.kept_tables import Kept, kept_table


def timeline_missed(tmp_path: Path) -> str:
    """A table with twelve writes, of which archives keep four."""
    return long_table(tmp_path).path


def long_table(tmp_path: Path, name: str = "long", writes: int = 12, **definition: object) -> Kept:
    """A table with more writes than the four that archives keep."""
    table = kept_table(tmp_path, name, **definition)
    for _ in range(writes):
        table.write(0)
    return table
