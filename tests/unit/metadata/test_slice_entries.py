"""What a write changes of a slice's secondary entries is the difference of the entries before and after it.

Method: random rows with nulls, special characters and keys that a slice holds twice, against sets of whole entries.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from hudi_ops.metadata import slice_entries
from hudi_ops.metadata.records.keys import secondary_keys
from hudi_ops.metadata.slice_entries import ChangedSlice, added_and_removed, changed_entries
from tests.bounds import examples

VALUES = ("Oslo", "a$b", "c\\d", "", "\x00", None)
Rows = list[tuple[str, str | None, int | None]]


def drawn(chance: random.Random, *, twice: bool) -> Rows | None:
    """Draw the rows of a slice: key, text and number; None: the slice is not there."""
    if chance.random() < 0.1:
        return None
    keys = chance.sample(range(12), chance.randrange(9))
    keys += chance.choices(range(12), k=3) if twice else []
    return [(f"k${key}", chance.choice(VALUES), chance.choice((1, -7, None))) for key in keys]


def table_of_rows(rows: Rows) -> tuple[pa.Array, pa.Table]:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    keys, texts, numbers = (
        pa.array(each, kind) for each, kind in zip(columns, (pa.string(), pa.string(), pa.int64()), strict=True)
    )
    return keys, pa.table({"text": texts, "number": numbers})


def whole(rows: Rows | None, column: str, version: int) -> set[str]:
    keys, table = table_of_rows(rows or [])
    texts = table[column].cast(pa.string()).combine_chunks()
    return set(secondary_keys(texts, keys, version).to_pylist())


@pytest.mark.parametrize("twice", [False, True], ids=["each key once", "keys twice"])
@pytest.mark.parametrize("version", [8, 9])
def test_changes_are_the_difference_of_whole_entries(
    monkeypatch: pytest.MonkeyPatch, version: int, twice: bool
) -> None:
    monkeypatch.setattr(slice_entries, "keyed_rows_of_slice", table_of_rows)
    changes = 0
    for seed in range(examples(300)):
        chance = random.Random(seed)
        old, new = (drawn(chance, twice=twice) for _ in range(2))
        if old is None and new is None:
            continue
        found = changed_entries(ChangedSlice(old, new), version)
        for column, (added, removed) in zip(("text", "number"), found, strict=True):
            before, after = whole(old, column, version), whole(new, column, version)
            assert (sorted(added.to_pylist()), sorted(removed.to_pylist())) == (
                sorted(after - before),
                sorted(before - after),
            ), (seed, column)
            changes += len(added) + len(removed)
    assert changes > 1_000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("other", [pa.string(), pa.large_string()], ids=str)
def test_added_and_removed_keys_are_the_differences_of_sets(kind: pa.DataType, other: pa.DataType) -> None:
    for seed in range(examples(200)):
        chance = random.Random(seed)
        now = [f"k{chance.randrange(12)}" for _ in range(chance.randrange(15))]
        before = chance.sample([f"k{number}" for number in range(12)], chance.randrange(12))
        added, removed = added_and_removed(pa.array(now, kind), pa.array(before, other))
        assert sorted(added.to_pylist()) == sorted({*now} - {*before}), seed
        assert removed.to_pylist() == [key for key in before if key not in now], seed
