"""`cluster`: what is planned is told, done and explained; groups that writes touched are left out, and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BLOOM = """
tables:
  trips:
    path: tables/trips
    record_key: [id]
    partition_by: [city]
    ordering: ts
    index: bloom
    source: landing
"""
SORTED = ["--sort-by", "ts,fare", "--order", "z-order"]
WRONG = [
    (["--order", "random"], "unknown order"),
    (["--order", "hilbert"], "without sort columns"),
    (["--sort-by", "nothing"], "no column 'nothing'"),
    (["--sort-by", "tags"], "is nested"),
    (["--sort-by", "ts,,fare"], "--sort-by names an empty column"),
    (["--sort-by", "ts", "--sort-by", "ts"], "given twice"),
    (["--target-size", "big"], "--target-size is not a size"),
    (["--target-size", "1MB", "--small-file-limit", "2MB"], "--small-file-limit is above --target-size"),
    (["plan", "--instant", "20300101000000000"], "--instant names an existing plan"),
    (["execute", "--dry-run"], "executed unchanged"),
    (["execute", "--instant", "20300101000000000"], "no such clustering"),
]


@pytest.fixture
def small(home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]) -> Path:
    """A table with two small files in each of two partitions."""
    (home / "tables.yaml").write_text(BLOOM)
    for number, names in enumerate((("a@Oslo", "b@Rome"), ("c@Oslo", "d@Rome"))):
        pq.write_table(rows(*names), home / "landing" / f"{number}.parquet")
        if not number:
            assert call("create", "trips", "--like", home / "landing" / "0.parquet").code == 0
        assert call("ingest", "trips", "--operation", "bulk_insert").code == 0
    return home / "tables" / "trips"


def test_a_dry_run_changes_nothing_and_a_run_merges_and_sorts_once(
    small: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    told = call("cluster", "trips", "--dry-run", *SORTED)
    assert "would be planned: 4 file groups into 2, sorted along z-order of ts, fare" in told.out
    assert "of memory, as estimated" in told.out
    assert tree(home) == before
    told = call("cluster", "trips", *SORTED)
    assert (told.code, told.err) == (0, "")
    assert "rewrote 4 file groups into 2 files, 4 rows" in told.out
    assert "off by bytes out" in told.out
    again = call("cluster", "trips", "--sort-by", "ts", "--sort-by", "fare", "--order", "z-order", "--json").json
    assert (again["instant"], "rows in this order already" in again["note"]) == (None, True)
    read = call("read", "trips", "--columns", "id", "--json").json
    assert sorted(row["id"] for row in read["rows"]) == ["a", "b", "c", "d"]


def test_an_execution_says_which_part_of_the_plan_was_left_out(
    small: Path, home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]
) -> None:
    made = call("cluster", "trips", "plan", "--json").json
    assert f"(clustering {made['instant']})" in call("cluster", "trips", "explain").out
    assert f"`hudi-ops cluster TABLE execute --instant {made['instant']}` executes it" in call("recover", "trips").out
    pq.write_table(rows("a@Oslo", ts=2), home / "landing" / "2.parquet")
    assert call("ingest", "trips").code == 0
    told = call("cluster", "trips", "execute", "--instant", made["instant"])
    assert "rewrote 2 file groups into 1 file, 2 rows" in told.out
    assert "left out 1 of 2 plan groups, which writes touched" in told.out
    again = call("cluster", "trips", "execute", "--instant", made["instant"])
    assert (again.code, "it was completed before" in again.out) == (0, True)
    assert "no clustering is planned" in call("cluster", "trips", "execute").out


def test_a_wrong_call_exits_with_2_and_changes_nothing(
    small: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    for arguments, says in WRONG:
        told = call("cluster", "trips", *arguments)
        assert (told.code, says in told.err) == (2, True), (arguments, told.err)
        assert tree(home) == before, arguments


def test_a_bucket_table_is_sorted_within_its_buckets(trips: Path, call: Callable[..., Any]) -> None:
    refused = call("cluster", "trips")
    assert (refused.code, "which cannot be merged with others" in refused.err) == (2, True)
    before = call("read", "trips", "--columns", "id,_hoodie_file_name", "--json").json["rows"]
    done = call("cluster", "trips", "--sort-by", "ts", "--json").json
    after = call("read", "trips", "--columns", "id,_hoodie_file_name", "--json").json["rows"]
    buckets = [sorted((row["id"], row["_hoodie_file_name"][:8]) for row in read) for read in (before, after)]
    assert (done["rows"], buckets[0]) == (3, buckets[1])
    assert done["estimate"]["bytes_in"] == done["actual"]["bytes_in"] == done["bytes_in"]
