"""Records of the metadata table beside those that Apache Hudi wrote: the same keys, groups, values and schemas."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hudi_ops.errors import Internal
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.bloom_filters import bloom_filter_values, decoded_filters
from hudi_ops.metadata.records.column_stats import range_values
from hudi_ops.metadata.records.file_lists import decoded_entries, file_maps, file_values
from hudi_ops.metadata.records.keys import (
    ALL_PARTITIONS_KEY,
    bloom_filter_key,
    column_stats_key,
    partition_name,
    partition_stats_key,
)
from hudi_ops.metadata.records.partitions import MetadataPartition, default_groups, group_numbers
from hudi_ops.metadata.records.record_index import decoded_locations, location_values
from hudi_ops.metadata.records.records import empty
from hudi_ops.metadata.records.schema import commit_schema, record_schema
from hudi_ops.metadata.records.stored_ranges import StoredRanges
from hudi_ops.metadata.records.values import types_and_fields, without_file_name
from tests.unit.metadata.fixture_metadata import TABLES, StoredFile, stored_files

_RANGES = (MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS)


@pytest.fixture(scope="module", params=TABLES)
def files(request: pytest.FixtureRequest, hudi_fixtures: Callable[[str], Path]) -> list[StoredFile]:
    """All files of one metadata table."""
    return list(stored_files(hudi_fixtures, (request.param,)))


def _of(files: list[StoredFile], *partitions: MetadataPartition) -> list[StoredFile]:
    found = [each for each in files if each.records.partition in partitions]
    assert found or MetadataPartition.BLOOM_FILTERS in partitions or MetadataPartition.RECORD_INDEX in partitions
    return found


def _by_fastavro(file: StoredFile) -> list[dict[str, Any]]:
    schema = fastavro.parse_schema(json.loads(file.records.schema))
    raw = file.records.values.to_pylist()
    return [fastavro.schemaless_reader(io.BytesIO(each), schema, None, return_record_name=True) for each in raw]


def test_every_file_has_our_schema(files: list[StoredFile]) -> None:
    assert {each.records.schema for each in files if each.records.schema} == {record_schema(files[0].version)}


@pytest.mark.parametrize("name", TABLES)
def test_every_commit_has_our_schema(name: str, hudi_fixtures: Callable[[str], Path]) -> None:
    timeline = hudi_fixtures(name) / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    commits = [
        path for path in timeline.iterdir() if path.suffix in (".deltacommit", ".commit") and path.stat().st_size
    ]
    found = {
        row["extraMetadata"]["schema"] for path in commits for row in fastavro.reader(io.BytesIO(path.read_bytes()))
    }
    assert found == {commit_schema(int(name[1]))}


def test_keys_ascend_and_lie_in_their_groups(files: list[StoredFile]) -> None:
    for file in files:
        for keys in (file.records.keys, file.records.deletes):
            assert set(group_numbers(keys, default_groups(file.records.partition)).tolist()) <= {file.group}
        keys = [each.encode() for each in file.records.keys.to_pylist()]
        assert keys == sorted(set(keys))


def test_keys_follow_from_values(files: list[StoredFile]) -> None:
    partitions = _partitions_of_files(files)
    for file in _of(files, *_RANGES):
        stored = StoredRanges.read(file.records, file.path.name)
        for key, name, column in zip(
            file.records.keys.to_pylist(), stored.names.to_pylist(), stored.columns.to_pylist(), strict=True
        ):
            is_file = file.records.partition is MetadataPartition.COLUMN_STATS
            assert key == (
                column_stats_key(column, partitions[name], name) if is_file else partition_stats_key(column, name)
            )
    filters = {bloom_filter_key(path, name) for name, path in partitions.items()}
    for file in _of(files, MetadataPartition.BLOOM_FILTERS):
        assert set(file.records.keys.to_pylist()) <= filters


def _partitions_of_files(files: list[StoredFile]) -> dict[str, str]:
    """Partition path of each data file, by what `files` says."""
    lists = [decoded_entries(each.records, each.path.name) for each in _of(files, MetadataPartition.FILES)]
    return {
        name: "" if key == "." else key
        for entries in lists
        for key, held in entries.items()
        if key != ALL_PARTITIONS_KEY
        for name in held
    }


def test_entries_of_files_read_as_by_fastavro(files: list[StoredFile]) -> None:
    for file in _of(files, MetadataPartition.FILES):
        expected = {
            key: {name: (info["size"], info["isDeleted"]) for name, info in row["filesystemMetadata"].items()}
            for key, row in zip(file.records.keys.to_pylist(), _by_fastavro(file), strict=True)
        }
        assert decoded_entries(file.records, file.path.name) == expected


def test_ranges_read_as_by_fastavro(files: list[StoredFile]) -> None:
    for file in _of(files, *_RANGES):
        stored = StoredRanges.read(file.records, file.path.name)
        ids, forms = stored.forms()
        for at, row in enumerate(_by_fastavro(file)):
            expected = row["ColumnStatsMetadata"][1]
            form = forms[int(ids[at])]
            assert stored.names[at].as_py() == expected["fileName"]
            assert stored.columns[at].as_py() == expected["columnName"]
            named = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
            assert [int(each[at]) for each in stored.counts] == [expected[name] for name in named]
            assert (stored.is_deleted[at], stored.is_tight[at]) == (expected["isDeleted"], expected["isTightBound"])
            for side, name in ((stored.least, "minValue"), (stored.greatest, "maxValue")):
                end = form.ends(side, ids.dtype.type([at]).reshape(1))[0].as_py()
                assert end == (expected[name][1]["value"] if expected[name] else None)
            said = expected.get("valueType")
            assert (form.ordinal, form.info) == (
                (said[1]["typeOrdinal"], said[1]["additionalInfo"]) if said else (None, None)
            )


def test_locations_read_as_by_fastavro(files: list[StoredFile]) -> None:
    for file in _of(files, MetadataPartition.RECORD_INDEX):
        rows = decoded_locations(file.records, file.path.name).to_pylist()
        for key, row, found in zip(file.records.keys.to_pylist(), _by_fastavro(file), rows, strict=True):
            held = row["recordIndexMetadata"][1]
            high, low = (held[name] & 0xFFFFFFFFFFFFFFFF for name in ("fileIdHighBits", "fileIdLowBits"))
            digits = f"{high:016x}{low:016x}"
            bits = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            expected = (key, held["partitionName"], f"{bits}-{held['fileIndex']}", held["instantTime"])
            assert (found["key"], found["partition_path"], found["file_id"], found["instant_ms"]) == expected


def test_filters_read_as_by_fastavro(files: list[StoredFile]) -> None:
    for file in _of(files, MetadataPartition.BLOOM_FILTERS):
        expected = [
            {
                "key": key,
                "type": row["BloomFilterMetadata"][1]["type"],
                "timestamp": row["BloomFilterMetadata"][1]["timestamp"],
                "filter": row["BloomFilterMetadata"][1]["bloomFilter"].decode(),
            }
            for key, row in zip(file.records.keys.to_pylist(), _by_fastavro(file), strict=True)
        ]
        assert decoded_filters(file.records, file.path.name).to_pylist() == expected


def test_what_was_read_is_written_with_the_same_bytes(files: list[StoredFile]) -> None:
    for file in files:
        if len(file.records.keys):
            expected = without_file_name(file.records.values).to_pylist()
            assert _rewritten(file).to_pylist() == expected, file.path.name


def _rewritten(file: StoredFile) -> pa.BinaryArray:
    records, where = file.records, file.path.name
    if records.partition is MetadataPartition.FILES:
        return file_values(*file_maps(records.values, records.schema, where), version=file.version)
    if records.partition in _RANGES:
        stored = StoredRanges.read(records, where)
        return range_values(records.partition, stored.ranges(), is_tight=stored.is_tight, version=file.version)
    if records.partition is MetadataPartition.BLOOM_FILTERS:
        _, filters = types_and_fields(records.partition, records.values, records.schema, where)
        return bloom_filter_values(filters, version=file.version)
    rows = decoded_locations(records, where)
    columns = (rows[name].to_pylist() for name in ("partition_path", "file_id", "instant_ms"))
    return location_values(list(zip(*columns, strict=True)), version=file.version)


def test_values_differ_from_apache_hudis_base_files_in_the_file_name_alone(files: list[StoredFile]) -> None:
    named = [each for each in files if each.path.suffix == ".hfile" and len(each.records.keys)]
    for file in named:
        for row, value in zip(_by_fastavro(file), without_file_name(file.records.values).to_pylist(), strict=True):
            again = fastavro.schemaless_reader(
                io.BytesIO(value), fastavro.parse_schema(json.loads(file.records.schema)), None, return_record_name=True
            )
            assert row.pop("_hoodie_file_name") in (None, file.path.name)
            assert again.pop("_hoodie_file_name") is None
            assert again == row


def test_root_is_a_dot() -> None:
    assert partition_name("") == "."
    assert bloom_filter_key("", "x")[:12] == "FXThHwelITM="


def test_records_of_two_partitions_are_a_fault_of_ours() -> None:
    files, keys = (empty(one, record_schema(9)) for one in (MetadataPartition.FILES, MetadataPartition.RECORD_INDEX))
    with pytest.raises(Internal, match="two partitions") as failed:
        merge(files, keys, version=9)
    assert failed.value.next_step
