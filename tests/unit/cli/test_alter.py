"""`alter`: settings that a table records change in a slot; the others, rows and running writers are left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from tests.fault_plans import MoveBefore
from tests.protocol.foreign_table import make_foreign
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, made, rows, table_of

RINGED = (
    "--key",
    "id",
    "--columns",
    "id string, v long",
    "--type",
    "mor",
    "--bucket-engine",
    "consistent",
    "--buckets",
    "2",
)
SPLIT = ("--split-size", "2kB", "--merge-size", "0")


@pytest.fixture
def ringed(home: Path, call: Callable[..., Any]) -> Path:
    """A table of 2,000 rows with a hash ring, made without limits."""
    (home / "rows").mkdir()
    pq.write_table(pa.table({"id": [f"k{n}" for n in range(2000)], "v": range(2000)}), home / "rows" / "a.parquet")
    assert call("create", home / "t", *RINGED).code == 0
    assert call("ingest", home / "t", "--source", home / "rows").code == 0
    return home / "t"


def test_default_limits_let_a_ring_be_split_and_alter_moves_them(
    ringed: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    shown = call("show", ringed, "--json").json
    assert (shown["buckets"], shown["buckets_min"], shown["buckets_max"]) == (2, 1, 32768)
    before = tree(ringed)
    planned = call("alter", ringed, "--buckets-max", 3, "--dry-run", "--json").json
    assert planned["changes"] == [{"setting": "buckets_max", "before": 32768, "after": 3}]
    assert (planned["slot"], tree(ringed)) == (None, before)
    assert "buckets_max: 32768 -> 3" in call("alter", ringed, "--buckets-max", 3).out
    assert "nothing changed" in call("alter", ringed, "--buckets-max", 3).out
    assert call("resize", ringed, *SPLIT, "--json").json["splits"] == 1
    explained = call("resize", ringed, "explain", *SPLIT).out
    assert "a ring at its limit of buckets" in explained
    assert call("create", ringed, *RINGED).code == 0
    assert call("create", ringed, *RINGED, "--buckets-max", 3).code == 0
    other = call("create", ringed, *RINGED, "--buckets-max", 8, "--json")
    assert other.code == 2
    assert "buckets_max is 3 in the table and 8 in this call" in other.json["message"]
    assert "hudi-ops alter" in other.json["message"]
    assert call("verify", ringed, "--deep", "--index").code == 0


def test_cleans_and_archives_are_altered_and_later_slots_carry_them(trips: Path, call: Callable[..., Any]) -> None:
    altered = call("alter", trips, "--clean-policy", "hours", "--clean-retain", 48, "--archive", "off", "--json").json
    assert {one["setting"]: one["after"] for one in altered["changes"]} == {
        "clean_policy": "hours", "clean_retain": 48, "archive": "off", "archive_keep_min": None, "archive_keep_max": None,
    }  # fmt: skip
    assert call("index", trips, "drop", "partition_stats", "--yes").code == 0
    table = Table.open(str(trips))
    assert table.upkeep["clean"] == {"automatic": True, "policy": "hours", "retain": 48}
    assert not table.upkeep["archive"]["automatic"]
    table.alter(archive="on", archive_keep_max=40, clean_policy="commits")
    assert table.upkeep["clean"] == {"automatic": True, "policy": "commits", "retain": 10}
    assert table.upkeep["archive"] == {"automatic": True, "keep_min": 20, "keep_max": 40}
    table.close()
    assert call("show", trips, "--json").json["automatic"] == ["clean", "archive"]


def test_altered_cleans_run_beside_foreign_writes() -> None:
    storage = make_foreign(made(DEFINITION, rows(("a", "p", 1, 1, None))))
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", AdoptionOptions(buckets=2))
    table.adopt()
    table.alter(clean="on", clean_retain=2)
    for number in range(16):
        table.ingest(rows(("a", "p", number, 2 + number, None)))
    assert any(one.name.endswith(".clean") for one in storage.list(".hoodie/timeline"))


def test_running_write_completes_beside_an_alteration() -> None:
    storage, clock = (
        made(replace(MERGE_ON_READ, bucket_engine="consistent"), rows(("a", "p0", 1, 1, None))),
        ManualClock(NOW_MS),
    )
    plan = MoveBefore("put:part=", lambda: table_of(storage, clock, "person").alter(buckets_max=16))
    writer = table_of(FaultyStorage(storage, plan), clock, "writer")
    assert writer.ingest(rows(("a", "p0", 2, 2, None))).file_groups == 1
    assert plan.moved
    assert len([one for one in storage.list(".hoodie/timeline") if one.name.endswith(".rollback")]) == 0
    assert table_of(storage, clock, "reader").alter(buckets_max=16, dry_run=True).changes == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "nothing says what to alter"),
        (("--buckets-max", 1), "cannot stay between 1 and 1"),
        (("--buckets-min", 0), "below 1"),
        (("--archive", "off", "--archive-keep-max", 40), "writers do not archive this table"),
        (("--archive-keep-min", 40), "keep_min is 40, above keep_max"),
        (("--clean", "maybe"), "cannot be 'maybe'"),
    ],
)
def test_wrong_alterations_change_nothing(
    ringed: Path, call: Callable[..., Any], tree: Callable[..., Any], options: tuple[Any, ...], said: str
) -> None:
    before = tree(ringed)
    answer = call("alter", ringed, *options, "--json")
    assert (answer.code, tree(ringed)) == (2, before)
    assert said in answer.json["message"]


def test_limits_of_a_table_without_rings_are_refused(trips: Path, call: Callable[..., Any]) -> None:
    answer = call("alter", trips, "--buckets-max", 8, "--json")
    assert answer.code == 2
    assert "only tables with a hash ring" in answer.json["message"]
