"""What `verify` reports of hash rings: damaged and missing files, groups outside a ring, and keys in a wrong node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hudi_ops.index.ring import INITIAL, initial_ring, renewed
from hudi_ops.index.ring_files import committed_path, ring_path
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, made, rows, table_of

LATE = "20991231000000000"
PATH = ring_path("part=p0", INITIAL)


@pytest.fixture
def storage() -> MemoryStorage:
    """A table with base files and log files in every node."""
    batches = [rows(*[(f"k{n}", f"p{n % 2}", n, value, None) for n in range(40)]) for value in (1, 2)]
    made_of = made(replace(MERGE_ON_READ, bucket_engine="consistent", buckets=4), batches[0])
    table_of(made_of, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=BY_HAND).ingest(batches[1])
    assert verify_table(made_of, deep=True).findings == ()
    return made_of


def found(storage: MemoryStorage) -> set[tuple[str, str]]:
    return {(one.severity, one.invariant) for one in verify_table(storage, deep=True).findings}


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body[:-9],
        lambda body: body.replace(b"536870912", b"1073741824"),
        lambda body: body.replace(b"2147483647", b"2147483648"),
    ],
    ids=["torn", "two nodes of one value", "gap"],
)
def test_a_damaged_ring_is_reported_once(storage: MemoryStorage, damage: Callable[[bytes], bytes]) -> None:
    storage.put(PATH, damage(storage.get(PATH)))
    findings = verify_table(storage).findings
    assert [(one.severity, one.invariant, one.where) for one in findings] == [("error", "ring-broken", PATH)]


def test_ring_into_replaced_groups_is_reported(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS + 60_000, tick_ms=1), "writer", upkeep=BY_HAND)
    done = table.delete_partition("part=p0")
    path = next(info.path for info in storage.list(".hoodie/timeline") if info.name.startswith(f"{done.instant}_"))
    storage.put(path, storage.get(path).replace(b"hudi_ops.rings", b"another.writer"))  # as Apache Hudi completes one
    storage.delete(ring_path("part=p0", str(done.instant)))
    assert ("warning", "ring-replaced") in found(storage)


def test_an_archived_ring_without_its_commit_file_is_reported(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS + 60_000, tick_ms=1), "writer", upkeep=BY_HAND)
    removed = str(table.delete_partition("part=p0").instant)
    for value in range(5):
        table.ingest(rows(("z", "p1", value, 100 + value, None)))
    table.clean.run(retain=1)
    table.archive.run(keep_min=2, keep_max=3)
    table.ingest(rows(("a", "p0", 1, 200, None)))
    assert found(storage) == set()
    storage.delete(committed_path("part=p0", removed))
    assert found(storage) == {("warning", "ring-unsealed")}


def test_a_missing_ring_is_reported(storage: MemoryStorage) -> None:
    storage.delete(PATH)
    assert found(storage) == {("error", "ring-missing")}


def test_a_group_outside_the_ring_is_reported(storage: MemoryStorage) -> None:
    prefix = initial_ring("part=p0", 4).prefixes[0]
    storage.put(PATH, storage.get(PATH).replace(prefix.encode(), b"0" * 36))
    assert found(storage) == {("error", "ring-group-unknown")}


def test_keys_outside_their_nodes_are_reported(storage: MemoryStorage) -> None:
    body = storage.get(PATH)
    storage.put(PATH, body.replace(b"536870912", b"536870999").replace(b"1073741824", b"536871000"))
    assert found(storage) == {("error", "bucket-wrong"), ("error", "log-key-bucket")}


def test_a_ring_that_was_committed_meanwhile_is_not_judged(storage: MemoryStorage) -> None:
    storage.put(ring_path("part=p0", LATE), renewed(initial_ring("part=p0", 4), LATE).to_bytes())
    storage.put(committed_path("part=p0", LATE), b"")
    assert found(storage) == {("info", "ring-unread")}
