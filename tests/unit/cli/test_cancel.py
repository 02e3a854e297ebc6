"""`plans` and `cancel`: what is shown, asked, refused, and how the calls end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table


@pytest.fixture
def logged(home: Path, call: Callable[..., Any]) -> str:
    """A merge-on-read table with a log file, and a plan of its compaction that may be cancelled; the plan's instant."""
    path = home / "tables" / "logged"
    table = Table.create(str(path), name="logged", record_key=["id"], schema="id string, v long", table_type="mor")
    for value in range(3):
        table.ingest(pa.table({"id": ["a", "b"], "v": [value, value]}))
    planned = call("compact", str(path), "plan", "--cancel", "after 6h", "--json").json
    assert planned["instant"] is not None
    return str(planned["instant"])


def test_a_plan_is_listed_cancelled_and_listed_as_aborted(logged: str, home: Path, call: Callable[..., Any]) -> None:
    path = str(home / "tables" / "logged")
    (row,) = call("plans", path, "--json").json["plans"]
    assert (row["instant"], row["action"], row["state"]) == (logged, "compaction", "planned")
    assert row["policy"] == "cancellable, overdue after 6 h"
    told = call("plans", path).out
    assert f"`hudi-ops compact TABLE execute --instant {logged}`" in " ".join(told.split())
    dry = call("cancel", path, logged, "--dry-run")
    assert (dry.code, "would be cancelled" in dry.out) == (0, True)
    done = call("cancel", path, logged, "--reason", "not now")
    assert (done.code, done.err) == (0, "")
    assert f"compaction {logged} is cancelled and removed" in done.out
    assert call("plans", path).out.endswith("no pending plan\n")
    (gone,) = call("plans", path, "--aborted", "--json").json["plans"]
    assert (gone["state"], gone["reason"]) == ("aborted", "not now")
    assert "not now" in call("timeline", path).out
    again = call("cancel", path, logged, "--json").json
    assert (again["state"], again["reason"]) == ("aborted", "not now")
    assert call("verify", path, "--json").json["findings"] == []


def test_a_plan_that_lost_to_a_write_is_no_error(home: Path, call: Callable[..., Any]) -> None:
    path = str(home / "tables" / "lost")
    table = Table.create(path, name="lost", record_key=["id"], schema="id string, v long")
    table.ingest(pa.table({"id": ["a", "b"], "v": [0, 0]}))
    plan = call("cluster", path, "plan", "--sort-by", "v", "--on-overlap", "cancel", "--json").json["instant"]
    write = table.ingest(pa.table({"id": ["a"], "v": [1]}))
    assert write.ended_plans == (plan,)
    told = call("cluster", path, "execute", "--instant", plan)
    assert (told.code, told.err) == (0, "")
    assert f"{write.instant} wrote to the same file groups first; plan again" in told.out
    assert call("cluster", path, "execute", "--instant", plan, "--json").json["completion_time"] is None
    refused = call("cancel", path, str(write.instant), "--json")
    assert (refused.code, "never a plan" in refused.json["message"]) == (2, True)


def test_a_request_alone_leaves_the_plan_to_the_next_write(logged: str, home: Path, call: Callable[..., Any]) -> None:
    path = str(home / "tables" / "logged")
    asked = call("cancel", path, logged, "--request-only", "--json").json
    assert (asked["state"], asked["note"]) == ("cancelled", "its executor, or the next write, removes the plan")
    assert "is cancelled" in call("cancel", path, logged, "--request-only").out
    assert call("compact", path, "execute", "--instant", logged).code == 12
    assert call("recover", path).code == 0
    assert call("plans", path, logged, "--json").json["plans"][0]["state"] == "aborted"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["20300101000000000"], "no such instant"),
        (["soon"], "is not an instant"),
        (["{plan}", "--reason", ""], "cannot be the reason"),
        (["{plan}", "--reason", "", "--dry-run"], "cannot be the reason"),
        (["{plan}", "--reason", "x" * 100_000], "cannot be the reason"),
        (["{plan}", "--reason", "a\tb"], "cannot be the reason"),
        (["{plan}", "--wait", "long"], "--wait"),
    ],
)
def test_bad_input_ends_with_2_and_changes_nothing(
    logged: str, home: Path, call: Callable[..., Any], tree: Callable[..., Any], arguments: list[str], text: str
) -> None:
    path = str(home / "tables" / "logged")
    before = tree(home)
    told = call("cancel", path, *(one.replace("{plan}", logged) for one in arguments))
    assert told.code == 2
    assert text in told.err
    assert tree(home) == before


@pytest.mark.parametrize("limit", ["0h", "-1h", "1000000000h"])
def test_a_limit_out_of_bounds_is_refused(home: Path, call: Callable[..., Any], limit: str, logged: str) -> None:
    assert call("compact", str(home / "tables" / "logged"), "plan", "--cancel", f"after {limit}").code == 2
