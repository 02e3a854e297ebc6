"""`compact`: what is planned is told, done, resumed and explained; nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MOR = """
tables:
  trips:
    path: tables/trips
    record_key: [id]
    partition_by: [city]
    ordering: ts
    buckets: 1
    type: mor
    source: landing
"""


@pytest.fixture
def logged(home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]) -> Path:
    """A merge-on-read table with two file groups, and log files upon both."""
    (home / "tables.yaml").write_text(MOR)
    for number, names in enumerate((("a@Oslo", "b@Oslo", "c@Rome"), ("a@Oslo",), ("a@Oslo", "c@Rome"))):
        pq.write_table(rows(*names, ts=number + 1), home / "landing" / f"{number}.parquet")
        if not number:
            assert call("create", "trips", "--like", home / "landing" / "0.parquet").code == 0
        assert call("ingest", "trips").code == 0
    return home / "tables" / "trips"


def test_one_call_plans_and_executes(logged: Path, call: Callable[..., Any]) -> None:
    told = call("compact", "trips")
    assert (told.code, told.err) == (0, "")
    assert "merged 3 log files of 2 file groups, 3 rows" in told.out
    assert "log records: 2 updated, 0 deleted, 0 inserted, 0 ignored" in told.out
    assert "off by bytes out" in told.out
    assert call("compact", "trips").out.rstrip().endswith("nothing to compact: no file group has log files")
    read = call("read", "trips", "--columns", "id,ts", "--json").json
    assert sorted((row["id"], row["ts"]) for row in read["rows"]) == [("a", 3), ("b", 1), ("c", 3)]


def test_a_dry_run_shows_slices_and_cost_and_changes_nothing(
    logged: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    told = call("compact", "trips", "--dry-run")
    assert told.code == 0
    assert "would be planned: 2 file groups with 3 log files" in told.out
    assert "of memory, as estimated" in told.out
    assert "city=Oslo" in told.out
    plain = call("compact", "trips", "--dry-run", "--json").json
    assert plain["instant"] is None
    assert plain["estimate"]["bytes_in"] == sum(one["base_bytes"] + one["log_bytes"] for one in plain["verdicts"])
    assert tree(home) == before


def test_plan_and_execute_are_two_calls(logged: Path, call: Callable[..., Any]) -> None:
    made = call("compact", "trips", "plan", "--partition", "city=R*", "--json").json
    assert [one["partition_path"] for one in made["verdicts"]] == ["city=Rome"]
    assert f"--instant {made['instant']}" in call("recover", "trips").out
    assert f"(compaction {made['instant']})" in call("compact", "trips", "explain").out
    done = call("compact", "trips", "execute", "--instant", made["instant"], "--json").json
    assert (done["slices"], done["log_files"], done["engine"]) == (1, 1, "local")
    again = call("compact", "trips", "execute", "--instant", made["instant"])
    assert (again.code, "it was completed before" in again.out) == (0, True)
    assert "no compaction is planned" in call("compact", "trips", "execute").out


def test_explain_says_how_much_is_missing(logged: Path, call: Callable[..., Any]) -> None:
    told = call("compact", "trips", "explain", "--strategy", "count", "--threshold", "2")
    assert "1 of 2 log files: 1 short" in told.out
    assert "1 file group with 2 log files; left out: 1 file group below 2 log files (at most 1)" in told.out
    nothing = call("compact", "trips", "explain", "--strategy", "age", "--threshold", "1h").out
    assert "nothing to compact: 2 file groups below 3,600 s" in nothing


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--strategy", "newest"], "unknown compaction strategy"),
        (["--threshold", "many", "--strategy", "count"], "--threshold is not a number"),
        (["--threshold", "1 parsec", "--strategy", "age"], "--threshold is not a duration"),
        (["--max-bytes", "much"], "--max-bytes is not a size"),
        (["--engine", "flink"], "unknown engine"),
        (["plan", "--instant", "20300101000000000"], "--instant names an existing plan"),
        (["execute", "--dry-run"], "executed unchanged"),
        (["execute", "--instant", "20300101000000000"], "no such compaction"),
        (["--partition", "city=Paris"], "no partition 'city=Paris'"),
        (["squash"], "squash"),
    ],
)
def test_a_wrong_call_exits_with_2(logged: Path, call: Callable[..., Any], arguments: list[str], says: str) -> None:
    told = call("compact", "trips", *arguments)
    assert told.code == 2
    assert says in told.err


def test_a_copy_on_write_table_has_nothing_to_compact(trips: Path, call: Callable[..., Any]) -> None:
    told = call("compact", "trips")
    assert (told.code, "no log files to compact" in told.err) == (2, True)
