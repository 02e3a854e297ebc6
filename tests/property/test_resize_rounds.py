"""Rounds of resizes on a model: rings stay whole, sizes end between the limits, and no round is made without end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.index.ring import HASHES, TOP, Child, Ring, initial_ring, is_inside, merge, split, with_children
from hudi_ops.services.resize.nodes import Limits, choose_nodes
from hudi_ops.services.resize.points import Balanced, Half, Middle, SplitPoint, checked_point, dyadic_range, is_dyadic
from tests.bounds import examples

ROUNDS = 50
SETTLING_MAX = 3 * 32
"""Rounds until up to three buckets of one hash each were halved down to it, with the rule of the middle."""


@dataclass
class Model:
    """A partition: its ring, and the hashes of its keys, each of one byte."""

    ring: Ring
    hashes: Any
    limits: Limits
    rule: SplitPoint
    names: int = 0
    stuck: set[int] = field(default_factory=set)

    def sizes(self) -> list[int]:
        found = np.bincount(self.ring.nodes_of(self.hashes), minlength=len(self.ring.prefixes))
        return [int(size) for size in found]

    def name(self) -> str:
        self.names += 1
        return f"n{self.names}"

    def resize(self) -> int:
        """Make and apply one plan; return the number of its splits and merges."""
        nodes = self.ring.nodes_of(self.hashes)
        self.stuck = set()
        while True:
            found = choose_nodes(self.ring, self.sizes(), self.limits, self.stuck)
            points = {
                node: checked_point(self.rule, *self.ring.range_of(node), self.hashes[nodes == node])
                for node in found.splits
            }
            stuck = {node for node, point in points.items() if point is None}
            if not stuck:
                break
            self.stuck |= stuck
        each = [*found.splits, *(node for run in found.merges for node in run)]
        each += [*found.at_limit, *found.alone, *found.fitting, *self.stuck]
        assert sorted(each) == list(range(len(self.ring.prefixes))), "every node once"
        children: list[Child] = []
        for node, point in points.items():
            assert point is not None
            children += split(self.ring, node, point, (self.name(), self.name()))
        for run in found.merges:
            sizes = [self.sizes()[node] for node in run]
            is_join = len(run) == 2 and max(sizes) >= self.limits.merge_bytes
            assert sum(sizes) <= (self.limits.split_bytes if is_join else self.limits.merged_max)
            children += merge(self.ring, run, self.name())
        if children:
            self.ring = with_children(self.ring, children, "1")
        assert_whole(self.ring)
        assert sum(self.sizes()) == len(self.hashes)
        return len(found.splits) + len(found.merges)

    def settle(self) -> int:
        """Resize until nothing is left to do; return the number of rounds."""
        for number in range(SETTLING_MAX):
            if not self.resize():
                self.assert_settled()
                return number
        raise AssertionError(f"not settled after {SETTLING_MAX} rounds: {self.sizes()}")

    def assert_settled(self) -> None:
        sizes, count = self.sizes(), len(self.ring.prefixes)
        limits = self.limits
        for node, size in enumerate(sizes):
            if size > limits.split_bytes:
                assert node in self.stuck or count == limits.buckets_max
            if not (size < limits.merge_bytes and count > max(1, limits.buckets_min)):
                continue
            if not limits.is_extendible:
                room = min(sizes[node - 1], sizes[(node + 1) % count])
                assert size + room > limits.split_bytes, "a small node has a neighbour with room for it"
                continue
            if sizes[node - 1] >= limits.merge_bytes:
                continue
            start, width = dyadic_range(*self.ring.range_of(node - 1))
            is_half = dyadic_range(*self.ring.range_of(node))[1] == width and start % (2 * width) == 0
            assert not is_half or node == 0, "a small half has a small buddy"


def assert_whole(ring: Ring) -> None:
    """The widths of the ranges, which are disjoint, add up to all hashes."""
    values = ring.values.tolist()
    assert values == sorted(set(values))
    assert 0 <= values[0] <= values[-1] <= TOP
    ranges = [ring.range_of(node) for node in range(len(values))]
    assert sum((value - before) % HASHES or HASHES for before, value in ranges) == HASHES


def model(hashes: Any, *, buckets: int = 4, rule: SplitPoint | None = None, **limits: Any) -> Model:
    found = Limits(**{"split_bytes": 1_000, "merge_bytes": 250, **limits})
    return Model(initial_ring("p", buckets), hashes, found, rule or (Half() if found.is_extendible else Balanced()))


def uniform(count: int, seed: int = 7, low: int = 0, high: int = HASHES) -> Any:
    return np.random.default_rng(seed).integers(low, high, count).astype(np.int32)


KINDS: dict[str, dict[str, Any]] = {
    "balanced": {"rule": Balanced()},
    "middle": {"rule": Middle()},
    "extendible": {"is_extendible": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_rounds_of_growth_keep_every_bucket_between_the_sizes(kind: str) -> None:
    tried = model(uniform(200), buckets=1, **KINDS[kind], merge_bytes=100)
    keys = uniform(20_000)
    for number in range(1, ROUNDS + 1):
        tried.hashes = keys[: number * len(keys) // ROUNDS]
        tried.settle()
        assert all(100 <= size <= 1_000 for size in tried.sizes()), tried.sizes()
    assert len(tried.ring.prefixes) >= 20


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_rounds_of_growing_and_shrinking_settle_each_time(kind: str) -> None:
    """A bucket that shrank stays small only if its neighbours have no room for it."""
    tried = model(uniform(100), **KINDS[kind], merge_bytes=100)
    keys = uniform(20_000)
    order = np.random.default_rng(1).permutation(len(keys))
    most = 0
    for number in range(ROUNDS):
        share = abs(ROUNDS // 2 - number) / (ROUNDS // 2)
        tried.hashes = keys[order[: max(100, int(len(keys) * (1 - share)))]]
        tried.settle()
        most = max(most, len(tried.ring.prefixes))
        if kind == "extendible":
            assert_dyadic(tried.ring)
    assert most >= 20
    assert len(tried.ring.prefixes) <= most // 4, "they are merged when their rows are deleted"


def assert_dyadic(ring: Ring) -> None:
    assert all(is_dyadic(*dyadic_range(*ring.range_of(node))) for node in range(len(ring.prefixes)))


@pytest.mark.parametrize("low", [0, 12_345, HASHES // 4 - 20, TOP - 40])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_in_a_tiny_range_are_split_without_endless_empty_splits(kind: str, low: int) -> None:
    tried = model(uniform(20_000, low=low, high=low + 41), **KINDS[kind])
    rounds = tried.settle()
    assert rounds <= 32 + (kind != "balanced")
    if kind == "balanced":
        assert rounds <= 7
        assert min(tried.sizes()) >= 250, "the empty buckets of the first ring joined their neighbours"
        assert len(tried.ring.prefixes) <= 41 + 4
    filled = [size for size in tried.sizes() if size]
    assert max(filled) <= 1_000
    if kind == "extendible":
        assert_dyadic(tried.ring)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0, 1, 77, HASHES // 2, TOP])
def test_keys_of_one_hash_stay_together(kind: str, place: int) -> None:
    tried = model(np.full(5_000, place, np.int32), **KINDS[kind])
    rounds = tried.settle()
    assert sorted(tried.sizes())[-1] == 5_000
    # Without reading keys the range is halved until it has one hash.
    assert rounds <= (1 if kind == "balanced" else 33)


def test_the_last_ranges_of_an_extendible_ring_are_not_halved() -> None:
    for before, value in ((TOP, 1), (TOP - 1, TOP), (5, 6)):
        assert Half().point(before, value, np.empty(0, np.int32)) is None
    assert Half().point(TOP, TOP, np.empty(0, np.int32)) == HASHES // 2
    assert Half().point(TOP, HASHES // 4, np.empty(0, np.int32)) == HASHES // 8
    assert Middle().point(TOP, HASHES // 4, np.empty(0, np.int32)) == HASHES // 8 - 1, "where Apache Hudi splits"
    assert Half().point(3 * HASHES // 4, TOP, np.empty(0, np.int32)) == 7 * HASHES // 8


ranges = st.tuples(st.integers(0, TOP), st.integers(0, TOP))
few_hashes = st.lists(st.integers(0, TOP) | st.integers(0, 9) | st.integers(TOP - 9, TOP), max_size=30)


@given(ranges, few_hashes)
@settings(max_examples=examples(200))
def test_a_balanced_point_leaves_keys_on_both_sides_and_none_is_nearer_to_the_median(
    ends: tuple[int, int], hashes: list[int]
) -> None:
    before, value = ends
    width = (value - before) % HASHES or HASHES
    inside = [one for one in hashes if (one - before - 1) % HASHES < width]
    found = checked_point(Balanced(), before, value, np.array(inside, np.int32))
    places = sorted((one - before - 1) % HASHES for one in inside)
    cuts = [n for n in range(1, len(places)) if places[n - 1] < places[n]]
    if found is None:
        assert not cuts
        return
    upto = sum(place <= (found - before - 1) % HASHES for place in places)
    assert abs(upto - len(places) / 2) == min(abs(cut - len(places) / 2) for cut in cuts)


@given(ranges, st.sampled_from([Middle(), Half()]))
@settings(max_examples=examples(200))
def test_a_middle_is_inside_its_range_or_the_range_has_one_hash(ends: tuple[int, int], rule: SplitPoint) -> None:
    before, value = ends
    found = rule.point(before, value, np.empty(0, np.int32))
    if found is None:
        assert (value - before) % HASHES in {1, 2}
    else:
        assert is_inside(before, value, found)


@st.composite
def models(draw: st.DrawFn) -> Model:
    is_extendible = draw(st.booleans())
    buckets = 1 << draw(st.integers(0, 3)) if is_extendible else draw(st.integers(1, 9))
    places = draw(st.lists(st.tuples(st.integers(0, TOP), st.integers(1, 400)), max_size=12))
    split_bytes = draw(st.integers(4, 600))
    hashes = np.concatenate([np.zeros(0, np.int32), *(np.full(count, one, np.int32) for one, count in places)])
    return model(
        hashes,
        buckets=buckets,
        rule=None if is_extendible else draw(st.sampled_from([Balanced(), Middle()])),
        split_bytes=split_bytes,
        merge_bytes=draw(st.integers(0, split_bytes // 4)),
        buckets_min=draw(st.integers(0, buckets)),
        buckets_max=draw(st.just(0) | st.integers(buckets, 40)),
        is_extendible=is_extendible,
    )


@given(models())
@settings(max_examples=examples(60))
def test_rings_stay_whole_and_within_their_numbers_whatever_the_keys(tried: Model) -> None:
    begun = len(tried.ring.prefixes)
    tried.settle()
    count = len(tried.ring.prefixes)
    assert count >= min(begun, max(1, tried.limits.buckets_min))
    assert not tried.limits.buckets_max or count <= max(begun, tried.limits.buckets_max)
    if tried.limits.is_extendible:
        assert_dyadic(tried.ring)


@given(st.integers(1, 9), st.data())
@settings(max_examples=examples(100))
def test_a_split_and_its_merge_give_the_same_values_again(buckets: int, data: st.DataObject) -> None:
    ring = initial_ring("p", buckets)
    node = data.draw(st.integers(0, buckets - 1))
    before, value = ring.range_of(node)
    width = (value - before) % HASHES or HASHES
    point = (before + data.draw(st.integers(1, width - 1))) % HASHES
    halves = with_children(ring, split(ring, node, point, ("a", "b")), "1")
    assert_whole(halves)
    first, second = halves.prefixes.index("a"), halves.prefixes.index("b")
    again = with_children(halves, merge(halves, [first, second], "c"), "2")
    assert again.values.tolist() == ring.values.tolist()
    assert again.prefixes[again.values.tolist().index(value)] == "c"


@given(st.lists(st.integers(0, 249), min_size=2, max_size=40))
@settings(max_examples=examples(100))
def test_two_small_neighbours_never_stay_beside_each_other(sizes: list[int]) -> None:
    ring = initial_ring("p", len(sizes))
    found = choose_nodes(ring, sizes, Limits(1_000, 250))
    merged = {node for run in found.merges for node in run}
    assert all(node in merged or (node + 1) % len(sizes) in merged for node in range(len(sizes)))
