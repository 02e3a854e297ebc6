"""What a compaction plans, in which order and within which limits; why it leaves out the rest; and what it expects it to cost."""

from __future__ import annotations

import json

import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.choice import Candidate, Reason, measured, within
from hudi_ops.services.base.cost import ARROW_PER_STORED, COPIES, PLAN_S, Cost, error_of
from hudi_ops.services.compaction.choose import STRATEGIES, LeftReason, parse_strategy
from hudi_ops.services.compaction.service import COMPACTION
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.plans import CompactionPlan, decode_plan
from hudi_ops.timeline.names import requested_name
from hudi_ops.view.file_group import DataFile
from tests.protocol.compaction_table import FOURTH, make_logged
from tests.protocol.crash_table import FIRST
from tests.protocol.log_actors import timeline_of
from tests.tables import DEFINITION, NOW_MS, START_MS, rows, table_of


def candidate(name: str, *log_bytes: int, base: int = 100, commits: int = 0, oldest_ms: int = 0) -> Candidate:
    logs = tuple(
        DataFile("p", f"p/.{name}_{at}.log.1_0-0-0", name, str(at), size, is_log=True)
        for at, size in enumerate(log_bytes)
    )
    return Candidate("p", name, DataFile("p", f"p/{name}.parquet", name, "0", base), logs, commits, oldest_ms)


GROUPS = [
    candidate("few-large", 900, commits=1, oldest_ms=9_000),
    candidate("many-small", 10, 10, 10, commits=3, oldest_ms=5_000),
    candidate("old", 50, commits=7, oldest_ms=1_000),
]


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        ("size", ["few-large", "old", "many-small"]),
        ("count", ["many-small", "few-large", "old"]),
        ("commits", ["old", "many-small", "few-large"]),
        ("age", ["old", "many-small", "few-large"]),
    ],
)
def test_each_strategy_has_its_order(strategy: str, order: list[str]) -> None:
    reached, below = measured(parse_strategy(strategy), GROUPS, 0, 10_000)
    assert [one.candidate.file_id for one in reached] == order
    assert below == []


def test_what_lies_below_the_threshold_waits() -> None:
    reached, below = measured(STRATEGIES["age"], GROUPS, 5, 10_000)
    assert [one.candidate.file_id for one in reached] == ["old", "many-small"]
    assert [one.measure for one in below] == [1.0]


def test_equal_measures_are_ordered_the_same_way_each_time() -> None:
    same = [candidate(name, 10) for name in ("b", "c", "a")]
    for groups in (same, same[::-1]):
        reached, _ = measured(STRATEGIES["count"], groups, 0, 0)
        assert [one.candidate.file_id for one in reached] == ["a", "b", "c"]


def test_a_limit_takes_one_at_least_and_passes_over_what_does_not_fit() -> None:
    reached, _ = measured(STRATEGIES["size"], GROUPS, 0, 0)
    assert [one.candidate.file_id for one in within(reached, None)[0]] == ["few-large", "old", "many-small"]
    taken, left = within(reached, 1_130)
    assert [one.candidate.file_id for one in taken] == ["few-large", "many-small"]
    assert [one.candidate.file_id for one in left] == ["old"]
    assert [one.candidate.file_id for one in within(reached, 1)[0]] == ["few-large"]


def test_unknown_strategies_and_thresholds_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="unknown compaction strategy 'newest'"):
        parse_strategy("newest")
    table = table_of(make_logged(), ManualClock(NOW_MS), "planner")
    for wrong in ({"threshold": -1}, {"max_bytes": 0}, {"strategy": "biggest"}, {"partitions": ["part=nowhere"]}):
        with pytest.raises(InvalidRequest):
            table.compaction.plan(**wrong)


@pytest.fixture
def storage() -> MemoryStorage:
    return make_logged()


def test_a_dry_run_changes_nothing_and_names_what_would_be_planned(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS)
    before = {info.path: storage.get(info.path) for info in storage.list()}
    told = table_of(storage, clock, "planner").compaction.plan(dry_run=True)
    assert {info.path: storage.get(info.path) for info in storage.list()} == before
    assert told.instant is None
    assert [one.log_files for one in told.planned] == [2, 2]
    assert told.estimate.bytes_in == sum(one.base_bytes + one.log_bytes for one in told.planned)
    assert told.note.startswith("2 file groups with 4 log files; left out: 1 file group without log files")
    assert json.loads(json.dumps(told.as_dict()))["counts"]["planned"] == 2


def test_the_plan_on_the_timeline_is_what_was_told(storage: MemoryStorage) -> None:
    made = table_of(storage, ManualClock(NOW_MS), "planner").compaction.plan()
    assert made.instant is not None
    path = timeline_of(storage).path(requested_name(made.instant, "compaction"))
    plan = decode_plan("compaction", storage.get(path), path)
    assert isinstance(plan, CompactionPlan)
    assert [(one.partition_path, one.file_id) for one in plan.slices] == [
        (one.partition_path, one.file_id) for one in made.planned
    ]
    for one, told in zip(plan.slices, made.planned, strict=True):
        assert one.metrics["TOTAL_LOG_FILES_SIZE"] == told.log_bytes
        assert one.metrics["TOTAL_LOG_FILES"] == told.log_files
        assert one.base_file.endswith(f"_{one.base_instant}.parquet")
        assert all("/" not in name for name in (one.base_file, *one.log_files))
    assert made.instant > max(timeline_of(storage).known_times - {made.instant})


def test_each_reason_is_told_with_its_number(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS), "planner")
    below = table.compaction.explain(strategy="count", threshold=3)
    assert below.counts == {
        Reason.PLANNED: 0,
        Reason.BELOW_THRESHOLD: 2,
        Reason.PENDING: 0,
        Reason.BEYOND_LIMIT: 0,
        LeftReason.UNMERGEABLE: 0,
        "no log files": 1,
    }
    assert {one.why for one in below.verdicts} == {"2 of 3 log files: 1 short"}
    assert below.note == (
        "nothing to compact: 2 file groups below 3 log files (at most 2), 1 file group without log files"
    )
    beyond = table.compaction.explain(max_bytes=1)
    assert (beyond.counts[Reason.PLANNED], beyond.counts[Reason.BEYOND_LIMIT]) == (1, 1)
    made = table.compaction.plan(partitions=["part=p0"])
    pending = table.compaction.explain()
    (taken,) = (one for one in pending.verdicts if one.reason is Reason.PENDING)
    assert (taken.partition_path, taken.why) == ("part=p0", f"compaction {made.instant}")
    assert f"1 file group taken by others (compaction {made.instant})" in pending.note


def test_a_table_without_log_files_and_one_that_cannot_have_any_say_so() -> None:
    table = table_of(make_logged(make_logged.__defaults__[0], FIRST), ManualClock(NOW_MS), "planner")
    assert table.compaction.plan().note == "nothing to compact: no file group has log files"
    plain = table_of(make_logged(DEFINITION, FIRST), ManualClock(NOW_MS), "planner")
    with pytest.raises(InvalidRequest, match="no log files to compact"):
        plain.compaction.plan()


def test_commits_are_counted_since_the_group_was_compacted(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "planner")
    assert [one.measure for one in table.compaction.explain(strategy="commits", threshold=1).planned] == [2, 2]
    table.compaction.run(partitions=["part=p0"])
    table.ingest(FOURTH)
    found = {
        one.partition_path: one.measure for one in table.compaction.explain(strategy="commits", threshold=1).planned
    }
    assert found["part=p0"] == 1
    assert found["part=p1"] == 3


def test_age_is_told_by_the_completion_of_the_oldest_log_file(storage: MemoryStorage) -> None:
    clock = ManualClock(START_MS + 3_600_000)
    table = table_of(storage, clock, "planner")
    assert table.compaction.explain(strategy="age").counts[Reason.PLANNED] == 0
    clock.advance_ms(10_000)
    assert table.compaction.explain(strategy="age").counts[Reason.PLANNED] == 2


def test_partitions_are_chosen_by_path_or_pattern(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS), "planner")
    for wanted in (["part=p0"], ["*0"], "part=p0"):
        assert {one.partition_path for one in table.compaction.explain(partitions=wanted).planned} == {"part=p0"}


def test_estimates_follow_from_bytes_and_parallelism() -> None:
    def estimate(sizes: list[tuple[int, int]], threads: int, memory_bytes: int | None = None) -> Cost:
        """Cost of slices, each given by the bytes of its base file and of its log file."""
        slices = [candidate("slice", logs, base=base) for base, logs in sizes]
        tasks = [COMPACTION.size_of((slice_,), 1) for slice_ in slices]
        return COMPACTION.rates.cost(tasks, LocalEngine(threads), memory_bytes)

    one = estimate([(60_000_000, 0)], 1)
    assert (one.bytes_in, one.bytes_out, one.seconds) == (60_000_000, 60_000_000, 3.75)
    assert one.memory_bytes == 60_000_000 * ARROW_PER_STORED * COPIES
    both = [(60_000_000, 0)] * 4
    assert estimate(both, 4).seconds == one.seconds
    assert estimate(both, 2).seconds == pytest.approx(PLAN_S + 2 * (one.seconds - PLAN_S))
    assert estimate(both, 4).memory_bytes == 4 * one.memory_bytes  # type: ignore[operator]
    assert estimate(both, 4, memory_bytes=1_000).memory_bytes == 4_000
    assert estimate([(0, 500)], 1).bytes_out == 500, "without a base file the log files are all there is"
    assert estimate([], 4) == Cost(0, 0, 0.0, 0)
    assert estimate([(1, 1)] * 3, 1).seconds == pytest.approx(PLAN_S + 3 * COMPACTION.rates.fixed_s, abs=0.01)


def test_the_error_of_an_estimate_is_relative() -> None:
    off = error_of(Cost(100, 100, 2.0, 1_000), Cost(100, 110, 1.0, None))
    assert (off.bytes_out, off.seconds, off.memory_bytes) == (0.1, -0.5, None)
    assert error_of(Cost(0, 0, 0.0, 0), Cost(0, 0, 1.0, 5)).bytes_out is None


def test_a_second_plan_takes_what_came_since(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "planner")
    first = table.compaction.plan(partitions=["part=p0"])
    table.ingest(rows(("k1", "p1", 1, 8, None)))
    second = table.compaction.plan()
    assert {one.partition_path for one in second.planned} == {"part=p1"}
    assert second.instant is not None
    assert first.instant is not None
    assert second.instant > first.instant
    assert table.compaction.plan(resume=True).instant == first.instant


@pytest.mark.parametrize(
    ("how", "unplanned"),
    [
        ({}, ()),
        ({"max_bytes": 1}, ("part=p1",)),
        ({"partitions": ["part=p0"]}, ("part=p1",)),
        ({"partitions": ["part=*0"]}, ("part=p1",)),
    ],
)
def test_a_plan_names_the_partitions_whose_log_files_it_leaves(
    storage: MemoryStorage, how: dict[str, object], unplanned: tuple[str, ...]
) -> None:
    """Apache Hudi's next plan looks at them and at partitions that were written since, and at no others."""
    made = table_of(storage, ManualClock(NOW_MS), "planner").compaction.plan(**how)
    path = timeline_of(storage).path(requested_name(made.instant, "compaction"))
    plan = decode_plan("compaction", storage.get(path), path)
    assert isinstance(plan, CompactionPlan)
    assert plan.unplanned == unplanned


def test_what_a_plan_left_is_known_to_the_next_one_for_some_partitions(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "planner")
    table.ingest(rows(("k5", "p2", 5, 2, None)))
    table.ingest(rows(("k5", "p2", 6, 3, None)))
    table.compaction.execute(instant=table.compaction.plan(partitions=["part=p2"]).instant)
    made = table.compaction.plan(partitions=["part=p0"])
    path = timeline_of(storage).path(requested_name(made.instant, "compaction"))
    plan = decode_plan("compaction", storage.get(path), path)
    assert isinstance(plan, CompactionPlan)
    assert plan.unplanned == ("part=p1",)
