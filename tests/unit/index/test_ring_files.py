"""Goal: the ring that counts is the newest with a proof, and a file without one is never taken for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.errors import Conflict, Corrupt
from hudi_ops.index.ring import INITIAL, initial_ring, renewed
from hudi_ops.index.ring_files import (
    RINGS_FOLDER,
    RingReader,
    committed_path,
    put_initial,
    ring_path,
    rings_of,
    seal_rings,
)
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader

LEFT, LATE = "20261121021920000", "20991231000000000"
RESIZED, SECOND = "20261121021917676", "20261121021926263"


@pytest.fixture
def storage(hudi_fixtures: Callable[[str], Path]) -> MemoryStorage:
    """A table that Apache Hudi resized twice; of the second resize partition p=b has no `.commit` file."""
    return copied(hudi_fixtures("v9_bucket_consistent_resized"))


def copied(root: Path) -> MemoryStorage:
    found, source = MemoryStorage(root.name, SystemClock()), open_storage(str(root))
    for info in source.list():
        found.put(info.path, source.get(info.path))
    return found


def reader(storage: MemoryStorage) -> RingReader:
    config = load_config(storage)
    return RingReader(storage, config, load_timeline(storage, config), CommitReader(storage), None)


def put(storage: MemoryStorage, instant: str, *, committed: bool = False, partition: str = "p=a") -> None:
    storage.put(ring_path(partition, instant), renewed(initial_ring(partition, 2), instant).to_bytes())
    if committed:
        storage.put(committed_path(partition, instant), b"")


def current(storage: MemoryStorage, partition: str = "p=a") -> str | None:
    ring = reader(storage).read(partition)
    return ring.instant if ring is not None else None


def test_a_completed_instant_proves_a_ring_without_a_commit_file(storage: MemoryStorage) -> None:
    assert storage.head(committed_path("p=b", SECOND)) is None
    assert current(storage, "p=b") == SECOND
    assert current(storage, "p=c") is None


def test_a_pending_resize_does_not_count(hudi_fixtures: Callable[[str], Path]) -> None:
    storage = copied(hudi_fixtures("v9_bucket_consistent_pending_resize"))
    put(storage, RESIZED)
    assert current(storage) == INITIAL


@pytest.mark.parametrize("instant", [LEFT, LATE, "20000101000000000"])
def test_a_ring_of_an_aborted_instant_does_not_count(storage: MemoryStorage, instant: str) -> None:
    put(storage, instant)
    assert current(storage) == SECOND


def test_a_commit_file_proves_a_ring_of_an_archived_instant(storage: MemoryStorage) -> None:
    storage.delete_all(rings_of(storage, SECOND), ordered=True)
    storage.delete_all(rings_of(storage, RESIZED), ordered=True)
    put(storage, "20000101000000000", committed=True)
    assert current(storage) == "20000101000000000"


def test_an_archived_instant_proves_a_ring(storage: MemoryStorage) -> None:
    for instant in (SECOND, RESIZED):
        storage.delete_all(rings_of(storage, instant), ordered=True)
    put(storage, "20000101000000000")
    found = reader(storage)
    found.commits.archived._known[found.config.history_folder, "20000101000000000"] = "20000101000000001"
    ring = found.read("p=a")
    assert ring is not None
    assert ring.instant == "20000101000000000"


def test_a_ring_that_was_committed_after_the_state_was_read_is_a_conflict(storage: MemoryStorage) -> None:
    put(storage, LATE, committed=True)
    with pytest.raises(Conflict, match="changed since the table was read"):
        current(storage)


def test_a_commit_file_without_a_ring_is_damage(storage: MemoryStorage) -> None:
    storage.delete(ring_path("p=a", SECOND))
    with pytest.raises(Corrupt, match="no ring file of 20261121021926263"):
        current(storage)


def test_a_torn_ring_that_counts_is_damage_and_names_the_table(storage: MemoryStorage) -> None:
    storage.put(ring_path("p=a", SECOND), b'{ "version" : 0')
    with pytest.raises(Corrupt, match="cannot be read") as raised:
        current(storage)
    assert raised.value.table == "q5h"


def test_racing_writers_make_one_first_ring() -> None:
    storage = MemoryStorage("t", SystemClock())
    first, second = put_initial(storage, "p=a", 4), put_initial(storage, "p=a", 8)
    assert first.to_bytes() == second.to_bytes() == initial_ring("p=a", 4).to_bytes()
    assert [info.path for info in storage.list()] == [ring_path("p=a", INITIAL)]


def test_rings_of_partitions_below_are_not_those_of_a_partition() -> None:
    storage = MemoryStorage("t", SystemClock())
    put_initial(storage, "a/b", 4)
    assert [info.name for info in storage.list_folder(f"{RINGS_FOLDER}/a").files] == []
    put_initial(storage, "", 2)
    assert len(storage.list_folder(RINGS_FOLDER).files) == 1


def test_sealed_rings_have_their_commit_files(storage: MemoryStorage) -> None:
    put(storage, LEFT)
    seal_rings(storage, {SECOND, RESIZED})
    assert storage.head(committed_path("p=b", SECOND)) is not None
    assert storage.head(committed_path("p=a", LEFT)) is None
