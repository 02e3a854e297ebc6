"""Bounds out of statistics: what is known, and what Apache Hudi is known to say wrongly and is therefore not believed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.config.table import TableConfig
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.kernels.condition import Condition, absent, both, compared, either, negated
from hudi_ops.metadata.prune.bounds import possible_files, possible_partitions
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.column_stats import column_stats_records, removed_stats
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.view.file_group import DataFile
from tests.unit.metadata.made_metadata import put_delta, put_init

TIMES = ("20261121060100000", "20261121060100001", "20261121060100002")
INT, TEXT, FLOAT = pa.int64(), pa.string(), pa.float64()
STAMP = pa.timestamp("us", "UTC")


def file(name: str, partition: str = "p=a") -> DataFile:
    return DataFile(partition, f"{partition}/{name}", name, TIMES[0], 1, name.startswith("."))


BASE, LOG = file("f_0-0-0_20261121060100000.parquet"), file(".f_20261121060100000.log.1_0-0-0")


def ranged(low: Any, high: Any, kind: pa.DataType, nulls: int = 0, values: int = 10) -> ColumnRange:
    return ColumnRange("x", pa.array([low], kind), pa.array([high], kind), nulls, values)


def facts(of: DataFile, *ranges: ColumnRange) -> FileStatistics:
    return FileStatistics(of.path, of.partition_path, of.file_id, of.size_bytes, of.is_log, ranges)


def metadata_with(partition: MetadataPartition, *deltas: Records, version: int = 9) -> MetadataTable:
    storage = MemoryStorage()
    put_init(storage)
    for at, records in enumerate(deltas):
        put_delta(storage, TIMES[at], TIMES[at], {partition: records}, version)
    config = TableConfig(name="t", version=version, layout=2, metadata_partitions=(partition.value,), raw={})
    data = Timeline(".hoodie/timeline", 2, ())
    return MetadataTable(
        storage, config, MetadataInstants(load_metadata_timeline(storage), data, ArchivedTimes(storage))
    )


def with_stats(*stats: FileStatistics, version: int = 9) -> MetadataTable:
    return metadata_with(MetadataPartition.COLUMN_STATS, column_stats_records(stats, version=version), version=version)


def named(files: Sequence[DataFile]) -> list[tuple[str, str]]:
    return [(one.partition_path, one.name) for one in files]


def may_hold(
    metadata: MetadataTable, condition: Condition, kind: pa.DataType, files: Sequence[DataFile] = (BASE,)
) -> list[bool]:
    return possible_files(metadata, condition, named(files), pa.schema([("x", kind)])).tolist()


def may_lie(metadata: MetadataTable, condition: Condition, kind: pa.DataType, *paths: str) -> list[bool]:
    return possible_partitions(metadata, condition, paths, pa.schema([("x", kind)])).tolist()


@pytest.mark.parametrize("version", [8, 9])
def test_a_range_excludes_what_lies_outside_of_it(version: int):
    metadata = with_stats(facts(BASE, ranged(3, 5, INT)), facts(LOG, ranged(7, 9, INT)), version=version)
    wanted = {4: [True, False], 6: [False, False], 9: [False, True]}
    assert {value: may_hold(metadata, compared("x", "=", value), INT, (BASE, LOG)) for value in wanted} == wanted


def test_a_file_without_a_record_may_hold_anything():
    metadata = with_stats(facts(BASE, ranged(3, 5, INT)))
    assert may_hold(metadata, compared("x", "=", 9), INT, (BASE, LOG)) == [False, True]


def test_nulls_are_told_of():
    metadata = with_stats(facts(BASE, ranged(3, 5, INT)), facts(LOG, ranged(None, None, INT, 10)))
    assert may_hold(metadata, absent("x"), INT, (BASE, LOG)) == [False, True]
    assert may_hold(metadata, negated(absent("x")), INT, (BASE, LOG)) == [True, False]
    assert may_hold(metadata, compared("x", "=", 4), INT, (BASE, LOG)) == [True, False]


def test_a_log_file_of_deletes_only_holds_nothing():
    metadata = with_stats(facts(LOG, ranged(None, None, INT, 0, 0)))
    assert may_hold(metadata, compared("x", "=", 4), INT, (LOG,)) == [False]
    assert may_hold(metadata, absent("x"), INT, (LOG,)) == [False]


def test_a_record_that_was_deleted_says_nothing():
    added = column_stats_records([facts(BASE, ranged(3, 5, INT))], version=9)
    gone = removed_stats([(BASE.partition_path, BASE.name)], ["x"], version=9)
    metadata = metadata_with(MetadataPartition.COLUMN_STATS, added, gone)
    assert may_hold(metadata, compared("x", "=", 9), INT) == [True]


def test_ranges_of_a_column_that_was_narrower_hold_for_the_wider_one():
    metadata = with_stats(facts(BASE, ranged(3, 5, pa.int32())), facts(LOG, ranged(7, 9, INT)))
    assert may_hold(metadata, compared("x", "=", 9), INT, (BASE, LOG)) == [False, True]
    assert may_hold(metadata, compared("x", "=", 4.5), FLOAT, (BASE, LOG)) == [True, False]


def test_numbers_that_became_text_are_in_another_order():
    metadata = with_stats(facts(BASE, ranged(9, 10, INT)))
    assert may_hold(metadata, compared("x", "=", "95"), TEXT) == [True]


@pytest.mark.parametrize(
    ("of", "low", "high", "nulls", "kept"),
    [
        (BASE, 1.0, 2.0, 0, False),
        (BASE, -2.0, -1.0, 0, False),
        (BASE, 0.0, 2.0, 0, True),
        (BASE, 0.0, 0.0, 0, True),
        (LOG, 0.0, 2.0, 0, False),
        (LOG, 5.0, math.nan, 0, True),
        (BASE, 5.0, math.nan, 0, True),
    ],
    ids=["above 0", "below 0", "with 0", "only 0", "log file", "log file with NaN", "with NaN"],
)
def test_a_range_of_floats_with_0_in_it_may_leave_out_a_chunk_with_nan(
    of: DataFile, low: float, high: float, nulls: int, kept: bool
):
    metadata = with_stats(facts(of, ranged(low, high, FLOAT, nulls)))
    assert may_hold(metadata, compared("x", "=", 9.0), FLOAT, (of,)) == [kept]


@pytest.mark.parametrize(
    ("of", "kind", "nulls", "kept"),
    [
        (BASE, TEXT, 0, False),
        (BASE, TEXT, 1, True),
        (LOG, TEXT, 1, False),
        (BASE, STAMP, 0, False),
        (BASE, STAMP, 1, True),
        (LOG, STAMP, 1, False),
        (BASE, INT, 1, False),
    ],
    ids=[
        "text",
        "text with nulls",
        "text with nulls in a log file",
        "time",
        "time with nulls",
        "time with nulls in a log file",
        "number with nulls",
    ],
)
def test_nulls_of_texts_and_times_in_a_base_file_may_be_values_without_statistics(
    of: DataFile, kind: pa.DataType, nulls: int, kept: bool
):
    low, high, other = ("b", "c", "z") if kind is TEXT else (3, 5, 9)
    metadata = with_stats(facts(of, ranged(low, high, kind, nulls)))
    value = pa.scalar(other, kind).as_py()
    assert may_hold(metadata, compared("x", "=", value), kind, (of,)) == [kept]


@pytest.mark.parametrize(
    ("low", "high", "value", "kept"),
    [
        ("a", "c", "z", False),
        ("a", "\uffee", "\U0001f600", True),
        ("\U0001f600", "\U0001f601", "\uffee", True),
        ("a", "日本", "日本語", False),
    ],
)
def test_ends_of_texts_count_only_where_java_orders_them_alike(low: str, high: str, value: str, kept: bool):
    metadata = with_stats(facts(LOG, ranged(low, high, TEXT)))
    assert may_hold(metadata, compared("x", "=", value), TEXT, (LOG,)) == [kept]


def test_a_name_that_two_files_have_is_told_apart_by_partition():
    twin = file(BASE.name, "p=b")
    metadata = with_stats(facts(BASE, ranged(3, 5, INT)), facts(twin, ranged(7, 9, INT)))
    assert may_hold(metadata, compared("x", "=", 4), INT, (BASE, twin)) == [True, False]


def test_ranges_of_one_file_are_put_together_unless_the_newer_is_tight():
    parts = [column_stats_records([facts(BASE, one)], version=9) for one in (ranged(3, 5, INT), ranged(7, 9, INT))]
    metadata = metadata_with(MetadataPartition.COLUMN_STATS, *parts)
    wanted = {4: True, 6: True, 8: True, 10: False}
    assert {value: may_hold(metadata, compared("x", "=", value), INT)[0] for value in wanted} == wanted


def test_many_files_are_read_by_column():
    files = [file(f"f{number}_0-0-0_20261121060100000.parquet") for number in range(40)]
    metadata = with_stats(*(facts(one, ranged(at, at, INT)) for at, one in enumerate(files)))
    schema = pa.schema([("x", INT)])
    for most in (40, 39):
        found = possible_files(metadata, compared("x", "=", 7), named(files), schema, most)
        assert found.tolist() == [at == 7 for at in range(40)]


def test_partitions_have_the_range_of_all_their_writes():
    first = partition_stats_records([facts(BASE, ranged(3, 5, INT))], version=9, tight=False)
    second = partition_stats_records(
        [facts(LOG, ranged(7, 9, INT)), facts(file(BASE.name, "p=b"), ranged(20, 21, INT))], version=9, tight=False
    )
    metadata = metadata_with(MetadataPartition.PARTITION_STATS, first, second)
    answers = {
        value: may_lie(metadata, compared("x", "=", value), INT, "p=a", "p=b", "p=c") for value in (4, 9, 20, 30)
    }
    assert answers == {
        4: [True, False, True],
        9: [True, False, True],
        20: [False, True, True],
        30: [False, False, True],
    }


def test_a_partition_whose_name_begins_with_a_dot_is_no_log_file():
    stats = partition_stats_records([facts(file(BASE.name, ".p"), ranged(0.0, 5.0, FLOAT))], version=9, tight=False)
    metadata = metadata_with(MetadataPartition.PARTITION_STATS, stats)
    assert may_lie(metadata, compared("x", "=", 9.0), FLOAT, ".p") == [True]


def test_a_partition_with_a_file_of_unknown_bounds_is_never_left_out():
    stats = partition_stats_records(
        [facts(BASE, ranged(3, 5, INT)), facts(LOG)], version=9, tight=False, columns={"x": INT}
    )
    metadata = metadata_with(MetadataPartition.PARTITION_STATS, stats)
    for condition in (compared("x", "=", 9), absent("x"), negated(absent("x"))):
        assert may_lie(metadata, condition, INT, "p=a") == [True]


def test_tight_ranges_of_a_partition_take_the_place_of_older_ones():
    parts = [
        partition_stats_records([facts(BASE, ranged(*ends, INT))], version=9, tight=tight)
        for *ends, tight in ((3, 5, False), (20, 21, True), (30, 31, False))
    ]
    metadata = metadata_with(MetadataPartition.PARTITION_STATS, *parts)
    wanted = {4: False, 20: True, 25: True, 31: True, 40: False}
    assert {value: may_lie(metadata, compared("x", "=", value), INT, "p=a")[0] for value in wanted} == wanted


def test_conditions_on_several_columns_are_held_against_all_of_them():
    other = ColumnRange("y", pa.array([1], INT), pa.array([2], INT), 0, 10)
    metadata = with_stats(facts(BASE, ranged(3, 5, INT), other))
    schema = pa.schema([("x", INT), ("y", INT), ("z", pa.list_(INT))])
    outside, inside, unknown = compared("y", "=", 3), compared("x", "=", 4), absent("z")
    for condition, kept in (
        (both(inside, outside), False),
        (either(inside, outside), True),
        (either(unknown, outside), True),
        (both(unknown, outside), False),
    ):
        assert possible_files(metadata, condition, named([BASE]), schema).tolist() == [kept]
