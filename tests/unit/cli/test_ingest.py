"""`hudi-ops ingest --source FILE`: one file, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def test_one_file_is_taken_once(trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    for name, row in (("second", "d@Oslo"), ("third", "e@Rome")):
        pq.write_table(rows(row), home / "landing" / f"{name}.parquet")
    file = home / "landing" / "third.parquet"
    preview = call("ingest", "trips", "--source", file, "--dry-run", "--json").json
    assert [found["path"] for found in preview["files"]] == ["third.parquet"]
    assert call("ingest", "trips", "--source", file, "--json").json["inserted"] == 1
    assert call("ingest", "trips", "--source", file, "--json").json["instant"] is None
    # The folder's own ingest takes the other file alone.
    assert call("ingest", "trips", "--json").json["files"] == 1


def test_a_file_of_an_unknown_kind_is_refused(trips: Path, home: Path, call: Callable[..., Any]) -> None:
    (home / "landing" / "notes.txt").write_text("hello")
    answer = call("ingest", "trips", "--source", home / "landing" / "notes.txt")
    assert answer.code == 2
    assert "notes.txt is not CSV, JSON lines or Parquet" in answer.err
