"""The interleavings of index builds with other actors, one test each: no row is lost for an index, and no write fails.

The numbers are those of the protocol's list of index builds (docs/protocol §18).
"""

from __future__ import annotations

import contextlib

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.table import METADATA_PARTITIONS_INFLIGHT
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Busy, Cancelled, Conflict
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition
from hudi_ops.metadata.writer.begin import Beginning, begin_partition
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.filling.catch_up import CatchUp
from hudi_ops.services.indexing.run import execute_build
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import LATER, faults_of, make_table, table_of
from tests.services.indexing.built import (
    EVERY,
    FOREIGN,
    KEYS,
    MORE,
    At,
    Moves,
    beside,
    build,
    cancel_build,
    execute,
    foreign_ends,
    foreign_writer,
    late,
    operations,
    plan_build,
    silent_write,
    slots,
    ticking,
    whole,
)
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, WITH_METADATA, rows

INIT = "00000000000000004"
"""Instant at which Apache Hudi begins a partition of the metadata table."""


def test_01_a_writer_that_does_not_know_the_announcement_completes_after_the_scan() -> None:
    """It reads the properties before the announcement, and completes after it: its delta commit lacks the partitions."""

    def stale(storage: MemoryStorage, clock: ManualClock) -> None:
        assert load_config(storage).metadata_partitions_inflight == KEYS
        silent_write(storage, clock, MORE)

    storage, clock, done = beside(WITH_METADATA, KEYS, 3, stale, before=8)
    assert done.rounds >= 1
    whole(storage, clock)


@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ], ids=lambda one: one.table_type)
def test_02_a_writer_in_flight_before_the_plan_completes_after_the_build(definition, monkeypatch) -> None:
    from hudi_ops.commit.decide import completion

    clock = ticking()
    storage = make_table(definition).copy(clock)
    decide = completion._decide_once_started

    def later(*given):
        monkeypatch.setattr(completion, "_decide_once_started", decide)
        build(storage, clock, EVERY)
        return decide(*given)

    monkeypatch.setattr(completion, "_decide_once_started", later)
    table_of(storage, clock, "writer").ingest(MORE)
    whole(storage, clock, EVERY)


def test_03_a_foreign_writer_that_died_is_waited_for_until_its_heartbeat_expires() -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    own, storage._clock = storage._clock, ManualClock(NOW_MS - EXPIRY_MS + 30_000)
    foreign_writer(storage, clock)
    storage._clock = own
    started_ms = clock.now_ms()
    build(storage, clock)
    assert 25_000 <= clock.now_ms() - started_ms < 40_000
    whole(storage, clock)


def test_04_a_foreign_writer_that_is_rolled_back_is_not_waited_for_any_longer(monkeypatch) -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    foreign_writer(storage, clock)
    sleep, slept = clock.sleep_s, []

    def sleeps(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            foreign_ends(storage)
        sleep(seconds)

    monkeypatch.setattr(clock, "sleep_s", sleeps)
    build(storage, clock)
    assert len(slept) == 3
    whole(storage, clock)


def test_05_a_clean_that_is_pending_before_the_plan_completes_during_catch_up() -> None:
    base = make_table(WITH_METADATA)
    clock = ticking()
    storage = base.copy(clock)
    table = table_of(storage, clock, "cleaner")
    assert table.clean.plan(retain=1).instant is not None
    made = storage
    at = slots(operations(made, ticking(), lambda one: build(one, late())))[3]
    clock = late()
    storage = made.copy(clock)
    plan = At(at - 3, lambda: table_of(storage, clock, "cleaner").clean.execute())
    build(FaultyStorage(storage, plan), clock)
    assert plan.fired
    assert table_of(storage, clock, "reader").clean.plan(retain=1, dry_run=True).planned == ()
    whole(storage, clock)


def test_07_two_indexers_of_one_index() -> None:
    def second(storage: MemoryStorage, clock: ManualClock) -> None:
        with pytest.raises(Busy, match=r"simulated-builder.* builds bloom_filters"):
            build(storage, clock, ("bloom_filters",), "second")

    whole(*beside(WITH_METADATA, KEYS, 3, second)[:2])


def test_08_two_builds_of_different_indexes_run_one_after_the_other() -> None:
    planned: list[str] = []

    def second(storage: MemoryStorage, clock: ManualClock) -> None:
        planned.append(plan_build(storage, clock, ("record_index",)))
        with pytest.raises(Busy, match="builds the metadata table"):
            execute(storage, clock, planned[0], "second")

    storage, clock, _ = beside(WITH_METADATA, ("bloom_filters",), 2, second, before=8)
    assert load_config(storage).metadata_partitions_inflight == ()
    execute(storage, clock, planned[0], "second")
    whole(storage, clock)


def test_09_an_abort_while_a_writer_carries_the_partitions(monkeypatch) -> None:
    from hudi_ops.commit.decide import completion
    from hudi_ops.commit.decide.cancel import CancelReason
    from hudi_ops.services.cancel.abort import cancel

    base = make_table(WITH_METADATA)
    clock = ticking()
    storage = base.copy(clock)
    plan = plan_build(storage, clock)
    history = operations(storage, late(), lambda one: execute(one, late()))
    clock = late()
    decide = completion._decide_once_started

    def later(*given):
        monkeypatch.setattr(completion, "_decide_once_started", decide)
        cancel(table_of(storage, clock, "user")._session, plan, CancelReason("asked for", "request"))
        return decide(*given)

    def writes() -> None:
        monkeypatch.setattr(completion, "_decide_once_started", later)
        table_of(storage, clock, "writer").ingest(MORE)

    storage = storage.copy(clock)
    from hudi_ops.errors import Cancelled

    with pytest.raises(Cancelled):
        execute(FaultyStorage(storage, At(slots(history)[2] - 3, writes)), clock)
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "other").recover()
    assert load_config(storage).all_metadata_partitions == ("column_stats", "files", "partition_stats")
    assert faults_of(storage, clock) == []
    build(storage, clock)
    whole(storage, clock)


@pytest.mark.parametrize("nth", [2, 3, 4], ids=["announcement", "completion", "listing"])
def test_10_a_property_is_set_at_each_decision_of_the_build(nth: int) -> None:
    """A build whose settings change stops; the next call goes on."""
    tables: list[tuple[MemoryStorage, ManualClock]] = []

    def sets(storage: MemoryStorage, clock: ManualClock) -> None:
        tables.append((storage, clock))
        set_properties(storage, {"hoodie.table.comment": "changed"})

    with contextlib.suppress(Conflict):
        beside(WITH_METADATA, KEYS, nth, sets)
    storage, clock = tables[-1]
    build(storage, clock, actor="second")
    whole(storage, clock)


@pytest.mark.parametrize("nth", [2, 3, 4], ids=["announcement", "completion", "listing"])
def test_11_the_metadata_table_is_compacted_at_each_decision_of_the_build(nth: int) -> None:
    def compacts(storage: MemoryStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "writer").ingest(MORE)
        assert table_of(storage, clock, "compactor").metadata.compact().instant is not None

    storage, clock, _ = beside(WITH_METADATA, KEYS, nth, compacts)
    whole(storage, clock)


@pytest.mark.parametrize("before", [2, 40])
def test_12_instants_of_catch_up_are_archived(before: int) -> None:
    def archives(storage: MemoryStorage, clock: ManualClock) -> None:
        table = table_of(storage, clock, "archiver")
        for number in range(4):
            table.ingest(rows((f"a{number}", "p0", number, 7, None)))
        table.archive.run(keep_min=1, keep_max=1)

    storage, clock, _ = beside(WITH_METADATA, KEYS, 2, archives, before=before)
    whole(storage, clock)


@pytest.mark.parametrize("operation", ["upsert", "delete", "insert_overwrite"])
def test_13_completions_come_in_another_order_than_requests(operation: str, monkeypatch) -> None:
    """A writer was requested before the build; a later one completes first, during the build; then the first one."""
    from hudi_ops.commit.decide import completion

    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    decide = completion._decide_once_started
    at = slots(operations(storage, ticking(), lambda one: build(one, ticking())))[2]

    def later(*given):
        monkeypatch.setattr(completion, "_decide_once_started", decide)
        meanwhile = At(at - 4, lambda: table_of(storage, clock, "second").ingest(LATER))
        build(FaultyStorage(storage, meanwhile), clock)
        return decide(*given)

    monkeypatch.setattr(completion, "_decide_once_started", later)
    table_of(storage, clock, "writer").ingest(rows(("n1", "p1", 77, 8, None)), operation)
    whole(storage, clock)


def test_14_a_build_that_times_out_stays_announced_and_goes_on_later() -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    foreign_writer(storage, clock)
    table = table_of(storage, clock, "builder")
    with pytest.raises(Conflict, match=f"waits for commit {FOREIGN}") as refused:
        table.indexing.run(partitions=KEYS, timeout_s=5)
    assert refused.value.details["timed_out"]
    assert load_config(storage).metadata_partitions_inflight == KEYS
    foreign_ends(storage)
    assert table_of(storage, clock, "second").indexing.run(partitions=KEYS).partitions == KEYS
    whole(storage, clock)


def test_14b_a_build_that_times_out_is_removed_if_the_caller_says_so() -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    foreign_writer(storage, clock)
    table = table_of(storage, clock, "builder")
    with pytest.raises(Conflict, match="the build was removed"):
        table.indexing.run(partitions=KEYS, timeout_s=5, on_timeout="abort")
    assert load_config(storage).all_metadata_partitions == ("column_stats", "files", "partition_stats")
    foreign_ends(storage)
    build(storage, clock)
    whole(storage, clock)


def test_15_a_partition_that_a_foreign_writer_lists_during_catch_up_is_left_to_it() -> None:
    """Its groups are others than the build's, so nothing may be added to them by the build's count."""
    storage, clock = _announced_beside_a_gap()
    theirs = _lists_record_index(storage)
    done = execute(storage, clock, actor="second")
    assert done.partitions == KEYS
    assert {info.path for info in storage.list(f"{FOLDER}/record_index")} == theirs
    assert {*KEYS} <= {*load_config(storage).metadata_partitions}
    found = verify_table(storage, deep=True, index=True, clock=clock).errors
    assert {one.invariant for one in found} == {"metadata-record-index"}, "the groups of this foreign writer are empty"


def test_15b_a_partition_that_a_foreign_writer_lists_beside_a_put_delta_stops_the_build_once(monkeypatch) -> None:
    storage, clock = _announced_beside_a_gap()
    add, theirs = CatchUp.add, set()

    def added(self: CatchUp) -> None:
        add(self)
        if self.delta is not None and not theirs:
            theirs.update(_lists_record_index(storage))

    monkeypatch.setattr(CatchUp, "add", added)
    with pytest.raises(Conflict, match="built record_index of the metadata table while catch-up added to it"):
        execute(storage, clock, actor="second")
    assert theirs
    clock.advance_ms(EXPIRY_MS + 1_000)
    assert execute(storage, clock, actor="third").partitions == KEYS
    assert {info.path for info in storage.list(f"{FOLDER}/record_index")} == theirs


@pytest.mark.parametrize("call", ["execute", "run"])
def test_15c_a_plan_of_a_partition_that_a_foreign_writer_built_makes_way_for_the_others(call: str) -> None:
    """It is removed: no execution could ever end it, and it would keep later plans from its partitions."""
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    plan = plan_build(storage, clock)
    theirs = _lists_record_index(storage, others="")
    if call == "execute":
        with pytest.raises(Conflict, match="has built record_index; the plan was removed"):
            execute(storage, clock)
        assert table_of(storage, clock, "second").indexing.plan(partitions=["bloom_filters"]).instant is not None
    else:
        done = table_of(storage, clock, "second").indexing.run(partitions=KEYS)
        assert done.partitions == ("bloom_filters",)
        assert {*KEYS} <= {*load_config(storage).metadata_partitions}
    assert load_timeline(storage, load_config(storage)).find(plan) is None
    assert {info.path for info in storage.list(f"{FOLDER}/record_index")} == theirs


def _announced_beside_a_gap() -> tuple[MemoryStorage, ManualClock]:
    """A table whose build died after its announcement; it lacks a write that completed right before that."""
    base = make_table(WITH_METADATA).copy(ticking())
    plan_build(base, ticking())
    slot = slots(operations(base, late(), lambda one: execute(one, late())))
    clock = late()
    storage = base.copy(clock)
    moves = {slot[1] - 8: lambda: table_of(storage, clock, "gap").ingest(MORE), slot[1] + 12: None}
    with contextlib.suppress(Crash):
        execute(FaultyStorage(storage, Moves(moves)), clock)
    assert load_config(storage).metadata_partitions_inflight == KEYS
    clock.advance_ms(EXPIRY_MS + 1_000)
    return storage, clock


def _lists_record_index(storage: MemoryStorage, others: str = "bloom_filters") -> set[str]:
    """As a writer of Apache Hudi does it that names the index: it deletes the folder, makes groups of its own, and lists it.

    `others` are the partitions that stay announced.
    """
    for info in storage.list(f"{FOLDER}/record_index"):
        storage.delete(info.path)
    begin_partition(storage, 9, Beginning(MetadataPartition.RECORD_INDEX, INIT, completion_time=INIT, groups=3), NOW_MS)
    listed = (*load_config(storage).metadata_partitions, "record_index")
    names = {"hoodie.table.metadata.partitions": ",".join(listed), METADATA_PARTITIONS_INFLIGHT: others}
    set_properties(storage, names)
    return {info.path for info in storage.list(f"{FOLDER}/record_index")}


@pytest.mark.parametrize("nth", range(5), ids=["plan", "takeover", "announcement", "completion", "listing"])
@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ], ids=lambda one: one.table_type)
def test_16_a_writer_joins_right_before_each_decision(definition, nth: int) -> None:
    """Writers of ours wait for the lock, so the move is made before the operation that takes it."""

    def joins(storage: MemoryStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "joins").ingest(MORE)
        table_of(storage, clock, "joins").ingest(rows(("n1", "p1", 0, 9, None)), "delete")

    storage, clock, _ = beside(definition, EVERY, nth, joins)
    whole(storage, clock, EVERY)


@pytest.mark.parametrize("ends", ["cancel", "stop"])
def test_17_a_build_that_waits_for_a_foreign_writer_ends_at_once(ends: str, monkeypatch) -> None:
    """It is cancelled, or its process is asked to stop, long before the heartbeat of that writer expires."""
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    foreign_writer(storage, clock)
    plan = plan_build(storage, clock)
    sleep, slept = clock.sleep_s, []

    def sleeps(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3 and ends == "cancel":
            cancel_build(storage, clock, plan)
        sleep(seconds)

    def told(progress: Progress) -> None:
        if ends == "stop" and progress.what == "foreign writers that ended":
            raise Cancelled("stopped on request", next_step="run it again")

    monkeypatch.setattr(clock, "sleep_s", sleeps)
    with pytest.raises(Cancelled):
        execute_build(table_of(storage, clock, "executor")._session, plan, Execution("local", progress=told))
    assert len(slept) <= 6
    assert load_config(storage).metadata_partitions_inflight == (KEYS if ends == "stop" else ())


def test_18_a_partition_without_files() -> None:
    clock = ticking()
    storage = make_table(DEFINITION).copy(clock)
    table = table_of(storage, clock, "remover")
    table.delete_partition(["part=p1"])
    build(storage, clock, EVERY)
    whole(storage, clock, EVERY)
