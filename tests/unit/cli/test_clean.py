"""`clean`: what would be deleted is told, done, resumed and explained; a wrong call exits with 2 and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COW = """
tables:
  trips:
    path: tables/trips
    record_key: [id]
    partition_by: [city]
    ordering: ts
    buckets: 1
    source: landing
"""


@pytest.fixture
def written(home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]) -> Path:
    """A table with two file groups and four writes of both."""
    (home / "tables.yaml").write_text(COW)
    for number in range(4):
        pq.write_table(rows("a@Oslo", "b@Rome", ts=number + 1), home / "landing" / f"{number}.parquet")
        if not number:
            assert call("create", "trips", "--like", home / "landing" / "0.parquet").code == 0
        assert call("ingest", "trips").code == 0
    return home / "tables" / "trips"


def test_one_call_plans_and_executes(written: Path, call: Callable[..., Any]) -> None:
    before = set(written.glob("city=*/*.parquet"))
    told = call("clean", "trips", "--retain", "2")
    assert (told.code, told.err) == (0, "")
    assert "deleted 2 files of 2 partitions" in told.out
    assert "on stay readable" in told.out
    assert len(before - set(written.glob("city=*/*.parquet"))) == 2
    assert "nothing to delete" in call("clean", "trips", "--retain", "2").out
    assert len(call("read", "trips", "--json").json["rows"]) == 2


def test_a_dry_run_and_explain_change_nothing(
    written: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    shown = call("clean", "trips", "--retain", "1", "--dry-run", "--json").json
    assert (shown["instant"], shown["counts"]["planned"]) == (None, 4)
    assert all(one["file"] for one in shown["verdicts"])
    told = call("clean", "trips", "--retain", "1", "--dry-run")
    assert "would be deleted: 4 files of 2 partitions" in told.out
    explained = call("clean", "trips", "explain", "--retain", "1")
    assert "newest slice" in explained.out
    assert "4 planned" in explained.out
    only = call("clean", "trips", "explain", "--file", "city=Oslo/*", "--json").json
    assert {one["partition_path"] for one in only["verdicts"]} == {"city=Oslo"}
    assert tree(home) == before


def test_a_plan_is_executed_by_the_next_call(written: Path, call: Callable[..., Any]) -> None:
    planned = call("clean", "trips", "plan", "--retain", "1", "--json").json
    assert planned["instant"]
    refused = call("clean", "trips", "plan", "--retain", "1")
    assert refused.code == 11
    assert planned["instant"] in refused.err
    done = call("clean", "trips", "execute", "--json").json
    assert (done["instant"], done["deleted"]) == (planned["instant"], 4)
    again = call("clean", "trips", "execute", "--instant", planned["instant"])
    assert (again.code, "completed before" in again.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "bytes"], "unknown clean policy"),
        (["--policy", "commits", "--policy", "hours"], "a clean has one policy"),
        (["--retain", "0"], "retain is below 1"),
        (["--retain", "few"], "Invalid value for '--retain'"),
        (["--max-files", "0"], "--max-files is below 1"),
        (["plan", "--instant", "20261121101500123"], "--instant names an existing plan"),
        (["execute", "--dry-run"], "executed unchanged"),
        (["--file", "x"], "--file is for explain"),
        (["execute", "--instant", "20200101000000000"], "no such clean"),
    ],
)
def test_a_wrong_call_exits_with_2(
    written: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any], arguments: list[str], says: str
) -> None:
    before = tree(home)
    told = call("clean", "trips", *arguments)
    assert told.code == 2
    assert says in told.err
    assert tree(home) == before


def test_what_tables_yaml_declares_is_the_default(written: Path, home: Path, call: Callable[..., Any]) -> None:
    (home / "tables.yaml").write_text(f"{COW}    clean: {{policy: versions, retain: 1}}\n")
    assert call("clean", "trips", "--dry-run", "--json").json["counts"]["planned"] == 6
    assert call("clean", "trips", "--retain", "2", "--dry-run", "--json").json["counts"]["planned"] == 4
    assert call("clean", "trips", "--policy", "commits", "--dry-run", "--json").json["counts"]["planned"] == 0


def test_create_tells_whether_writers_clean(home: Path, call: Callable[..., Any]) -> None:
    new = call("create", str(home / "one"), "--key", "id", "--columns", "id string")
    assert "writers clean after commits, 10 commits retained; they archive down to 20 commits, above 30" in new.out
    assert call("create", str(home / "one"), "--key", "id", "--columns", "id string", "--json").json["clean"][
        "automatic"
    ]
    off = call("create", str(home / "two"), "--key", "id", "--columns", "id string", "--no-automatic")
    assert "writers do not clean; they do not archive" in off.out
    (home / "tables.yaml").write_text(f"{COW}    clean: {{automatic: false, policy: hours}}\n")
    declared = call("create", "trips", "--columns", "id string, city string, ts bigint", "--json").json
    assert declared["clean"] == {"automatic": False, "policy": "hours", "retain": 24}
    assert declared["archive"]["automatic"]
