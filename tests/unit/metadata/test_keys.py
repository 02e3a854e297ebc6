"""Keys of the metadata table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_ops.metadata.records.keys import (
    bloom_filter_key,
    column_hash,
    column_stats_key,
    column_stats_prefix,
    partition_hash,
    partition_name,
    partition_path,
    partition_stats_key,
    product_keys,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("txn_id", "RXObmOuurgM="),
        ("_hoodie_record_key", "uSJGdDiVr/k="),
        ("region=us", "431THTTwO5Q="),
        ("region=apac", "OOL0+QGXAHU="),
    ],
)
def test_hashes_are_apache_hudis(text: str, expected: str) -> None:
    assert column_hash(text) == partition_hash(text) == expected


def test_the_root_is_hashed_as_a_dot() -> None:
    assert partition_hash("") == partition_hash(".") == "FXThHwelITM="
    assert (partition_name(""), partition_name("p"), partition_path("."), partition_path("p")) == (".", "p", "", "p")


def test_keys_begin_with_the_column() -> None:
    key = column_stats_key("txn_id", "region=us", "x.parquet")
    assert key.startswith(column_stats_prefix("txn_id"))
    assert key.startswith(partition_stats_key("txn_id", "region=us"))
    assert key == column_hash("txn_id") + bloom_filter_key("region=us", "x.parquet")


def test_many_keys_are_those_of_each() -> None:
    places = pa.array([bloom_filter_key("p", "f"), bloom_filter_key("q", "g")])
    made = product_keys(["a", "b"], places, pa.array([0, 1, 1]), pa.array([1, 0, 1]))
    expected = [column_stats_key("a", "q", "g"), column_stats_key("b", "p", "f"), column_stats_key("b", "q", "g")]
    assert made.to_pylist() == expected
