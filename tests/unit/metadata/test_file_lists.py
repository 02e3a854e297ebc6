"""Records of `files`."""

from __future__ import annotations

from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.file_lists import (
    FileChanges,
    decoded_entries,
    files_records,
    listed_files,
    listing_records,
)
from hudi_ops.metadata.records.keys import ALL_PARTITIONS_KEY


def test_partitions_that_get_files_are_listed_as_apache_hudi_lists_them() -> None:
    made = files_records({"p=2": FileChanges({"b": 2}, ["a"]), "p=1": FileChanges({}, ["c"])}, version=9)
    assert decoded_entries(made, "a test") == {
        ALL_PARTITIONS_KEY: {"p=2": (0, False)},
        "p=1": {"c": (0, True)},
        "p=2": {"b": (2, False), "a": (0, True)},
    }
    assert len(made.deletes) == 0


def test_a_partition_that_is_gone_is_deleted_and_marked() -> None:
    made = files_records({"p": FileChanges(is_gone=True)}, version=9)
    assert made.deletes.to_pylist() == ["p"]
    assert decoded_entries(made, "a test") == {ALL_PARTITIONS_KEY: {"p": (0, True)}}
    before = listing_records({"p": {"f": 1}, "q": {"g": 2}}, version=9)
    assert listed_files(merge(before, made, version=9), "a test") == {"q": {"g": 2}}


def test_the_root_is_listed_as_a_dot() -> None:
    made = files_records({"": FileChanges({"f": 1})}, version=8)
    assert made.keys.to_pylist() == [".", ALL_PARTITIONS_KEY]
    assert listed_files(made, "a test") == {"": {"f": 1}}


def test_an_empty_table_lists_no_partitions() -> None:
    made = listing_records({}, version=9)
    assert decoded_entries(made, "a test") == {ALL_PARTITIONS_KEY: {}}
    assert made.values[0].as_py() == b"\x00" * 6 + b"\x02\x02" + b"\x00" * 5


def test_a_deleted_file_leaves_the_list_and_the_larger_size_stays() -> None:
    before = listing_records({"p": {"f": 1, "g": 9}}, version=9)
    after = merge(before, files_records({"p": FileChanges({"g": 5}, ["f", "h"])}, version=9), version=9)
    assert decoded_entries(after, "a test")["p"] == {"g": (9, False), "h": (0, True)}
    assert listed_files(after, "a test") == {"p": {"g": 9}}


def test_no_changes_are_no_records() -> None:
    assert not files_records({}, version=9)
    assert not files_records({"p": FileChanges()}, version=9)
