"""The commands of the registry: each says what it did, as text and as JSON, and asks before it forgets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.registry.database import HEAD, opened
from hudi_ops.registry.store import runs_of, table_named
from tests.unit.cli.conftest import Answer, tree_of

Call = Callable[..., Answer]


@pytest.fixture
def registry(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a registry that is not made yet; it is the one in force."""
    url = f"sqlite:///{home}/kept/registry.db"
    monkeypatch.setenv("HUDI_OPS_REGISTRY", url)
    return url


def test_tables_are_looked_at_listed_rebuilt_and_forgotten(registry: str, trips: Path, call: Call) -> None:
    files = tree_of(trips)
    for command in (["list"], ["refresh", "--all"], ["rebuild", "--all", "--yes"], ["forget", "trips", "--yes"]):
        refused = call("registry", *command)
        assert refused.code == 3
        assert "hudi-ops registry migrate" in refused.err
    assert call("registry", "migrate", "--json").json == {"registry": registry, "before": None, "after": HEAD}
    assert "already" in call("registry", "migrate").out
    assert "refresh --all" in call("registry", "list").out

    looked = call("registry", "refresh", "--all", "--json").json
    assert [(one["table"], one["status"]) for one in looked["tables"]] == [("trips", "healthy"), ("riders", "unknown")]
    assert looked["undeclared"] == []
    listed = call("registry", "list", "--json").json
    assert [one["name"] for one in listed["tables"]] == ["riders", "trips"]
    assert listed["counts"] == {"healthy": 1, "unknown": 1}
    assert [one["name"] for one in call("registry", "list", "--search", "TRIP", "--json").json["tables"]] == ["trips"]
    text = call("registry", "list", "--sort", "name", "--size", "1").out
    assert "riders" in text
    assert "2 tables: 1 healthy, 1 unknown; page 1 of 2" in text

    # A table that is named by its folder, and is not declared any more.
    (trips.parents[1] / "tables.yaml").write_text("tables: {riders: {path: tables/riders, record_key: [id]}}")
    again = call("registry", "refresh", "--all", "--json").json
    assert again["undeclared"] == ["trips"]
    dry = call("registry", "rebuild", "--all", "--dry-run", "--json").json
    assert dry == {"dry_run": True, "replaced": ["riders"], "forgotten": ["trips"]}
    assert call("registry", "rebuild", "--all").code == 2  # no terminal to ask at
    assert table_named(opened(registry), "trips") is not None
    assert call("registry", "rebuild", "--all", "--yes").code == 0
    assert table_named(opened(registry), "trips") is None
    assert call("registry", "refresh", trips).code == 0
    (named,) = call("registry", "list", "--search", "trips", "--json").json["tables"]
    assert named["name"] == named["location"] == f"file://{trips}"
    runs = runs_of(opened(registry), named["id"])
    assert [run.service for run in runs if run.rows] == ["ingestion"]

    assert call("registry", "forget", named["name"]).code == 2
    assert call("registry", "forget", "nothing", "--yes").code == 2
    assert call("registry", "forget", named["name"], "--yes", "--json").json == {"forgotten": 1}
    assert call("registry", "list", "--json").json["total"] == 1
    assert tree_of(trips) == files


@pytest.mark.parametrize(
    "words",
    [["refresh"], ["refresh", "trips", "--all"], ["refresh", "trips", "--limit", "0s"], ["list", "--sort", "size"]],
)
def test_a_wrong_call_says_what_is_right(registry: str, words: list[str], call: Call) -> None:
    assert call("registry", "migrate").code == 0
    refused = call("registry", *words, "--json")
    assert refused.code == 2
    assert refused.json["exit_code"] == 2


def test_without_the_extra_the_command_names_it(home: Path) -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None; sys.modules['alembic'] = None\n"
        "from hudi_ops.cli.main import main\n"
        "for words in (['migrate'], ['list'], ['refresh', '--all'], ['forget', 'x', '--yes']):\n"
        "    assert main(['registry', *words]) == 3, words"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=home,
        env={"PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count('pip install "hudi-ops[registry]"') == 4
