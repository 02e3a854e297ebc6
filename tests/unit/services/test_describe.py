"""What `timeline` and `show` say of tables that Apache Hudi wrote, held against what is known of them; and of one of ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.context import Owner
from hudi_ops.services.inspect.summary import describe_table, describe_timeline
from hudi_ops.storage.open import open_storage

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "apache-hudi-tables"
ARCHIVE = "v9_cow_clean_savepoint_rollback_archive"


@pytest.fixture
def opened(hudi_fixtures):
    return lambda name: open_storage(str(hudi_fixtures(name)))


def test_every_fixture_and_metadata_table_is_described(hudi_fixtures, hudi_fixture_names):
    for name in hudi_fixture_names:
        for root in (hudi_fixtures(name), hudi_fixtures(name) / ".hoodie" / "metadata"):
            if not root.is_dir():
                continue
            storage = open_storage(str(root))
            summary = describe_table(storage)
            rows = describe_timeline(storage, archived=True)
            json.dumps([summary.as_dict(), *(row.as_dict() for row in rows)])
            assert summary.columns, name
            assert summary.partitions > 0, name
            assert summary.file_groups >= summary.base_files, name
            assert summary.total_bytes > 0, name
            assert not summary.writable
            assert summary.why_not_writable, name
            assert [row.time for row in rows] == sorted(row.time for row in rows)
            assert not any("cannot be read" in row.note for row in rows), name


def test_rows_of_tables_without_log_files_are_the_expected_ones(opened, hudi_fixture_names):
    told = 0
    for name in hudi_fixture_names:
        summary = describe_table(opened(name))
        if summary.log_files:
            assert summary.rows is None
            continue
        expected = json.loads((FIXTURES / f"{name}.expected.json").read_text(encoding="utf-8"))
        assert summary.rows == expected["row_count"], name
        told += 1
    assert told >= 6


def test_columns_are_the_expected_ones(opened, hudi_fixture_names):
    for name in hudi_fixture_names:
        expected = json.loads((FIXTURES / f"{name}.expected.json").read_text(encoding="utf-8"))["schema"]
        own = [field.partition(":")[0] for field in expected if not field.startswith("_hoodie_")]
        assert [column for column, _ in describe_table(opened(name)).columns] == own, name


def test_timeline_with_clean_savepoint_rollback(opened):
    rows = describe_timeline(opened(ARCHIVE))
    assert [row.action for row in rows] == [
        "commit", "savepoint", "commit", "commit", "clean", "commit", "clean", "commit", "clean", "clean", "rollback", "commit",
    ]  # fmt: skip
    notes = {row.action: row.note for row in rows}
    assert notes["savepoint"] == "protects 2 files in 2 partitions, made by alice: before the load"
    assert notes["rollback"] == "rolled back 20261121021157423: 2 files in 2 partitions deleted"
    assert notes["clean"] == "deleted 2 files in 2 partitions; snapshots from 20261121021157423 on stay readable"
    last = rows[-1]
    assert (last.operation, last.files, last.rows_written, last.inserted, last.updated) == ("UPSERT", 2, 14, 2, 2)
    assert last.bytes_written == 9819


def test_archived_instants_come_first_and_are_marked(opened):
    rows = describe_timeline(opened(ARCHIVE), archived=True)
    assert [row.time for row in rows if row.archived] == ["20261121021147475", "20261121021148517", "20261121021149544"]
    assert all(row.archived for row in rows[:3])
    assert (rows[0].inserted, rows[1].updated) == (12, 6)


@pytest.mark.parametrize(("limit", "archived"), [(0, 0), (1, 0), (12, 0), (13, 1), (15, 3), (99, 3)])
def test_limit_keeps_the_newest(opened, limit, archived):
    everything = describe_timeline(opened(ARCHIVE), archived=True)
    rows = describe_timeline(opened(ARCHIVE), archived=True, limit=limit)
    assert rows == everything[max(0, len(everything) - limit) :]
    assert sum(row.archived for row in rows) == archived


def test_pending_plans_say_what_they_are_about(opened):
    summary = describe_table(opened("v9_mor_pending_compaction_clustering"))
    assert [(row.action, row.state, row.note) for row in summary.pending_instants] == [
        ("clustering", "requested", "rewrites 1 file group in 1 group"),
        ("compaction", "requested", "merges 2 log files of 1 file group in 1 partition"),
    ]


def test_a_planned_index_build_has_not_built_anything(tmp_path):
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema="id string")
    table.ingest(pa.table({"id": ["a"]}))
    plan = table.indexing.plan(partitions=["bloom_filters"]).instant
    storage = table.context.storage
    states = {one.name: one.state for one in table.indexing.show()}
    assert (describe_timeline(storage)[-1].note.partition(" up to ")[0], states["bloom_filters"]) == (
        "will build bloom_filters",
        "planned",
    )
    table.indexing.execute(instant=plan)
    assert describe_timeline(storage)[-1].note.startswith("built bloom_filters up to ")


def test_slices_after_compaction_and_clustering(opened):
    compacted = describe_table(opened("v8_trips_8i3u1d_mor"))
    assert (compacted.file_groups, compacted.base_files, compacted.log_files) == (3, 3, 1)
    resized = describe_table(opened("v9_bucket_consistent_resized"))
    assert (resized.file_groups, resized.base_files, resized.log_files) == (2, 2, 1)
    version_6 = describe_table(opened("v6_nonpartitioned_mor"))
    assert (version_6.file_groups, version_6.base_files, version_6.log_files) == (2, 2, 1)


def test_facts_of_a_table(opened):
    summary = describe_table(opened("v9_txns_simple_meta_mor"))
    assert (summary.name, summary.version, summary.type, summary.layout) == (
        "v9_txns_mor_simple_meta", 9, "MERGE_ON_READ", 2,
    )  # fmt: skip
    assert summary.keys == ("txn_id",)
    assert summary.partition_fields == ("region",)
    assert summary.ordering_fields == ("txn_ts",)
    assert summary.merge_mode == "EVENT_TIME_ORDERING"
    assert "record_index" in summary.metadata_partitions
    assert len(summary.last_instants) == 5


def test_a_broken_file_hides_no_other(opened, hudi_fixtures, tmp_path):
    import shutil

    root = Path(shutil.copytree(hudi_fixtures(ARCHIVE), tmp_path / ARCHIVE))
    whole = describe_timeline(open_storage(str(root)))
    (clean,) = (root / ".hoodie/timeline").glob("20261121021155939_*.clean")
    clean.write_bytes(b"broken")
    rows = describe_timeline(open_storage(str(root)))
    assert [row.note for row in rows if "cannot be read" in row.note]
    assert [r for r in rows if r.time != "20261121021155939"] == [r for r in whole if r.time != "20261121021155939"]


def test_a_table_of_ours(tmp_path):
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
    path = str(tmp_path / "t")
    table = Table.create(path, name="t", record_key=["id"], schema=schema, partition_by=["p"], buckets=2)
    table.ingest(pa.table({"id": ["a", "b", "c"], "p": ["x", "x", "y"], "v": [1, 2, 3]}, schema=schema))
    result = table.ingest(pa.table({"id": ["a", "d"], "p": ["x", "y"], "v": [5, 6]}, schema=schema))
    storage = open_storage(path)
    summary = describe_table(storage)
    assert (summary.index, summary.buckets, summary.writable, summary.why_not_writable) == (
        "simple_bucket",
        2,
        True,
        "",
    )
    assert (summary.partitions, summary.rows, summary.log_files) == (2, 4, 0)
    rows = describe_timeline(storage)
    assert [row.slot for row in rows] == [1, 2, 3]
    assert (rows[-1].time, rows[-1].inserted, rows[-1].updated, rows[-1].bytes_written) == (
        result.instant, result.inserted, result.updated, result.bytes_written,
    )  # fmt: skip
    # Somebody begins a write: the row says who.
    storage.put(".hoodie/timeline/20990101000000000.commit.requested", b"")
    owner = Owner.of_this_process()
    storage.put(lease_path("20990101000000000"), json.dumps({"owner": asdict(owner), "beaten_ms": 0}).encode())
    (pending,) = describe_table(storage).pending_instants
    assert (pending.state, pending.owner) == ("requested", str(owner))
    storage.put(lease_path("20990101000000000"), b"")
    assert describe_timeline(storage)[-1].owner == "Apache Hudi"


def test_a_merge_on_read_table_of_ours_can_be_written(tmp_path):
    schema = pa.schema([("id", pa.string())])
    Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=schema, table_type="mor")
    summary = describe_table(open_storage(str(tmp_path / "t")))
    assert summary.writable, summary.why_not_writable
    assert (summary.key_generator, summary.meta_fields, summary.version) == ("NON_PARTITION", True, 9)
    assert (summary.file_groups, summary.rows) == (0, 0)
