"""Broken folders: files missing, cut, doubled, astray or left over, one at a time."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.context import Owner
from hudi_ops.formats import partition_metadata
from hudi_ops.table.table import Table
from tests.unit.verify.breaking import (
    errors,
    found,
    infos,
    live,
    metadata_of,
    rewrite_commit,
    rewrite_stat,
    timeline_of,
    warnings,
    writes,
)
from tests.unit.verify.conftest import context, rows_of

UNKNOWN = "20990101000000000"
OLD = "20200101000000000"


@pytest.fixture(params=["ours", "foreign"])
def table(request):
    return request.getfixturevalue(request.param)


def test_named_file_gone(table):
    table.delete(live(table)[1].path)
    # Its partition may have held nothing else.
    assert found(table) == errors("file-missing")


def test_cleaned_files_are_no_finding(in_memory):
    storage = in_memory("v9_cow_clean_savepoint_rollback_archive")
    assert found(storage) == []
    (clean,) = [i.path for i in storage.list(".hoodie/timeline") if "20261121021155939_" in i.path]
    storage.delete(clean)
    assert found(storage) == [], "the clean's plan says the same while it is pending"
    storage.delete(".hoodie/timeline/20261121021155939.clean.requested")
    storage.delete(".hoodie/timeline/20261121021155939.clean.inflight")
    assert found(storage) == errors("file-missing"), "now nothing excuses the files"


def test_a_write_into_a_group_that_was_replaced(ours):
    table = Table(context(ours))
    table.ingest(rows_of(0, 2, 6), "insert_overwrite")
    table.delete_partition(["p=y"])
    table.ingest(rows_of(0, 6, 7))
    assert found(ours) == []
    *_, removal, upsert = timeline_of(ours).completed_writes
    group = metadata_of(ours, upsert).stats[0]
    held = {group.partition_path: (group.file_id,)}
    rewrite_commit(ours, removal, lambda said: replace(said, replaced={**(said.replaced or {}), **held}))
    assert found(ours) == errors("write-into-replaced")


def test_cut_file(table):
    _, stat = live(table)
    table.put(stat.path, table.get(stat.path)[:-1])
    assert found(table) == errors("base-file-broken", "file-size")


def test_statistic_without_size(table):
    instant, stat = live(table)
    rewrite_stat(table, instant, stat.path, file_size_in_bytes=0)
    assert found(table) == warnings("stat-without-size")


def test_log_file_of_version_6_may_have_grown(in_memory):
    storage = in_memory("v6_trips_8i1u_mor")
    (log,) = [info.path for info in storage.list() if ".log." in info.path]
    whole = storage.get(log)
    storage.put(log, whole + b"half a block")
    assert found(storage) == []
    storage.put(log, whole[:-1])
    assert found(storage) == errors("file-size")


def test_two_base_files_of_one_instant(table):
    _, stat = live(table)
    other = stat.path.replace(stat.file_name.split("_")[1], "99-99-99")
    table.put(other, table.get(stat.path))
    assert found(table) == errors("leftover-visible", "two-base-files")


@pytest.mark.parametrize("folder", ["", "p=x/", "staging/deep/"])
def test_parquet_file_with_another_name(table, folder):
    table.put(f"{folder}part-0001.snappy.parquet", b"PAR1")
    assert found(table) == errors("stray-parquet")


def test_other_stray_file(table):
    table.put("README.md", b"hello")
    table.put(".part-1.parquet.crc", b"")
    assert found(table) == infos("stray-file")


def test_folder_of_data_in_a_table_without_partitions(in_memory):
    storage = in_memory("v9_txns_nonpart_nometa_mor")
    _, stat = live(storage)
    storage.put(f"x/{stat.path}", storage.get(stat.path))
    assert ("error", "partition-unknown") in found(storage)


def test_partition_without_its_metadata_file(ours):
    ours.delete("p=x/.hoodie_partition_metadata")
    assert found(ours) == errors("partition-metadata-missing")


def test_partition_without_its_metadata_file_beside_a_metadata_table(in_memory):
    storage = in_memory("v9_async_index")
    storage.delete("p=a/.hoodie_partition_metadata")
    assert found(storage) == warnings("partition-metadata-missing")


def test_broken_partition_metadata(ours):
    ours.put("p=x/.hoodie_partition_metadata", b"\0")
    assert found(ours) == errors("partition-metadata-broken")


def test_partition_metadata_of_another_depth(ours):
    ours.put("p=x/.hoodie_partition_metadata", partition_metadata.dumps(OLD, 2, 0))
    assert found(ours) == errors("partition-depth")


# Leftovers


def test_file_that_its_completed_instant_does_not_name(table):
    instant, stat = live(table)
    partition = stat.path.rpartition("/")[0]
    table.put(f"{partition}/00000001-aaaa-bbbb-cccc-0123456789ab-0_0-1-0_{instant.time}.parquet", b"PAR1")
    assert found(table) == errors("leftover-visible")


def test_the_metadata_table_hides_leftovers(in_memory):
    storage = in_memory("v9_async_index")
    instant = writes(storage)[-1]
    storage.put(f"p=a/00000001-aaaa-bbbb-cccc-0123456789ab-0_0-1-0_{instant.time}.parquet", b"PAR1")
    assert found(storage) == warnings("leftover-visible")


def test_file_of_an_unknown_instant(table):
    path = f"{live(table)[1].path.rpartition('/')[0]}/abc-0_0-1-0_{UNKNOWN}.parquet"
    table.put(path, b"PAR1")
    assert found(table) == warnings("leftover-unknown")
    beating = {"owner": asdict(Owner.of_this_process()), "beaten_ms": 0}
    table.put(lease_path(UNKNOWN), json.dumps(beating).encode())
    assert found(table) == [], "its writer lives"


def test_file_of_a_pending_instant_is_no_finding(ours):
    for suffix in ("commit.requested", "inflight"):
        ours.put(f".hoodie/timeline/{UNKNOWN}.{suffix}", b"")
    beating = {"owner": asdict(Owner.of_this_process()), "beaten_ms": 0}
    ours.put(lease_path(UNKNOWN), json.dumps(beating).encode())
    ours.put(f".hoodie/.temp/{UNKNOWN}/p=x/abc-0_0-1-0_{UNKNOWN}.parquet.marker.CREATE", b"")
    ours.put(f"p=x/abc-0_0-1-0_{UNKNOWN}.parquet", b"PAR1")
    assert found(ours) == []


def test_file_older_than_the_start_that_nobody_completed(ours):
    _, stat = live(ours)
    # Readers take it for rows, so it is opened as rows too; this one is a whole file under another name.
    path = f"p=x/abc-0_0-1-0_{OLD}.parquet"
    ours.put(path, ours.get(stat.path))
    assert ("error", "leftover-visible") in found(ours)
    assert ("error", "bucket-unknown") in found(ours), "and it is none of the table's buckets"


def test_log_of_version_6_that_nobody_names(in_memory):
    storage = in_memory("v6_trips_8i1u_mor")
    (log,) = [info.path for info in storage.list() if ".log." in info.path]
    storage.put(log.replace(".log.1_", ".log.2_"), storage.get(log))
    assert found(storage) == warnings("leftover-log")


def test_markers_of_a_settled_instant(ours):
    instant, stat = live(ours)
    ours.put(f".hoodie/.temp/{instant.time}/{stat.path}.marker.MERGE", b"")
    assert found(ours) == infos("markers-left")


def test_markers_of_an_unknown_instant(ours):
    ours.put(f".hoodie/.temp/{UNKNOWN}/p=x/abc.parquet.marker.CREATE", b"")
    assert found(ours) == warnings("markers-unknown")


@pytest.mark.parametrize("settled", [True, False])
def test_lease_left(ours, settled):
    time = writes(ours)[-1].time if settled else UNKNOWN
    ended = {"owner": {**asdict(Owner.of_this_process()), "started": "1"}, "beaten_ms": 0}
    ours.put(lease_path(time), json.dumps(ended).encode())
    assert found(ours) == infos("lease-left")


def test_ledger_and_payload_of_a_write_that_never_completed(ours):
    ours.put(f".hoodie/.ingest/{UNKNOWN}/0123.json", b"{}")
    assert found(ours) == infos("ledger-left")
    ours.put(f".hoodie/.commit_log/payload/{UNKNOWN}/0-9", b"")
    assert found(ours) == infos("ledger-left", "payload-left")


def test_archive_of_layout_1_is_named_and_not_read(in_memory):
    storage = in_memory("v6_trips_8i1u_mor")
    storage.put(".hoodie/archived/.commits_.archive.1_1-0-1", b"#HUDI#")
    assert found(storage) == infos("archive-unread")
