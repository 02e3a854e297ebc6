"""Apache Hudi and we plan and execute clusterings of one table in turn; every reader shows each row of a model once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.formats.avro.container import read_one
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer, HudiPeerError, bucket_options
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.tables import SCHEMA, rows

Player = Literal["we", "they"]
TURNS: tuple[tuple[Player, Player], ...] = (("we", "they"), ("they", "we"), ("we", "we"), ("they", "they"))
"""Who plans a clustering, and who executes it."""
ORDERS: tuple[dict[str, Any], ...] = (
    {"sort_by": ["value", "ts"], "order": "hilbert"},
    {"sort_by": ["value"]},
    {"sort_by": ["id", "value"]},
)
PARTS = ("p0", "p1", "p2")


@dataclass
class Shared:
    """A table that both write and cluster, and its rows: (partition, value, time) of each key."""

    path: Path
    peer: HudiPeer
    kind: Literal["cow", "mor"]
    metadata: bool
    buckets: int | None = None
    model: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    time: int = 0

    def create(self, version: int) -> None:
        Table.create(
            str(self.path),
            name="shared",
            record_key=["id"],
            schema=SCHEMA,
            partition_by=["part"],
            ordering="ts",
            table_type=self.kind,
            index="bloom" if self.buckets is None else "bucket",
            buckets=self.buckets or 1,
            metadata=self.metadata,
            version=version,
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
        """What its writers and services are told of the table."""
        index = {"hoodie.index.type": "BLOOM"} if self.buckets is None else bucket_options(self.buckets, "id")
        return {**index, "hoodie.metadata.enable": str(self.metadata).lower()}

    def batch(self, changes: dict[str, tuple[str, int]], deleted: tuple[str, ...] = ()) -> pa.Table:
        """Rows of the next write, (partition, value) of each key; they are in the model afterwards."""
        self.time += 1
        given = [(key, part, value, self.time, None) for key, (part, value) in changes.items()]
        gone = [(key, self.model[key][0], 0, self.time, True) for key in deleted]
        self.model |= {key: (part, value, self.time) for key, (part, value) in changes.items()}
        for key in deleted:
            del self.model[key]
        return rows(*given, *gone)

    def write(self, player: Player, batch: pa.Table, operation: str = "upsert") -> None:
        if player == "we":
            self.table.ingest(batch, operation)
        else:
            self.peer.write(self.path, batch, operation, options=self.options)

    def plan(self, player: Player, order: dict[str, Any]) -> str:
        """Plan a clustering, and return its instant."""
        if player == "we":
            planned = self.table.clustering.plan(rewrite=True, **order).instant
            assert planned is not None
            body = self.table.context.storage.get(self.timeline.path(f"{planned}.clustering.requested"))
            for group in read_one(body)["clusteringPlan"]["inputGroups"]:
                for slice_ in group["slices"]:
                    paths = [slice_["dataFilePath"], *slice_["deltaFilePaths"]]
                    assert [path for path in paths if not path.startswith(f"file:{self.path}/part=")] == []
            return planned
        self.service("schedule", sort_by=order["sort_by"])
        (planned,) = (one.time for one in self.timeline.pending if one.action == "clustering")
        return planned

    def execute(self, player: Player, instant: str) -> None:
        if player == "we":
            self.table.clustering.execute(instant=instant)
        else:
            self.service("execute")
        found = self.timeline.find(instant)
        assert found is not None
        assert found.is_completed

    def service(self, operation: str, sort_by: Sequence[str] = (), **options: str) -> None:
        given = {"hoodie.metadata.enable": str(self.metadata).lower(), **options}
        said = ",".join(f"{key}={value}" for key, value in given.items())
        order = f", order => '{','.join(sort_by)}'" if sort_by else ""
        self.peer.sql(f"call run_clustering(path => '{self.path}', op => '{operation}', options => '{said}'{order})")

    def check(self, hudi_rs: HudiRsReader) -> None:
        """All readers show the model, also where statistics leave files out and in increments; nothing is wrong."""
        want = rows(*((key, part, value, time, None) for key, (part, value, time) in self.model.items()))
        options = BELIEVED if self.metadata else WITHOUT_METADATA
        ours = self.table.read(meta_columns=True)
        assert_same_rows(ours, want)
        assert_same_rows(self.peer.read(self.path, options=options), ours, with_meta=True)
        assert_same_rows(hudi_rs(self.path), ours, with_meta=True)
        middle = sorted(value for _, value, _ in self.model.values())[len(self.model) // 2]
        small = sorted(key for key, (_, value, _) in self.model.items() if value < middle)
        readers = [self.table.read, *([partial(self.peer.read, self.path, options=options)] if self.metadata else [])]
        for read in readers:
            assert sorted(read(columns=["id"], where=f"value < {middle}")["id"].to_pylist()) == small
        increments = self.peer.incremental(self.path)["id"].to_pylist()
        assert sorted(increments) == sorted(self.model)
        assert self.timeline.pending == ()
        assert [*map(str, verify_table(self.table.context.storage, deep=True, index=True).errors)] == []


def peer_of(request: pytest.FixtureRequest, version: int) -> HudiPeer:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    return peer


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(
    ("kind", "version", "metadata"), [("cow", 9, True), ("mor", 9, False), ("mor", 8, True), ("cow", 8, False)]
)
def test_both_plan_and_execute_clusterings_in_turn(
    tmp_path: Path,
    hudi_rs: HudiRsReader,
    request: pytest.FixtureRequest,
    kind: Literal["cow", "mor"],
    version: int,
    metadata: bool,
) -> None:
    shared = Shared(tmp_path / "table", peer_of(request, version), kind, metadata)
    shared.create(version)
    dice = random.Random(version)
    for number in range(bound(1, 2, 20)):
        planner, executor = TURNS[number % len(TURNS)]
        new = {f"k{number:02d}{one}": (PARTS[one % 2], dice.randrange(1000)) for one in range(8)}
        shared.write("they", shared.batch(new), "bulk_insert")
        some = dice.sample(sorted(shared.model), 5)
        changes = {key: (shared.model[key][0], dice.randrange(1000)) for key in some[1:]}
        shared.write(executor, shared.batch(changes, (some[0],)))
        instant = shared.plan(planner, ORDERS[number % len(ORDERS)])
        shared.execute(executor, instant)
        shared.check(hudi_rs)


def test_apache_hudi_goes_on_after_a_plan_that_lost_a_group_to_ingestion(
    tmp_path: Path, hudi_rs: HudiRsReader, apache_hudi: HudiPeer
) -> None:
    shared = Shared(tmp_path / "table", apache_hudi, "mor", metadata=True)
    shared.create(9)
    shared.write("we", shared.batch({f"k{n:02d}": (PARTS[n % 3], n * 7 % 10) for n in range(12)}))
    shared.write("we", shared.batch({f"k{n:02d}": (PARTS[n % 3], n) for n in range(6)}))
    instant = shared.plan("we", {"sort_by": ["value"]})
    shared.write("we", shared.batch({"k01": ("p1", 100), "k04": ("p1", 200)}, deleted=("k07",)))
    done = shared.table.clustering.execute(instant=instant)
    assert (done.groups, done.left_out) == (2, 1)
    shared.check(hudi_rs)

    shared.write("they", shared.batch({f"k{n:02d}": (PARTS[n % 3], 300 + n) for n in (0, 1, 2, 3)}, deleted=("k05",)))
    shared.execute("they", shared.plan("they", {"sort_by": ["value"]}))
    upkeep = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
    }
    for n in range(3):
        batch = shared.batch({f"k{n:02d}": (PARTS[n % 3], 400 + n)})
        apache_hudi.write(shared.path, batch, options={**shared.options, **upkeep})
    shared.check(hudi_rs)
    assert [*shared.path.glob(f"part=*/*_{instant}.parquet")] == [], "its clean removes what it replaced"


def test_apache_hudi_executes_a_plan_of_a_bucket_table_only_without_its_layout(
    tmp_path: Path, hudi_rs: HudiRsReader, apache_hudi: HudiPeer
) -> None:
    shared = Shared(tmp_path / "table", apache_hudi, "mor", metadata=False, buckets=2)
    shared.create(9)
    shared.write("we", shared.batch({f"k{n:02d}": ("p0", n * 7 % 10) for n in range(12)}))
    shared.write("they", shared.batch({f"k{n:02d}": ("p0", n) for n in range(6)}, deleted=("k08",)))
    instant = shared.plan("we", {"sort_by": ["value"]})
    options = {**shared.options, "hoodie.datasource.write.recordkey.field": "id"}
    with pytest.raises(HudiPeerError, match="not compatible with table layout HoodieSimpleBucketLayout"):
        shared.service("execute", **options)
    shared.service("execute", **options, **{"hoodie.storage.layout.type": "DEFAULT"})
    found = shared.timeline.find(instant)
    assert found is not None
    assert found.is_completed
    shared.check(hudi_rs)
    shared.write("we", shared.batch({f"k{n:02d}": ("p0", n) for n in range(0, 16, 3)}, deleted=("k01",)))
    shared.write("they", shared.batch({f"k{n:02d}": ("p0", 20 + n) for n in range(0, 18, 3)}))
    shared.check(hudi_rs)
    shared.execute("we", shared.plan("we", {"sort_by": ["value"]}))
    shared.write("they", shared.batch({f"k{n:02d}": ("p0", 50 + n) for n in range(0, 16, 3)}))
    shared.check(hudi_rs)
