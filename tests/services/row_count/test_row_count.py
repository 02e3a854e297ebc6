"""The toy service on the skeleton: planned, executed on both engines, killed, resumed, cancelled, explained, simulated.

Goal: the skeleton carries a kind that is no compaction, and completes with other bytes than a commit's. Method: the same promises
as of compaction, over a table of eight rows in two file groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.engine.spark import SparkEngine
from hudi_ops.errors import Busy, Cancelled, InvalidRequest
from hudi_ops.formats.avro import container as avro
from hudi_ops.services.base.choice import Reason
from hudi_ops.services.base.execute import execute, plan_and_execute
from hudi_ops.services.base.plan import plan, preview
from hudi_ops.services.base.service import Execution
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.testing.simulation import FaultMenu, RunRecord, Simulation, explore
from hudi_ops.testing.steps import Event
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import OLD, assert_whole, make_base
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.services.row_count.row_count import ROW_COUNT
from tests.spark_session import local_spark_engine
from tests.tables import NOW_MS


def session_of(storage: Storage, clock: ManualClock, actor: str) -> Session:
    return Session(simulated_context(storage, clock, actor))


def run(session: Session) -> int:
    return int(plan_and_execute(session, ROW_COUNT, 1, Execution("local")).rows)


def counted(storage: MemoryStorage) -> list[str]:
    """What the completed counts on the timeline say."""
    timeline = timeline_of(storage)
    done = [instant for instant in timeline if instant.kind == "clean" and instant.is_completed]
    return [avro.read_one(storage.get(timeline.path(one.file_name)))["extraMetadata"]["rows"] for one in done]


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    return make_base(tmp_path / "source", second=None)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkEngine]:
    with local_spark_engine("row count") as engine:
        yield engine


def test_it_is_explained_planned_and_executed(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    session = session_of(storage, clock, "first")
    assert preview(session, ROW_COUNT, 1).counts[Reason.PLANNED] == 2
    assert preview(session, ROW_COUNT, 10**9).note.startswith("nothing to count: 2 file groups below")
    planned = plan(session, ROW_COUNT, 1)
    told: list[int] = []
    done = execute(session, ROW_COUNT, planned.instant, Execution("local", progress=lambda one: told.append(one.done)))
    assert (done.rows, done.instant, told, counted(storage)) == (8, planned.instant, [1, 2], ["8"])
    assert execute(session, ROW_COUNT, planned.instant, Execution()).note == "it was completed before"
    assert execute(session, ROW_COUNT, None, Execution()).note == "no clean is planned"
    assert verify_table(storage, deep=True, clock=clock).findings == ()


def test_executors_of_spark_run_it(tmp_path: Path, spark: SparkEngine) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema({"id": pa.int64()}))
    table.ingest(pa.table({"id": [1, 2, 3]}))
    session = Table.open(str(tmp_path / "t"), engine=spark)._session
    done = plan_and_execute(session, ROW_COUNT, 1, Execution("spark"))
    assert (done.rows, done.engine) == (3, "spark")


@pytest.mark.parametrize("fault", [*CRASHES, *ERRORS])
def test_a_run_that_goes_wrong_anywhere_is_resumed(storage: MemoryStorage, fault: Fault) -> None:
    least = 10 if fault is Fault.CRASH_AFTER else 3

    def disturbed(storage: Storage, clock: ManualClock) -> None:
        run(session_of(storage, clock, "first"))

    for left in fault_sweep(storage, disturbed, fault, "a row count", points=20, runs=least):
        left.land()
        second = Session(left.resume())
        if not counted(left.storage):
            assert run(second) == 8, left.story
        recover(session_of(left.storage, left.clock, "third"))
        assert set(counted(left.storage)) == {"8"}, left.story
        assert_whole(left.storage, left.clock, OLD, left.story)


def test_a_cancel_ends_it_for_good(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    first, second = session_of(storage, clock, "first"), session_of(storage, clock, "second")
    instant = plan(first, ROW_COUNT, 1).instant
    assert instant is not None
    with pytest.raises(Cancelled):
        execute(
            first, ROW_COUNT, instant, Execution(progress=lambda one: cancel_write(second, instant, "no more") and None)
        )
    assert timeline_of(storage).find(instant) is None
    with pytest.raises(Cancelled, match="no more"):
        execute(second, ROW_COUNT, instant, Execution())
    with pytest.raises(InvalidRequest, match="no such clean"):
        execute(second, ROW_COUNT, "20200101000000000", Execution())
    assert counted(storage) == []


@pytest.mark.full("searches schedules for many seconds")
def test_no_schedule_of_two_runs_counts_wrongly(storage: MemoryStorage) -> None:
    def scenario() -> Simulation:
        menu = FaultMenu(frozenset({Fault.CRASH_AFTER, Event.LOCK_LOST}), 1)
        simulation = Simulation(storage.copy(), NOW_MS, menu)
        for name in ("one", "two"):
            simulation.actor(name, lambda ctx: run(Session(ctx)))
        return simulation

    def check(history: RunRecord) -> None:
        assert {type(one.error) for one in history.outcomes.values()} <= {type(None), Busy, Crash, Cancelled}
        assert set(counted(history.storage)) <= {"8"}

    for preemptions, faults in ((1, 0), (0, 1)):
        found = explore(scenario, check, preemptions=preemptions, faults=faults, limit=None)
        print(f"two row counts, {preemptions} preemptions, {faults} faults: {found}")
        assert found.schedules >= 20
