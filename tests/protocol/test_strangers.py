"""What others may do to a table while an ingest of ours runs, or lies dead: nothing of it may lose, double or bring back a row.

Apache Hudi writes no slots; it is played here by the files that it leaves on the timeline. `MoveBefore` runs such a move before
one storage operation of the ingest. The readers that are not ours meet such states in `tests/interop`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH
from hudi_ops.errors import Busy, Conflict, HudiOpsError
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.names import instant_of_ms
from tests.definitions import create_table
from tests.fault_plans import DiesBehind, MoveBefore
from tests.protocol.crash_table import FIRST, NEW, OLD, SECOND, make_base, unaccounted, visible
from tests.protocol.foreign_table import clustering_plan, group_of, rollback_plan
from tests.protocol.sweep import fault_sweep
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, TIMELINE, by_key, made, rows, table_of

FLOORS = {Fault.ERROR_BEFORE: 42, Fault.ERROR_AFTER: 15, Fault.EXISTS_THOUGH_ABSENT: 5, Fault.EXISTS_BY_ITSELF: 5}
"""Operations of one ingest that can go wrong in each way, at least: a test that visits fewer has gone blind."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def storage(source: Path) -> MemoryStorage:
    return make_base(source)


def attempt_once(storage: MemoryStorage, point: str, move: Callable[[], None]) -> tuple[HudiOpsError | None, bool]:
    """One attempt of the second ingest, not tried again; returns its error, and whether the move was made."""
    plan = MoveBefore(point, move)
    table = table_of(FaultyStorage(storage, plan), ManualClock(NOW_MS), "writer")
    try:
        ingest(table._session, Batch(parse_operation("upsert"), rows=SECOND), table.context.engine, "", 0.0)
    except HudiOpsError as error:
        return error, plan.moved
    return None, plan.moved


def our_instant(storage: MemoryStorage) -> str:
    (name,) = [
        i.name for i in storage.list(TIMELINE) if i.name.endswith(".inflight") and i.name[:17] >= instant_of_ms(NOW_MS)
    ]
    return name[:17]


@pytest.mark.parametrize("point", ["put:part=", "put:.hoodie/.commit_log/payload", "put_if_absent:.hoodie/.commit_log"])
def test_an_attempt_that_hudi_rolls_back_never_completes(storage: MemoryStorage, point: str) -> None:
    def move() -> None:
        later = instant_of_ms(NOW_MS + 1_000)
        storage.put(f"{TIMELINE}/{later}.rollback.requested", rollback_plan(our_instant(storage)))
        storage.put(f"{TIMELINE}/{later}.rollback.inflight", b"")

    error, moved = attempt_once(storage, point, move)
    assert moved
    assert isinstance(error, Conflict)
    assert "roll" in str(error) or "foreign writer" in str(error)
    assert visible(storage, ManualClock(NOW_MS)) == OLD


@pytest.mark.parametrize("readable", [True, False])
def test_a_pending_clustering_on_the_same_groups_is_waited_for(storage: MemoryStorage, readable: bool) -> None:
    plan = clustering_plan("part=p0", group_of(storage, "part=p0")) if readable else b"Obj\x01 torn"
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS - 1)}.clustering.requested"
    error, _ = attempt_once(storage, "put_if_absent:.hoodie/.heartbeat", lambda: storage.put(name, plan))
    assert isinstance(error, Busy)
    assert visible(storage, ManualClock(NOW_MS)) == OLD


def test_a_pending_clustering_elsewhere_does_not_hinder(storage: MemoryStorage) -> None:
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS - 1)}.clustering.requested"
    plan = clustering_plan("part=p9", "00000000-0000-0000-0000-000000000000-0")
    assert attempt_once(storage, "put_if_absent:.hoodie/.heartbeat", lambda: storage.put(name, plan))[0] is None
    assert visible(storage, ManualClock(NOW_MS)) == NEW


@pytest.mark.parametrize("point", ["open_input:part=", "put:part=p2/0", "put_if_absent:part=p2"])
def test_what_a_restore_undoes_meanwhile_does_not_come_back(storage: MemoryStorage, point: str) -> None:
    newest = max(i.path for i in storage.list(TIMELINE) if i.name.endswith(".commit"))

    def move() -> None:
        time = newest.rpartition("/")[2][:17]
        for info in storage.list():
            is_of_it = info.path.startswith(f"{TIMELINE}/{time}") or info.name.endswith(f"_{time}.parquet")
            if is_of_it:
                storage.delete(info.path)

    error, moved = attempt_once(storage, point, move)
    assert moved
    assert isinstance(error, Conflict)
    assert visible(storage, ManualClock(NOW_MS)) == {}


def crashed(storage: MemoryStorage, source: Path, at: str) -> str:
    """Let an ingest die right before an operation; returns its instant."""

    class DiesAt:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.CRASH_BEFORE if at in point else None

    with contextlib.suppress(Crash):
        faulty = FaultyStorage(storage, DiesAt())
        table_of(faulty, ManualClock(NOW_MS), "dead").ingest_folder(str(source))
    return our_instant(storage)


def later_table(storage: MemoryStorage, by_ms: int = EXPIRY_MS + 1_000) -> tuple[Table, ManualClock]:
    clock = ManualClock(NOW_MS + by_ms)
    return table_of(storage, clock, "second"), clock


def test_a_rollback_that_hudi_began_is_left_to_it(storage: MemoryStorage, source: Path) -> None:
    target = crashed(storage, source, "put:part=")
    theirs = f"{TIMELINE}/{instant_of_ms(NOW_MS + 1_000)}.rollback"
    storage.put(f"{theirs}.requested", rollback_plan(target))
    storage.put(f"{theirs}.inflight", b"")
    table, clock = later_table(storage)
    table.ingest_folder(str(source))
    assert visible(storage, clock) == NEW
    rollbacks = [i.name for i in storage.list(TIMELINE) if ".rollback" in i.name]
    assert len(rollbacks) == 2, "neither completed by us nor made a second time"


def test_an_unreadable_rollback_plan_does_not_stop_ingestion(storage: MemoryStorage, source: Path) -> None:
    crashed(storage, source, "put:part=")
    storage.put(f"{TIMELINE}/{instant_of_ms(NOW_MS + 1_000)}.rollback.requested", b"Obj\x01 torn")
    table, clock = later_table(storage)
    table.ingest_folder(str(source))
    assert visible(storage, clock) == NEW


@pytest.mark.parametrize("states", [("inflight",), ("commit.requested", "inflight")])
def test_what_a_sleeper_leaves_after_its_rollback_is_removed(
    storage: MemoryStorage, source: Path, states: tuple[str, ...]
) -> None:
    target = crashed(storage, source, "put:part=")
    table, clock = later_table(storage)
    table.ingest_folder(str(source))
    # It wakes up, puts what it was about to put, and dies for good.
    for state in states:
        storage.put(f"{TIMELINE}/{target}.{state}", b"")
    path = f"part=p0/{group_of(storage, 'part=p0')}_7-0-0_{target}.parquet"
    storage.put(f".hoodie/.temp/{target}/{path}.marker.MERGE", b"")
    storage.put(path, b"rows that must never show")
    table, clock = later_table(storage)
    table.ingest(FIRST.slice(0, 1))
    assert visible(storage, clock) == {**NEW, "k0": 100}
    assert unaccounted(storage) == []


def test_the_heartbeat_of_a_writer_that_took_the_same_millisecond_stays(storage: MemoryStorage) -> None:
    """A first write of Apache Hudi to a table of ours: nobody told us to take instants under the lock."""
    taken: list[str] = []

    def takes_it_too() -> None:
        (lease,) = storage.list(".hoodie/.heartbeat")
        taken.append(lease.name)
        storage.put(lease.path, b"")
        storage.put(f"{TIMELINE}/{lease.name}.commit.requested", b"")
        storage.put(f"{TIMELINE}/{lease.name}.inflight", b"")

    moves = MoveBefore(f"put_if_absent:{TIMELINE}", takes_it_too)
    table = table_of(FaultyStorage(storage, moves), ManualClock(NOW_MS, tick_ms=1), "ours")
    done = table.ingest(SECOND.slice(0, 1))
    assert done.instant not in taken
    assert [info.name for info in storage.list(".hoodie/.heartbeat")] == taken
    assert storage.get(f".hoodie/.heartbeat/{taken[0]}") == b""


def test_a_table_made_anew_is_noticed(storage: MemoryStorage) -> None:
    stale = table_of(storage, ManualClock(NOW_MS), "stale")
    stale.ingest(SECOND.slice(0, 1))
    for info in storage.list():
        storage.delete(info.path)
    clock = ManualClock(NOW_MS + 1_000)
    create_table(table_of(storage, clock, "another")._session, DEFINITION)
    stale.context.clock.sleep_s(10)
    stale.ingest(FIRST)  # the first try meets another table id, and the next one starts from the new table
    assert visible(storage, clock) == OLD
    assert unaccounted(storage) == []


def test_the_ledger_survives_a_foreign_archiver(storage: MemoryStorage, source: Path) -> None:
    table, clock = later_table(storage)
    table.ingest_folder(str(source))
    for info in storage.list(TIMELINE):
        storage.delete(info.path)
    foreign = instant_of_ms(clock.now_ms() + 5_000)
    storage.put(f"{TIMELINE}/{foreign}_{foreign}.commit", b"")
    fresh, _ = later_table(storage, by_ms=10 * EXPIRY_MS)
    result = fresh.ingest_folder(str(source))
    assert result.instant is None
    assert "2 files were taken before" in result.note


def test_create_keeps_what_a_half_done_update_of_the_properties_holds(storage: MemoryStorage) -> None:
    body = storage.get(PROPERTIES_PATH) + b"hoodie.table.metadata.partitions=files\n"
    storage.put(BACKUP_PATH, body)
    storage.delete(PROPERTIES_PATH)
    table, _ = later_table(storage)
    assert create_table(table._session, DEFINITION) is False
    assert table.config.metadata_partitions == ("files",)


@pytest.mark.parametrize("fault", FLOORS)
def test_an_error_at_every_storage_operation_is_old_or_new_and_can_be_run_again(
    storage: MemoryStorage, source: Path, fault: Fault
) -> None:
    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "writer").ingest_folder(str(source))

    for left in fault_sweep(storage, run, fault, "an ingest", points=FLOORS[fault], runs=FLOORS[fault], step=1):
        seen = visible(left.storage.copy(), left.clock)
        assert seen in (OLD, NEW), left.story
        assert left.error is not None or seen == NEW, f"success was reported, and it is not there: {left.story}"
        table, clock = later_table(left.storage)
        table.ingest_folder(str(source))
        assert visible(left.storage, clock) == NEW, left.story
        assert unaccounted(left.storage) == [], left.story


def test_slots_are_never_deleted(storage: MemoryStorage, source: Path) -> None:
    crashed(storage, source, "put:part=")
    table, _ = later_table(storage)
    table.ingest_folder(str(source))
    slots = [info.path for info in storage.list(".hoodie/.commit_log/00000000")]
    assert slots == [slot_path(number) for number in range(len(slots))]


def test_a_plan_that_waits_is_no_sign_of_a_foreign_writer() -> None:
    """It has no lease, and its slot soon lies below the part of the log that is read: what was decided late would be voided."""
    batches = [rows(("k0", "p0", version, version, None)) for version in (0, 1)]
    storage, clock = made(MERGE_ON_READ, *batches), ManualClock(NOW_MS, tick_ms=1)
    planned = table_of(storage, clock, "planner").compaction.plan(threshold=0).instant
    assert planned is not None
    for version in (2, 3):
        table_of(storage, clock, "writer").ingest(rows(("k0", "p0", version, version, None)))
    late = FaultyStorage(storage, DiesBehind("put_if_absent:.hoodie/.commit_log/0", f"put_if_absent:{TIMELINE}/20"))
    with pytest.raises(Crash):
        table_of(late, clock, "late").ingest(rows(("k0", "p0", 4, 4, None)))
    clock.advance_ms(EXPIRY_MS + 1_000)
    second = table_of(storage, clock, "second")
    state = second._session.loader.load()
    assert planned not in state.log.instants, "its slot is not in the part that was read"
    assert not has_foreign_writers(storage, second._session.commits, state)
    second.recover()
    assert by_key(second) == {"k0": 4}, "the decided write is finished, not voided"
    # A plan of another program is such a sign.
    clock.advance_ms(10_000)
    storage.put(f"{TIMELINE}/{instant_of_ms(clock.now_ms())}.compaction.requested", b"")
    assert has_foreign_writers(storage, second._session.commits, second._session.loader.load())
