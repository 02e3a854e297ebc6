"""`verify --index`: whatever a partition of the metadata table says wrong of the files is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.table import METADATA_PARTITIONS
from hudi_ops.errors import Cancelled
from hudi_ops.files.names import parse_data_file
from hudi_ops.formats.hfile.reader import write_hfile
from hudi_ops.formats.log.blocks import BlockKind, HeaderKey, encode_block
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.column_stats import range_values
from hudi_ops.metadata.records.file_lists import listed_files, listing_records
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.records.record_index import location_values
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.stored_ranges import StoredRanges
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import Finding, verify_table
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import make_table, table_of
from tests.tables import (
    BY_HAND,
    DEFINITION,
    MERGE_ON_READ,
    NOW_MS,
    START_MS,
    WITH_METADATA,
    made,
    rows,
    table_of as of_tables,
)
from tests.unit.verify.breaking import edit_properties

CLOCK = ManualClock(START_MS + 60_000)
EVERY = tuple(MetadataPartition)
FILES, STATS = MetadataPartition.FILES, MetadataPartition.COLUMN_STATS
INDEX, FILTERS = MetadataPartition.RECORD_INDEX, MetadataPartition.BLOOM_FILTERS
OF_PARTITIONS = MetadataPartition.PARTITION_STATS


@pytest.fixture(scope="module", params=[DEFINITION, MERGE_ON_READ], ids=["cow", "mor"])
def built(request) -> MemoryStorage:
    storage = make_table(request.param)
    build_indexes(table_of(storage, CLOCK, "builder")._session, IndexRequest(partitions=EVERY))
    return storage


@pytest.fixture
def table(built: MemoryStorage) -> MemoryStorage:
    return built.copy()


def found(storage, sample: int | None = None) -> list[Finding]:
    return [
        one
        for one in verify_table(storage, index=True, sample=sample, clock=CLOCK).findings
        if one.invariant.startswith("metadata-")
    ]


def only(storage, sample: int | None = None) -> Finding:
    findings = found(storage, sample)
    assert len({(one.severity, one.invariant) for one in findings}) == 1, findings
    return findings[0]


def rewrite(storage: MemoryStorage, partition: MetadataPartition, change: Callable[[Records], Records]) -> None:
    """Put other records into a partition, in place of those that its base files hold."""
    config = load_config(storage)
    metadata = open_metadata(storage, config, load_timeline(storage, config))
    records = change(metadata.read(partition))
    folder = f"{FOLDER}/{partition}"
    names = [info.name for info in storage.list(folder)]
    parts = records.by_group(len({name.file_id for one in names if (name := parse_data_file(one)) is not None}))
    for name in names:
        if name.endswith(".hfile"):
            part = parts.get(int(name.split("-0_")[0][-4:]))
            keys, values = (part.keys, part.values) if part is not None else (records.keys[:0], records.values[:0])
            storage.put(f"{folder}/{name}", write_hfile(keys, values, schema=records.schema))


def relist(storage: MemoryStorage, change: Callable[[dict[str, dict[str, int]]], Mapping[str, Mapping[str, int]]]):
    rewrite(storage, FILES, lambda old: listing_records(change(listed_files(old, "")), version=9))


def some(files: Mapping[str, Mapping[str, int]]) -> tuple[str, str]:
    """A file that readers see: the newest of its partition."""
    partition = "part=p0"
    return partition, max((name for name in files[partition] if not name.startswith(".")), key=lambda one: one[-25:])


def without(count: int) -> Callable[[Records], Records]:
    return lambda old: replace(old, keys=old.keys[count:], values=old.values[count:])


@pytest.mark.parametrize("sample", [None, 1])
def test_a_table_that_was_just_built_is_right(table, sample):
    assert found(table, sample) == []


def test_a_file_that_is_not_listed(table):
    relist(table, lambda files: {path: dict(list(held.items())[1:]) for path, held in files.items()})
    one = only(table)
    assert (one.severity, one.invariant) == ("error", "metadata-files")
    assert "is missing" in one.what
    assert "hudi-ops index TABLE run" in one.next_step


def test_a_partition_that_is_not_listed(table):
    relist(table, lambda files: {path: held for path, held in files.items() if path != "part=p1"})
    assert "partition part=p1 is missing" in only(table).what


def test_a_size_that_is_wrong(table):
    def smaller(files):
        partition, name = some(files)
        files[partition][name] -= 1
        return files

    relist(table, smaller)
    one = only(table)
    assert (one.severity, one.invariant) == ("error", "metadata-files")
    assert "expected" in one.what


def test_a_file_that_is_listed_and_not_there(table):
    relist(table, lambda files: {**files, "part=p0": {**files["part=p0"], "nothing_0-0-0_1.parquet": 7}})
    assert "does not exist" in only(table).what


def test_a_file_that_no_completed_write_wrote(table):
    table.put("part=p0/left-0_0-0-0_20990101000000000.parquet", b"left")
    relist(table, lambda files: {**files, "part=p0": {**files["part=p0"], "left-0_0-0-0_20990101000000000.parquet": 4}})
    assert "no completed write" in only(table).what


@pytest.mark.parametrize("partition", [STATS, OF_PARTITIONS])
def test_ranges_that_are_missing(table, partition):
    rewrite(table, partition, without(3))
    one = only(table)
    assert (one.severity, one.invariant) == ("error", f"metadata-{partition.replace('_', '-')}")
    assert "no record of column" in one.what


def test_a_column_that_is_younger_than_a_file_has_no_record_of_it(table):
    writer = table_of(table, ManualClock(START_MS + 60_000, tick_ms=1), "writer")
    writer.ingest(rows(("k0", "p0", 9, 9, None)).append_column("extra", pa.array([5], pa.int64())), evolve=True)
    assert [one for one in found(table) if one.invariant == "metadata-column-stats"] == []


@pytest.mark.parametrize("partition", [STATS, OF_PARTITIONS])
def test_ranges_that_are_too_narrow(table, partition):
    def exchanged(old: Records) -> Records:
        ranges = StoredRanges.read(old, "").ranges()
        ends = [(greatest, least) for least, greatest in ranges.bounds]
        return replace(old, values=range_values(partition, replace(ranges, bounds=ends), is_tight=False, version=9))

    rewrite(table, partition, exchanged)
    one = found(table)[0]
    assert (one.severity, "filters lose its rows" in one.what) == ("error", True)


def test_filters_that_are_missing(table):
    rewrite(table, FILTERS, without(10))
    one = only(table)
    assert (one.severity, one.invariant) == ("error", "metadata-bloom-filters")


def test_other_filters_than_in_the_footers(table):
    rewrite(table, FILTERS, lambda old: replace(old, values=old.values.take(pa.array([*range(1, len(old.values)), 0]))))
    assert "the filter differs" in found(table)[0].what


def test_keys_that_are_missing(table):
    rewrite(table, INDEX, without(2))
    one = only(table)
    assert (one.severity, one.invariant) == ("error", "metadata-record-index")
    assert "a second time" in one.what


def test_keys_in_the_wrong_place(table):
    rewrite(table, INDEX, lambda old: replace(old, values=old.values.take(pa.array([*range(1, len(old.values)), 0]))))
    assert "names file group" in only(table).what


def test_keys_in_file_groups_that_do_not_exist(table):
    def added(old: Records) -> Records:
        value = location_values([("part=p0", "00000000-0000-4000-8000-000000000000-0", 1)], version=9)
        keys = pa.concat_arrays([old.keys, pa.array(["zzz"])])
        return replace(old, keys=keys, values=pa.concat_arrays([old.values, value]))

    rewrite(table, INDEX, added)
    one = only(table)
    # A log file may have deleted the key before its group went, and with the bucket index nobody asks the record index.
    is_logged = load_config(table).table_type == "MERGE_ON_READ"
    assert (one.severity, "does not exist" in one.what) == ("info" if is_logged else "error", True)


def test_keys_that_the_table_does_not_hold(table):
    def added(old: Records) -> Records:
        keys = pa.concat_arrays([old.keys, pa.array(["zzz"])])
        return replace(old, keys=keys, values=pa.concat_arrays([old.values, old.values[:1]]))

    rewrite(table, INDEX, added)
    logged = load_config(table).table_type == "MERGE_ON_READ"
    assert only(table).severity == ("info" if logged else "warning")


def test_a_partition_that_cannot_be_read(table):
    (base,) = [info.path for info in table.list(f"{FOLDER}/{FILES}") if info.name.endswith(".hfile")]
    table.put(base, b"nothing")
    assert ("error", "metadata-broken") in {(one.severity, one.invariant) for one in found(table)}


def unread(storage) -> list[Finding]:
    """What says that something was not read."""
    report = verify_table(storage, index=True, clock=CLOCK)
    return [one for one in report.findings if one.invariant in {"metadata-broken", "index-not-compared"}]


def test_a_data_file_that_cannot_be_read_is_not_blamed_on_the_metadata_table(table):
    damaged = {info.path for info in table.list("part=p0") if info.name.endswith(".parquet")}
    for path in damaged:
        table.put(path, bytes(table.get(path))[:-40] + bytes(40))
    findings = unread(table)
    assert {(one.severity, one.invariant) for one in findings} == {("error", "index-not-compared")}
    assert {one.where for one in findings} <= damaged


def test_log_files_that_cannot_be_merged_are_not_blamed_on_the_metadata_table():
    storage = make_table(MERGE_ON_READ)
    build_indexes(table_of(storage, CLOCK, "builder")._session, IndexRequest(partitions=EVERY))
    log = next(info.path for info in storage.list("part=p0") if ".log." in info.name)
    headers = {HeaderKey.INSTANT_TIME: parse_data_file(log.rpartition("/")[2]).instant, HeaderKey.IS_PARTIAL: "true"}
    storage.put(log, encode_block(BlockKind.PARQUET_DATA, headers, b"some columns"))
    findings = unread(storage)
    assert {(one.severity, one.invariant) for one in findings} == {("warning", "index-not-compared")}
    assert any(one.what.startswith("record_index") and "IS_PARTIAL" in one.what for one in findings)


def test_keys_in_two_file_groups_are_counted_and_their_record_is_right():
    storage = make_table(replace(DEFINITION, index="bloom"))
    table = table_of(storage, CLOCK, "writer")
    table.ingest(rows(("k0", "p0", 1, 9, None), ("k1", "p0", 1, 9, None)), "bulk_insert")
    build_indexes(table._session, IndexRequest(partitions=EVERY))
    one = only(storage)
    assert (one.severity, "2 keys are in several file groups" in one.what) == ("warning", True)
    assert all(other.severity == "warning" for other in found(storage, sample=1))


def test_a_partition_of_a_kind_that_is_not_compared(table):
    edit_properties(table, table_metadata_partitions="files,expr_index_x")
    assert ("info", "metadata-unread") in {(one.severity, one.invariant) for one in found(table)}


def test_more_differences_than_anybody_reads_are_counted(table):
    rewrite(table, STATS, without(100))
    findings = found(table)
    assert len([one for one in findings if one.severity == "error"]) == 10
    assert "more" in findings[-1].what


@pytest.mark.parametrize("sample", [None, 2])
@pytest.mark.parametrize(
    "name", ["v8_trips_8i3u1d_mor", "v9_async_index", "v9_record_index_bloom_filters", "v9_txns_simple_meta_cow"]
)
def test_metadata_tables_of_apache_hudi_are_right(hudi_fixtures, name, sample):
    storage = open_storage(str(hudi_fixtures(name)))
    assert [one for one in found(storage, sample) if one.severity != "info"] == []


def test_a_rebuild_that_dropped_and_did_not_build_is_named_and_one_that_runs_is_a_warning(
    table: MemoryStorage,
) -> None:
    seen = []

    def stop(progress: object) -> None:
        seen.append(next(one for one in found(table) if one.invariant == "metadata-dropped"))
        raise Cancelled("stopped on request")

    with pytest.raises(Cancelled):
        build_indexes(table_of(table, CLOCK, "second")._session, IndexRequest(rebuild=True), progress=stop)
    running, left = seen[0], only(table)
    assert (running.severity, left.severity) == ("warning", "error")
    assert running.invariant == left.invariant == "metadata-dropped"
    assert "hudi-ops index TABLE run" in left.next_step
    assert verify_table(table, clock=CLOCK).ok
    build_indexes(table_of(table, CLOCK, "third")._session)
    assert found(table) == []


def test_an_index_that_another_program_dropped_is_reported_with_the_setting_that_keeps_it() -> None:
    storage = made(WITH_METADATA, rows(("a", "p", 1, 1, None)))
    table = of_tables(storage, ManualClock(NOW_MS, tick_ms=1), "w", upkeep=BY_HAND)
    table.indexing.run(partitions=("bloom_filters",))
    assert table.verify().findings == ()
    set_properties(storage, {METADATA_PARTITIONS: "column_stats,files,partition_stats"})
    (found,) = (each for each in table.verify().findings if each.invariant == "index-dropped")
    assert "hoodie.metadata.auto.delete.partitions=false" in found.what
    assert "bloom_filters" in found.what
