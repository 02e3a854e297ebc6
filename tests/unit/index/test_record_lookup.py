"""The record index as a locator: a key is found in whatever partition it lies, for every row that asks for it."""

from __future__ import annotations

import pyarrow as pa

from hudi_ops.index.locator import GroupName
from hudi_ops.index.record_lookup import RecordIndexLocator

HELD = {"a": ("p", "f1"), "b": ("p", "f2"), "c": ("q", "f1"), "d": ("", "f9")}


def index(keys: pa.Array) -> pa.Table:
    asked = keys.to_pylist()
    assert len(set(asked)) == len(asked), "each key once"
    found = sorted((key for key in asked if key in HELD), reverse=True)
    columns = {
        "key": found,
        "partition_path": [HELD[key][0] for key in found],
        "file_id": [HELD[key][1] for key in found],
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def located(keys: dict[str, list[str]]) -> dict[tuple[GroupName, str], list[int]]:
    found = RecordIndexLocator(index).locate({path: pa.array(one, pa.string()) for path, one in keys.items()})
    return {(one.group, one.asked_in): one.rows.tolist() for one in found}


def test_keys_are_found_in_other_partitions_too() -> None:
    assert located({"p": ["x", "c", "a", "a"], "q": ["c", "b", "d"], "r": []}) == {
        (GroupName("p", "f1"), "p"): [2, 3],
        (GroupName("q", "f1"), "p"): [1],
        (GroupName("q", "f1"), "q"): [0],
        (GroupName("p", "f2"), "q"): [1],
        (GroupName("", "f9"), "q"): [2],
    }


def test_what_is_nowhere_is_not_found() -> None:
    assert located({"p": ["x", "y"]}) == {}
    assert located({"p": [], "q": []}) == {}
    assert located({}) == {}
