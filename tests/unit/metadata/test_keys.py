"""Keys of the metadata table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_ops.metadata.records.keys import (
    bloom_filter_key,
    column_hash,
    column_stats_key,
    partition_hash,
    partition_name,
    partition_path,
    partition_stats_key,
    product_keys,
    record_keys_of,
    secondary_keys,
    secondary_prefix,
)
from hudi_ops.metadata.records.partitions import group_numbers, in_build_order, is_kept, is_secondary


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
    assert key.startswith(column_hash("txn_id"))
    assert key.startswith(partition_stats_key("txn_id", "region=us"))
    assert key == column_hash("txn_id") + bloom_filter_key("region=us", "x.parquet")


def test_many_keys_are_those_of_each() -> None:
    places = pa.array([bloom_filter_key("p", "f"), bloom_filter_key("q", "g")])
    made = product_keys(["a", "b"], places, pa.array([0, 1, 1]), pa.array([1, 0, 1]))
    expected = [column_stats_key("a", "q", "g"), column_stats_key("b", "p", "f"), column_stats_key("b", "q", "g")]
    assert made.to_pylist() == expected


ENTRIES = [
    ("Oslo", "k1", "Oslo$k1", 9),
    ("Bergen", "k2", "Bergen$k2", 7),
    (None, "k3", "\x00$k3", 6),
    ("Oslo", "k$4", "Oslo$k\\$4", 9),
    ("a$b", "k\\5", "a\\$b$k\\\\5", 9),
    ("c\\d", "k6", "c\\\\d$k6", 9),
    ("", "k7", "$k7", 6),
    ("ü$", "k8", "ü\\$$k8", 6),
    ("z0", "k9", "z0$k9", 6),
    ("Tromsø", "k1", "Tromsø$k1", 9),
    ("last", "k1", "last$k1", 2),
]
"""Value, record key, entry and file group of ten, as Apache Hudi 1.1.1 wrote them."""


def test_entries_of_secondary_indexes_are_apache_hudis() -> None:
    values, keys, entries, groups = zip(*ENTRIES, strict=True)
    made = secondary_keys(pa.array(values, pa.string()), pa.array(keys), 9)
    assert made.to_pylist() == list(entries)
    assert group_numbers(made, 10, "secondary_index_city", 9).tolist() == list(groups)
    assert record_keys_of(made).to_pylist() == list(keys)
    for value, _, entry, group in ENTRIES:
        if value is not None:
            prefix = secondary_prefix(value, 9)
            assert entry.startswith(prefix)
            assert group_numbers(pa.array([prefix]), 10, "secondary_index_city", 9).tolist() == [group]


def test_entries_of_version_8_leave_null_out_and_have_groups_by_their_whole_key() -> None:
    made = secondary_keys(pa.array(["a", None, "b\x00$"]), pa.array(["k1", "k2", "k3"]), 8)
    assert made.to_pylist() == ["a$k1", "b\x00\\$$k3"]
    assert secondary_keys(pa.array(["\x00"]), pa.array(["k1"]), 9).to_pylist() == ["\\\x00$k1"]
    by_name = group_numbers(made, 10, "secondary_index_city", 8)
    assert by_name.tolist() == group_numbers(made, 10).tolist()


def test_secondary_indexes_are_known_by_their_names_and_built_last() -> None:
    assert [is_secondary(name) for name in ("secondary_index_x", "secondary_index_", "expr_index_x")] == [
        True,
        False,
        False,
    ]
    assert [is_kept(name) for name in ("secondary_index_x", "expr_index_x")] == [True, False]
    names = {"secondary_index_b", "record_index", "secondary_index_A", "files"}
    assert in_build_order(names) == ("files", "record_index", "secondary_index_A", "secondary_index_b")
