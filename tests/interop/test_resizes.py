"""Apache Hudi and we plan, execute and abort resizes of one table in turn, while both write to it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.index.bucket_engine import RingEngine
from hudi_ops.index.ring import Ring
from hudi_ops.index.ring_files import RingReader
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer, bucket_options
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.tables import SCHEMA, rows

Player = Literal["we", "they"]
TURNS: tuple[tuple[Player, Player], ...] = (("we", "they"), ("they", "we"), ("we", "we"), ("they", "they"))
"""Who plans a resize, and who executes it."""
CLUSTERING = "org.apache.hudi.client.clustering"
KEYS = 100_000
SMALL = 5_000
"""Bytes above which buckets are split: a base file of a few rows has more."""


@dataclass
class Shared:
    """A table with hash rings that both write and resize, and its rows: (partition, value, time) of each key."""

    path: Path
    peer: HudiPeer
    metadata: bool
    version: int
    model: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    time: int = 0
    is_resized: bool = False

    def create(self) -> None:
        Table.create(
            str(self.path),
            name="shared",
            record_key=["id"],
            schema=SCHEMA,
            partition_by=["part"],
            ordering="ts",
            table_type="mor",
            bucket_engine="consistent",
            buckets=2,
            buckets_min=1,
            buckets_max=16,
            metadata=self.metadata,
            version=self.version,
            clean={"automatic": False},
            archive={"automatic": False},
        )

    @property
    def table(self) -> Table:
        return Table.open(str(self.path))

    @property
    def timeline(self) -> Timeline:
        storage = self.table.context.storage
        return load_timeline(storage, load_config(storage))

    @property
    def options(self) -> dict[str, str]:
        """What its writers are told of the table: they write into the children of a pending resize, too."""
        return bucket_options(2, "id") | {
            "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
            "hoodie.bucket.index.min.num.buckets": "1",
            "hoodie.bucket.index.max.num.buckets": "16",
            "hoodie.storage.layout.type": "BUCKET",
            "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.metadata.enable": str(self.metadata).lower(),
            "hoodie.clustering.updates.strategy": f"{CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
        }

    def batch(self, changes: dict[str, tuple[str, int]], deleted: tuple[str, ...] = ()) -> pa.Table:
        """Rows of the next write, (partition, value) of each key; they are in the model afterwards."""
        self.time += 1
        given = [(key, part, value, self.time, None) for key, (part, value) in changes.items()]
        gone = [(key, self.model[key][0], 0, self.time, True) for key in deleted]
        self.model |= {key: (part, value, self.time) for key, (part, value) in changes.items()}
        for key in deleted:
            del self.model[key]
        return rows(*given, *gone)

    def write(self, player: Player, batch: pa.Table, **options: str) -> None:
        if player == "we":
            self.table.ingest(batch)
        else:
            self.peer.write(self.path, batch, options={**self.options, **options})

    def ring(self, partition: str) -> Ring:
        session = self.table._session
        found = RingReader.of(session.ctx.storage, session.loader.load(), session.commits).read(partition)
        assert found is not None
        return found

    def plan(self, player: Player, request: ResizeRequest) -> str:
        if player == "we":
            planned = self.table.resize.plan(request)
            assert planned.instant is not None, planned.note
            return planned.instant
        thresholds = {
            "hoodie.parquet.max.file.size": str(request.split_bytes),
            "hoodie.bucket.index.split.threshold": "1.0",
            "hoodie.bucket.index.merge.threshold": str(request.merge_bytes / request.split_bytes),
            "hoodie.clustering.plan.strategy.class": f"{CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
        }
        self.service("schedule", **thresholds)
        (planned,) = (one.time for one in self.timeline.pending if one.action == "clustering")
        return planned

    def due(self, number: int) -> ResizeRequest:
        """Splits twice, then merges: buckets of a few rows are too large, or small; the other if there is nothing to do."""
        split = ResizeRequest(split_bytes=SMALL, merge_bytes=0)
        merge = ResizeRequest(split_bytes=4_000_000, merge_bytes=1_000_000)
        first, second = (split, merge) if number % 3 < 2 else (merge, split)
        return first if self.table.resize.plan(first.model_copy(update={"dry_run": True})).planned else second

    def execute(self, player: Player, instant: str) -> None:
        if player == "we":
            self.table.resize.execute(instant=instant)
        else:
            self.service("execute")
        found = self.timeline.find(instant)
        assert found is not None
        assert found.is_completed

    def service(self, operation: str, **options: str) -> None:
        said = ",".join(f"{key}={value}" for key, value in {**self.options, **options}.items())
        self.peer.sql(f"call run_clustering(path => '{self.path}', op => '{operation}', options => '{said}')")

    def check(self, hudi_rs: HudiRsReader, *, pending: int = 0) -> None:
        """All readers show the model, also where statistics leave files out and in increments; nothing is wrong."""
        want = rows(*((key, part, value, time, None) for key, (part, value, time) in self.model.items()))
        options = BELIEVED if self.metadata else WITHOUT_METADATA
        assert_same_rows(self.table.read(), want)
        assert_same_rows(self.peer.read(self.path, options=options), want)
        assert_same_rows(hudi_rs(self.path), want)
        middle = sorted(value for _, value, _ in self.model.values())[len(self.model) // 2]
        small = sorted(key for key, (_, value, _) in self.model.items() if value < middle)
        found = self.peer.read(self.path, columns=["id"], where=f"value < {middle}", options=options)
        assert sorted(found["id"].to_pylist()) == small
        assert sorted(self.table.read(columns=["id"], where=f"value < {middle}")["id"].to_pylist()) == small
        if self.version == 9 or not self.is_resized:
            # After a second resize Apache Hudi 1.0.2 shows old rows in increments, also where it alone wrote and resized the table.
            assert sorted(self.peer.incremental(self.path)["id"].to_pylist()) == sorted(self.model)
        assert len(self.timeline.pending) == pending
        assert [*map(str, verify_table(self.table.context.storage, deep=True, index=True).errors)] == []


def peer_of(request: pytest.FixtureRequest, version: int) -> HudiPeer:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    return peer


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("version", "metadata"), [(9, True), (8, False), (9, False), (8, True)])
def test_both_plan_and_execute_resizes_in_turn_while_both_write(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, version: int, metadata: bool
) -> None:
    shared = Shared(tmp_path / "table", peer_of(request, version), metadata, version)
    shared.create()
    dice = random.Random(version)
    shared.write("we", shared.batch({f"k{n:03d}": (f"p{n % 2}", dice.randrange(1000)) for n in range(80)}))
    for number in range(bound(1, 2, 20)):
        planner, executor = TURNS[number % len(TURNS)]
        shared.write(executor, some_of(shared, dice, number))
        ring = shared.ring("part=p0"), shared.ring("part=p1")
        instant = shared.plan(planner, shared.due(number))
        for player in (planner, executor, "we", "they"):
            shared.write(player, some_of(shared, dice, number))
        shared.check(hudi_rs, pending=1)
        shared.execute(executor, instant)
        assert (shared.ring("part=p0").instant, shared.ring("part=p1").instant) != tuple(one.instant for one in ring)
        shared.write("they" if executor == "we" else "we", some_of(shared, dice, number))
        shared.check(hudi_rs)
        shared.is_resized = True


def some_of(shared: Shared, dice: random.Random, number: int) -> pa.Table:
    """A batch of updates, new keys and, in version 9, a delete.

    Apache Hudi 1.0.2 brings deleted rows back when it executes a resize, also where it alone wrote (docs/format §10.3).
    """
    some = dice.sample(sorted(shared.model), 12)
    changes: dict[str, Any] = {key: (shared.model[key][0], dice.randrange(1000)) for key in some[1:]}
    changes |= {f"n{number}{dice.randrange(10**6)}": (f"p{dice.randrange(2)}", dice.randrange(1000)) for _ in range(2)}
    return shared.batch(changes, (some[0],) if shared.version == 9 else ())


def test_apache_hudi_writes_into_the_children_of_each_partition_that_it_touches(
    tmp_path: Path, hudi_rs: HudiRsReader, apache_hudi: HudiPeer
) -> None:
    shared = Shared(tmp_path / "table", apache_hudi, metadata=True, version=9)
    shared.create()
    parts = ("p0", "p1", "p2")
    shared.write("we", shared.batch({f"k{n:03d}": (parts[n % 3], n) for n in range(60)}))
    instant = shared.plan("we", ResizeRequest(split_bytes=3_000, merge_bytes=0, max_partitions=3))
    for number, touched in enumerate((("p0",), ("p2",), ("p1", "p2"))):
        keys = [key for key, (part, _, _) in shared.model.items() if part in touched]
        shared.write("they", shared.batch({key: (shared.model[key][0], 100 * number) for key in keys}))
        write = max(shared.timeline.completed_writes, key=lambda one: one.time)
        metadata = shared.table._session.commits.metadata(shared.timeline, write)
        assert metadata is not None
        children = {stat.partition_path for stat in metadata.stats if is_child_log(stat, write.time)}
        assert children == {f"part={part}" for part in touched}
    done = shared.table.resize.execute(instant=instant)
    assert (done.groups, done.left_out) == (6, 0)
    shared.check(hudi_rs)


def test_apache_hudi_routes_100000_keys_by_a_ring_that_we_resized_three_times(
    tmp_path: Path, apache_hudi: HudiPeer
) -> None:
    shared = Shared(tmp_path / "table", apache_hudi, metadata=False, version=9)
    kinds = ("{}", "日本語{}", "", "é{}" * 20, "{},x", "_{}_")
    names = [kinds[n % len(kinds)].replace("{}", str(n)) for n in range(KEYS)]
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])

    def batch(time: int) -> pa.Table:
        return pa.table([names, list(map(str, range(KEYS))), [*range(KEYS)], [time] * KEYS], schema=schema)

    table = Table.create(
        str(shared.path), name="shared", record_key=["a", "b"], schema=schema, ordering="ts", table_type="mor",
        bucket_engine="consistent", buckets=2, buckets_max=64, metadata=False)  # fmt: skip
    table.ingest(batch(1))
    for share in (4, 8, 16):
        assert table.resize.run(split_bytes=table.ring()[0].total_bytes // share, merge_bytes=0).splits > 0
    fields = ("hoodie.bucket.index.hash.field", "hoodie.datasource.write.recordkey.field")
    options = shared.options | dict.fromkeys(fields, "a,b")
    apache_hudi.write(shared.path, batch(2), options=options)
    stored = table.read(["_hoodie_record_key", "_hoodie_file_name", "ts"])
    assert stored.num_rows == KEYS
    assert set(stored["ts"].to_pylist()) == {2}, "each of its rows lies where ours does"
    ring = shared.ring("")
    assert len(ring.prefixes) >= 8
    keys = stored["_hoodie_record_key"].combine_chunks().cast(pa.string())
    nodes = ring.nodes_of(RingEngine(2, ("a", "b")).hashes(keys)).tolist()
    assert [name.split("_")[0] for name in stored["_hoodie_file_name"].to_pylist()] == [*map(ring.file_id, nodes)]
