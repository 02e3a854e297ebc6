"""`hudi-ops restore`: the preview, the question, the result, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops import Table
from tests.unit.cli.terminal import at_terminal


@pytest.fixture
def saved(trips: Path, rows: Callable[..., Any]) -> str:
    """A savepoint of the table's rows, and a write above it."""
    table = Table.open(trips)
    instant = table.savepoints.create().instant
    table.ingest(rows("z@Oslo"))
    return instant


def test_a_dry_run_changes_nothing_and_yes_restores(trips: Path, saved: str, call: Callable[..., Any]) -> None:
    before = Table.open(trips).read().num_rows
    shown = call("restore", "trips", "--dry-run")
    assert (shown.code, shown.out.splitlines()[0]) == (
        0,
        f"trips, savepoint {saved}: would undo 1 write (1 file, {_size(shown)})",
    )
    assert Table.open(trips).read().num_rows == before
    done = call("restore", "trips", saved, "--yes", "--json")
    told = done.json
    assert (done.code, told["savepoint"], len(told["undone"]), told["files"]) == (0, saved, 1, 1)
    assert Table.open(trips).read().num_rows == before - 1
    again = call("restore", "trips", "--yes")
    assert again.out.strip() == f"trips is at savepoint {saved}: no write completed after the savepoint"


def _size(answer: Any) -> str:
    return str(answer.out.splitlines()[0].rpartition(", ")[2].rstrip(")"))


@pytest.mark.full("asks at a terminal of its own")
def test_consent_is_asked_for(trips: Path, home: Path, saved: str, call: Callable[..., Any]) -> None:
    refused = call("restore", "trips")
    assert refused.code == 2
    assert "undos" not in refused.err
    code, seen = at_terminal(home, "n\n", "restore", "trips")
    assert code == 12
    assert "Undo 1 write, 1 file of trips?" in seen
    assert Table.open(trips).read(["id"])["id"].to_pylist().count("z") == 1


def test_without_a_savepoint_it_tells_how_to_make_one(trips: Path, call: Callable[..., Any]) -> None:
    answer = call("restore", "trips", "--yes")
    assert answer.code == 2
    assert "the table has no savepoint" in answer.err
    assert "hudi-ops savepoint create" in answer.err
