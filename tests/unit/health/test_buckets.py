"""The check `buckets`: what it says, and that its commands mend the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from hudi_ops.config.requests.targets import BucketsTargets, HealthTargets
from hudi_ops.config.table import BUCKETS_MAX
from hudi_ops.health.check import Judgement, NotHere
from hudi_ops.health.checks.buckets import CHECK, BucketsFacts
from hudi_ops.table.table import Table
from tests.unit.health.added_calls import added_calls
from tests.unit.health.bench import facts_of, judged, looked, mend
from tests.unit.health.slow_buckets import slow_buckets
from tests.unit.health.states_buckets import buckets_missed, grow, ringed
from tests.unit.health.states_read_cost import batch, table_at

MB = 1 << 20


def values(judgement: Judgement) -> dict[str, float | None]:
    return {one.name: one.value for one in judgement.measures}


def test_more_buckets_mend_a_ring_at_its_limit(tmp_path: Path) -> None:
    path = buckets_missed(tmp_path)
    found = judged(path, CHECK)
    assert values(found) == slow_buckets(path) == {"size_ratio": 250 / 120, "at_limit": 1}
    assert Table.open(path).resize.explain().measures == {
        f"buckets.{name}": value for name, value in values(found).items()
    }
    assert found.evidence[0].detail == f"{250 * MB:,} bytes"
    assert added_calls(path, CHECK) == []
    stored = TypeAdapter(BucketsFacts).dump_json(facts := facts_of(path, CHECK))
    assert TypeAdapter(BucketsFacts).validate_json(stored) == facts
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_one_call_resizes_the_large_buckets_of_all_partitions(tmp_path: Path) -> None:
    # Of three partitions two have a large bucket; the third has small ones, which a resize would merge first.
    path = ringed(tmp_path / "t", large=2, parts=3, size_bytes=1_200 * MB)
    found = judged(path, CHECK)
    resize = ("resize", "TABLE", "--merge-size", "0", "--max-partitions", "2")
    total = sum(one.stat().st_size for one in (tmp_path / "t").rglob("*-0_*.parquet"))
    assert found.commands == ((*resize, "--max-bytes", str(total)),) * 3
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_a_lower_target_splits_smaller_buckets(tmp_path: Path) -> None:
    path, targets = ringed(tmp_path / "t", size_bytes=100 * MB), HealthTargets(buckets=BucketsTargets(size_ratio=0.5))
    assert not judged(path, CHECK).is_missed
    found = judged(path, CHECK, targets)
    assert found.commands == (("resize", "TABLE", "--split-size", str(60 * MB), "--merge-size", str(15 * MB)),)
    mend(path, found)
    assert not judged(path, CHECK, targets).is_missed


def test_rings_are_read_where_nodes_may_lack_file_groups(tmp_path: Path) -> None:
    # Sixty keys leave nodes of the first ring without a file group.
    path = tmp_path / "t"
    settings = {"bucket_engine": "consistent", "buckets": 64, "buckets_min": 1, "buckets_max": 64}
    table_at(path, table_type="mor", index="bucket", **settings).ingest(batch(0, 60))
    grow(max((path / "part=p0").glob("*.parquet"), key=lambda one: one.stat().st_size))  # a bucket of several keys
    assert len(added_calls(str(path), CHECK)) == 2
    found = judged(path, CHECK)
    assert values(found) == slow_buckets(str(path))
    assert values(found)["at_limit"] == 1
    assert len(list((path / "part=p0").glob("*.parquet"))) < 64
    mend(path, found)
    assert not judged(path, CHECK).is_missed


def test_a_pending_resize_and_a_record_index_come_first(tmp_path: Path) -> None:
    path = ringed(tmp_path / "t", buckets_max=16)
    assert Table.open(path).resize.plan().instant is not None
    facts, targets = facts_of(path, CHECK), BucketsTargets()
    assert CHECK.judge(facts, targets, 0).commands == (("resize", "TABLE"),) * 2
    indexed = CHECK.judge(replace(facts, has_record_index=True), targets, 0)
    assert indexed.commands[0] == ("index", "TABLE", "drop", "record_index", "--yes")
    refused = CHECK.judge(replace(facts, refused="foreign writers"), targets, 0)
    assert (refused.commands, refused.note) == ((), "foreign writers")
    full = CHECK.judge(replace(facts, at_limit=1, buckets_max=BUCKETS_MAX), targets, 0)
    assert full.commands == ()
    assert "most buckets that are possible" in full.note
    mend(path, judged(path, CHECK))
    assert not judged(path, CHECK).is_missed


def test_the_number_of_simple_buckets_cannot_change(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_at(path, table_type="mor", index="bucket", buckets=2)
    table.ingest(batch(0, 20))
    assert values(judged(path, CHECK)) == slow_buckets(str(path))
    grow(min((path / "part=p0").glob("*.parquet")), 600 * MB)
    found = judged(path, CHECK)
    assert found.commands == ()
    assert found.note.endswith("make a table with about 10 buckets, or with hash rings, and ingest the rows into it")
    facts = facts_of(path, CHECK)
    by_logs = replace(facts, sizes=replace(facts.sizes, merged_p95_bytes=100 * MB))
    assert CHECK.judge(by_logs, BucketsTargets(), 0).commands == (("compact", "TABLE"),)


def test_a_table_without_buckets_has_no_sizes_of_buckets(tmp_path: Path) -> None:
    table_at(tmp_path / "t", table_type="cow", index="bloom")
    assert isinstance(CHECK.measure(looked(tmp_path / "t")), NotHere)
