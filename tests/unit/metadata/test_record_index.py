"""Records of the record index."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.files.names import bucket_file_id
from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import decoded_locations, location_values, record_index_records
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.metadata.records.values import types_and_fields


def _facts(file_id: str, added: list[str], removed: list[str], path: str = "p") -> FileStatistics:
    return FileStatistics(
        f"{path}/x", path, file_id, 1, False, added=pa.array(added, pa.string()), removed=pa.array(removed, pa.string())
    )


@pytest.mark.parametrize(
    ("file_id", "encoding"),
    [
        (f"{uuid.UUID(int=5)}-0", 0),
        (f"{uuid.UUID(int=2**128 - 1)}-17", 0),
        (str(uuid.UUID(int=7)), 0),
        (bucket_file_id("table", "p", 3, "20200101000000000"), 0),
        (bucket_file_id("table", "p", 99999999, "20200101000000000"), 0),
        (f"{str(uuid.UUID(int=0xAB << 120)).upper()}-0", 1),
        (f"{uuid.UUID(int=5)}-00", 1),
        (f"{uuid.UUID(int=5)}-", 1),
        (f"{uuid.UUID(int=5)}-4294967296", 1),
        ("group-0", 1),
    ],
)
def test_every_file_id_comes_back(file_id: str, encoding: int) -> None:
    made = record_index_records([_facts(file_id, ["k"], [])], 1795315934798, version=9)
    (row,) = decoded_locations(made, "a test").to_pylist()
    assert row == {"key": "k", "partition_path": "p", "file_id": file_id, "instant_ms": 1795315934798}
    _, structs = types_and_fields(made.partition, made.values, made.schema, "a test")
    assert structs[0]["fileIdEncoding"].as_py() == encoding


def test_a_bucket_of_apache_hudi_has_its_bits() -> None:
    values = location_values([("p0", "00000000-75ac-482a-aed3-a350440a1a01-0", 1795316001754)], version=9)
    _, structs = types_and_fields(MetadataPartition.RECORD_INDEX, values, record_schema(9), "a test")
    assert structs[0].as_py() == {
        "partitionName": "p0",
        "fileIdHighBits": 1974224938,
        "fileIdLowBits": -5849151925889918463,
        "fileIndex": 0,
        "fileId": "",
        "instantTime": 1795316001754,
        "fileIdEncoding": 0,
        "position": None,
    }


def test_a_key_that_moves_is_no_delete() -> None:
    made = record_index_records([_facts("a", ["k1"], ["k2", "k3"]), _facts("b", ["k2"], [])], 5, version=9)
    assert (made.keys.to_pylist(), made.deletes.to_pylist()) == (["k1", "k2"], ["k3"])


def test_deletes_of_log_files_count_where_the_record_index_led_to_them() -> None:
    facts = [replace(_facts("a", [], ["k1"]), is_log=True), _facts("b", [], ["k2"])]
    assert record_index_records(facts, 5, version=9).deletes.to_pylist() == ["k2"]
    assert record_index_records(facts, 5, version=9, are_located=True).deletes.to_pylist() == ["k1", "k2"]


def test_the_later_file_wins() -> None:
    made = record_index_records([_facts("a", ["k"], []), _facts("b", ["k"], [])], 5, version=9)
    assert decoded_locations(made, "a test")["file_id"].to_pylist() == ["b"]


def test_a_table_without_partitions_has_an_empty_name() -> None:
    made = record_index_records([_facts("a", ["k"], [], path="")], 5, version=8)
    assert decoded_locations(made, "a test")["partition_path"].to_pylist() == [""]


def test_no_facts_are_no_records() -> None:
    made = record_index_records([], 5, version=9)
    assert not made
    assert decoded_locations(made, "a test").num_rows == 0
