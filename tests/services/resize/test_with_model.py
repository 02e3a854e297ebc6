"""The test list of RFC-42 on small tables, against a dict.

First writers, rounds of splits and merges, tiny ranges, readers beside writers, and several plans.

Source: RFC-42, test plan; `tests/property/test_resize_rounds.py` has the same rounds without files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Cancelled
from hudi_ops.index.ring import INITIAL, initial_ring
from hudi_ops.index.ring_files import RINGS_FOLDER, ring_path
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.fault_plans import DiesBefore, MoveBefore
from tests.services.resize.hand_plans import P0, P1, Wanted, plan_of_nodes, run_plan
from tests.services.resize.modelled import KEYS, Modelled, numbered
from tests.services.resize.ringed_tables import BY_COMMIT_TIME, CONSISTENT, EXTENDIBLE, hashes_of
from tests.tables import by_key
from tests.views import assert_view_is_synced

pytestmark = pytest.mark.full("searches schedules for many seconds")

LIVELY = replace(BY_COMMIT_TIME, buckets=2, buckets_max=8)
ENGINES = {
    "consistent": LIVELY,
    "metadata table": replace(LIVELY, metadata=True),
    "extendible": replace(EXTENDIBLE, ordering=None, buckets=2, buckets_max=8),
}


def steps_of(run: Callable[[FaultyStorage], object], storage: Any) -> list[int]:
    """The numbers of a run's storage operations."""
    seen = []

    class Counting:
        def fault_at(self, number: int, point: str) -> Fault | None:
            seen.append(number)
            return None

    run(FaultyStorage(storage.copy(), Counting()))
    return seen


def spread(steps: list[int], most: int) -> list[int]:
    """About `most` of the numbers, evenly spread, and the last one."""
    return [*steps[: -1 : max(1, -(-len(steps) // most))], steps[-1]]


FIRST, SECOND, THIRD = numbered(KEYS, 100), numbered(range(12, 36, 2), 200), numbered(range(24, 48, 2), 300)


def raced(number: int) -> tuple[Modelled, bool]:
    """Three first writers: the others write before a step of the first one; returns whether its slot came before that."""
    table = Modelled(BY_COMMIT_TIME, values={})

    def write_others() -> None:
        inner = MoveBefore(RINGS_FOLDER, lambda: table.write(THIRD, actor="third"))
        table.write(SECOND, FaultyStorage(table.storage, inner), actor="second")
        assert inner.moved

    move = MoveBefore.at(number, write_others)
    table.write(FIRST, FaultyStorage(table.storage, move), actor="first")
    assert move.moved
    is_oldest = by_key(table.open())["k12"] == SECOND["k12"]
    if is_oldest:
        table.rows |= THIRD | SECOND
    return table, is_oldest


def test_first_writes_of_racing_writers_make_one_ring() -> None:
    """(a) Wherever the second and the third writer come between the steps of the first."""
    empty = Modelled(BY_COMMIT_TIME, values={})
    every = steps_of(lambda storage: empty.open("first", storage).ingest(empty.batch(FIRST)), empty.storage)
    steps = spread(every, bound(3, 10, len(every)))
    oldest = 0
    for number in steps:
        table, is_oldest = raced(number)
        oldest += is_oldest
        table.check()
        assert [info.path for info in table.storage.list(RINGS_FOLDER)] == [ring_path(P0, INITIAL)]
        assert table.storage.get(ring_path(P0, INITIAL)) == initial_ring(P0, 4).to_bytes()
        groups = {info.name.split("_")[0] for info in table.storage.list(P0) if info.name.endswith(".parquet")}
        assert groups == {table.ring().file_id(node) for node in range(4)}
        table.write(numbered(range(0, 48, 2), 400))
        table.check()
    assert oldest < len(steps)


class Rounds:
    """Rounds of random writes, splits, merges, cancels and overwrites, drawn by a seed."""

    def __init__(self, definition: Any, seed: int) -> None:
        self.draw = random.Random(seed)
        self.table = Modelled(definition, numbered(range(16)))
        self.is_extendible = definition.bucket_engine == "extendible"
        self.views = 0
        self.done = {"split": 0, "merge": 0, "cancelled": 0, "left out": 0}

    def write(self) -> None:
        """Upsert or delete some of 32 keys."""
        keys = self.draw.sample(range(32), self.draw.randint(1, 12))
        if self.draw.random() < 0.25:
            self.table.delete(f"k{n}" for n in keys)
        else:
            self.table.write(numbered(keys, self.draw.randrange(1_000, 100_000)))
        self.views += assert_view_is_synced(self.table.storage)

    def plan(self) -> str | None:
        """Split every bucket that can be, or merge all neighbours that may be; of one partition or both."""
        sizes = self.draw.choice([{"split_bytes": 1, "merge_bytes": 0}, {"split_bytes": 60_000, "merge_bytes": 15_000}])
        return self.table.plan_resize(**sizes, max_partitions=self.draw.randint(1, 2))

    def play(self) -> None:
        """One round."""
        self.write()
        instant = self.plan()
        for _ in range(self.draw.randint(0, 2)):
            self.write()
        how = self.draw.random()
        if instant is None:
            pass
        elif how < 0.15:
            self.table.open("user").cancel(instant)
            self.done["cancelled"] += 1
        elif how < 0.3:
            self.table.overwrite(numbered(self.draw.sample(range(0, 32, 2), 6), 7_000))
            try:
                self.done["left out"] += run_plan(self.table.open("executor"), instant).left_out
            except Cancelled:
                self.done["cancelled"] += 1  # nothing remained of it
        else:
            move = MoveBefore.at(self.draw.randrange(40), self.write) if how > 0.7 else None
            storage = FaultyStorage(self.table.storage, move) if move is not None else None
            result = run_plan(self.table.open("executor", storage), instant)
            self.done["split"] += result.splits
            self.done["merge"] += result.merges
            assert not result.left_out, "an upsert or a delete never costs a group"
        self.table.check()


@pytest.mark.quick
@pytest.mark.parametrize("definition", ENGINES.values(), ids=ENGINES)
def test_rounds_of_splits_and_merges_keep_every_row_once(definition: Any) -> None:
    """(b) With upserts and deletes before, during and after each plan, cancels, overwrites, and all engines."""
    count = bound(3, 10, 50)
    for seed in range(bound(1, 1, 10)):
        rounds = Rounds(definition, seed)
        for _ in range(count):
            rounds.play()
        print(definition.bucket_engine, seed, rounds.done, rounds.views)
        assert rounds.views >= count
        assert rounds.done["split"] >= count // 5
        assert rounds.done["merge"] >= count // 10
        errors = verify_table(rounds.table.storage, deep=True, index=True, clock=rounds.table.clock).errors
        assert not errors, errors


@pytest.mark.parametrize("point", ["balanced", "middle"])
def test_keys_in_a_tiny_range_are_split_until_each_has_its_bucket(point: str) -> None:
    """(c) Balanced splits leave no side empty; splits in the middle halve the range, at most once for each bit."""
    keys = [f"k{n}" for n in range(0, 40_000, 2)]
    found = sorted(zip(hashes_of(keys).tolist(), keys, strict=True))
    at = min(range(len(found) - 4), key=lambda n: found[n + 3][0] - found[n][0])
    tiny = [key for _, key in found[at : at + 4]]
    width = found[at + 3][0] - found[at][0]
    assert 0 < width < 1 << 17
    table = Modelled(replace(CONSISTENT, buckets=1), dict.fromkeys(tiny, 1))
    rounds = 0
    # Empty buckets are small enough to stay, those with rows are not.
    while (done := table.resize(split_bytes=1_600, merge_bytes=0, split_point=point)).completion_time is not None:
        rounds += 1
        assert rounds <= 31, "endless"
        table.write(dict.fromkeys(tiny, rounds))
        if rounds == bound(3, 8, 31):
            break
    table.check()
    ring = table.ring()
    assert len(ring.prefixes) <= (len(tiny) if point == "balanced" else 1 + 4 * rounds)
    if point == "balanced":
        assert done.completion_time is None or rounds == bound(3, 8, 31)
        assert len({*ring.nodes_of(hashes_of(tiny)).tolist()}) == len(ring.prefixes), "no bucket is empty"


@pytest.mark.parametrize("who", ["writer", "executor"])
def test_readers_beside_a_writer_or_an_executor_see_one_moment(who: str) -> None:
    """(d) Before each of its steps another process reads: the rows before the write, or those after it."""
    base = Modelled()
    instant = plan_of_nodes(base.open("planner"), Wanted((0,)), Wanted((1, 2)))
    if who == "executor":
        base.write(numbered(range(0, 24, 4), 100))
    batch = base.batch(numbered(KEYS, 200))

    def run(storage: FaultyStorage) -> object:
        return base.open(who, storage).ingest(batch) if who == "writer" else run_plan(base.open(who, storage), instant)

    before, storage = dict(base.rows), base.storage
    after = before | numbered(KEYS, 200) if who == "writer" else before
    steps = steps_of(run, storage)
    seen: list[dict[str, int]] = []
    for number in spread(steps, bound(4, 14, len(steps))):
        base.storage = storage.copy()
        run(FaultyStorage(base.storage, MoveBefore.at(number, lambda: seen.append(by_key(base.open())))))
        base.rows = after
        base.check()
    assert all(rows in (before, after) for rows in seen)
    assert who == "executor" or (before in seen and after in seen)


@pytest.mark.parametrize("order", ["in order", "in turn"])
def test_several_plans_change_rings(order: str) -> None:
    """(e) Pending at once in two partitions, one after the other in one; a plan of a ring that changed ends itself."""
    table = Modelled(values=numbered(range(24)))
    one = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((2, 3)))
    two = plan_of_nodes(table.open("planner"), Wanted((1,), P1))
    table.write(numbered(range(24), 100))
    assert table.logs(one)
    assert table.logs(two)
    table.check()
    for instant in (one, two) if order == "in order" else (two, one):
        assert run_plan(table.open("executor"), instant).left_out == 0
        table.check()
    assert {path: ring.instant for path, ring in table.rings().items()} == {P0: one, P1: two}
    for number, wanted in enumerate([Wanted((0, 1)), Wanted((2,)), Wanted((2, 3, 0)), Wanted((0, 1)), Wanted((0,))]):
        instant = plan_of_nodes(table.open("planner"), wanted)
        table.write(numbered(range(number, 24, 3), 1_000 * (number + 1)))
        assert run_plan(table.open("executor"), instant).left_out == 0
        assert (table.ring().instant, table.ring().seq_no) == (instant, number + 2)
        table.check()
    late = plan_of_nodes(table.open("planner"), Wanted((0,)), on_overlap="pass")
    table.overwrite(numbered(KEYS, 5))
    renewed = table.ring().instant
    assert run_plan(table.open("executor"), late).completion_time is None
    assert table.ring().instant == renewed
    table.settle()


@pytest.mark.parametrize("token", ["ours", "foreign"])
def test_rows_of_a_write_that_still_works_stay_hidden_behind_a_completed_resize(token: str) -> None:
    """Its log files carry the instant of the resize: only token and blocks say that their writer has not completed."""
    table = Modelled()
    instant = plan_of_nodes(table.open("planner"), Wanted((0,)), Wanted((1, 2)))
    dies = FaultyStorage(table.storage, DiesBefore("put:.hoodie/.commit_log/payload"))
    with pytest.raises(Crash):
        table.open("sleeper", dies).ingest(table.batch(numbered(range(0, 40, 2), 100)))
    logs = table.logs(instant)
    assert logs
    if token == "foreign":
        for path in logs:
            table.storage.put(path.rpartition("_")[0] + "_0-11-12", table.storage.get(path))
            table.storage.delete(path)
    run_plan(table.open("executor"), instant)
    table.check()
    table.write({"k1": 1}, actor="other")  # a later instant than the sleeper's
    table.check()
    if token == "ours":
        table.write(numbered(range(0, 24, 6), 300), actor="other")
        planned = table.open("compactor").compaction.plan()
        assert planned.instant is not None
        table.clock.advance_ms(EXPIRY_MS + 1_000)
        table.open("last").recover()
        assert table.logs(instant) == []
        table.open("compactor").compaction.execute()
        table.settle()
