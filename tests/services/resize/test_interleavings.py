"""The named interleavings of a resize with writers, readers, other services, cancels and crashes.

The numbers are those of the list of the resize's protocol; 30 and 31 are of the list of cancels. A move is made by another process
right before one storage operation of the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Cancelled, Conflict
from hudi_ops.index.ring import INITIAL
from hudi_ops.index.ring_files import RINGS_FOLDER, ring_path
from hudi_ops.services.cancel.errors import AlreadyCommitted
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from tests.bounds import bound
from tests.fault_plans import DiesBefore, MoveBefore
from tests.services.resize.hand_plans import P0, P1, Wanted, plan_of_nodes, run_plan
from tests.services.resize.modelled import KEYS, Modelled, numbered
from tests.services.resize.ringed_tables import BY_COMMIT_TIME, CONSISTENT, hashes_of, opened
from tests.tables import by_key, table_of

SPLIT_AND_MERGE = (Wanted((0,)), Wanted((1, 2)))
SLOT = "put:.hoodie/.commit_log/payload"
"""Where an executor or a writer has done its work, and is about to take its slot."""
RING_FILE = f"^put_if_absent:{RINGS_FOLDER}"


def planned(table: Modelled, *wanted: Wanted) -> str:
    return plan_of_nodes(table.open("planner"), *(wanted or SPLIT_AND_MERGE))


def executed(table: Modelled, instant: str | None, storage: Any = None) -> Any:
    return run_plan(table.open("executor", storage), instant)


def died(table: Modelled, point: str) -> str:
    """Let an executor die before its first operation at a point; return the plan's instant."""
    instant = planned(table)
    table.write(numbered(KEYS, 100))
    plan = DiesBefore(point)
    with pytest.raises(Crash):
        executed(table, instant, FaultyStorage(table.storage, plan))
    return instant


def assert_carried_on(table: Modelled, instant: str) -> None:
    """The next write finishes what was decided."""
    table.clock.advance_ms(EXPIRY_MS + 1_000)
    table.write(numbered(range(0, 24, 6), 200))
    assert table.ring().instant == instant
    assert executed(table, instant).note == "it was completed before"
    table.settle()


def test_1_crash_before_the_ring_file() -> None:
    """(1) The slot is taken, the data is there, the ring file is not: readers follow the old ring until others go on."""
    table = Modelled()
    instant = died(table, RING_FILE)
    assert table.storage.head(ring_path(P0, instant)) is None
    table.check()
    assert table.ring().instant == INITIAL
    assert_carried_on(table, instant)


def test_2_crash_between_ring_file_and_completed_file() -> None:
    """(2) The ring file alone proves nothing."""
    table = Modelled()
    instant = died(table, ".replacecommit")
    assert table.storage.head(ring_path(P0, instant)) is not None
    table.check()
    assert table.ring().instant == INITIAL
    assert_carried_on(table, instant)


@pytest.mark.parametrize("how", ["cancel", "restore"])
def test_3_the_instant_of_a_ring_file_is_undone(how: str) -> None:
    """(3) A foreign executor left the ring of a plan that is cancelled; a completed one is restored."""
    table = Modelled()
    saved = table.open().savepoints.create().instant
    instant = planned(table)
    if how == "cancel":
        left = replace(table.ring(), instant=instant, seq_no=1)
        table.storage.put(ring_path(P0, instant), left.to_bytes())
        table.check()
        table.open("user").cancel(instant)
    else:
        executed(table, instant)
        table.open("user").savepoints.restore(saved)
    assert table.ring().instant == INITIAL
    assert [info.name for info in table.storage.list(RINGS_FOLDER)] == [f"{INITIAL}.hashing_meta"]
    table.write(numbered(KEYS, 300))
    table.check()


def test_4_everything_is_archived_and_the_table_opened_anew() -> None:
    """(4) Afterwards only the `.commit` file tells which ring counts."""
    table = Modelled()
    instant = planned(table)
    table.write(numbered(KEYS, 100))
    executed(table, instant)
    for number in range(200, 205):
        table.write(numbered(KEYS, number * 100))
    keeper = table.open("keeper")
    keeper.clean.run(retain=1)
    keeper.archive.run(keep_min=2, keep_max=3)
    assert table.open()._session.loader.load().timeline.find(instant) is None
    table.check()
    assert table.ring().instant == instant
    table.write(numbered(KEYS, 90_000))
    table.check()


def resized_meanwhile(table: Modelled, point: str) -> tuple[MoveBefore, Callable[[], Any]]:
    """Another process plans and completes a resize before an operation of a writer at a point."""
    done: list[str] = []

    def move() -> None:
        done.append(planned(table))
        executed(table, done[0])

    return MoveBefore(point, move), lambda: done[0]


@pytest.mark.parametrize("point", [f"put:{P0}/.", SLOT], ids=["before its files", "before its slot"])
def test_5_a_writer_tags_before_the_plan_and_commits_after_the_completion(point: str) -> None:
    """(5) Its rows are routed again."""
    table = Modelled()
    move, instant = resized_meanwhile(table, point)
    table.write(numbered(range(0, 40, 2), 100), FaultyStorage(table.storage, move))
    assert move.moved
    assert table.ring().instant == instant()
    table.settle()


@pytest.mark.parametrize("when", ["first", "last"])
def test_6_a_resize_is_aborted_before_or_after_a_dual_write(when: str) -> None:
    """(6) The rows are in the parents, so nothing is lost."""
    table = Modelled()
    instant = planned(table)
    if when == "first":
        move = MoveBefore(SLOT, lambda: table.open("user").cancel(instant))
        table.write(numbered(range(0, 40, 2), 100), FaultyStorage(table.storage, move))
        assert move.moved
    else:
        table.write(numbered(range(0, 40, 2), 100))
        assert table.logs(instant)
        table.open("user").cancel(instant)
    assert table.logs(instant) == []
    table.settle()


def test_7_first_writers_create_one_ring() -> None:
    """(7) Both made the same bytes, and neither put a row where the other does not look."""
    table = Modelled(BY_COMMIT_TIME, values={})
    first = MoveBefore(RING_FILE, lambda: table.write(numbered(range(12, 24, 2)), actor="second"))
    table.write(numbered(range(0, 16, 2), 100), FaultyStorage(table.storage, first), actor="first")
    assert first.moved
    assert [info.name for info in table.storage.list(RINGS_FOLDER)] == [f"{INITIAL}.hashing_meta"]
    table.settle()


def test_8_neighbours_are_split_and_merged_in_one_plan() -> None:
    """(8) The last node of the merge is the neighbour of the split one."""
    table = Modelled()
    before = table.ring()
    result = executed(table, planned(table, Wanted((1,)), Wanted((2, 3))))
    assert (result.groups, result.splits, result.merges) == (2, 1, 1)
    after = table.ring()
    assert {*before.values.tolist()} - {*after.values.tolist()} == {before.values.tolist()[2]}
    assert len(after.prefixes) == 4
    table.settle()


def test_9_the_merge_goes_around_the_end_of_the_ring() -> None:
    """(9) The last node and the first one become the first."""
    table = Modelled()
    before = table.ring()
    instant = planned(table, Wanted((3, 0)))
    table.write(numbered(KEYS, 100))
    executed(table, instant)
    assert table.ring().values.tolist() == before.values.tolist()[:3]
    table.settle()


def test_10_all_keys_lie_in_one_tiny_range() -> None:
    """(10) Buckets are split between keys, and no longer once each key has its own."""
    found = sorted(
        (int(hashed), f"k{n}") for n, hashed in enumerate(hashes_of([f"k{n}" for n in range(20_000)]).tolist())
    )
    even = [(hashed, key) for hashed, key in found if int(key[1:]) % 2 == 0]
    at = min(range(len(even) - 6), key=lambda n: even[n + 5][0] - even[n][0])
    keys = [key for _, key in even[at : at + 6]]
    assert even[at + 5][0] - even[at][0] < 1 << 18
    table = Modelled(replace(CONSISTENT, buckets_max=64), dict.fromkeys(keys, 1))
    for _ in range(6):
        done = table.resize(split_bytes=1, merge_bytes=0)
        table.check()
        if done.completion_time is None:
            break
    assert done.completion_time is None
    ring = table.ring()
    nodes = ring.nodes_of(hashes_of(keys)).tolist()
    assert len({*nodes}) == len(keys), "each key has its bucket"
    assert len(ring.prefixes) == 4 + len(keys) - 1, "no split left an empty side"
    table.settle()


def test_11_rows_are_deleted_during_the_dual_write() -> None:
    """(11) The deletes go into the children, too."""
    table = Modelled()
    instant = planned(table)
    table.delete(f"k{n}" for n in range(0, 24, 4))
    assert table.logs(instant)
    executed(table, instant)
    table.check()
    table.write(numbered(range(0, 24, 8), 500))
    table.settle()


@pytest.mark.parametrize("definition", [CONSISTENT, BY_COMMIT_TIME], ids=["event time", "commit time"])
def test_12_one_key_is_updated_before_and_after_the_plan(definition: Any) -> None:
    """(12) The newest row counts: the older one is in the child's base file, the newer ones in its log files."""
    table = Modelled(definition)
    table.write(numbered(KEYS, 100))
    instant = planned(table)
    table.write(numbered(KEYS, 200))
    table.write(numbered(range(0, 12, 2), 300))
    table.check()
    executed(table, instant)
    table.settle()


@pytest.mark.parametrize("first", ["resize", "compaction"])
def test_13_a_compaction_is_planned_during_a_resize(first: str) -> None:
    """(13) They exclude each other for each file group, and both complete."""
    table = Modelled()
    table.write(numbered(KEYS, 100))
    if first == "compaction":
        assert table.open("compactor").compaction.plan().instant is not None
        assert table.plan_resize(split_bytes=1, merge_bytes=0) is None, "every bucket is in the compaction"
        table.open("compactor").compaction.execute()
        instant = table.plan_resize(split_bytes=1, merge_bytes=0)
    else:
        instant = planned(table, Wanted((0,)), Wanted((1, 2)))
        table.write(numbered(KEYS, 200))
        parents = {table.ring().file_id(node) for node in range(3)}
        compacted = table.open("compactor").compaction.run()
        assert compacted.instant is not None
        names = {info.name for info in table.storage.list() if info.name.endswith(f"_{compacted.instant}.parquet")}
        assert names
        assert not {name.split("_")[0] for name in names} & parents
    executed(table, instant)
    table.check()
    table.write(numbered(KEYS, 300))
    assert table.open("compactor").compaction.run().instant is not None
    table.settle()


def test_14_one_partition_of_a_plan_fails() -> None:
    """(14) The groups of the other complete; the failed one keeps its overwritten rows and their ring."""
    table = Modelled(values=numbered(range(24)))
    instant = planned(table, Wanted((0,)), Wanted((1, 2)), Wanted((0,), P1))
    table.write(numbered(range(24), 100))
    table.overwrite({"k1": 701, "k3": 703})
    done = executed(table, instant)
    assert (done.groups, done.left_out) == (2, 1)
    rings = table.rings()
    assert rings[P0].instant == instant != rings[P1].instant
    table.settle()


@pytest.mark.parametrize("shape", ["empty", "not partitioned"])
def test_15_the_table_is_empty_or_not_partitioned(shape: str) -> None:
    """(15) There is nothing to plan; the ring lies in the folder of all rings."""
    table = Modelled(CONSISTENT if shape == "empty" else replace(CONSISTENT, partition_by=()), values={})
    done = table.resize(split_bytes=1, merge_bytes=0)
    assert done.completion_time is None
    if shape == "empty":
        assert by_key(table.open()) == {}
        return
    table.write(numbered(KEYS))
    instant = planned(table, Wanted((0,), ""), Wanted((1, 2), ""))
    table.write(numbered(KEYS, 100))
    executed(table, instant)
    assert table.ring("").instant == instant
    table.settle()


@pytest.mark.parametrize(
    "point",
    [f"^list_folder:{P0}", f"^open_input:{P0}", f"^get:{RINGS_FOLDER}"],
    ids=["listing", "reading", "ring"],
)
def test_16_a_reader_with_the_old_ring_meets_the_switch(point: str) -> None:
    """(16) It shows the rows of one moment."""
    table = Modelled()
    instant = planned(table)
    table.write(numbered(KEYS, 100))
    before = table.open().scan()
    move = MoveBefore(point, lambda: executed(table, instant))
    storage = FaultyStorage(table.storage, move)
    assert by_key(table.open("amid", storage), listing="storage") == table.rows
    if RINGS_FOLDER in point:
        table.write(numbered(KEYS, 200), storage)
    assert move.moved
    late = before.to_arrow()
    assert sorted(late["id"].to_pylist()) == sorted(table.rows)
    table.settle()


def test_17_an_incremental_reader_sees_no_child_log_twice() -> None:
    """(17) Neither while the resize is pending, nor once it has completed."""
    table = Modelled()
    start = table.open().scan().checkpoint
    instant = planned(table)
    table.write(numbered(range(0, 24, 2), 100))
    changed = {f"k{n}": 100 + n for n in range(0, 24, 2)}

    def shown(since: str) -> dict[str, int]:
        found = table.open().changes(since).to_arrow()
        assert len({*found["id"].to_pylist()}) == found.num_rows
        return dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))

    assert shown(start) == changed
    amid = table.open().scan().checkpoint
    executed(table, instant)
    assert shown(start) == changed
    assert shown(amid) == {}


def operations(run: Callable[[FaultyStorage], object], base: MemoryStorage) -> list[int]:
    """The numbers of a run's operations that change the storage."""
    seen: list[int] = []

    class Counting:
        def fault_at(self, number: int, point: str) -> Fault | None:
            if point.startswith(("put", "delete")):
                seen.append(number)
            return None

    run(FaultyStorage(base.copy(), Counting()))
    return seen


class Canceller:
    """Cancels a plan once it is called; `is_late` if the plan had completed by then."""

    def __init__(self, table: Modelled, instant: str) -> None:
        self._table, self._instant = table, instant
        self.is_late = False

    def __call__(self) -> None:
        try:
            self._table.open("user").cancel(self._instant)
        except AlreadyCommitted:
            self.is_late = True


@pytest.mark.parametrize("who", ["executor", "writer"])
def test_18_a_cancel_at_every_step(who: str) -> None:
    """(18) Either the plan completed, or nothing of it stays; the rows are there in any case."""
    table = Modelled(values=numbered(range(0, 12, 2)))
    instant = planned(table)
    if who == "executor":
        table.write(numbered(range(0, 6, 2), 100))
    batch = table.batch(numbered(range(0, 12, 2), 200))
    rows, base = dict(table.rows), table.storage

    def run(storage: FaultyStorage) -> None:
        acting = opened(storage, who, table.clock)
        run_plan(acting, instant) if who == "executor" else acting.ingest(batch)

    ends = set()
    for number in operations(run, base)[:: bound(6, 4, 1)]:
        table.storage = base.copy()
        table.rows = rows if who == "executor" else rows | numbered(range(0, 12, 2), 200)
        cancel = Canceller(table, instant)
        try:
            run(FaultyStorage(table.storage, MoveBefore.at(number, cancel)))
        except (Cancelled, Conflict):
            assert who == "executor"
        table.clock.advance_ms(EXPIRY_MS + 1_000)
        table.open("last").recover()
        table.open("last").cancel_overdue()
        assert (table.ring().instant == instant) == cancel.is_late
        assert cancel.is_late or not [info for info in table.storage.list(P0) if f"_{instant}" in info.name]
        table.check()
        ends.add(cancel.is_late)
    assert ends == ({True, False} if who == "executor" else {False})


@pytest.mark.parametrize("when", ["before its slot", "after it"])
def test_30_a_resize_is_cancelled_after_a_dual_write(when: str) -> None:
    """(30) the parent is complete, the child's files are never visible, and the ring stays, also once all is archived."""
    table = Modelled()
    instant = planned(table)
    table.write(numbered(KEYS, 100))
    assert table.logs(instant)
    if when == "after it":
        table.open("user").cancel(instant)
    else:
        move = MoveBefore(SLOT, lambda: table.open("user").request_cancel(instant, "not needed"))
        with pytest.raises(Cancelled):
            executed(table, instant, FaultyStorage(table.storage, move))
        table.open("user").cancel(instant)
    assert table.ring().instant == INITIAL
    assert table.logs(instant) == []
    for number in range(2, 7):
        table.write(numbered(KEYS, number * 100))
    keeper = table.open("keeper")
    keeper.clean.run(retain=1)
    keeper.archive.run(keep_min=2, keep_max=3)
    table.check()
    table.write(numbered(KEYS, 9_000))
    table.check()


def test_31_a_writer_loaded_the_ring_before_the_plan_and_commits_after_the_completion() -> None:
    """(31) without a second try it fails, and nothing of it shows; with one its rows are routed again."""
    table = Modelled()
    move, instant = resized_meanwhile(table, SLOT)
    once = table_of(FaultyStorage(table.storage, move), table.clock, "once", conflicts=ConflictSettings(retries=0))
    with pytest.raises(Conflict):
        once.ingest(table.batch(numbered(range(0, 40, 2), 100)))
    assert move.moved
    assert table.ring().instant == instant()
    assert json.loads(table.storage.get(ring_path(P0, instant())))["seqNo"] == 1
    table.check()
    table.write(numbered(range(0, 40, 2), 200), actor="again")
    table.settle()
