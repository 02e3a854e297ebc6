"""A writer of Apache Hudi that died beside a pending resize of its buckets leaves nothing behind, once ours have rolled it back.

It wrote each row twice: under its own instant into the old groups, and under the resize's into the groups that the resize makes.
What stayed of the latter would be rows as soon as Apache Hudi completes the resize.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.files.names import parse_data_file
from tests.interop.apache_hudi import HudiPeer
from tests.interop.dead_writes import kill_newest, newest_write, timeline
from tests.tables import VERSIONED as SCHEMA

KEYS = 60
CLUSTERING = "org.apache.hudi.client.clustering"
RESIZING = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    "hoodie.parquet.max.file.size": "2000",
    "hoodie.bucket.index.split.threshold": "0.5",
    "hoodie.clustering.plan.strategy.class": f"{CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": f"{CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy",
    "hoodie.clustering.updates.strategy": f"{CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.name": "resized",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}


def rows(version: int, keys: int = KEYS) -> pa.Table:
    names = [f"k{n:03d}" for n in range(keys)]
    columns = [names, ["p0"] * keys, [version * 100 + n for n in range(keys)], [version] * keys]
    return pa.table(columns, schema=SCHEMA)


def write_beside_a_resize(path: Path, peer: HudiPeer, version: int) -> None:
    """A table of Apache Hudi with a pending resize, and a completed write after its plan."""
    options = {**RESIZING, "hoodie.write.table.version": str(version)}
    peer.write(path, rows(1), mode="overwrite", options=options)
    peer.write(path, rows(2), options=options)
    cluster(path, peer, "schedule")
    peer.write(path, rows(3), options=options)


def cluster(path: Path, peer: HudiPeer, step: str) -> None:
    options = ",".join(f"{key}={value}" for key, value in RESIZING.items())
    peer.sql(f"call run_clustering(path => '{path}', op => '{step}', options => '{options}')")


def pending_resize(path: Path) -> str:
    (plan,) = timeline(path).pending
    assert plan.action == "clustering"
    return plan.time


def of_the_resize(files: list[str], resize: str) -> list[str]:
    parsed = {one: parse_data_file(one.rpartition("/")[2]) for one in files}
    return [one for one, name in parsed.items() if name is not None and name.instant == resize]


def plain(table: pa.Table) -> list[dict[str, object]]:
    return table.select(SCHEMA.names).sort_by("id").to_pylist()


@pytest.mark.parametrize("version", [9, 8])
def test_no_row_of_a_dead_writer_beside_a_resize_appears_once_the_resize_completes(
    tmp_path: Path, request: pytest.FixtureRequest, version: int
) -> None:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    path = tmp_path / "resized"
    write_beside_a_resize(path, peer, version)
    resize = pending_resize(path)
    kept = newest_write(path)[1]
    assert of_the_resize(kept, resize), "the write before it wrote twice, too"
    peer.write(path, rows(4, KEYS // 2), options={**RESIZING, "hoodie.write.table.version": str(version)})
    _, left = kill_newest(path)
    assert of_the_resize(left, resize)

    (undone,) = Table.open(str(path), services_only=True).recover().rolled_back
    assert set(undone.files) == set(left)
    assert not [one for one in left if (path / one).exists()]
    assert not [one for one in kept if not (path / one).exists()]

    cluster(path, peer, "execute")
    found = timeline(path).find(resize)
    assert found is not None
    assert found.is_completed
    assert plain(peer.read(path)) == plain(rows(3))
    assert plain(Table.open(str(path)).read()) == plain(rows(3))
    assert Table.open(str(path)).verify(deep=True, index=True).errors == ()
