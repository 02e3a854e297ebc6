"""Tables with one partition and some versions of its rows, for tests of savepoints and restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops import Table
from tests.tables import VERSIONED, versioned


def made(folder: Path, kind: Any, metadata: bool, version: int = 9) -> tuple[Table, Path]:
    """A table with one partition and three versions of its rows."""
    path = folder / "table"
    table = Table.create(
        str(path),
        name="saved",
        record_key=["id"],
        schema=VERSIONED,
        partition_by=["part"],
        ordering="ts",
        table_type=kind,
        buckets=1,
        metadata=metadata,
        version=version,
    )
    for number in (1, 2, 3):
        table.ingest(versioned(0, 6, number))
    return table, path


def values(table: pa.Table) -> dict[str, int]:
    """Values by key."""
    return dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))
