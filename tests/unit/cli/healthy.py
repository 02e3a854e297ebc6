"""The table that damages are done to, and what `verify` finds in it that a repair should end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.services.repair.repair import repairable
from hudi_ops.storage.local import LocalStorage
from hudi_ops.verify import verify_table
from tests.unit.cli.table_damages import DAMAGES, SCHEMA, rows

ROUNDS_MAX = 4
"""Number of repairs that follow each other: one may bring out what another repairs."""
REPAIRED = {name: damage for name, damage in DAMAGES.items() if set(damage.finds.split()) <= repairable()}


def make_healthy(path: Path) -> Path:
    """Make a merge-on-read table with base files, log files, and a metadata table with a record index."""
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["city"], ordering="ts",
        table_type="mor", index="record_index")  # fmt: skip
    table.ingest(rows(range(20), 1))
    table.ingest(rows(range(4), 2))
    landing = path.parent / "landing"
    landing.mkdir()
    (landing / "more.csv").write_text("id,ts,v,city\nk30,3,3,c0\n")
    table.ingest_folder(str(landing))
    return path


def sorted_rows(path: Path) -> pa.Table:
    """Return the rows of the table, by key."""
    return Table.open(str(path)).read().sort_by("id")


def findings(path: Path) -> set[str]:
    """Return the errors of a whole verification, and what can be repaired."""
    found = verify_table(LocalStorage(str(path)), deep=True, index=True).findings
    return {one.invariant for one in found if one.severity == "error" or one.invariant in repairable()}
