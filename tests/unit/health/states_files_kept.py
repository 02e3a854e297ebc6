"""Tables on disk of which savepoints, holds and plans keep most files."""

from __future__ import annotations

from pathlib import Path

from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from tests.unit.health.kept_tables import kept_table


def files_kept_missed(tmp_path: Path) -> str:
    """A table with two savepoints, a hold and a pending compaction below most of its writes."""
    upkeep = UpkeepSettings(CleanSettings(automatic=True, retain=1), ArchiveSettings())
    table = kept_table(tmp_path, "held", upkeep, table_type="MERGE_ON_READ")
    for _ in range(2):
        table.write(0, 1)
        table.table().savepoints.create()
        table.table().compaction.run(threshold=1)
    table.table().holds.take(table.write(0, 1), seconds=500 * 3600)
    table.table().compaction.plan(threshold=1)
    for _ in range(6):
        table.write(1, operation="insert_overwrite")
    return table.path
