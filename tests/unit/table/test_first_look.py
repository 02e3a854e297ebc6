"""What a user sees first: the package's names and version, and how objects look in a shell and in a notebook."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_ops
from hudi_ops import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path / "t", name="trips", record_key="id", schema="id string, fare double")


def test_every_public_name_is_there() -> None:
    assert {"Table", "Scan", "IngestResult", "InvalidRequest", "Conflict", "__version__"} <= set(dir(hudi_ops))
    assert dir(hudi_ops) == sorted(hudi_ops.__all__)
    for name in dir(hudi_ops):
        assert getattr(hudi_ops, name) is not None
    assert hudi_ops.__version__ == version("hudi-ops")
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        _ = hudi_ops.Tabel  # codespell:ignore tabel


def test_the_import_loads_nothing_heavy() -> None:
    code = "import hudi_ops, sys; print([name for name in ('pyarrow', 'pydantic', 'importlib.metadata') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_objects_show_what_they_are(table: Table) -> None:
    result = table.ingest(pa.table({"id": ["a", "<b>"], "fare": [1.0, 2.0]}))
    assert repr(table) == f"Table('{table.context.storage.uri}')"
    assert repr(table.scan(["id"])).startswith("Scan(trips: columns 1, partitions 1, file groups ")
    assert repr(table.changes()).startswith("Changes(trips: columns 2, ")
    assert f"instant='{result.instant}'" in repr(result)


def test_objects_are_tables_in_a_notebook(table: Table) -> None:
    result = table.ingest(pa.table({"id": ["a", "<b>"], "fare": [1.0, 2.0]}))
    for shown, parts in (
        (table, ["Table trips", "COPY_ON_WRITE", "<th style='text-align:left'>fare</th>", "double"]),
        (table.scan(), ["Scan of trips", "file groups", "string"]),
        (result, ["IngestResult", "upsert", "rows_in", str(result.instant)]),
    ):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
        assert all(part in html for part in parts), html
