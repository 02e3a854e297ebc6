"""`ring`: one line for each partition, one for each node, and pending children; large rings are cut, never silently."""

from __future__ import annotations

import shutil
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
    buckets: 16
    source: landing
"""
RESIZE = "20261121021917676"


@pytest.fixture
def ringed(home: Path, call: Callable[..., Any], rows: Callable[..., pa.Table]) -> Path:
    """A table with hash rings of sixteen nodes, and rows in few of them, in three partitions."""
    (home / "tables.yaml").write_text(RINGED)
    pq.write_table(rows("a@Oslo", "b@Oslo", "c@Rome", "d@Bern"), home / "landing" / "0.parquet")
    assert call("create", "trips", "--like", home / "landing" / "0.parquet").code == 0
    assert call("ring", "trips").out == "trips has no hash ring yet: the first write to a partition makes it\n"
    assert call("ingest", "trips").code == 0
    return home / "tables" / "trips"


def test_partitions_come_first_then_the_largest_nodes(
    ringed: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    told = call("ring", "trips")
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0].startswith("trips: 3 hash rings, 48 nodes, ")
    assert [line.split()[:4] for line in lines[2:5]] == [
        [f"city={one}", "16", "16", "0"] for one in ("Bern", "Oslo", "Rome")
    ]
    nodes = [line for line in lines[6:] if line.startswith("city=")]
    assert (len(nodes), lines[-1]) == (40, "… and 8 more nodes; --all shows them")
    read = call("ring", "trips", "--json").json["rings"]
    assert sum(node["base_bytes"] is not None for one in read for node in one["nodes"]) == 4
    assert sum(" none " not in node for node in nodes) == 4  # those with rows come before empty ones
    every = call("ring", "trips", "--all").out.splitlines()
    assert (sum(line.startswith("city=") for line in every[6:]), "more" in every[-1]) == (48, False)
    assert tree(home) == before


def test_a_partition_or_pattern_chooses_and_an_unknown_one_is_named(ringed: Path, call: Callable[..., Any]) -> None:
    one = call("ring", "trips", "city=Oslo")
    assert one.out.startswith("trips: 1 hash ring, 16 nodes, ")
    assert "6.25%" in one.out
    assert [ring["partition_path"] for ring in call("ring", "trips", "city=?e*", "--json").json["rings"]] == [
        "city=Bern"
    ]
    told = call("ring", "trips", "city=Roma")
    assert (told.code, "no partition 'city=Roma'" in told.err) == (2, True)


def test_a_table_without_rings_is_refused(trips: Path, call: Callable[..., Any]) -> None:
    told = call("ring", "trips")
    assert (told.code, "the table has no hash rings" in told.err) == (2, True)
    assert "found index simple_bucket" in told.err


def test_children_of_a_pending_resize_stand_below_their_nodes(
    home: Path, call: Callable[..., Any], hudi_fixtures: Callable[[str], Path]
) -> None:
    shutil.copytree(hudi_fixtures("v9_bucket_consistent_pending_resize"), home / "foreign")
    told = call("ring", "./foreign", "p=a").out
    assert f"pending resize {RESIZE}" in told.splitlines()[0]
    marks = [line.split()[-3] for line in told.splitlines()[5:]]
    assert marks == ["replaced", "child", "child"] * 2
    assert "… to 536870911" in told
