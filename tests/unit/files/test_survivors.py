"""Survivors of merged slices are kept within a number of bytes, and only as long as the files are the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hudi_ops.files.slice.survivors import SurvivorCache, Survivors, identity_of
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage


def survivors(rows: int) -> Survivors[int]:
    return Survivors.of(np.arange(rows) % 3 > 0, np.arange(rows), [(0, 0, rows)], rows)


@pytest.mark.parametrize("rows", [0, 1, 8, 1001])
def test_an_outcome_is_the_same_when_it_was_kept(rows: int) -> None:
    kept = survivors(rows)
    assert kept.keep is not None
    assert kept.keep.tolist() == (np.arange(rows) % 3 > 0).tolist()
    assert kept.taken.tolist() == list(range(rows))


def test_the_slices_that_were_not_used_for_the_longest_time_go() -> None:
    cache: SurvivorCache[int] = SurvivorCache(3 * survivors(1000).size_bytes)
    for key in "abc":
        cache.put(key, survivors(1000))
    assert cache.get("a") is not None
    cache.put("d", survivors(1000))
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    cache.put("a", survivors(1000))
    assert cache.size_bytes == 3 * survivors(1000).size_bytes
    cache.put("e", survivors(1_000_000))  # larger than all that may be kept
    assert cache.size_bytes == 0


def test_a_local_file_that_was_replaced_is_another_file(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.put("a", b"one")
    before = identity_of(storage, [("a", 3)])
    assert identity_of(LocalStorage(str(tmp_path)), [("a", 3)]) == before
    os.utime(tmp_path / "a", (1, 1))
    assert identity_of(storage, [("a", 3)]) != before


def test_storages_in_memory_that_have_one_name_share_nothing() -> None:
    assert identity_of(MemoryStorage(), [("a", 3)]) is None
