"""Goal: lanes, searches and directories lead every hash to the node that its ring says, and numbers of buckets make sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Internal, InvalidRequest, Unsupported
from hudi_ops.index.bucket_engine import (
    Ranges,
    RingEngine,
    SimpleEngine,
    bucket_limits,
    engine_of,
    lanes_of,
    ring_engine_of,
)
from hudi_ops.index.ring import TOP, Ring, initial_ring, step_of

HASHES = st.lists(st.integers(0, TOP), min_size=1, max_size=30)


def ring_of(values: list[int]) -> Ring:
    return Ring("", "1", 1, 1, np.array(sorted(values), np.int64), tuple(f"g{n}" for n in range(len(values))))


def around(values: list[int]) -> list[int]:
    """Hashes at the ends of ranges."""
    return sorted({min(max(value + off, 0), TOP) for value in [0, *values, TOP] for off in (-1, 0, 1)})


@given(st.integers(1, 300), HASHES)
def test_lanes_are_the_nodes_of_the_initial_ring(lanes: int, hashes: list[int]) -> None:
    ring = initial_ring("", lanes)
    array = np.array([*hashes, *around(ring.values.tolist())], np.int32)
    assert lanes_of(array, lanes).tolist() == ring.nodes_of(array).tolist()


@given(st.lists(st.integers(0, TOP), min_size=1, max_size=12, unique=True), st.integers(1, 9), HASHES)
def test_a_lane_reaches_exactly_the_nodes_of_its_hashes(values: list[int], lanes: int, hashes: list[int]) -> None:
    ring, engine = ring_of(values), RingEngine(lanes, ("id",))
    ends = [step_of(lanes) * lane for lane in range(lanes + 1)]
    array = np.array([*hashes, *around([*values, *[min(end, TOP) for end in ends]])], np.int32)
    met: dict[int, set[int]] = {}
    for lane, node in zip(lanes_of(array, lanes).tolist(), ring.nodes_of(array).tolist(), strict=True):
        met.setdefault(lane, set()).add(node)
    some = sorted(met)
    for lane, reached in zip(some, engine.lookup(ring).nodes_in(some, engine.initial()), strict=True):
        assert len(set(reached)) == len(reached)
        assert set(reached) == met[lane], "every node has a hash at one of its ends, or at an end of the lane"


@given(st.integers(1, 300))
def test_the_ranges_of_lanes_are_those_of_the_initial_ring(lanes: int) -> None:
    ring, initial = initial_ring("", lanes), RingEngine(lanes, ("id",)).initial()
    assert (initial.instant, initial.values.tolist()) == (ring.instant, ring.values.tolist())


RINGS = st.lists(st.integers(0, 40) | st.integers(TOP - 3, TOP), min_size=1, max_size=7, unique=True)


@given(RINGS, RINGS)
def test_a_range_of_one_ring_reaches_exactly_the_nodes_of_its_hashes_in_another(old: list[int], new: list[int]) -> None:
    """All hashes that matter: near both ends of the ring, with rings whose first node holds hashes of both ends."""
    before, after = ring_of(old), ring_of(new)
    array = np.array([*range(60), *range(TOP - 9, TOP + 1)], np.int64)
    met: dict[int, set[int]] = {}
    for number, node in zip(before.nodes_of(array).tolist(), after.nodes_of(array).tolist(), strict=True):
        met.setdefault(number, set()).add(node)
    some = sorted(met)
    lookup = RingEngine(1, ("id",)).lookup(after)
    for number, reached in zip(some, lookup.nodes_in(some, Ranges("1", before.values)), strict=True):
        assert len(set(reached)) == len(reached)
        assert set(reached) == met[number]


@pytest.mark.parametrize("nodes", [1, 2, 7, 64, 4096])
@pytest.mark.parametrize("top", [TOP, TOP - 1])
def test_many_hashes_are_led_to_the_nodes_of_a_search(nodes: int, top: int) -> None:
    rng = np.random.default_rng(nodes)
    near = rng.integers(0, 1 << 12, nodes)  # nodes that are narrower than a slot
    for values in (rng.integers(0, TOP, nodes), near):
        ring = ring_of([*set(values.tolist()) - {top}, top])
        array = np.array([*rng.integers(0, TOP, 200_000), *near, *around(ring.values.tolist())], np.int32)
        found = RingEngine(1, ("id",)).lookup(ring).nodes_of(array)
        assert np.array_equal(found, ring.nodes_of(array))
        assert np.array_equal(found, np.searchsorted(ring.values, array) % len(ring.prefixes))


def test_rows_are_split_by_the_known_ranges_of_their_partitions() -> None:
    engine = RingEngine(4, ("id",))
    keys = pa.array([f"k{number}" for number in range(900)])
    codes = np.arange(900) % 3
    known = {"a": Ranges("2", ring_of([9, 1 << 30, (1 << 30) + (1 << 29)]).values), "b": engine.initial()}
    asked: list[tuple[str, int, int]] = []

    def ranges_of(path: str, rows: int, of_rows: int) -> Ranges | None:
        asked.append((path, rows, of_rows))
        return known.get(path)

    found = engine.split(keys, codes, ["a", "b", "c", "without rows"], ranges_of)
    assert asked == [("a", 300, 900), ("b", 300, 900), ("c", 300, 900)]
    hashes = engine.hashes(keys)
    assert found[codes != 0].tolist() == lanes_of(hashes, 4)[codes != 0].tolist()
    assert found[codes == 0].tolist() == ring_of(known["a"].values.tolist()).nodes_of(hashes[codes == 0]).tolist()
    alone = engine.split(keys, np.zeros(900, int), ["a"], ranges_of)
    assert alone.tolist() == ring_of(known["a"].values.tolist()).nodes_of(hashes).tolist()
    assert asked[3:] == [("a", 900, 900)]


@given(st.lists(st.integers(0, 63), min_size=1, max_size=20, unique=True), HASHES)
def test_a_directory_finds_what_the_search_finds(ends: list[int], hashes: list[int]) -> None:
    values = sorted({min((end + 1) << 25, TOP) for end in ends} | {TOP})
    ring = ring_of(values)
    lookup = RingEngine(1, ("id",), is_extendible=True).lookup(ring)
    assert lookup.directory is not None
    array = np.array([*hashes, *around(values)], np.int32)
    assert lookup.nodes_of(array).tolist() == ring.nodes_of(array).tolist()


@pytest.mark.parametrize("values", [[0x1FFFFFFF, TOP], [0x20000000, 0x40000000]])
def test_a_ring_with_other_ranges_is_searched(values: list[int]) -> None:
    assert RingEngine(1, ("id",), is_extendible=True).lookup(ring_of(values)).directory is None


def test_engines_follow_from_the_facts() -> None:
    facts = TableFacts(buckets=4, hash_fields=("id",))
    assert engine_of(facts) == SimpleEngine(4, ("id",))
    assert engine_of(facts.model_copy(update={"index": "extendible_bucket"})) == RingEngine(4, ("id",), True)
    assert ring_engine_of(facts.model_copy(update={"index": "consistent_bucket"})) == RingEngine(4, ("id",), False)
    with pytest.raises(Internal, match="no hash rings"):
        ring_engine_of(facts)
    with pytest.raises(Internal, match="no bucket engine"):
        engine_of(facts.model_copy(update={"index": "bloom"}))


def test_hash_fields_name_the_place_on_the_ring() -> None:
    keys = pa.array(["a:1,b:2", "a:1,b:3"])
    one, other = RingEngine(4, ("a",)).hashes(keys).tolist()
    assert one == other
    assert len({*RingEngine(4, ("a", "b")).hashes(keys).tolist()}) == 2


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"index": "simple_bucket", "lowest": 1}, InvalidRequest, "only tables with a hash ring"),
        ({"index": "bloom", "highest": 4}, InvalidRequest, "only tables with a hash ring"),
        ({"table_type": "COPY_ON_WRITE"}, Unsupported, "copy-on-write table cannot have hash rings"),
        ({"lowest": 5}, InvalidRequest, "cannot stay between 5 and 32768"),
        ({"highest": 3}, InvalidRequest, "cannot stay between 1 and 3"),
        ({"lowest": 0}, InvalidRequest, "cannot stay between 0 and 32768"),
        ({"lowest": 6, "highest": 2}, InvalidRequest, "cannot stay between 6 and 2"),
        ({"buckets": 50_000}, InvalidRequest, "at most 46340 buckets"),
        ({"index": "extendible_bucket", "buckets": 6}, InvalidRequest, "pass 4 or 8 buckets"),
    ],
)
def test_contradictory_buckets_are_refused(changes: dict[str, Any], kind: type[Exception], said: str) -> None:
    given: dict[str, Any] = {
        "index": "consistent_bucket",
        "table_type": "MERGE_ON_READ",
        "buckets": 4,
        "lowest": None,
        "highest": None,
        "table": "t",
    }
    assert bucket_limits(**given) == (1, 32_768)
    with pytest.raises(kind, match=said):
        bucket_limits(**given | changes)
