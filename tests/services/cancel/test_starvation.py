"""The starvation guard: what plans do about file groups of which writes cancelled several plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hudi_ops.config.requests.starvation import AFTER_MAX, StarvationGuard, parse_guard
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.result import PlanResult
from hudi_ops.services.clustering.service import ClusterResult
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.log.entries import Cancel, Complete, Plan
from hudi_ops.verify import verify_table
from tests.protocol.compaction_table import merged
from tests.protocol.log_actors import timeline_of, whole_log
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, made, rows, table_of

KEYS = 32
PARTITIONS = 4
START = rows(*((f"k{n}", f"p{n % PARTITIONS}", n, 0, None) for n in range(KEYS)))


def change(part: int, value: int) -> object:
    """A write to every file group of a partition."""
    return rows(*((f"k{n}", f"p{part}", value, value, None) for n in range(part, KEYS, PARTITIONS)))


def plan(table: Table, starvation: str | None = None, **request: object) -> PlanResult:
    return table.clustering.plan(sort_by="id", rewrite=True, on_overlap="cancel", starvation=starvation, **request)


EVERY = rows(*((f"k{n}", f"p{n % PARTITIONS}", 999, 999, None) for n in range(KEYS)))
"""A write to every file group."""


class World:
    """A table whose writes to partition p0 cancelled plans."""

    def __init__(self, cancels: int, definition: object = DEFINITION) -> None:
        self.clock = ManualClock(NOW_MS, tick_ms=1)
        self.storage: MemoryStorage = made(definition, START)
        self.value = 100
        for _ in range(cancels):
            self.starve()

    def table(self, actor: str, clock: ManualClock | None = None) -> Table:
        return table_of(self.storage, clock or self.clock, actor)

    def starve(self, **request: object) -> None:
        """Make a plan, and a write that cancels it."""
        made_plan = plan(self.table("planner"), **request)
        self.value += 1
        done = self.table("ingest").ingest(change(0, self.value))
        assert done.ended_plans == (made_plan.instant,)

    def planned(self, starvation: str | None) -> dict[str, int]:
        """Return the number of planned file groups by partition."""
        found = plan(self.table("planner"), starvation, dry_run=True)
        counts: dict[str, int] = {}
        for verdict in found.verdicts:
            if verdict.reason == "planned":
                counts[verdict.partition_path] = counts.get(verdict.partition_path, 0) + 1
        return counts


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("halve after 3", StarvationGuard("halve", 3)),
        ("Colder  After 1", StarvationGuard("colder", 1)),
        ("wait 60s after 2", StarvationGuard("wait", 2, 60.0)),
        ("wait 1.5 m after 2", StarvationGuard("wait", 2, 90.0)),
    ],
)
def test_texts_of_a_guard(text: str, guard: StarvationGuard) -> None:
    assert parse_guard(text) == guard


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "halve",
            "halve after 0",
            f"halve after {AFTER_MAX + 1}",
            "halve after -1",
            "sleep after 3",
            "x" * 10_000,
        ),
        *("halve after " + "9" * 5_000, "wait " + "9" * 5_000 + "s after 3"),
        *("wait after 3", "wait 0s after 3", "wait 2h after 3", "wait 60 after 3"),
    ],
)
def test_a_wrong_guard_is_refused_and_changes_nothing(text: str) -> None:
    world = World(0)
    before = len(whole_log(world.storage).entries)
    with pytest.raises(InvalidRequest) as refused:
        plan(world.table("planner"), text)
    assert refused.value.details["field"] == "starvation"
    assert "halve after 3" in refused.value.expected
    assert len(whole_log(world.storage).entries) == before


def test_without_a_guard_records_are_not_read() -> None:
    world = World(3)
    faulty = FaultyStorage(world.storage)
    assert plan(table_of(faulty, world.clock, "planner"), dry_run=True).counts["planned"] == 2 * PARTITIONS
    assert not any(".aborted" in call and call.startswith("get") for call in faulty.history)


@pytest.mark.parametrize("cancels", [1, 2, 3, 4])
def test_half_of_the_groups_are_planned_and_half_of_these_after_the_next_cancel(cancels: int) -> None:
    world = World(cancels)
    groups = 2 * PARTITIONS  # every plan named all of them
    expected = {1: groups, 2: groups // 2, 3: groups // 4, 4: 1}[cancels]
    assert sum(world.planned("halve after 2").values()) == expected
    assert sum(world.planned(None).values()) == groups


def test_the_half_that_is_planned_is_the_colder_one_and_explain_names_the_guard() -> None:
    world = World(2)
    found = world.table("planner").clustering.explain(
        sort_by="id", rewrite=True, on_overlap="cancel", starvation="halve after 2"
    )
    left = [one for one in found.verdicts if one.reason != "planned"]
    assert "part=p0" in {one.partition_path for one in left}
    assert {one.why for one in left} == {"writes cancelled 2 plans of it; in the other half"}
    assert "starvation guard: 4 file groups left out, since writes cancelled plans of them" in found.note
    assert "part=p0" not in world.planned("halve after 2")


def test_a_plan_moves_to_colder_partitions() -> None:
    world = World(0)
    for _ in range(2):
        world.starve(partitions=("part=p0",))
    assert world.planned("colder after 2") == {f"part=p{n}": 2 for n in range(1, PARTITIONS)}
    assert world.planned("colder after 3") == world.planned(None)
    for part in range(1, PARTITIONS):
        world.table("ingest").ingest(change(part, 200 + part))
    assert "part=p0" in world.planned("colder after 2"), "now the others are written later"


def test_a_plan_that_completed_ends_the_count() -> None:
    world = World(2)
    assert sum(world.planned("halve after 2").values()) == PARTITIONS
    world.table("executor").clustering.run(sort_by="id", rewrite=True)
    assert sum(world.planned("halve after 2").values()) == 2 * PARTITIONS


def test_a_cancel_that_a_user_asked_for_does_not_count() -> None:
    world = World(1)
    instant = plan(world.table("planner")).instant
    assert instant is not None
    world.table("user").cancel(instant, reason="not now")
    assert sum(world.planned("halve after 2").values()) == 2 * PARTITIONS


class Waking(ManualClock):
    """A clock that lets another process act while the first one sleeps."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        super().__init__(NOW_MS + 60_000, tick_ms=1)
        self.slept_s, self._act = 0.0, act

    def sleep_s(self, seconds: float) -> None:
        """Let the other process act once."""
        act, self._act = self._act, lambda: None
        act()
        self.slept_s += seconds
        super().sleep_s(seconds)


@pytest.mark.parametrize("written", [change(0, 999), EVERY], ids=["one partition", "every group"])
@pytest.mark.parametrize(
    "definition", [DEFINITION, MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["cow", "mor", "metadata"]
)
def test_a_write_waits_for_the_plan_and_then_begins_from_its_result(definition: object, written: object) -> None:
    world = World(2, definition)
    later = ManualClock(NOW_MS + 60_000, tick_ms=1)
    instant = plan(world.table("planner", later), "wait 20s after 2").instant
    assert instant is not None
    found_by: list[ClusterResult] = []

    def act() -> None:
        found_by.append(world.table("executor", later).clustering.execute(instant=instant, engine="local"))

    clock = Waking(act)
    done = table_of(world.storage, clock, "ingest").ingest(written)
    assert done.ended_plans == ()
    assert clock.slept_s < 5
    (executed,) = found_by
    assert (executed.groups, executed.left_out) == (2 * PARTITIONS, 0), "the executor does not give way to the write"
    log = whole_log(world.storage)
    assert isinstance(log.fate(instant)[1], Complete)
    assert timeline_of(world.storage).find(instant).is_completed
    found = merged(world.storage, clock)
    assert {found[f"k{n}"] for n in range(0, KEYS, PARTITIONS)} == {999}
    assert len(found) == KEYS
    assert sum(world.planned("halve after 2").values()) == 2 * PARTITIONS, "the count begins anew"
    assert verify_table(world.storage, deep=True, index=True, clock=clock).findings == ()


def test_a_write_cancels_the_plan_once_the_window_has_ended() -> None:
    world = World(2)
    later = ManualClock(NOW_MS + 60_000, tick_ms=1)
    planned = plan(world.table("planner", later), "wait 20s after 2")
    (entry,) = [
        one for one in whole_log(world.storage).entries if isinstance(one, Plan) and one.instant == planned.instant
    ]
    assert entry.cancel_wait_s == 20
    assert "wait up to 20 s for the plan" in planned.note
    clock = Waking()
    done = table_of(world.storage, clock, "ingest").ingest(change(0, 999))
    assert done.ended_plans == (planned.instant,)
    assert 15 < clock.slept_s <= 20
    assert isinstance(whole_log(world.storage).fate(planned.instant)[1], Cancel)
    assert merged(world.storage, clock)["k0"] == 999


def test_a_planner_whose_clock_is_ahead_makes_no_write_wait_longer_than_it_says() -> None:
    world = World(2)
    ahead = ManualClock(NOW_MS + 60_000 + 240_000, tick_ms=1)
    planned = plan(world.table("planner", ahead), "wait 20s after 2")
    clock = Waking()
    clock.advance_ms(239_000)  # the table's newest instant is not far ahead of it
    done = table_of(world.storage, clock, "ingest").ingest(change(0, 999))
    assert done.ended_plans == (planned.instant,)
    assert 19 < clock.slept_s < 25


def test_halves_stay_within_partitions_where_files_can_be_merged() -> None:
    world = World(2)
    found = world.planned("halve after 1")
    assert list(found.values()) == [2], "two file groups of one partition"


def test_a_write_elsewhere_does_not_wait() -> None:
    world = World(0)
    for _ in range(2):
        world.starve(partitions=("part=p0",))
    later = ManualClock(NOW_MS + 60_000, tick_ms=1)
    plan(world.table("planner", later), "wait 20s after 2", partitions=("part=p0",))
    clock = Waking()
    assert table_of(world.storage, clock, "ingest").ingest(change(1, 999)).ended_plans == ()
    assert clock.slept_s == 0


def test_a_user_cancels_the_plan_within_its_window() -> None:
    world = World(2)
    later = ManualClock(NOW_MS + 60_000, tick_ms=1)
    instant = plan(world.table("planner", later), "wait 20s after 2").instant
    assert instant is not None
    clock = Waking(lambda: world.table("user", later).cancel(instant, reason="now"))
    assert table_of(world.storage, clock, "ingest").ingest(change(0, 999)).ended_plans == ()
    assert clock.slept_s < 5
    assert merged(world.storage, clock)["k0"] == 999


def test_a_wait_for_a_plan_that_no_write_ends_is_not_said() -> None:
    world = World(2)
    found = world.table("planner").clustering.explain(
        sort_by="id", rewrite=True, on_overlap="cancel", cancel="never", starvation="wait 20s after 2"
    )
    assert "starvation guard" not in found.note


def test_a_guard_that_leaves_nothing_out_is_not_said() -> None:
    world = World(0)
    for _ in range(2):
        world.starve(partitions=("part=p0",))
    found = world.table("planner").clustering.explain(
        sort_by="id", rewrite=True, on_overlap="cancel", starvation="colder after 2", partitions=("part=p0",)
    )
    assert found.counts["planned"] == 2
    assert "starvation guard" not in found.note


def test_a_compaction_that_writes_cancel_is_guarded_alike() -> None:
    world = World(0, MERGE_ON_READ)
    for part in range(PARTITIONS):
        world.table("ingest").ingest(change(part, 50 + part))
    for value in (60, 61):
        made_plan = world.table("planner").compaction.plan(threshold=1, on_overlap="cancel")
        assert world.table("ingest").ingest(change(0, value)).ended_plans == (made_plan.instant,)
    found = world.table("planner").compaction.explain(threshold=1, starvation="halve after 2")
    assert found.counts["planned"] == PARTITIONS
    assert found.counts["plans that writes cancelled"] == PARTITIONS


@pytest.mark.parametrize("guard", [3, True, 1.5])
def test_a_guard_that_is_no_text_is_refused(guard: object) -> None:
    with pytest.raises(InvalidRequest):
        plan(World(0).table("planner"), guard)


def test_groups_that_would_not_be_planned_take_no_place_in_the_half() -> None:
    """The files of the colder partition are above the limit by now, so those of the other one are planned."""
    storage = made(replace(DEFINITION, index="bloom"))
    clock = ManualClock(NOW_MS, tick_ms=1)

    def table(actor: str) -> Table:
        return table_of(storage, clock, actor, file_sizes=FileSizes(small_bytes=0))

    for part, count in (("p0", 4_000), ("p1", 4)):
        for file in range(2):
            table("loader").ingest(
                rows(*((f"{part}-{file}-{n}", part, n, 1, None) for n in range(count))), "bulk_insert"
            )
    request: dict[str, object] = {"target_bytes": 1_000_000, "on_overlap": "cancel"}
    for ts in (2, 3, 4):
        planned = table("planner").clustering.plan(small_bytes=500_000, **request)
        assert planned.counts["planned"] == 4
        every = [(f"{part}-{file}-0", part, 7, ts, None) for part in ("p0", "p1") for file in range(2)]
        assert table("ingest").ingest(rows(*every)).ended_plans == (planned.instant,)
    table("ingest").ingest(rows(*((f"p1-{file}-0", "p1", 8, 6, None) for file in range(2))))
    plain = table("planner").clustering.explain(small_bytes=10_000, **request)
    assert {one.partition_path for one in plain.planned} == {"part=p1"}
    guarded = table("planner").clustering.explain(small_bytes=10_000, starvation="halve after 3", **request)
    assert guarded.planned == plain.planned


def test_partitions_with_nothing_to_plan_are_not_the_colder_ones() -> None:
    world = World(0)
    world.table("executor").clustering.run(sort_by="id")
    for _ in range(2):
        made_plan = world.table("planner").clustering.plan(sort_by="id", on_overlap="cancel", rewrite=True)
        world.value += 1
        assert world.table("ingest").ingest(change(0, world.value)).ended_plans == (made_plan.instant,)
    found = world.table("planner").clustering.explain(sort_by="id", on_overlap="cancel", starvation="colder after 2")
    assert {one.partition_path for one in found.planned} == {"part=p0"}


def test_a_write_that_begins_again_does_not_wait_a_second_time() -> None:
    """The plan's clock is ahead, so its window would still be open when the write begins again."""
    world = World(2)
    ahead = ManualClock(NOW_MS + 60_000 + 30_000, tick_ms=1)
    planned = plan(world.table("planner", ahead), "wait 20s after 2")
    clock = ManualClock(NOW_MS + 60_000, tick_ms=1)
    table = table_of(world.storage, clock, "ingest")
    table._session.memory.plan_windows[planned.instant] = clock.monotonic_s() - 1
    assert table.ingest(change(0, 999)).ended_plans == (planned.instant,)
