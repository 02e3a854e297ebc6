"""`hudi-ops repair` follows the advice of `verify`: every damage that it knows is repaired, and no row changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.healthy import REPAIRED, ROUNDS_MAX, findings, make_healthy, sorted_rows
from tests.unit.cli.table_damages import DAMAGES, Damage, foreign_rollback, foreign_write


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table that each test copies."""
    return make_healthy(tmp_path_factory.mktemp("healthy") / "t")


def test_the_damages_reach_most_repairs() -> None:
    reached = {name for damage in REPAIRED.values() for name in damage.finds.split()}
    assert len(reached) >= 15, sorted(reached)


@pytest.mark.parametrize("name", sorted(REPAIRED))
def test_a_damage_is_repaired(name: str, healthy: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    damage, path = DAMAGES[name], tmp_path / "t"
    shutil.copytree(healthy, path)
    damage.prepare(path)
    before = sorted_rows(path)
    damage.do(path)
    assert findings(path) & set(damage.finds.split()), "the damage shows"
    told = call("repair", path, "--abandoned", "--dry-run", "--json").json
    assert told["dry_run"]
    assert told["repairs"]
    for _ in range(ROUNDS_MAX):
        if not findings(path):
            break
        assert call("repair", path, "--abandoned", "--yes").code == 0
    assert findings(path) == set()
    assert sorted_rows(path).equals(before)
    assert "nothing to repair" in call("repair", path, "--yes").out


def test_what_may_be_alive_stays_and_is_named(healthy: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    path = tmp_path / "t"
    shutil.copytree(healthy, path)
    instant = foreign_write(path, heartbeat=False)
    files = sorted(path.rglob("*"))
    done = call("repair", path, "--yes")
    assert done.code == 20
    assert f"{instant} stays: no heartbeat tells whether its writer has ended; pass --abandoned" in done.out
    assert sorted(path.rglob("*")) == files


def test_what_a_recovery_leaves_is_not_called_repaired(healthy: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    path = tmp_path / "t"
    shutil.copytree(healthy, path)
    foreign_rollback(path)
    told = call("repair", path, "rollback-pending", "--yes", "--json")
    (one,) = told.json["repairs"]
    assert (told.code, one["is_done"]) == (20, False)
    assert "stays: " in one["note"]
    assert "rollback-pending" in findings(path)


def test_what_only_a_person_can_judge_stays_with_its_advice(
    healthy: Path, tmp_path: Path, call: Callable[..., Any]
) -> None:
    path = tmp_path / "t"
    shutil.copytree(healthy, path)
    next(path.glob("city=c0/[!.]*.parquet")).unlink()
    done = call("repair", path, "--yes")
    assert done.code == 20
    assert "by hand: restore the file from a copy of the table" in done.out


def test_an_unknown_finding_lists_those_that_can_be_repaired(healthy: Path, call: Callable[..., Any]) -> None:
    done = call("repair", healthy, "file-missing", "--yes")
    assert done.code == 2
    assert "rollback-orphan" in done.err


def test_the_damages_are_of_their_kind() -> None:
    assert all(isinstance(damage, Damage) for damage in REPAIRED.values())
