"""Looking keys up in base files: every file group that holds a key is found, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import NotFound
from hudi_ops.files.base.base_file import WriterSettings, encode_base_file
from hudi_ops.index.base_keys import BaseFileLocator, KeyedGroup
from hudi_ops.index.locator import GroupName
from hudi_ops.kernels.meta_columns import add_meta_columns
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock


class Counting(MemoryStorage):
    """Counts bytes that are read from each path."""

    def __init__(self) -> None:
        super().__init__("counting", ManualClock(0))
        self.opened: list[str] = []

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return super().open_input(path)


def group(storage: MemoryStorage, partition: str, name: str, keys: Sequence[str]) -> KeyedGroup:
    rows = add_meta_columns(
        pa.table({"id": pa.array(keys, pa.string())}),
        keys=pa.array(keys, pa.string()),
        partition_path=partition,
        instant="20300101000000000",
        file_name=f"{name}.parquet",
        seqno_prefix="",
    )
    path = f"{partition}/{name}.parquet"
    storage.put(path, encode_base_file(rows, "t", WriterSettings()))
    return KeyedGroup(storage, GroupName(partition, name), path)


def found(groups: Sequence[KeyedGroup], keys: dict[str, list[str]]) -> dict[tuple[str, str], list[str]]:
    asked = {path: pa.array(column, pa.string()) for path, column in keys.items()}
    told = BaseFileLocator(LocalEngine(threads=1), groups).locate(asked)
    return {
        (one.group.partition_path, one.group.file_id): [keys[one.asked_in][row] for row in one.rows] for one in told
    }


def test_keys_are_found_where_they_are_each_time_they_are_asked_for() -> None:
    storage = Counting()
    groups = [
        group(storage, "p", "f1", ["a", "c", "é", "\U0001f600"]),
        group(storage, "p", "f2", ["b", "d"]),
        group(storage, "q", "f3", ["a", "b"]),
        group(storage, "r", "f4", ["a"]),
        group(storage, "p", "empty", []),
    ]
    asked = {"p": ["d", "a", "x", "\U0001f600", "a", "é"], "q": ["c", "b"], "s": ["a"], "r": []}
    assert found(groups, asked) == {
        ("p", "f1"): ["a", "\U0001f600", "a", "é"],
        ("p", "f2"): ["d"],
        ("q", "f3"): ["b"],
    }
    assert not any(path.startswith("r/") for path in storage.opened)


@pytest.mark.parametrize("asked", [["k00007"], [f"k{n:05d}" for n in range(0, 4_000, 2)]], ids=["few", "many"])
def test_the_filter_spares_reading_keys_and_decides_nothing(asked: list[str]) -> None:
    storage = Counting()
    held = [f"k{n:05d}" for n in range(4_000)]
    groups = [group(storage, "p", "f1", held[::2]), group(storage, "p", "f2", [*held[1::2], held[-2]])]
    wanted = [*asked, "k00001", "nobody", "k99999"]
    expected = {
        ("p", "f1"): [key for key in wanted if key in set(held[::2])],
        ("p", "f2"): [key for key in wanted if key in {*held[1::2], held[-2]}],
    }
    assert found(groups, {"p": wanted}) == {name: keys for name, keys in expected.items() if keys}


def test_a_key_in_two_groups_is_in_both() -> None:
    storage = Counting()
    groups = [group(storage, "p", "f1", ["a", "b"]), group(storage, "p", "f2", ["a"])]
    assert found(groups, {"p": ["a", "b"]}) == {("p", "f1"): ["a", "b"], ("p", "f2"): ["a"]}


def test_a_file_that_is_gone_is_told() -> None:
    storage = Counting()
    groups = [group(storage, "p", "f1", ["a"])]
    storage.delete("p/f1.parquet")
    with pytest.raises(NotFound):
        found(groups, {"p": ["a"]})
