"""`table.ring` describes the rings that count, their file groups, and the children of pending resizes; it changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.index.ring import INITIAL, TOP, initial_ring, renewed
from hudi_ops.index.ring_files import all_ring_versions, committed_path, ring_path
from hudi_ops.services.inspect.rings import RingView, describe_rings
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.definitions import Definition
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, made, rows, table_of

CONSISTENT = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=4)
RESIZE, PARENTS = (
    "20261121021917676",
    ("c60882fb-2461-3d8f-89d0-18a0131379c8-0", "2ae7cbc1-3ce6-385b-9b48-a55c9a5dcffb-0"),
)


def filled(definition: Definition = CONSISTENT) -> MemoryStorage:
    """A table with base files in every node of two partitions, and log files of one key."""
    storage = made(definition, rows(*[(f"k{n}", f"p{n % 2}", n, 1, None) for n in range(60)]))
    opened(storage).ingest(rows(("k0", "p0", 7, 2, None)))
    return storage


def opened(storage: MemoryStorage) -> Table:
    return table_of(storage, ManualClock(NOW_MS, tick_ms=1), "reader", upkeep=BY_HAND)


def test_each_node_is_told_with_its_hashes_and_the_bytes_of_its_slice() -> None:
    storage = filled()
    first, second = opened(storage).ring()
    assert [(one.partition_path, one.instant, one.seq_no, one.buckets) for one in (first, second)] == [
        ("part=p0", INITIAL, 0, 4),
        ("part=p1", INITIAL, 0, 4),
    ]
    assert [(node.above, node.value) for node in first.nodes] == [
        (TOP, 1 << 29),
        (1 << 29, 1 << 30),
        (1 << 30, 3 << 29),
        (3 << 29, TOP),
    ]
    assert sum(node.hashes for node in first.nodes) == 1 << 31
    held = [(info.name.lstrip("."), info.size_bytes) for info in storage.list("part=p0")]
    for node in first.nodes:
        assert node.total_bytes == sum(size for name, size in held if name.startswith(node.file_id)) > 0
    assert sorted(node.log_files for node in first.nodes) == [0, 0, 0, 1]
    assert [node.log_files for node in second.nodes] == [0] * 4
    assert first.pending == second.pending == ()
    assert first.as_dict()["node_count"] == len(first.as_dict()["nodes"]) == 4
    json.dumps([one.as_dict() for one in (first, second)])


def test_partitions_are_chosen_by_path_and_pattern() -> None:
    table = opened(filled())
    chosen = [table.ring("part=p1"), table.ring(["part=*1"]), table.ring("*")]
    assert [[one.partition_path for one in found] for found in chosen] == [["part=p1"]] * 2 + [["part=p0", "part=p1"]]
    with pytest.raises(InvalidRequest, match="no partition 'part=p7'") as refused:
        table.ring("part=p7")
    assert "part=p0, part=p1" in refused.value.expected


def test_a_ring_that_an_overwrite_renewed_is_told_with_its_groups_and_another_without_proof_is_not() -> None:
    storage = filled()
    table = opened(storage)
    done = table.ingest(rows(("k0", "p0", 9, 3, None)), operation="insert_overwrite")
    (ring,) = table.ring("part=p0")
    assert (ring.instant, ring.seq_no, ring.buckets) == (done.instant, 1, 4)
    assert [node.base_bytes is not None for node in ring.nodes].count(True) == 1
    aborted = f"{ring.instant[:-1]}{(int(ring.instant[-1]) + 1) % 10}"
    storage.put(ring_path("part=p0", aborted), renewed(initial_ring("part=p0", 4), aborted).to_bytes())
    assert table.ring("part=p0") == [ring]


def test_an_empty_table_with_rings_has_none_and_other_tables_are_refused() -> None:
    assert opened(made(CONSISTENT)).ring() == []
    with pytest.raises(InvalidRequest, match="has no hash rings") as refused:
        opened(made(MERGE_ON_READ, rows(("a", "p", 1, 1, None)))).ring()
    assert (refused.value.table, refused.value.found) == ("crash", "index simple_bucket")
    plain = filled(replace(CONSISTENT, partition_by=()))
    assert [one.partition_path for one in opened(plain).ring()] == [""]
    with pytest.raises(InvalidRequest, match="no partitions to choose from"):
        opened(plain).ring("part=p0")


def test_a_ring_of_the_metadata_table_s_listing_is_the_same() -> None:
    storage = filled(replace(CONSISTENT, metadata=True))
    before = opened(storage).ring()
    opened(storage).indexing.drop()
    assert opened(storage).ring() == before


@pytest.fixture
def pending(hudi_fixtures: Callable[[str], Path]) -> list[RingView]:
    return Table.open(str(hudi_fixtures("v9_bucket_consistent_pending_resize"))).ring()


def test_the_children_of_a_pending_resize_are_told_with_their_logs(pending: list[RingView]) -> None:
    first, second = pending
    assert [(one.instant, one.tag, one.parents[0], one.value, one.log_files) for one in first.pending] == [
        (RESIZE, "REPLACE", PARENTS[0], 536870911, 1),
        (RESIZE, "REPLACE", PARENTS[0], 1073741824, 2),
        (RESIZE, "REPLACE", PARENTS[1], 1610612735, 2),
        (RESIZE, "REPLACE", PARENTS[1], TOP, 2),
    ]
    assert sum(one.log_bytes for one in first.pending) == 1682 + 785 + 1346 + 1794 + 896 + 896 + 1234
    assert [node.log_files for node in first.nodes] == [4, 4]  # none of a child's
    assert [one.log_files for one in second.pending] == [0, 0]


def test_damage_is_named_instead_of_a_ring() -> None:
    storage = filled()
    storage.put(ring_path("part=p0", INITIAL), b"{")
    with pytest.raises(Corrupt, match=r"hash ring in .* cannot be read"):
        describe_rings(storage)
    assert [one.partition_path for one in describe_rings(storage, ["part=p1"])] == ["part=p1"]


def test_all_versions_are_listed_at_once_by_partition() -> None:
    storage = MemoryStorage("rings", ManualClock(NOW_MS))
    storage.put(ring_path("", INITIAL), b"")
    storage.put(ring_path("a/b", "1"), b"")
    storage.put(committed_path("a/b", "1"), b"")
    storage.put(ring_path("a", "2"), b"")
    found = all_ring_versions(storage)
    assert {path: (one.rings, sorted(one.committed)) for path, one in found.items()} == {
        "": ((INITIAL,), []),
        "a": (("2",), []),
        "a/b": (("1",), ["1"]),
    }
