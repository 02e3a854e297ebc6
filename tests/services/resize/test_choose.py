"""Which buckets a resize splits and merges, why it leaves out the rest, and what it reads; wrong requests change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hudi_ops.config.requests import ResizeRequest
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Conflict, Corrupt, InvalidRequest, Unsupported
from hudi_ops.index.ring import HASHES, TOP
from hudi_ops.index.ring_files import committed_path, ring_path
from hudi_ops.services.base.choice import Reason
from hudi_ops.services.base.cost import PLAN_S, memory_of
from hudi_ops.services.base.publish import publish_plan
from hudi_ops.services.resize.choose import ACTION, LeftReason
from hudi_ops.services.resize.draft import ResizeDraft
from hudi_ops.services.resize.service import RESIZE
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.names import instant_of_ms
from tests.protocol.foreign_table import set_properties
from tests.services.resize.ringed_tables import (
    BY_COMMIT_TIME,
    CONSISTENT,
    EXTENDIBLE,
    LARGE,
    SIZES,
    SMALL,
    batch,
    chosen,
    filled,
    hashes_of,
    keys_in,
    opened,
    ring_of,
)
from tests.tables import DEFINITION, NOW_MS, made, rows

MIDDLE_ROWS = 500
"""Rows of a bucket that is neither split nor merged."""
SKEWED = (LARGE, SMALL, SMALL, SMALL)


class OutsidePoint:
    """A rule of a user's that chooses the end of the range."""

    reads_keys = False

    def point(self, before: int, value: int, hashes: Any) -> int:
        return value


class TextPoint:
    """A rule of a user's that chooses no hash at all."""

    reads_keys = False

    def point(self, before: int, value: int, hashes: Any) -> str:
        return "the middle"


class HighestKey:
    """A rule of a user's that leaves the highest key alone."""

    reads_keys = True

    def point(self, before: int, value: int, hashes: Any) -> int:
        return int(np.sort(hashes)[-2])


class NoPoint:
    """It has no `point`."""

    reads_keys = False


class NeedsArgument:
    """It cannot be made."""

    def __init__(self, size: int) -> None:
        self.reads_keys = False


def at(name: str) -> str:
    return f"{__name__}:{name}"


def left(choice: Any) -> dict[str, int]:
    """The number of groups by reason, without those that have none."""
    return {str(reason): count for reason, count in choice.counts().items() if count}


def nodes_of(choice: Any) -> list[list[int]]:
    """The nodes of each planned group."""
    return [
        [choice.rings[group.partition_path].prefixes.index(one.removesuffix("-0")) for one in group.change.parents]
        for group in choice.groups
    ]


def test_a_large_bucket_is_split_and_its_small_neighbours_are_merged_in_one_plan() -> None:
    table = opened(filled(CONSISTENT, SKEWED))
    ring = ring_of(table)
    found = chosen(table)
    assert nodes_of(found) == [[0], [1, 2, 3]]
    assert found.sentence() == "4 buckets into 3: 1 split, 1 merge"
    split, merge = found.groups
    assert (split.outputs, merge.outputs, split.change.seq_no) == (2, 1, 0)
    assert [child.value for child in merge.change.children] == ring.values[1:].tolist()
    assert [child.prefix is None for child in merge.change.children] == [True, True, False]
    names = {*split.change.prefixes, *merge.change.prefixes, *ring.prefixes}
    assert len({name[:8] for name in names}) == len(names)
    sides = hashes_of(keys_in(ring, 0, LARGE)) <= split.change.children[0].value
    assert int(np.count_nonzero(sides)) in {LARGE // 2, LARGE // 2 + 1}, "half of the keys on each side"


def test_the_middle_reads_no_keys_and_balanced_those_of_split_buckets_alone() -> None:
    storage = filled(CONSISTENT, (LARGE, SMALL, SMALL, LARGE), SKEWED)
    for point, read in (("middle", set()), ("balanced", {0, 3})):
        faulty = FaultyStorage(storage)
        table = opened(faulty)
        ring = ring_of(table)
        before = len(faulty.history)
        found = chosen(table, split_point=point)
        calls = faulty.history[before:]
        assert sorted(nodes_of(found)) == [[0], [1, 2], [3]]
        opened_files = {call.partition("part=p")[2] for call in calls if ".parquet" in call}
        assert {name.split("_")[0] for name in opened_files} == {f"0/{ring.file_id(node)}" for node in read}
        rings = [call for call in calls if "consistent_hashing_metadata" in call]
        assert len(rings) == 4, f"a listing and a get for each partition: {rings}"
        assert not any(call.startswith(("put", "delete")) for call in calls)


def test_a_plain_partition_costs_no_ring() -> None:
    faulty = FaultyStorage(filled(CONSISTENT, (MIDDLE_ROWS,) * 4, (0, 0, SMALL, 0)))
    found = chosen(opened(faulty))
    assert left(found) == {LeftReason.FITTING: 4, LeftReason.ALONE: 1}
    assert not any("consistent_hashing_metadata" in call for call in faulty.history)
    assert found.sentence() == (
        "nothing to resize: 4 file groups with a size between merge and split size (part=p0/"
        f"{found.others[LeftReason.FITTING][0][0].file_id}: {found.others[LeftReason.FITTING][0][1]}), "
        f"1 file group with no neighbour with room for it (part=p1/{found.others[LeftReason.ALONE][0][0].file_id}: "
        f"{found.others[LeftReason.ALONE][0][1]})"
    )


def test_deleted_keys_do_not_count_for_the_balance() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    keys = keys_in(ring_of(table), 0, LARGE)
    hashes = hashes_of(keys)
    order = np.argsort(hashes)
    gone = [keys[number] for number in order[: LARGE // 2].tolist()]
    table.ingest(rows(*((key, "p0", 2, 2, True) for key in gone)))
    found = chosen(table)
    assert found.groups[0].slices[0].logs, "the deletes are in a log file"
    rest = np.sort(hashes)[LARGE // 2 :]
    assert found.groups[0].change.children[0].value == rest[len(rest) // 2 - 1]


def test_small_neighbours_merge_around_the_end_of_the_ring() -> None:
    table = opened(filled(CONSISTENT, (SMALL, MIDDLE_ROWS, MIDDLE_ROWS, SMALL)))
    found = chosen(table)
    assert nodes_of(found) == [[3, 0]]
    assert [child.value for child in found.groups[0].change.children] == [TOP, HASHES // 4]
    assert left(found) == {Reason.PLANNED: 2, LeftReason.FITTING: 2}


def test_a_small_bucket_joins_the_smaller_of_its_neighbours() -> None:
    found = chosen(opened(filled(CONSISTENT, (MIDDLE_ROWS, SMALL, MIDDLE_ROWS // 2, MIDDLE_ROWS))))
    assert nodes_of(found) == [[1, 2]]
    assert left(found) == {Reason.PLANNED: 2, LeftReason.FITTING: 2}


def test_a_small_bucket_between_full_ones_stays() -> None:
    table = opened(filled(CONSISTENT, (SMALL, LARGE, SMALL, LARGE)))
    full = max(one.base_bytes for one in chosen(table, split_bytes=1 << 30, merge_bytes=1).verdicts())
    found = chosen(table, split_bytes=full, merge_bytes=full // 4)
    assert left(found) == {LeftReason.FITTING: 2, LeftReason.ALONE: 2}
    assert not found.is_due


def test_a_node_without_a_file_group_is_not_merged() -> None:
    found = chosen(opened(filled(CONSISTENT, (SMALL, 0, SMALL, 0))))
    assert left(found) == {LeftReason.ALONE: 2}


@pytest.mark.parametrize(
    ("limits", "counts", "expected", "reasons"),
    [
        ({"buckets_max": 5}, (LARGE, LARGE, MIDDLE_ROWS, MIDDLE_ROWS), 1, {LeftReason.BUCKETS: 1}),
        ({"buckets_max": 4}, (LARGE, LARGE, MIDDLE_ROWS, MIDDLE_ROWS), 0, {LeftReason.BUCKETS: 2}),
        ({"buckets_min": 3}, (SMALL, SMALL, SMALL, MIDDLE_ROWS), 1, {LeftReason.BUCKETS: 1}),
        ({"buckets_min": 4}, (SMALL, SMALL, SMALL, MIDDLE_ROWS), 0, {LeftReason.BUCKETS: 3}),
    ],
)
def test_the_number_of_buckets_stays_within_its_limits(
    limits: dict[str, int], counts: tuple[int, ...], expected: int, reasons: dict[str, int]
) -> None:
    found = chosen(opened(filled(replace(CONSISTENT, **limits), counts)), split_point="middle")
    assert len(found.groups) == expected
    assert {name: count for name, count in left(found).items() if name == LeftReason.BUCKETS} == reasons
    (option,) = (f"--{name.replace('_', '-')}" for name in limits)
    details = [why for _, why in found.others[LeftReason.BUCKETS]]
    assert all(f"`hudi-ops alter TABLE {option} N` changes the limit" in why for why in details), details


def test_the_partition_with_most_bytes_to_resize_comes_first() -> None:
    table = opened(filled(CONSISTENT, SKEWED, (LARGE, LARGE, SMALL, SMALL)))
    found = chosen(table)
    assert {group.partition_path for group in found.groups} == {"part=p1"}
    assert left(found) == {Reason.PLANNED: 4, LeftReason.PARTITIONS: 4}
    both = chosen(table, max_partitions=2)
    assert sorted(nodes_of(both)[:3]) == [[0], [1], [2, 3]]
    assert nodes_of(both)[3:] == [[0], [1, 2, 3]]
    assert both.rings.keys() == {"part=p0", "part=p1"}
    only = chosen(table, partitions=["part=p0"])
    assert nodes_of(only) == [[0], [1, 2, 3]]


def test_the_first_group_fits_and_the_limit_of_bytes_stops_the_others() -> None:
    table = opened(filled(CONSISTENT, (LARGE, LARGE, SMALL, SMALL)))
    found = chosen(table, max_bytes=1)
    assert len(found.groups) == 1
    assert left(found) == {Reason.PLANNED: 1, Reason.BEYOND_LIMIT: 3}
    larger = max(one.bytes_in for group in chosen(table).groups for one in group.slices)
    assert left(chosen(table, max_bytes=larger + 20_000)) == {Reason.PLANNED: 3, Reason.BEYOND_LIMIT: 1}


def test_a_bucket_whose_keys_have_one_hash_makes_way_for_the_next() -> None:
    """The files of one bucket are large although it has one key: it does not take the place of one that can be split."""
    storage = filled(replace(CONSISTENT, buckets_max=5), (SMALL, MIDDLE_ROWS, LARGE, MIDDLE_ROWS))
    table = opened(storage)
    ring = ring_of(table)
    others = keys_in(ring, 2, LARGE - 1, skip=1)
    table.ingest(rows(*((key, "p0", 2, 2, True) for key in others)))
    found = chosen(table, split_bytes=40_000, merge_bytes=0)
    assert nodes_of(found) in ([[1]], [[3]])
    assert left(found) == {
        Reason.PLANNED: 1,
        LeftReason.BUCKETS: 1,
        LeftReason.ONE_HASH: 1,
        LeftReason.FITTING: 1,
    }
    assert found.others[LeftReason.ONE_HASH][0][1] == "no key, or all keys have one hash"
    assert chosen(table, split_bytes=40_000, merge_bytes=0, split_point="middle").groups[0].change.parents == (
        ring.file_id(2),
    )


def test_a_partition_with_a_pending_resize_is_left_out() -> None:
    storage = filled(CONSISTENT, SKEWED, SKEWED)
    table = opened(storage)
    session = table._session
    first = chosen(table, partitions=["part=p0"], merge_bytes=0)
    published = publish_plan(session, ACTION, ResizeDraft(session, session.loader.load(), first).draft())
    found = chosen(table, max_partitions=2)
    assert {group.partition_path for group in found.groups} == {"part=p1"}
    assert left(found) == {Reason.PLANNED: 4, Reason.PENDING: 4}
    assert {plan for _, plan in found.pending} == {f"clustering {published.instant}"}


def test_a_bucket_in_a_pending_compaction_breaks_a_run() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    table.ingest(rows(*((key, "p0", 2, 2, None) for key in keys_in(ring_of(table), 1, SMALL))))
    planned = table.compaction.plan()
    found = chosen(table)
    assert nodes_of(found) == [[0], [2, 3]]
    assert [plan for _, plan in found.pending] == [f"compaction {planned.instant}"]


def test_an_extendible_ring_is_halved_and_buddies_merge() -> None:
    table = opened(filled(EXTENDIBLE, (SMALL, LARGE, SMALL, SMALL)))
    found = chosen(table)
    assert nodes_of(found) == [[1], [2, 3]]
    assert [child.value for child in found.groups[0].change.children] == [3 * HASHES // 8, HASHES // 2]
    assert left(found) == {Reason.PLANNED: 3, LeftReason.ALONE: 1}
    assert found.strategy.name == "middle"
    assert nodes_of(chosen(opened(filled(EXTENDIBLE, (MIDDLE_ROWS, SMALL, SMALL, MIDDLE_ROWS))))) == []
    for point in ("balanced", at("HighestKey")):
        with pytest.raises(InvalidRequest, match="extendible hash ring cannot be split"):
            chosen(table, split_point=point)


def test_a_class_of_a_user_chooses_the_point() -> None:
    table = opened(filled(CONSISTENT, SKEWED))
    highest = np.sort(hashes_of(keys_in(ring_of(table), 0, LARGE)))[-2]
    assert chosen(table, split_point=at("HighestKey")).groups[0].change.children[0].value == highest


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split_point": at("OutsidePoint")}, r"OutsidePoint chose a point outside the range"),
        ({"split_point": at("TextPoint")}, r"TextPoint chose a point outside the range"),
        ({"split_point": at("NoPoint")}, "is not a split point"),
        ({"split_point": at("Missing")}, "cannot be made"),
        ({"split_point": at("NeedsArgument")}, "cannot be made"),
        ({"split_point": "no.such.module:Point"}, "cannot be made"),
        ({"split_point": "golden"}, "unknown split point 'golden'"),
        ({"split_bytes": 100, "merge_bytes": 26}, "above a quarter of split_bytes"),
        ({"split_bytes": 0, "merge_bytes": 0}, "split_bytes is below 1"),
        ({"merge_bytes": -1}, "merge_bytes is below 0"),
        ({"max_partitions": 0}, "max_partitions is below 1"),
        ({"partitions": ["part=p7"]}, "part=p7"),
    ],
)
def test_wrong_requests_are_refused_by_name(values: dict[str, Any], message: str) -> None:
    storage = filled(CONSISTENT, SKEWED)
    before = {info.path for info in storage.list()}
    with pytest.raises(InvalidRequest, match=message):
        chosen(opened(storage), **values)
    assert {info.path for info in storage.list()} == before


def test_the_defaults_are_two_base_files_and_a_tenth_of_that() -> None:
    request = ResizeRequest()
    assert (request.split_bytes, request.merge_bytes) == (240 << 20, 24 << 20)
    assert (request.max_bytes, request.max_partitions, request.split_point) == (2 << 30, 1, None)
    assert request.cancel is None
    assert ResizeRequest(split_point="Middle").split_point == "middle"
    assert ResizeRequest(split_bytes=100, merge_bytes=25).merge_bytes == 25


def test_tables_that_cannot_be_resized_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no hash rings to resize"):
        chosen(opened(made(DEFINITION)))
    storage = filled(replace(CONSISTENT, metadata=True), (SMALL,) * 4)
    set_properties(storage, {"hoodie.table.metadata.partitions": "files,record_index"})
    with pytest.raises(Unsupported, match="hash rings and a record index") as caught:
        chosen(opened(storage))
    assert "hudi-ops index TABLE drop record_index" in caught.value.next_step


def test_foreign_writers_are_refused_where_the_later_commit_counts() -> None:
    ordered, later = filled(CONSISTENT, SKEWED), filled(BY_COMMIT_TIME, SKEWED)
    assert chosen(opened(later)).is_due, "no foreign writer was seen"
    for storage in (ordered, later):
        # A pending write with neither slot nor lease.
        instant = instant_of_ms(NOW_MS - 1)
        storage.put(f".hoodie/timeline/{instant}.deltacommit.requested", b"")
    assert chosen(opened(ordered)).is_due
    with pytest.raises(Unsupported, match="merges rows by commit time, and foreign writers") as caught:
        chosen(opened(later))
    assert "Apache Hudi" in caught.value.next_step


def test_groups_and_rings_that_do_not_match_are_damage() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    ring = ring_of(table)
    storage.delete(ring_path("part=p0", ring.instant))
    with pytest.raises(Corrupt, match="has file groups and no hash ring"):
        chosen(opened(storage))
    storage.put(ring_path("part=p0", ring.instant), replace(ring, prefixes=("a", "b", "c", "d")).to_bytes())
    with pytest.raises(Corrupt, match="belongs to no node"):
        chosen(opened(storage))
    storage.put(ring_path("part=p0", ring.instant), ring.to_bytes()[:-5])
    with pytest.raises(Corrupt, match="cannot be read"):
        chosen(opened(storage))


def test_a_ring_that_is_newer_than_the_state_is_a_conflict() -> None:
    storage = filled(CONSISTENT, SKEWED)
    instant = instant_of_ms(NOW_MS + 5_000)
    storage.put(ring_path("part=p0", instant), replace(ring_of(opened(storage)), instant=instant).to_bytes())
    storage.put(committed_path("part=p0", instant), b"")
    with pytest.raises(Conflict, match="changed since the table was read"):
        chosen(opened(storage))


def test_choosing_writes_nothing_and_repeats() -> None:
    storage = filled(CONSISTENT, SKEWED)
    before = {info.path: storage.get(info.path) for info in storage.list()}
    one, other = chosen(opened(storage)), chosen(opened(storage, "other", ManualClock(NOW_MS + 9)))
    assert one.groups == other.groups
    assert {info.path: storage.get(info.path) for info in storage.list()} == before


def test_an_estimate_grows_with_bytes_and_files() -> None:
    found = chosen(opened(filled(CONSISTENT, SKEWED)))
    sizes = [group.bytes_in for group in found.groups]
    each = [
        RESIZE.rates.fixed_s * files + size / RESIZE.rates.read_bytes_per_s
        for files, size in zip((3, 4), sizes, strict=True)
    ]
    cost, beside = RESIZE.estimate(found, LocalEngine(1)), RESIZE.estimate(found, LocalEngine(2))
    assert (cost.bytes_in, cost.bytes_out) == (sum(sizes), sum(sizes))
    assert cost.seconds == round(PLAN_S + sum(each), 3)
    assert beside.seconds == round(PLAN_S + max(sum(each) / 2, *each), 3)
    assert beside.memory_bytes == memory_of(sizes[0]) + memory_of(sizes[1])
    nothing = RESIZE.estimate(chosen(opened(filled(CONSISTENT, (SMALL, 0, 0, 0)))), LocalEngine(2))
    assert (nothing.bytes_in, nothing.seconds, nothing.memory_bytes) == (0, 0.0, 0)


def test_sizes_of_the_requests_are_those_of_whole_slices() -> None:
    """Log files count: a bucket whose base file fits is split once its logs make it large."""
    storage = filled(CONSISTENT, (MIDDLE_ROWS,) * 4)
    table = opened(storage)
    assert not chosen(table, **SIZES).is_due
    limit = max(one.bytes_in for one, _ in chosen(table).others[LeftReason.FITTING])
    table.ingest(batch((MIDDLE_ROWS, 0, 0, 0), value=2))
    found = chosen(table, split_bytes=limit + 1_000, merge_bytes=0)
    assert nodes_of(found) == [[0]]
