"""Tables of a `tables.yaml` on disk, for looks at them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hudi_ops.config.tables_file import TableLocation, locate_table
from hudi_ops.table.table import Table

YAML = """
tables:
  trips: {path: tables/trips, record_key: [id], type: mor, buckets: 1}
  riders: {path: tables/riders, record_key: [id]}
"""


def declared(home: Path) -> str:
    """A `tables.yaml` with `trips` and `riders`, as a path."""
    file = home / "tables.yaml"
    file.write_text(YAML, encoding="utf-8")
    return str(file)


def made(home: Path, name: str = "trips", rounds: int = 2) -> Table:
    """Make a declared table, with some commits."""
    table = Table.create(
        home / "tables" / name, name=name, record_key=["id"], schema="id string, v int64", table_type="mor"
    )
    for version in range(rounds):
        written(table, version)
    return table


def written(table: Table, version: int = 0) -> str:
    """Write two rows; return the instant."""
    instant = table.ingest(pa.table({"id": ["a", "b"], "v": [version] * 2})).instant
    assert instant is not None
    return instant


def located(home: Path, name: str = "trips") -> TableLocation:
    """The location of a declared table."""
    return locate_table(name, home / "tables.yaml")
