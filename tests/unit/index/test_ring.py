"""Goal: rings are Apache Hudi's byte for byte, cover every hash exactly once, and change only as a resize or overwrite says."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hudi_ops.errors import Corrupt, Internal, InvalidRequest
from hudi_ops.index.ring import (
    HASHES,
    INITIAL,
    RING_BUCKETS_MAX,
    TOP,
    Child,
    Ring,
    initial_ring,
    merge,
    middle_between,
    parse_ring,
    renewed,
    split,
    with_children,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "apache-hudi-tables"
RESIZED = FIXTURES / "v9_bucket_consistent_resized.zip"
FIRST, SECOND = "20261121021917676", "20261121021926263"


def stored() -> dict[tuple[str, str], bytes]:
    """The ring files that Apache Hudi 1.1.1 wrote, by partition and instant."""
    with zipfile.ZipFile(RESIZED) as packed:
        files = [name for name in packed.namelist() if name.endswith(".hashing_meta")]
        return {(Path(name).parent.name, Path(name).stem): packed.read(name) for name in files}


def rings() -> st.SearchStrategy[Ring]:
    """Initial rings after some splits and merges."""

    @st.composite
    def grown(draw: st.DrawFn) -> Ring:
        ring = initial_ring("p=a", draw(st.integers(1, 9)))
        for number in range(draw(st.integers(0, 6))):
            node = draw(st.integers(0, len(ring.prefixes) - 1))
            if draw(st.booleans()) and len(ring.prefixes) > 1:
                nodes = [node, (node + 1) % len(ring.prefixes)]
                ring = with_children(ring, merge(ring, nodes, f"m{number}"), f"{number:017d}")
            elif (width := width_of(ring, node)) > 1:
                point = (ring.range_of(node)[0] + draw(st.integers(1, width - 1))) % HASHES
                ring = with_children(ring, split(ring, node, point, (f"a{number}", f"b{number}")), f"{number:017d}")
        return ring

    return grown()


def width_of(ring: Ring, node: int) -> int:
    before, value = ring.range_of(node)
    return (value - before) % HASHES or HASHES


def held_by(ring: Ring, hashes: list[int]) -> list[str]:
    return [ring.prefixes[node] for node in ring.nodes_of(np.array(hashes, np.int32)).tolist()]


def test_initial_rings_are_apache_hudis_bytes() -> None:
    for (partition, instant), body in stored().items():
        if instant == INITIAL:
            assert initial_ring(partition, 2).to_bytes() == body


def test_names_of_initial_groups_are_javas() -> None:
    assert initial_ring("p=a", 4).prefixes[0] == "50e3ca36-aaa4-3217-a644-a54b40252206"
    assert initial_ring("", 4).prefixes[3] == "7c2dbe75-c634-38fe-9ef9-a0c6e848e712"
    assert initial_ring("", 4).values.tolist() == [0x20000000, 0x40000000, 0x60000000, TOP]


def test_stored_rings_come_back_byte_for_byte() -> None:
    found = stored()
    assert len(found) == 6
    for (partition, instant), body in found.items():
        assert parse_ring(body, "f", partition, instant).to_bytes() == body


def test_resizes_of_apache_hudi_follow_from_their_children() -> None:
    found = {
        instant: parse_ring(body, "f", "p=a", instant) for (path, instant), body in stored().items() if path == "p=a"
    }
    first, second = found[FIRST], found[SECOND]
    halves = [
        child
        for node in (0, 1)
        for child in split(
            found[INITIAL],
            node,
            middle_between(*found[INITIAL].range_of(node)),
            first.prefixes[2 * node : 2 * node + 2],
        )  # type: ignore[arg-type]
    ]
    assert with_children(found[INITIAL], halves, FIRST).to_bytes() == first.to_bytes()
    joined = merge(first, [1, 2, 3, 0], second.prefixes[0])  # around the end of the ring: the smallest value stays
    assert [(child.value, child.tag) for child in joined] == [
        (0x40000000, "DELETE"),
        (0x5FFFFFFF, "DELETE"),
        (TOP, "DELETE"),
        (0x1FFFFFFF, "REPLACE"),
    ]
    assert with_children(first, joined, SECOND).to_bytes() == second.to_bytes()


def test_texts_are_escaped_as_jackson_does() -> None:
    body = initial_ring('p=ü"\\\n\x1f', 1).to_bytes()
    assert '"partitionPath" : "p=ü\\"\\\\\\n\\u001F"'.encode() in body
    assert parse_ring(body, "f", 'p=ü"\\\n\x1f', INITIAL).to_bytes() == body


@given(rings())
def test_every_ring_covers_each_hash_exactly_once(ring: Ring) -> None:
    assert sum(width_of(ring, node) for node in range(len(ring.prefixes))) == HASHES
    assert all(one < other for one, other in pairwise(ring.values.tolist()))
    for node in range(len(ring.prefixes)):
        before, value = ring.range_of(node)
        assert held_by(ring, [value, (before + 1) % HASHES]) == [ring.prefixes[node]] * 2
    assert parse_ring(ring.to_bytes(), "f", "p=a", ring.instant).to_bytes() == ring.to_bytes()


@given(rings(), st.data())
def test_a_split_and_its_merge_give_the_same_ring_again(ring: Ring, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from([at for at in range(len(ring.prefixes)) if width_of(ring, at) > 1]))
    children = split(ring, node, middle_between(*ring.range_of(node)), ("left", "right"))
    halves = with_children(ring, children, "1")
    assert len(halves.prefixes) == len(ring.prefixes) + 1
    left, right = (halves.prefixes.index(name) for name in ("left", "right"))
    back = with_children(halves, merge(halves, [left, right], ring.prefixes[node]), "2")
    assert back.values.tolist() == ring.values.tolist()
    assert back.prefixes == ring.prefixes
    assert back.seq_no == ring.seq_no + 2


@given(rings(), st.lists(st.integers(0, TOP)))
def test_an_overwrite_keeps_the_ranges_and_renames_every_group(ring: Ring, hashes: list[int]) -> None:
    after = renewed(ring, "20300101000000000")
    assert after.values.tolist() == ring.values.tolist()
    assert not {*after.prefixes} & {*ring.prefixes}
    assert len({*after.prefixes}) == len(ring.prefixes)
    array = np.array(hashes, np.int32)
    assert after.nodes_of(array).tolist() == ring.nodes_of(array).tolist()
    assert renewed(ring, "20300101000000000").to_bytes() == after.to_bytes()
    assert renewed(ring, "20300101000000001").prefixes != after.prefixes


def damaged(**changes: Any) -> bytes:
    return json.dumps(json.loads(initial_ring("p=a", 2).to_bytes()) | changes).encode()


NODE = {"value": 7, "fileIdPrefix": "x", "tag": "NORMAL"}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param(initial_ring("p=a", 2).to_bytes()[:-40], "the file: Invalid JSON", id="torn"),
        pytest.param(b"", "the file: Invalid JSON", id="empty"),
        pytest.param(damaged(nodes=[]), "nodes: ", id="no node"),
        pytest.param(damaged(nodes=[NODE | {"value": HASHES}]), "nodes.0.value", id="gap at the end"),
        pytest.param(damaged(nodes=[NODE | {"value": -1}]), "nodes.0.value", id="gap at the start"),
        pytest.param(damaged(nodes=[NODE | {"value": True}]), "nodes.0.value", id="not a number"),
        pytest.param(damaged(nodes=[NODE, NODE | {"fileIdPrefix": "y"}]), "two nodes with the value 7", id="one value"),
        pytest.param(damaged(nodes=[NODE, NODE | {"value": 8}]), "two nodes with the file group x", id="one group"),
        pytest.param(damaged(nodes=[NODE | {"tag": "DELETE"}]), "nodes.0.tag", id="tagged"),
        pytest.param(damaged(nodes=[NODE | {"fileIdPrefix": None}]), "nodes.0.fileIdPrefix", id="no group"),
        pytest.param(damaged(partitionPath="p=b"), "of another partition", id="other partition"),
        pytest.param(damaged(instant=FIRST), "of another instant", id="other instant"),
        pytest.param(damaged(version=1), "version", id="later version"),
    ],
)
def test_a_damaged_ring_is_refused_by_name(body: bytes, named: str) -> None:
    with pytest.raises(Corrupt, match=named) as raised:
        parse_ring(body, "the/path", "p=a", INITIAL)
    assert "the/path" in str(raised.value)


@pytest.mark.parametrize("point", [0x20000000, 0x40000000, 0x1FFFFFFF, -1, HASHES])
def test_a_split_point_outside_the_range_is_refused(point: int) -> None:
    with pytest.raises(InvalidRequest, match="cannot be split at hash"):
        split(initial_ring("", 4), 1, point, ("a", "b"))


def test_the_first_node_can_be_split_behind_the_end_of_the_ring() -> None:
    ring = with_children(initial_ring("", 2), [Child(TOP, None), Child(TOP - 10, "x")], "1")
    assert held_by(with_children(ring, split(ring, 0, TOP - 5, ("a", "b")), "2"), [TOP - 5, TOP - 4, 0]) == [
        "a",
        "b",
        "b",
    ]


@pytest.mark.parametrize("nodes", [[], [1], [0, 2], [1, 0], [0, 0], [2, 3, 4], [0, 1, 2, 3, 0]])
def test_nodes_that_are_not_adjacent_are_not_merged(nodes: list[int]) -> None:
    with pytest.raises(InvalidRequest, match="cannot be merged"):
        merge(initial_ring("", 4), nodes, "m")


def test_children_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Internal, match="does not have"):
        with_children(initial_ring("", 2), [Child(5, None)], "1")
    with pytest.raises(Internal, match="every node"):
        with_children(initial_ring("", 1), [Child(TOP, None)], "1")


@pytest.mark.parametrize("buckets", [0, RING_BUCKETS_MAX + 1])
def test_numbers_of_buckets_out_of_range_are_refused(buckets: int) -> None:
    with pytest.raises(InvalidRequest, match="cannot begin with"):
        initial_ring("", buckets)


def test_nodes_of_the_largest_initial_ring_differ() -> None:
    assert len({*initial_ring("", RING_BUCKETS_MAX).values.tolist()}) == RING_BUCKETS_MAX
