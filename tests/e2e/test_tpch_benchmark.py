"""TPC-H `lineitem` keeps its rows through upserts, services and a killed compaction; DuckDB is the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tpch.measure import main
from tests.bounds import bound

SCALE, MEMORY_MB = bound(("0.02", "64"), ("0.02", "64"), ("1", "256"))


def test_upserts_and_services_leave_the_rows_of_duckdb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--scale", SCALE, "--memory-mb", MEMORY_MB, "--upserts", "10", "--duckdb-mb", "2000"]
    assert main([*options, "--work", str(tmp_path / "work")]) == 0
    said = capsys.readouterr().out
    assert "- rows equal: True" in said
    assert "- killed: compaction 2, then resumed" in said
