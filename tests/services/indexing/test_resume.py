"""What an executor of an index build left is used by the next one: after the announcement nothing is built again."""

from __future__ import annotations

import contextlib

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, list_leases, take_lease
from hudi_ops.errors import Busy, Cancelled, Conflict, Corrupt
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.services.indexing import execute as indexing_execute
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.builds import checkpoint as build_checkpoint
from hudi_ops.timeline.settings.properties_file import load_config
from tests.bounds import bound
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.scenarios.actors import Recovers, Writes
from tests.protocol.scenarios.between import clock_of, context
from tests.protocol.scenarios.builds import ExecutesBuild, planned_listed
from tests.protocol.scenarios.indexed_hudi import HudiWritesLate
from tests.protocol.scenarios.worlds import UPSERT_A, Job, at
from tests.services.indexing.built import (
    EVERY,
    KEYS,
    MORE,
    VALUES,
    Moves,
    announced_at,
    execute,
    index_faults,
    plan_build,
    strays,
    whole,
)
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, WITH_METADATA, rows

STEP = bound(3, 1, 1)
SLEEPS_EVERY = bound(25, 8, 1)
"""Interval of the operations before which an executor sleeps."""
OTHER = rows(("k0", "p0", 11, 5, None), ("other", "p4", 4, 5, None))


def data_reads(history: list[str]) -> list[str]:
    """Reads of data files among the operations of a run."""
    return [one for one in history if one.startswith(("open_input:p", "get:p")) and ".hoodie" not in one]


def died(base: MemoryStorage, number: int) -> MemoryStorage:
    """The table after an executor that died before an operation."""
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
    storage = base.copy(clock)
    with contextlib.suppress(Crash):
        execute(FaultyStorage(storage, FaultPlan.at(number, Fault.CRASH_BEFORE)), clock)
    return storage


def planned(definition, names=KEYS) -> tuple[MemoryStorage, list[str]]:
    """A table with the plan of a build, and the operations of its execution."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    base = make_table(definition).copy(clock)
    plan_build(base, clock, names)
    trial = FaultyStorage(base.copy(ManualClock(NOW_MS + 1_000, tick_ms=1)))
    execute(trial, ManualClock(NOW_MS + 1_000, tick_ms=1))
    return base, list(trial.history)


@pytest.mark.parametrize(
    ("definition", "names"),
    [(WITH_METADATA, KEYS), (DEFINITION, EVERY), (MERGE_ON_READ, EVERY), (MERGE_ON_READ, VALUES)],
    ids=["two", "all", "logs", "a secondary index"],
)
def test_a_build_that_died_after_its_announcement_reads_no_file_again(definition, names) -> None:
    base, history = planned(definition, names)
    assert data_reads(history)
    resumed = 0
    for number in range(announced_at(history) + 1, len(history) + 1, STEP):
        storage = died(base, number)
        before = {info.path for info in storage.list(FOLDER) if ".hfile" in info.name}
        clock = ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1)
        table_of(storage, clock, "recovers").recover()
        if {*names} <= {*load_config(storage).metadata_partitions}:
            continue
        resumed += 1
        second = FaultyStorage(storage)
        execute(second, clock, actor="second")
        story = f"died before operation {number}, {history[number - 1]}"
        assert data_reads(list(second.history)) == [], story
        assert {info.path for info in storage.list(FOLDER) if ".hfile" in info.name} == before, story
        assert {*names} <= {*load_config(storage).metadata_partitions}, story
        assert storage.list(build_checkpoint.FOLDER) == [], story
        assert faults_of(storage, clock) == [], story
    assert resumed >= 3


@pytest.mark.parametrize("operation", ["upsert", "delete", "insert_overwrite"])
@pytest.mark.parametrize("definition", [WITH_METADATA, MERGE_ON_READ], ids=lambda one: one.table_type)
def test_what_completed_while_no_executor_lived_is_read_alone(definition, operation: str) -> None:
    """One write did not know the announcement; another one, after the death, carries the partitions."""
    names = KEYS if definition is WITH_METADATA else (*EVERY, "secondary_index_value")
    clock = ManualClock(NOW_MS, tick_ms=1)
    base = make_table(definition).copy(clock)
    plan_build(base, clock, names)
    trial = FaultyStorage(base.copy(ManualClock(NOW_MS + 1_000, tick_ms=1)))
    execute(trial, ManualClock(NOW_MS + 1_000, tick_ms=1))
    slot = [
        number for number, one in enumerate(trial.history, 1) if one.startswith("put_if_absent:.hoodie/.commit_log/0")
    ]
    assert len(slot) == 4, "takeover, announcement, completion, listing"
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
    storage = base.copy(clock)
    # The write completes right before the announcement, after the last snapshot.
    plan = Moves({slot[1] - 6: lambda: table_of(storage, clock, "gap").ingest(OTHER, operation), slot[2]: None})
    with contextlib.suppress(Crash):
        execute(FaultyStorage(storage, plan), clock)
    assert {*names} <= {*load_config(storage).metadata_partitions_inflight}
    clock = ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1)
    table_of(storage, clock, "writer").ingest(LATER)
    found = read_rows(storage, clock)
    second = FaultyStorage(storage)
    execute(second, clock, actor="second")
    written = {info.path for info in storage.list() if not info.path.startswith(".")} - {
        info.path for info in base.list() if not info.path.startswith(".")
    }
    read = {one.partition(":")[2] for one in data_reads(list(second.history))}
    before = {info.path for info in base.list() if not info.path.startswith(".")}
    if operation == "upsert" and definition is WITH_METADATA:
        # Keys of the slices that changed are compared with those before.
        assert read & written
        assert len(read & before) < len(before)
    assert read_rows(storage, clock) == found
    assert faults_of(storage, clock) == []


@pytest.mark.full("repeats what quick proves with a like case")
@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("operation", ["upsert", "delete"])
@pytest.mark.parametrize("definition", [WITH_METADATA, MERGE_ON_READ], ids=lambda one: one.table_type)
def test_a_death_amid_catch_up_loses_nothing(definition, operation: str) -> None:
    """A write completes between the last snapshot and the announcement; the executor dies before each later operation."""
    names = KEYS if definition is WITH_METADATA else (*EVERY, "secondary_index_value")
    base, undisturbed = planned(definition, names)
    slot = [number for number, one in enumerate(undisturbed, 1) if "put_if_absent:.hoodie/.commit_log/0" in one]

    def played(dies_at: int | None) -> tuple[MemoryStorage, list[str]]:
        clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
        storage = base.copy(clock)
        moves = {slot[1] - 8: lambda: table_of(storage, clock, "gap").ingest(OTHER, operation)}
        faulty = FaultyStorage(storage, Moves(moves | ({dies_at: None} if dies_at else {})))
        with contextlib.suppress(Crash):
            execute(faulty, clock)
        return storage, list(faulty.history)

    whole, history = played(None)
    assert {*names} <= {*load_config(whole).metadata_partitions}
    began = announced_at(history)
    assert any("/.indexing/" in one for one in history[began:])
    for number in range(began + 1, len(history) + 1, STEP):
        storage, _ = played(number)
        clock = ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1)
        table_of(storage, clock, "recovers").recover()
        if not {*names} <= {*load_config(storage).metadata_partitions}:
            execute(storage, clock, actor="second")
        story = f"died before operation {number}, {history[number - 1]}"
        assert faults_of(storage, clock) == [], story
        assert {*names} <= {*load_config(storage).metadata_partitions}, story


@pytest.mark.parametrize("is_carried", [True, False], ids=["carried", "missing"])
def test_a_key_that_was_inserted_and_deleted_beside_a_build_that_died_leaves_the_index(is_carried: bool) -> None:
    """Apache Hudi deletes what a write inserted: after the announcement, or after the death what was inserted before it.

    What counts of the dead executor's catch-up must not be taken for missing, nor what does not count for done.
    """
    base = planned_listed()
    deletes = HudiWritesLate("theirs", Job("delete", (("a3", 0),)))

    def played(dies_at: int | None, inserts_at: int) -> tuple[MemoryStorage, list[str]]:
        storage = at(base, NOW_MS)

        def meanwhile() -> None:
            Writes(UPSERT_A)(context(storage, "one"))
            if is_carried:
                assert deletes(context(storage, "theirs")) is not None

        faulty = FaultyStorage(storage, Moves({inserts_at: meanwhile} | ({dies_at: None} if dies_at else {})))
        with contextlib.suppress(Crash):
            ExecutesBuild()(simulated_context(faulty, clock_of(storage), "two"))
        return storage, list(faulty.history)

    history = played(None, 10**9)[1]
    slot = [at for at, one in enumerate(history, 1) if one.startswith("put_if_absent:.hoodie/.commit_log/0")][1]
    inserts_at = announced_at(history) + 2 if is_carried else slot - 8
    undisturbed, history = played(None, inserts_at)
    assert index_faults(undisturbed) == []
    assert any(one.startswith("put:.hoodie/metadata/record_index/") for one in history[announced_at(history) :])
    for number in range(announced_at(history) + 3, len(history) + 1, STEP):
        storage = played(number, inserts_at)[0]
        if not is_carried:
            deletes(context(storage, "theirs"))
        storage = at(storage, NOW_MS + EXPIRY_MS + 60_000)
        Recovers()(context(storage, "recovers"))
        if not {*KEYS} <= {*load_config(storage).metadata_partitions}:
            ExecutesBuild()(context(storage, "second"))
        assert index_faults(storage) == [], f"died before operation {number}, {history[number - 1]}"


@pytest.mark.parametrize(
    ("definition", "names"), [(WITH_METADATA, KEYS), (MERGE_ON_READ, VALUES)], ids=["keys", "a secondary index"]
)
@pytest.mark.parametrize("ends", ["taken over", "cancelled"])
def test_an_executor_that_slept_removes_what_it_puts_after_others_went_on(ends: str, definition, names) -> None:
    """It sleeps before each of its operations, from its first file to its COMPLETE, while a successor builds the partitions."""
    base, undisturbed = planned(definition, names)
    gap = [number for number, one in enumerate(undisturbed, 1) if "put_if_absent:.hoodie/.commit_log/0" in one][1] - 8

    def played(sleeps_at: int | None) -> tuple[MemoryStorage, ManualClock, list[str]]:
        clock = ManualClock(NOW_MS + 1_000, tick_ms=1)
        storage = base.copy(clock)

        def others_go_on() -> None:
            clock.advance_ms(EXPIRY_MS + 60_000)
            table = table_of(storage, clock, "other")
            if ends == "cancelled":
                (plan,) = [one.instant for one in table.plans()]
                table.cancel(plan, reason="asleep", force=True)
                table.ingest(MORE)
                plan_build(storage, clock, names)
            execute(storage, clock, actor="second")

        moves = {gap: lambda: table_of(storage, clock, "gap").ingest(OTHER)}
        sleeper = FaultyStorage(storage, Moves(moves | ({sleeps_at: others_go_on} if sleeps_at else {})))
        with contextlib.suppress(*((Cancelled, Conflict) if sleeps_at else ())):
            done = execute(sleeper, clock)
            assert sleeps_at is None or "completed it first" in done.note, f"slept before operation {sleeps_at}"
        return storage, clock, list(sleeper.history)

    history = played(None)[2]
    first = next(at for at, one in enumerate(history, 1) if one.startswith("put_if_absent:.hoodie/metadata/"))
    complete = [at for at, one in enumerate(history, 1) if "put_if_absent:.hoodie/.commit_log/0" in one][2]
    numbers = {number for number in range(first - 3, complete) if number != gap}
    deltas = {at for at, one in enumerate(history, 1) if ".deltacommit" in one and "put" in one}
    # Right before its last delta counts it has seen that no other process undid it.
    chosen = {*sorted(numbers)[::SLEEPS_EVERY], max(deltas & numbers) - 2}
    for number in sorted(chosen | (deltas & numbers if SLEEPS_EVERY < 25 else set())):
        storage, clock, _ = played(number)
        story = f"slept before operation {number}, {history[number - 1]}"
        assert faults_of(storage, clock) == [], story
        assert strays(storage) == [], story
        whole(storage, clock, names)


def test_a_torn_checkpoint_is_refused_and_the_build_can_be_cancelled() -> None:
    base, history = planned(WITH_METADATA)
    storage = died(base, announced_at(history) + 2)
    (checkpoint,) = storage.list(build_checkpoint.FOLDER)
    storage.put(checkpoint.path, b'{"plan": "2')
    clock = ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1)
    before = {info.path for info in storage.list(FOLDER)}
    with pytest.raises(Corrupt, match="not the checkpoint of an index build") as refused:
        execute(storage, clock, actor="second")
    assert "hudi-ops cancel" in refused.value.next_step
    assert {info.path for info in storage.list(FOLDER)} == before
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = table_of(storage, clock, "canceller")
    (plan,) = [one.instant for one in table.plans()]
    table.cancel(plan, reason="torn", force=True)
    assert storage.list(build_checkpoint.FOLDER) == []
    assert load_config(storage).metadata_partitions_inflight == ()
    assert table.indexing.run(partitions=list(KEYS)).partitions == KEYS
    assert faults_of(storage, clock) == []


def test_a_lease_that_lands_late_on_the_instant_of_an_ended_build_removes_no_file() -> None:
    """A writer could not put its lease, took another instant, and a build took the first; then the put landed."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(WITH_METADATA).copy(clock)
    plan_build(storage, clock)
    done = execute(storage, clock)
    gone = table_of(storage, clock, "gave up").context
    assert done.built_at is not None
    assert take_lease(gone, done.built_at, "write")
    after = ManualClock(NOW_MS + EXPIRY_MS + 60_000, tick_ms=1)
    table_of(storage, after, "recovers").recover()
    assert list_leases(storage) == []
    whole(storage, after)
    table_of(storage, after, "writer").ingest(LATER)
    whole(storage, after)


def test_a_complete_build_that_could_not_be_listed_keeps_its_files_and_the_next_write_lists_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(WITH_METADATA).copy(clock)
    plan_build(storage, clock)

    def busy(session: object) -> None:
        raise Busy("the lock was not free")

    with monkeypatch.context() as patch:
        patch.setattr(indexing_execute, "list_built_indexes", busy)
        with pytest.raises(Busy, match="the lock was not free"):
            execute(storage, clock)
    assert load_config(storage).metadata_partitions_inflight == KEYS
    assert len([info for info in storage.list(".hoodie/timeline") if ".indexing" in info.name]) == 3
    table_of(storage, clock, "writer").ingest(LATER)
    whole(storage, clock)
