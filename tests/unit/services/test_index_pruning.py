"""Reads by the indexes of metadata tables that Apache Hudi wrote: the same rows, fewer files, and what left them out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops import Table
from hudi_ops.config.table import IndexKind
from hudi_ops.errors import NotFound, Unavailable, Unsupported
from hudi_ops.formats.log.hfile_blocks import encode_metadata_log
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER, MetadataPartition, group_id, group_numbers
from hudi_ops.metadata.records.record_index import location_values
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.read.changes import ChangesRequest, plan_changes
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.read.scan import Scan
from hudi_ops.storage.local import LocalStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.verify.data.listing import check_listing
from tests.interop.compare import assert_same_rows
from tests.interop.expected import load_expected
from tests.unit.metadata.fixture_metadata import TABLES
from tests.unit.metadata.made_metadata import name_partitions, say_index

INDEXED = "v9_record_index_bloom_filters"
FILES, STATS = MetadataPartition.FILES, MetadataPartition.COLUMN_STATS


def scan(path: Path, where: str | None = None, listing: str = "auto", as_of: str | None = None) -> Scan:
    """A read that asks every index: for tables as small as these, reading the files takes less time."""
    request = request_of(None, where, as_of, None, listing=listing, meta_columns=True)
    return Scan(plan_read(LocalStorage(str(path)), replace(request, indexes="always")))


@pytest.fixture
def copied(hudi_fixtures: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """A fixture's table, to be changed; its properties name the partitions given, if any, and its commit log an index."""

    def copy(name: str, *partitions: str, index: IndexKind | None = None) -> Path:
        shutil.copytree(hudi_fixtures(name), tmp_path / name)
        if index is not None:
            say_index(tmp_path / name, index)
        if partitions:
            name_partitions(tmp_path / name, partitions)
        return tmp_path / name

    return copy


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_the_expected_ones_with_every_listing(hudi_fixtures: Callable[[str], Path], name: str) -> None:
    path, expected = hudi_fixtures(name), load_expected(name)
    for listing in ("auto", "metadata", "storage"):
        read = scan(path, listing=listing)
        assert_same_rows(read.to_arrow().select(expected.column_names), expected, with_meta=True)
        assert read.explain().listing == ("storage" if listing == "storage" else "metadata")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("partition", "columns"),
    [
        (MetadataPartition.COLUMN_STATS, slice(None)),
        (MetadataPartition.PARTITION_STATS, slice(3, None)),
        (MetadataPartition.RECORD_INDEX, slice(2, 3)),
        (MetadataPartition.BLOOM_FILTERS, slice(2, 3)),
    ],
    ids=lambda one: str(one) if isinstance(one, MetadataPartition) else "",
)
def test_every_value_is_found_by_every_index(
    copied: Callable[..., Path], name: str, partition: MetadataPartition, columns: slice
) -> None:
    path = copied(name, FILES, partition, index="record_index" if partition is MetadataPartition.RECORD_INDEX else None)
    rows = scan(path, listing="storage").to_arrow()
    for column in rows.column_names[columns]:
        kind = rows.schema.field(column).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
            continue
        for value in rows[column].unique().drop_null().to_pylist()[:3]:
            where = f"{column} = '{value}'" if pa.types.is_string(kind) else f"{column} = {value}"
            assert_same_rows(scan(path, where).to_arrow(), rows.filter(pc.field(column) == value), with_meta=True)


def test_partition_statistics_leave_out_partitions(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "partition_stats")
    told = scan(path, "ts > 5000").explain()
    assert (told.partitions_read, told.partitions_skipped_by_statistics, told.files_read) == (0, 2, 0)


def test_column_statistics_leave_out_file_groups(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "column_stats")
    told = scan(path, "ts > 5000").explain()
    assert (told.partitions_read, told.groups_skipped_by_statistics, told.files_skipped) == (2, 2, 2)
    assert "2 by column_stats" in str(told)
    assert scan(path, "ts > 5000", "storage").explain().groups_skipped_by_statistics == 0


def test_the_record_index_finds_the_groups_of_keys(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "record_index", index="record_index")
    key = scan(path).to_arrow()["id"].to_pylist()[0]
    told = scan(path, f"id = '{key}'").explain()
    assert (told.partitions_skipped_by_record_index, told.files_read, told.record_index_unused) == (1, 1, "")
    nobody = scan(path, "id IN ('nobody', 'nothing')")
    assert (nobody.count_rows(), nobody.explain().partitions_read) == (0, 0)


@pytest.mark.parametrize(
    ("index", "why"),
    [
        (None, "nothing says"),
        ("other", "nothing says"),
        ("simple_bucket", "index is bucket"),
        ("bloom", "index is bloom"),
    ],
)
def test_a_record_index_that_writers_do_not_ask_is_not_asked(
    copied: Callable[..., Path], index: IndexKind | None, why: str
) -> None:
    path = copied(INDEXED, "files", "record_index", index=index)
    told = scan(path, "id = 'nobody'").explain()
    assert (told.partitions_read, told.groups_skipped_by_record_index) == (2, 0)
    assert why in told.record_index_unused
    assert f"record_index: {told.record_index_unused}" in str(told)
    assert scan(path, "v = -1").explain().record_index_unused == ""


def test_a_commit_log_that_cannot_be_read_tells_no_index(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "record_index", index="record_index")
    LocalStorage(str(path)).put(slot_path(0), b"nothing")
    assert "nothing says" in scan(path, "id = 'nobody'").explain().record_index_unused


def test_bloom_filters_leave_out_base_files(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "bloom_filters")
    told = scan(path, "id = 'nobody'").explain()
    assert told.groups_skipped_by_bloom_filters == 2
    key = scan(path).to_arrow()["id"].to_pylist()[0]
    assert scan(path, f"id = '{key}'").explain().groups_skipped_by_bloom_filters == 1


def test_a_partition_that_is_being_filled_leaves_nothing_out(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files")
    told = scan(path, "ts > 5000 AND id = 'nobody'").explain()
    assert (told.listing, told.partitions_read, told.files_skipped) == ("metadata", 2, 2)
    assert told.groups_skipped_by_statistics + told.groups_skipped_by_record_index == 0


def test_the_past_is_not_asked_of_what_tells_of_now(copied: Callable[..., Path]) -> None:
    path = copied("v9_txns_simple_meta_mor", index="record_index")
    oldest = scan(path).to_arrow()["_hoodie_commit_time"].to_pylist()
    first = min(oldest)
    rows = scan(path, listing="storage", as_of=first).to_arrow()
    for key in rows["txn_id"].to_pylist():
        found = scan(path, f"txn_id = '{key}'", as_of=first)
        assert found.to_arrow().num_rows == 1
        told = found.explain()
        assert told.partitions_skipped_by_record_index + told.groups_skipped_by_record_index == 0


def put_index_log(path: Path, keys: list[str], values: pa.BinaryArray, deletes: list[str]) -> None:
    """One more log file of the record index, in the group of one key."""
    storage, time = LocalStorage(str(path)), "20261121031752305"
    group = group_id(MetadataPartition.RECORD_INDEX, int(group_numbers(pa.array([*keys, *deletes]), 10)[0]))
    body = encode_metadata_log(pa.array(keys, pa.string()), values, deletes, time, record_schema(9), "record_index")
    storage.put(f"{FOLDER}/record_index/.{group}_{time}.log.1_0-0-0", body)
    storage.put(f"{TIMELINE_FOLDER}/{time}_{time}.deltacommit", b"")


@pytest.mark.parametrize(("index", "found"), [(None, 1), ("simple_bucket", 1), ("record_index", 0)])
def test_a_key_that_the_record_index_lacks_is_found_where_others_write(
    copied: Callable[..., Path], index: IndexKind | None, found: int
) -> None:
    path = copied(INDEXED, "files", "record_index", index=index)
    key = scan(path).to_arrow()["id"].to_pylist()[0]
    put_index_log(path, [], pa.array([], pa.binary()), [key])
    assert scan(path, f"id = '{key}'").to_arrow().num_rows == found


def test_a_record_index_that_names_a_group_that_is_not_there_is_not_used(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "record_index", index="record_index")
    key = scan(path).to_arrow()["id"].to_pylist()[0]
    values = location_values([("p=b", "00000000-0000-0000-0000-000000000001-0", 1)], version=9)
    put_index_log(path, [key], values, [])
    found = scan(path, f"id = '{key}'")
    assert found.to_arrow().num_rows == 1
    told = found.explain()
    assert (told.groups_skipped_by_record_index, "which is not there" in told.record_index_unused) == (0, True)


def test_a_small_table_is_read_without_its_metadata_table(hudi_fixtures: Callable[[str], Path]) -> None:
    class Closed(LocalStorage):
        def get(self, path: str) -> bytes:
            assert not path.startswith(FOLDER), path
            return super().get(path)

    path = hudi_fixtures(INDEXED)
    for where in (None, "ts > 5000", "id = 'nobody'"):
        read = Scan(plan_read(Closed(str(path)), request_of(None, where, None, None, meta_columns=True)))
        assert read.explain().listing == "storage"
        assert_same_rows(read.to_arrow(), scan(path, where).to_arrow(), with_meta=True)


def test_an_index_is_asked_where_it_spares_more_than_it_costs(tmp_path: Path) -> None:
    """Each of many groups has values of its own: opening all of them takes longer than asking the statistics."""
    rows = pa.table({"id": [f"k{number}" for number in range(200)], "n": range(200)})
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=rows.schema, buckets=64, metadata=True)
    table.ingest(rows)
    read = table.scan(where="n = 7")
    assert read.explain().groups_skipped_by_statistics > 30
    assert read.to_arrow().to_pylist() == [{"id": "k7", "n": 7}]
    unclustered = table.scan(where="n > 1")
    assert unclustered.explain().groups_skipped_by_statistics == 0


class Forgetful(LocalStorage):
    """Loses every log file of the partition `files` between listing and reading, as a cleaner does."""

    def get(self, path: str) -> bytes:
        if path.startswith(f"{FOLDER}/files/.files"):
            raise NotFound(f"{path} is not there")
        return super().get(path)


def test_a_metadata_table_that_vanishes_is_done_without(hudi_fixtures: Callable[[str], Path]) -> None:
    path = hudi_fixtures(INDEXED)
    request = replace(request_of(None, None, None, None, meta_columns=True), indexes="always")
    read = Scan(plan_read(Forgetful(str(path)), request))
    assert read.explain().listing == "storage"
    assert read.to_arrow().equals(scan(path).to_arrow())
    with pytest.raises(Unavailable, match="metadata table"):
        plan_read(Forgetful(str(path)), request_of(None, None, None, None, listing="metadata"))


def test_changes_are_narrowed_by_statistics(copied: Callable[..., Path]) -> None:
    path = copied(INDEXED, "files", "column_stats")
    clock = ManualClock(1_795_255_260_000)

    def changes(where: str) -> Scan:
        read = replace(request_of(None, where, None, None), indexes="always")
        return Scan(plan_changes(LocalStorage(str(path)), ChangesRequest(read), clock).read)

    assert changes("ts > 5000").explain().groups_skipped_by_statistics > 0
    rows = scan(path, "v = -1").to_arrow()
    assert changes("v = -1").count_rows() == rows.num_rows > 0


@pytest.mark.parametrize("name", TABLES)
def test_both_listings_of_a_whole_table_are_the_same(hudi_fixtures: Callable[[str], Path], name: str) -> None:
    found = check_listing(LocalStorage(str(hudi_fixtures(name))))
    assert found.is_same
    assert found.files > 0


def test_what_listings_differ_in_is_named(copied: Callable[..., Path]) -> None:
    path = copied("v9_txns_simple_meta_cow")
    whole = check_listing(LocalStorage(str(path)))
    seen = [task.path for task in plan_read(LocalStorage(str(path)), request_of(None, None, None, None)).tasks]
    gone, larger = seen[:2]
    (path / gone).unlink()
    with (path / larger).open("ab") as file:
        file.write(b"x")
    found = check_listing(LocalStorage(str(path)))
    assert (found.is_same, found.gone, found.other_size) == (False, (gone,), (larger,))
    assert (found.files, found.missing) == (whole.files - 1, ())
    assert f"not on storage: {gone}" in str(found)


def test_files_that_the_metadata_table_lacks_are_named(copied: Callable[..., Path]) -> None:
    path = copied("v9_txns_simple_meta_cow")
    whole = check_listing(LocalStorage(str(path)))
    newest = max((path / FOLDER / "files").glob(".files-*.log.*"), key=lambda one: one.name)
    newest.unlink()  # what the last commit told it
    instant = newest.name.split("_")[1].partition(".")[0]
    lacking = tuple(sorted(str(one.relative_to(path)) for one in path.glob(f"region=*/*_{instant}.parquet")))
    found = check_listing(LocalStorage(str(path)))
    assert (found.is_same, found.missing, found.other_size) == (False, lacking, ())
    assert len(lacking) > 0
    assert found.files == whole.files - len(lacking)
    assert f"not in the metadata table: {lacking[0]}" in str(found)


def test_there_must_be_two_listings_to_compare(hudi_fixtures: Callable[[str], Path]) -> None:
    with pytest.raises(Unsupported, match="metadata table"):
        check_listing(LocalStorage(str(hudi_fixtures("v9_bucket_simple"))))
