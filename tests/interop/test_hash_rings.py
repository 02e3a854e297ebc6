"""Tables with hash rings: Apache Hudi and ours route every key alike, write in turn, and follow each other's rings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.index.bucket_engine import RingEngine, SimpleEngine
from hudi_ops.index.ring import INITIAL, Ring, initial_ring
from hudi_ops.index.ring_files import RingReader, committed_path, ring_path
from hudi_ops.index.simple_bucket import bucket_of
from hudi_ops.storage.local import LocalStorage
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.interop.apache_hudi import HudiPeer, bucket_options
from tests.interop.compare import assert_same_rows
from tests.interop.ringed import ring_options, rows, wanted
from tests.tables import VERSIONED as SCHEMA

KEYS = bound(1_000, 20_000, 100_000)
CLUSTERING = "org.apache.hudi.client.clustering"
STORED = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]


RESIZED = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.parquet.max.file.size": "2000",
    "hoodie.bucket.index.split.threshold": "0.5",
    "hoodie.clustering.plan.strategy.class": f"{CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": f"{CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy",
    "hoodie.clustering.updates.strategy": f"{CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
}


def awkward_keys() -> pa.Table:
    """Keys of two fields: unicode, empty, long, with commas."""
    kinds = ("{}", "日本語{}", "", "é{}" * 40, "{},x", "\U0001f600{}", "_{}_")
    left = [kinds[n % len(kinds)].replace("{}", str(n)) for n in range(KEYS)]
    return pa.table({
        "a": left,
        "b": [str(n) for n in range(KEYS)],
        "part": ["ü" if n % 2 else "p" for n in range(KEYS)],
    })


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("engine", ["SIMPLE", "CONSISTENT_HASHING"])
def test_apache_hudi_and_ours_route_all_keys_alike(tmp_path: Path, apache_hudi: HudiPeer, engine: str) -> None:
    path, buckets = tmp_path / "t", 7
    options = (ring_options if engine != "SIMPLE" else bucket_options)(buckets, "a,b") | {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "a,b",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    }
    apache_hudi.write(path, awkward_keys(), mode="overwrite", options=options)
    stored = Table.open(str(path)).read(STORED)  # as Apache Hudi wrote them, without another Spark job
    assert stored.num_rows == KEYS
    keys = stored["_hoodie_record_key"].combine_chunks().cast(pa.string())
    file_ids = [name.split("_")[0] for name in stored["_hoodie_file_name"].to_pylist()]
    if engine == "SIMPLE":
        assert SimpleEngine(buckets, ("a", "b")).numbers(keys).tolist() == [bucket_of(one) for one in file_ids]
        return
    partitions = stored["_hoodie_partition_path"].to_pylist()
    rings = {partition: initial_ring(partition, buckets) for partition in {*partitions}}
    ring_engine = RingEngine(buckets, ("a", "b"))
    hashes = ring_engine.hashes(keys)
    nodes = rings[partitions[0]].nodes_of(hashes)
    assert np.array_equal(nodes, ring_engine.numbers(keys)), "the initial ring's nodes are the lanes"
    assert [rings[one].file_id(node) for one, node in zip(partitions, nodes.tolist(), strict=True)] == file_ids
    for partition, ring in rings.items():
        assert (path / ring_path(partition, INITIAL)).read_bytes() == ring.to_bytes()


def test_writers_take_turns_on_a_table_of_ours(
    tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]
) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", table_type="mor",
        bucket_engine="consistent", buckets=4, metadata=False)  # fmt: skip
    batches = [rows(0, 60, 1), rows(30, 90, 2), rows(0, 90, 3), rows(0, 40, 4), rows(0, 100, 5)]
    table.ingest(batches[0])
    apache_hudi.write(path, batches[1], options=ring_options(4))
    table.ingest(batches[2])
    assert_same_rows(table.read(SCHEMA.names), wanted(*batches[:3]))
    # An overwrite of ours makes rings with new file groups, which Apache Hudi must follow.
    table.ingest(batches[3], operation="insert_overwrite")
    assert_same_rows(apache_hudi.read(path, columns=SCHEMA.names), batches[3])
    apache_hudi.write(path, batches[4], options=ring_options(4))
    for read in (table.read(SCHEMA.names), apache_hudi.read(path, columns=SCHEMA.names), hudi_rs(path)):
        assert_same_rows(read.select(SCHEMA.names), batches[4])
    report = verify_table(LocalStorage(str(path)), deep=True)
    assert [finding for finding in report.findings if finding.severity == "error"] == []


def test_our_writes_follow_the_ring_of_a_resize(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    options = ring_options(2) | {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    }
    batches = [rows(0, 200, 1), rows(0, 200, 2), rows(0, 200, 3), rows(0, 240, 4)]
    apache_hudi.write(path, batches[0], mode="overwrite", options=options)
    table = Table.open(str(path))
    adopted = table.adopt()
    assert (adopted.index, adopted.buckets, adopted.checked_keys) == ("consistent_bucket", 2, 200)
    table.ingest(batches[1])  # log files for groups that have no base file
    assert_same_rows(apache_hudi.read(path, columns=SCHEMA.names), batches[1])
    apache_hudi.write(path, batches[2], options=options | RESIZED)
    ring = ring_of(table, path)
    assert len(ring.prefixes) > 2, "Apache Hudi split the buckets"
    assert not (path / committed_path("p0", ring.instant)).exists(), "the completed instant is the only proof"
    table.ingest(batches[3])
    for read in (table.read(SCHEMA.names), apache_hudi.read(path, columns=SCHEMA.names)):
        assert_same_rows(read.select(SCHEMA.names), batches[3])
    report = verify_table(LocalStorage(str(path)), deep=True)
    assert [finding for finding in report.findings if finding.severity == "error"] == []


def ring_of(table: Table, path: Path) -> Ring:
    state = table._session.loader.load()
    found = RingReader.of(LocalStorage(str(path)), state, table._session.commits).read("p0")
    assert found is not None
    return found
