"""The five error cases of RFC-45 and its example timeline, each judged by `verify --index` and the rows."""

from __future__ import annotations

import contextlib

import pytest

from hudi_ops.commit.decide import completion
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.plans import IndexPlan, read_plan
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.metadata_table import make_table, read_rows, table_of
from tests.services.indexing.built import (
    KEYS,
    MORE,
    At,
    build,
    execute,
    late,
    operations,
    plan_build,
    slots,
    ticking,
    whole,
)
from tests.tables import MERGE_ON_READ, TIMELINE, WITH_METADATA, rows

LOGS = MERGE_ON_READ
EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")
DECIDE = "_decide_once_started"
"""Name of the function of `completion` that decides a write."""


def upto(storage: MemoryStorage, instant: str) -> str:
    """The instant up to which a plan indexes."""
    timeline = load_timeline(storage, load_config(storage))
    found = timeline.find(instant, "indexing")
    assert found is not None
    plan = read_plan(storage, timeline, found)
    assert isinstance(plan, IndexPlan)
    (instants,) = ({one for _, one in plan.partitions},)
    assert len(instants) == 1
    return instants.pop()


def same(clock: ManualClock) -> ManualClock:
    """Another clock that shows the same time."""
    return ManualClock(clock.now_ms(), tick_ms=1)


def before_decision(patch: pytest.MonkeyPatch, move) -> None:
    """Make a move when the next writer has written its files, right before it decides."""
    decide = getattr(completion, DECIDE)

    def later(*given):
        patch.setattr(completion, DECIDE, decide)
        move()
        return decide(*given)

    patch.setattr(completion, DECIDE, later)


@pytest.mark.parametrize("definition", [WITH_METADATA, LOGS], ids=lambda one: one.table_type)
def test_case_1_the_writer_fails_while_the_indexer_is_inflight(definition) -> None:
    """The indexer goes on without the failed write, whose rollback takes its part of the index along."""
    names = KEYS if definition is WITH_METADATA else EVERY
    base = make_table(definition)
    trial = FaultyStorage(base.copy(ticking()))
    table_of(trial, ticking(), "writer").ingest(MORE)
    died_at = max(
        number for number, one in enumerate(trial.history, 1) if one.startswith("put_if_absent:.hoodie/.commit")
    )
    at = slots(operations(base, ticking(), lambda one: build(one, ticking(), names)))[3]
    clock = ticking()
    storage = base.copy(clock)

    def fails() -> None:
        with contextlib.suppress(Crash):
            writer = FaultyStorage(storage, FaultPlan.at(died_at, Fault.CRASH_BEFORE))
            table_of(writer, clock, "writer").ingest(MORE)

    plan = At(at - 3, fails)
    build(FaultyStorage(storage, plan), clock, names)
    assert plan.fired
    before = read_rows(storage, clock)
    assert "more" not in before
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "next").recover()
    assert read_rows(storage, clock) == before
    whole(storage, clock, names)


@pytest.mark.parametrize("definition", [WITH_METADATA, LOGS], ids=lambda one: one.table_type)
def test_case_2_the_indexer_fails_while_a_writer_is_inflight(definition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer adds to the announced index, which no reader uses; the indexer that is started again goes on."""
    names = KEYS if definition is WITH_METADATA else EVERY
    clock = ticking()
    storage = make_table(definition).copy(clock)
    history = operations(storage, ticking(), lambda one: build(one, ticking(), names))

    def indexer_dies() -> None:
        plan = FaultPlan.at(slots(history)[3], Fault.CRASH_BEFORE)
        with contextlib.suppress(Crash):
            build(FaultyStorage(storage, plan), clock, names)
        assert {*names} <= {*load_config(storage).metadata_partitions_inflight}

    before_decision(monkeypatch, indexer_dies)
    table_of(storage, clock, "writer").ingest(MORE)
    assert not {*KEYS} & {*load_config(storage).metadata_partitions}
    clock.advance_ms(EXPIRY_MS + 1_000)
    assert build(storage, clock, names, "again").partitions
    whole(storage, clock, names)


def test_case_3a_a_writer_begins_after_the_request_and_before_the_execution() -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    plan_build(storage, clock)
    table_of(storage, clock, "writer").ingest(MORE)
    execute(storage, clock)
    whole(storage, clock)


def test_case_3b_a_writer_that_began_without_the_index_commits_after_its_completion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    before_decision(monkeypatch, lambda: build(storage, clock))
    table_of(storage, clock, "writer").ingest(MORE)
    assert read_rows(storage, clock)["more"] == 502
    whole(storage, clock)


@pytest.mark.parametrize("group", [0, 5, 9])
def test_case_3c_a_writer_commits_while_the_file_groups_are_created(group: int) -> None:
    """It sees some of the groups of a record index; it adds to all of them, or to none."""
    base = make_table(WITH_METADATA)
    history = operations(base, ticking(), lambda one: build(one, ticking()))
    at = next(number for number, one in enumerate(history, 1) if f"record-index-000{group}" in one and "put" in one)
    clock = ticking()
    storage = base.copy(clock)
    plan = At(at, lambda: table_of(storage, clock, "writer").ingest(MORE))
    build(FaultyStorage(storage, plan), clock)
    assert plan.fired
    whole(storage, clock)


def test_case_4_table_services_run_beside_the_build() -> None:
    """A compaction and a clean complete while the index is announced; the metadata table is compacted once it is listed."""
    clock = ticking()
    storage = make_table(LOGS).copy(clock)
    table = table_of(storage, clock, "planner")
    assert table.compaction.plan(threshold=1).instant is not None
    at = slots(operations(storage, late(), lambda one: build(one, late(), EVERY)))[3]
    clock = late()
    storage = storage.copy(clock)

    def services() -> None:
        served = table_of(storage, clock, "services")
        assert served.compaction.execute().completion_time
        table_of(storage, clock, "writer").ingest(MORE)
        served.clean.run(retain=1)
        assert served.metadata.compact().instant is None, "all partitions are announced"

    plan = At(at - 3, services)
    build(FaultyStorage(storage, plan), clock, EVERY)
    assert plan.fired
    whole(storage, clock, EVERY)
    assert table_of(storage, clock, "later").metadata.compact().instant is not None
    whole(storage, clock, EVERY)


def test_case_5_a_hole_in_the_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan indexes up to the last completed instant before the hole; what fills the hole is caught up with."""
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    newest = table_of(storage, clock, "x")._session.loader.load().timeline.completed_writes[-1].time
    planned: list[str] = []

    def others() -> None:
        table_of(storage, clock, "second").ingest(rows(("six", "p3", 6, 6, None)))
        planned.append(plan_build(storage, clock))
        assert upto(storage, planned[0]) == newest
        execute(storage, clock, planned[0])

    before_decision(monkeypatch, others)
    table_of(storage, clock, "hole").ingest(rows(("five", "p4", 5, 5, None)))
    assert {"five": 5, "six": 6}.items() <= read_rows(storage, clock).items()
    whole(storage, clock)


def test_the_example_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """DC1 DC2 DC3 complete, CLEAN4 inflight, DC5 DC6 complete, COMPACT7 requested, DC8 inflight, INDEXING9, DC10.

    The plan indexes up to DC3: in this design a pending clean is a hole as well. CLEAN4, COMPACT7, DC8 and DC10 are caught up with.
    """
    clock = ticking()
    storage = make_table(LOGS).copy(clock)
    table = table_of(storage, clock, "planner")
    table.compaction.run(threshold=1)
    table.ingest(rows(("k0", "p0", 300, 5, None)))
    table.compaction.run(threshold=1)
    clean = table.clean.plan(retain=1)
    assert clean.instant is not None
    before = table._session.loader.load().timeline.completed_writes[-1].time
    table.ingest(rows(("dc5", "p0", 5, 5, None)))
    table.ingest(rows(("dc6", "p1", 6, 6, None)))
    assert table.compaction.plan(threshold=1).instant is not None

    def indexing() -> None:
        instant = plan_build(storage, clock, EVERY)
        assert upto(storage, instant) <= before
        history = operations(storage, same(clock), lambda one: execute(one, same(clock), instant))

        def ends() -> None:
            others = table_of(storage, clock, "others")
            others.clean.execute(instant=clean.instant)
            others.compaction.execute()
            others.ingest(rows(("dc10", "p2", 10, 10, None)))

        plan = At(slots(history)[2] - 3, ends)
        done = execute(FaultyStorage(storage, plan), clock, instant)
        assert plan.fired
        assert sum(done.verdicts.values()) >= 1

    before_decision(monkeypatch, indexing)
    table_of(storage, clock, "dc8").ingest(rows(("dc8", "p3", 8, 8, None)))
    assert {"dc5": 5, "dc6": 6, "dc8": 8, "dc10": 10}.items() <= read_rows(storage, clock).items()
    whole(storage, clock, EVERY)


def test_a_result_counts_the_verdicts() -> None:
    """A writer completes after the announcement, and carried the partitions."""
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    planned = plan_build(storage, clock)
    history = operations(storage, late(), lambda one: execute(one, late(), planned))
    clock = late()
    storage = storage.copy(clock)
    plan = At(slots(history)[2] - 3, lambda: table_of(storage, clock, "writer").ingest(MORE))
    assert execute(FaultyStorage(storage, plan), clock, planned).verdicts == {"carried": 1}
    whole(storage, clock)


def test_a_plan_warns_where_apache_hudi_writes_and_the_lock_is_of_one_process() -> None:
    """The RFC requires a lock that all writers share."""
    storage = make_table(WITH_METADATA)
    explained = table_of(storage, ticking(), "user").indexing.explain(partitions=KEYS)
    assert "Apache Hudi" not in explained.note
    storage.put(f"{TIMELINE}/20300317174740500_20300317174740600.commit", b"{}")
    explained = table_of(storage, ticking(), "user").indexing.explain(partitions=KEYS)
    assert "the lock of this process does not exclude it" in explained.note
