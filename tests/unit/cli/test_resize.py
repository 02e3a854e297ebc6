"""`resize`: what is planned is told, done and explained; the partition and the mode stand in either order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

RINGED = """
tables:
  trips:
    path: tables/trips
    record_key: [id]
    partition_by: [city]
    ordering: ts
    type: mor
    bucket_engine: consistent
    buckets: 2
    buckets_min: 1
    buckets_max: 8
    source: landing
"""
SPLIT = ["--split-size", "2kB", "--merge-size", "0"]
MERGE = ["--split-size", "1GB", "--merge-size", "100MB"]
WRONG = [
    (["--split-point", "left"], "unknown split point"),
    (["--split-size", "big"], "--split-size is not a size"),
    (["--merge-size", "-1"], "--merge-size is not a size"),
    (["--split-size", "1MB", "--merge-size", "1MB"], "--merge-size is above a quarter of --split-size"),
    (["plan", "run"], "plan and run are not one partition and one mode"),
    (["city=Oslo", "city=Rome"], "are not one partition and one mode"),
    (["city=Roma"], "no partition 'city=Roma'"),
    (["plan", "--instant", "20300101000000000"], "--instant names an existing plan"),
    (["execute", "--dry-run"], "executed unchanged"),
    (["execute", "--instant", "20300101000000000"], "no such resize"),
]


@pytest.fixture
def ringed(home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]) -> Path:
    """A table with two buckets in each of two partitions."""
    (home / "tables.yaml").write_text(RINGED)
    pq.write_table(rows(*[f"{n}@{('Oslo', 'Rome')[n % 2]}" for n in range(40)]), home / "landing" / "0.parquet")
    assert call("create", "trips", "--like", home / "landing" / "0.parquet").code == 0
    assert call("ingest", "trips").code == 0
    return home / "tables" / "trips"


def nodes(call: Callable[..., Any]) -> list[int]:
    """The number of buckets of each partition."""
    return [ring["node_count"] for ring in call("ring", "trips", "--json").json["rings"]]


def test_a_dry_run_changes_nothing_and_runs_split_and_merge_again(
    ringed: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before, read = tree(home), call("read", "trips", "--json").json["rows"]
    told = call("resize", "trips", "--dry-run", *SPLIT)
    assert (told.code, "would be planned" in told.out, "as estimated" in told.out) == (0, True, True)
    assert tree(home) == before
    told = call("resize", "trips", "city=Rome", *SPLIT)
    assert (told.code, told.err) == (0, "")
    assert "made 4 buckets of 2 by 2 splits, 20 rows" in told.out
    assert "off by bytes out" in told.out
    assert nodes(call) == [2, 4]
    told = call("resize", "trips", *MERGE, "--max-partitions", "2")
    assert "by 1 merge" in told.out or "merges" in told.out
    assert sum(nodes(call)) < 6
    after = call("read", "trips", "--json").json["rows"]
    assert sorted(after, key=lambda row: row["id"]) == sorted(read, key=lambda row: row["id"])
    assert call("verify", "trips", "--deep").code == 0


@pytest.mark.parametrize(
    "words", [["city=Oslo", "plan"], ["plan", "city=Oslo"], ["plan", "--partition", "city=Oslo"]], ids=" ".join
)
def test_mode_and_partition_stand_in_either_order(ringed: Path, call: Callable[..., Any], words: list[str]) -> None:
    made = call("resize", "trips", *words, *SPLIT, "--json").json
    assert {verdict["partition_path"] for verdict in made["verdicts"] if verdict["reason"] == "planned"} == {
        "city=Oslo"
    }
    told = call("ring", "trips").out
    assert f"pending resize {made['instant']}" in told
    assert "resizes 2 buckets in 2 groups" in call("timeline", "trips").out
    assert f"(clustering {made['instant']}" in call("resize", "trips", "explain", *SPLIT).out
    done = call("resize", "trips", "execute", "--json").json
    assert (done["instant"], done["splits"], done["files"], done["left_out"]) == (made["instant"], 2, 4, 0)
    assert nodes(call) == [4, 2]
    again = call("resize", "trips", "execute", "--instant", made["instant"])
    assert (again.code, "it was completed before" in again.out) == (0, True)
    assert "no resize is planned" in call("resize", "trips", "execute").out


def test_a_partition_that_is_called_like_a_mode_is_named_by_its_option(
    home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]
) -> None:
    (home / "tables.yaml").write_text(RINGED + "    hive_style: false\n")
    pq.write_table(rows(*[f"{n}@plan" for n in range(20)]), home / "landing" / "0.parquet")
    assert call("create", "trips", "--like", home / "landing" / "0.parquet").code == 0
    assert call("ingest", "trips").code == 0
    made = call("resize", "trips", "plan", "--partition", "plan", *SPLIT, "--json").json
    assert {verdict["partition_path"] for verdict in made["verdicts"]} == {"plan"}


def test_writes_go_on_beside_a_plan_and_the_ring_shows_their_rows(
    ringed: Path, home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]
) -> None:
    made = call("resize", "trips", "city=Oslo", "plan", *SPLIT, "--json").json
    pq.write_table(rows("0@Oslo", "2@Oslo", ts=2), home / "landing" / "1.parquet")
    assert call("ingest", "trips").code == 0
    (oslo,) = call("ring", "trips", "city=Oslo", "--json").json["rings"]
    assert sum(child["log_files"] for child in oslo["pending"]) in {1, 2}
    assert {child["instant"] for child in oslo["pending"]} == {made["instant"]}
    assert call("verify", "trips", "--deep").code == 0
    assert call("resize", "trips", "execute").code == 0
    read = call("read", "trips", "--where", "ts = 2", "--json").json["rows"]
    assert sorted(row["id"] for row in read) == ["0", "2"]


def test_a_wrong_call_exits_with_2_and_changes_nothing(
    ringed: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    for arguments, says in WRONG:
        told = call("resize", "trips", *arguments)
        assert (told.code, says in told.err) == (2, True), (arguments, told.err)
        assert tree(home) == before, arguments


def test_a_table_without_rings_is_refused(trips: Path, call: Callable[..., Any]) -> None:
    told = call("resize", "trips")
    assert told.code in {2, 3}
    assert "hash ring" in told.err
