"""States into which Apache Hudi's writers bring a shared table: we write on, or refuse by name, and everybody reads equal rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Cancelled, Corrupt, Table, Unsupported
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.ringed import ring_options, rows, wanted
from tests.tables import VERSIONED as SCHEMA

PEERS = {9: "apache_hudi", 8: "apache_hudi_1_0"}
WITH_METADATA = {"hoodie.metadata.enable": "true"}
LOCKED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


def peer_of(request: pytest.FixtureRequest, version: int) -> HudiPeer:
    found: HudiPeer = request.getfixturevalue(PEERS[version])
    return found


def assert_clean(table: Table, *also: str) -> None:
    """Everything is verified, the indexes, too. A single writer of Apache Hudi has no lock, which is a warning."""
    told = {"foreign-instant", *also}
    report = table.verify(deep=True, index=True)
    assert [str(one) for one in report.findings if one.severity != "info" and one.invariant not in told] == []


def assert_all_read(path: Path, peer: HudiPeer, expected: pa.Table) -> None:
    """We and Apache Hudi read these rows."""
    assert_same_rows(Table.open(str(path)).read(expected.column_names), expected)
    assert_same_rows(peer.read(path, columns=expected.column_names), expected)


def ring_table(path: Path, version: int) -> Table:
    return Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", table_type="mor",
        bucket_engine="consistent", buckets=4, metadata=False, version=version)  # fmt: skip


def of_partition(batch: pa.Table, part: str) -> pa.Table:
    return batch.filter(pa.array([one == part for one in batch["part"].to_pylist()]))


@pytest.mark.parametrize("version", PEERS)
def test_rings_that_apache_hudi_leaves_after_its_removal_and_overwrite(
    tmp_path: Path, request: pytest.FixtureRequest, version: int
) -> None:
    peer, path = peer_of(request, version), tmp_path / "t"
    table = ring_table(path, version)
    folders = {part: f"part={part}" for part in ("p0", "p1")}
    table.ingest(rows(0, 40, 1))
    removed = {"hoodie.datasource.write.partitions.to.delete": folders["p0"]}
    peer.write(path, rows(0, 1, 1), "delete_partition", options=ring_options(4) | removed)
    assert_all_read(path, peer, of_partition(rows(0, 40, 1), "p1"))
    with pytest.raises(Corrupt, match="delete_partition of another writer"):
        table.ingest(rows(0, 40, 2))
    assert [one.is_done for one in table.repair("ring-replaced").repairs] == [True]
    table.ingest(rows(0, 40, 2))
    assert_all_read(path, peer, rows(0, 40, 2))
    peer.write(path, rows(20, 60, 3), options=ring_options(4))
    assert_all_read(path, peer, wanted(rows(0, 40, 2), rows(20, 60, 3)))
    assert_clean(table)

    overwritten = of_partition(rows(0, 30, 4), "p1")
    peer.write(path, overwritten, "insert_overwrite", options=ring_options(4))
    present = pa.concat_tables([of_partition(wanted(rows(0, 40, 2), rows(20, 60, 3)), "p0"), overwritten])
    assert_all_read(path, peer, present)
    with pytest.raises(Corrupt, match="insert_overwrite of another writer"):
        table.ingest(rows(0, 40, 5))
    assert [one.is_done for one in table.repair("ring-replaced").repairs] == [False]
    table.ingest(overwritten, operation="insert_overwrite")
    table.ingest(rows(0, 40, 5))
    assert_all_read(path, peer, wanted(present, rows(0, 40, 5)))
    assert_clean(table)


@pytest.mark.parametrize("version", PEERS)
def test_rings_after_apache_hudi_undid_our_removal(
    tmp_path: Path, request: pytest.FixtureRequest, version: int
) -> None:
    peer, path = peer_of(request, version), tmp_path / "t"
    table = ring_table(path, version)
    table.ingest(rows(0, 40, 1))
    removed = table.delete_partition(["part=p0"]).instant
    assert_all_read(path, peer, of_partition(rows(0, 40, 1), "p1"))
    peer.sql(f"call rollback_to_instant(table => 't', instant_time => '{removed}')", tables={"t": path})
    assert_all_read(path, peer, rows(0, 40, 1))
    peer.write(path, rows(10, 50, 2), options=ring_options(4))
    assert_all_read(path, peer, wanted(rows(0, 40, 1), rows(10, 50, 2)))
    table = Table.open(str(path))
    table.ingest(rows(20, 60, 3))
    assert_all_read(path, peer, wanted(rows(0, 40, 1), rows(10, 50, 2), rows(20, 60, 3)))
    assert_clean(table, "eager-rollback", "ring-left")


@pytest.mark.parametrize("version", PEERS)
def test_old_rings_that_our_clean_deletes_are_of_no_use_to_apache_hudi(
    tmp_path: Path, request: pytest.FixtureRequest, version: int
) -> None:
    peer, path = peer_of(request, version), tmp_path / "t"
    table = ring_table(path, version)
    for turn in range(1, 6):
        table.ingest(rows(0, 40, turn), operation="insert_overwrite")
    done = table.clean.run(retain=1)
    assert done.ring_files
    assert_all_read(path, peer, rows(0, 40, 5))
    peer.write(path, rows(20, 60, 6), options=ring_options(4))
    table.ingest(rows(50, 70, 7))
    assert_all_read(path, peer, wanted(rows(0, 40, 5), rows(20, 60, 6), rows(50, 70, 7)))
    assert_clean(table)


TIMED = pa.schema([
    ("id", pa.string()), ("part", pa.string()), ("at", pa.timestamp("ms", "UTC")), ("n", pa.int64()),
])  # fmt: skip


def timed(first: int, last: int, n: int) -> pa.Table:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    numbers = range(first, last)
    times = [start + timedelta(milliseconds=number + 1000 * n) for number in numbers]
    return pa.table([[f"k{one}" for one in numbers], ["p"] * len(numbers), times, [n] * len(numbers)], schema=TIMED)


def test_times_of_a_table_of_version_8_outlive_rewrites_by_apache_hudi_1_0(
    tmp_path: Path, apache_hudi_1_0: HudiPeer
) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=TIMED, partition_by=["part"], ordering="n", buckets=2, metadata=False,
        version=8)  # fmt: skip
    table.ingest(timed(0, 20, 1))
    apache_hudi_1_0.write(path, timed(10, 30, 2), buckets=2)  # rewrites files of ours
    expected = pa.concat_tables([timed(0, 10, 1), timed(10, 30, 2)])
    assert_all_read(path, apache_hudi_1_0, expected)
    table.ingest(timed(25, 40, 3))
    assert_all_read(path, apache_hudi_1_0, pa.concat_tables([expected.slice(0, 25), timed(25, 40, 3)]))
    assert_clean(table)


@pytest.mark.parametrize("version", PEERS)
@pytest.mark.parametrize("index", ["simple", "bloom"])
def test_keys_that_lie_in_log_files_alone(
    tmp_path: Path, request: pytest.FixtureRequest, version: int, index: str
) -> None:
    """An index of Apache Hudi that finds keys in log files puts new ones there, as Flink does; later writers use another."""
    peer, path = peer_of(request, version), tmp_path / "t"
    made = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": str(version),
    }
    peer.write(path, rows(0, 20, 1), "bulk_insert", mode="overwrite", options=made)
    peer.write(path, rows(20, 40, 1), options=made | {"hoodie.index.type": "INMEMORY"})
    assert list(path.rglob(".*.log.*")), "the new keys lie in log files"
    table = Table.open(str(path), index=index)
    table.adopt()
    assert_all_read(path, peer, rows(0, 40, 1))
    done = table.ingest(rows(10, 50, 2))
    assert done.inserted == 10
    assert_all_read(path, peer, wanted(rows(0, 40, 1), rows(10, 50, 2)))
    table.ingest(rows(30, 40, 3), operation="delete")
    left = pa.concat_tables([rows(0, 10, 1), rows(10, 30, 2), rows(40, 50, 2)])
    assert_all_read(path, peer, left)
    assert_clean(table)


DATED = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])


def dated(version: int, *days: str) -> pa.Table:
    return pa.table([[f"k{one}" for one in range(len(days))], [*days], [version] * len(days)], schema=DATED)


@pytest.mark.parametrize("by_sql", [False, True], ids=["data source", "SQL"])
def test_slash_separated_dates(tmp_path: Path, apache_hudi: HudiPeer, by_sql: bool) -> None:
    path, slashes = tmp_path / "t", "hoodie.datasource.write.slash.separated.date.partitioning"
    days = ("2024-03-05", "2024-03-15", "2023-12-31")
    options = {
        "hoodie.table.name": "slashed",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        slashes: "true",
    }
    if by_sql:
        apache_hudi.sql(
            "create table slashed (id string, part string, ts bigint) using hudi partitioned by (part) "
            f"tblproperties (primaryKey = 'id', preCombineField = 'ts', '{slashes}' = 'true') location '{path}'"
        )
    else:
        apache_hudi.write(path, dated(1).slice(0, 0), mode="overwrite", options=options)
    table = Table.open(str(path), index="simple", timezone="UTC")
    table.ingest(dated(1, *days))
    assert {
        one.parent.relative_to(path).as_posix() for one in path.rglob("*.parquet") if ".hoodie" not in str(one)
    } == {day.replace("-", "/") for day in days}
    apache_hudi.write(path, dated(2, *days[:2]), options=options)
    assert table.ingest(dated(3, days[0])).inserted == 0
    expected = [("k0", 3), ("k1", 2), ("k2", 1)]
    for read in (Table.open(str(path)).read(["id", "ts"]), apache_hudi.read(path, columns=["id", "ts"])):
        assert sorted(zip(read["id"].to_pylist(), read["ts"].to_pylist(), strict=True)) == expected
    assert table.read(["id"], where="part = '2024-03-05'")["id"].to_pylist() == ["k0"]
    assert_clean(table)


def test_a_metadata_table_that_a_writer_left_behind(
    tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]
) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", buckets=2
    )
    table.ingest(rows(0, 40, 1))
    behind = {"hoodie.metadata.enable": "false", "hoodie.metadata.auto.delete.partitions": "false"}
    apache_hudi.write(path, rows(20, 60, 2), buckets=2, options=behind)
    done = Table.open(str(path)).ingest(rows(50, 70, 3))
    assert done.instant is not None
    expected = wanted(rows(0, 40, 1), rows(20, 60, 2), rows(50, 70, 3))
    assert_same_rows(apache_hudi.read(path, columns=SCHEMA.names, options=WITH_METADATA), expected)
    assert_same_rows(hudi_rs(path).select(SCHEMA.names), expected)
    assert_all_read(path, apache_hudi, expected)
    assert_clean(Table.open(str(path)))


def test_a_partitioned_record_index_stays_with_apache_hudi(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.level.index.enable": "true",
    }
    apache_hudi.write(path, rows(0, 20, 1), mode="overwrite", options=options)
    table = Table.open(str(path))
    assert_clean(table)
    for index in ("record_index", "simple"):
        with pytest.raises(Unsupported, match="partitioned record index"):
            Table.open(str(path), index=index).adopt()
    apache_hudi.write(path, rows(10, 30, 2), options=options)
    assert_all_read(path, apache_hudi, wanted(rows(0, 20, 1), rows(10, 30, 2)))
    assert_clean(table)


def test_vectors_keep_their_types_through_our_services(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    apache_hudi.sql(
        "create table t_vectors (id string, emb vector(3), ts bigint) using hudi "
        f"tblproperties (primaryKey = 'id', preCombineField = 'ts', type = 'mor') location '{path}'"
    )

    def put(version: int, *keys: int) -> None:
        values = ", ".join(
            f"('k{key}', array(cast({key} as float), cast(0.5 as float), cast({version} as float)), cast({version} as bigint))"
            for key in keys
        )
        apache_hudi.sql(
            f"merge into t_vectors using (select * from values {values} as s(id, emb, ts)) s on t_vectors.id = s.id "
            "when matched then update set * when not matched then insert *"
        )

    def shown() -> list[tuple[str, list[float], int]]:
        read = apache_hudi.sql("select id, emb, ts from t_vectors order by id")
        return [(row["id"], list(row["emb"]), row["ts"]) for row in read.to_pylist()]

    put(1, 0, 1, 2)
    put(2, 1, 2)
    expected = [("k0", [0.0, 0.5, 1.0], 1), ("k1", [1.0, 0.5, 2.0], 2), ("k2", [2.0, 0.5, 2.0], 2)]
    assert shown() == expected
    table = Table.open(str(path), index="simple", timezone="UTC")
    table.adopt()
    assert table.compaction.run().instant is not None or not list(path.rglob(".*.log.*"))
    assert shown() == expected
    assert table.clustering.run(sort_by=["id"], rewrite=True).instant is not None
    newest = max(path.glob("*.parquet"), key=lambda one: one.stat().st_mtime)
    assert pq.read_metadata(newest).metadata[b"hoodie.vector.columns"] == b"emb:VECTOR(3)"
    assert shown() == expected
    put(3, 2, 3)
    expected = [*expected[:2], ("k2", [2.0, 0.5, 3.0], 3), ("k3", [3.0, 0.5, 3.0], 3)]
    assert shown() == expected
    assert [(row["id"], row["ts"]) for row in table.read(["id", "ts"]).sort_by("id").to_pylist()] == [
        (key, version) for key, _, version in expected
    ]
    assert_clean(table)


def test_offsets_of_a_streaming_job_outlive_eleven_commits_of_ours(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path),
        name="t",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        ordering="ts",
        buckets=2,
        metadata=False,
    )
    table.ingest(rows(0, 10, 1))
    rolling = {"hoodie.write.rolling.metadata.keys": "_offset", "hoodie.datasource.write.commitmeta.key.prefix": "_"}
    apache_hudi.write(path, rows(0, 10, 2), buckets=2, options=rolling | {"_offset": "7"})
    table = Table.open(str(path))
    for turn in range(11):
        table.ingest(rows(0, 2, 3 + turn))
    apache_hudi.write(path, rows(0, 10, 20), buckets=2, options=rolling)
    newest = max((path / ".hoodie/timeline").glob("*.commit"))
    assert CommitMetadata.from_bytes(newest.read_bytes(), str(newest)).extra["_offset"] == "7"
    assert_all_read(path, apache_hudi, rows(0, 10, 20))


def test_a_requested_clustering_that_apache_hudi_expired_is_named(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path),
        name="t",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        ordering="ts",
        index="simple",
        metadata=False,
    )
    for turn in range(3):
        table.ingest(rows(10 * turn, 10 * turn + 10, 1), operation="bulk_insert")
    planned = table.clustering.plan(rewrite=True).instant
    assert planned is not None
    expires = {
        "hoodie.clustering.enable.expirations": "true",
        "hoodie.clustering.expiration.threshold.mins": "0",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "100",
    }
    apache_hudi.write(
        path, rows(100, 105, 2), "insert", options=LOCKED | expires | {"hoodie.parquet.small.file.limit": "0"}
    )
    with pytest.raises(Cancelled, match="undone by rollback") as raised:
        table.clustering.execute(instant=planned)
    assert "Apache Hudi rolls expired plans back" in raised.value.found
    assert_all_read(path, apache_hudi, wanted(rows(0, 30, 1), rows(100, 105, 2)))
