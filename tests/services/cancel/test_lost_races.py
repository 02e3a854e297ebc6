"""A plan that loses a race ends in the same way whichever process notices it first, and its executor is told what to do next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Cancelled, Conflict, InvalidRequest
from hudi_ops.services.cancel.errors import AlreadyCommitted, InstantNotFound
from hudi_ops.services.clustering.service import ClusterResult
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.names import instant_of_ms
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import FIRST
from tests.protocol.foreign_table import rollback_plan
from tests.tables import DEFINITION, NOW_MS, TIMELINE, made, rows, table_of

ALL = rows(*((f"k{n}", f"p{n % 2}", 200 + n, 3, None) for n in range(8)))
AMID, BEFORE_THE_SLOT = "put:part=p1", "put:.hoodie/.commit_log/payload"


@pytest.fixture
def storage() -> MemoryStorage:
    return made(DEFINITION, FIRST)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def executed(
    storage: MemoryStorage, clock: ManualClock, plan: str, at: str, move: Callable[[], object]
) -> ClusterResult:
    """What the doors tell of an executor beside which something else moves; `at` is empty: it moves before."""
    if not at:
        move()
    faulty = FaultyStorage(storage, MoveBefore(at, lambda: move() and None)) if at else storage
    api = table_of(faulty, clock, "executor").clustering
    try:
        return api.execute(instant=plan)
    except (Cancelled, Conflict) as error:
        ended = error
    assert "same call" not in ended.next_step, "the plan never completes: the same call would fail again"
    return api.lost(ended)


@pytest.mark.parametrize("at", ["", AMID, BEFORE_THE_SLOT])
@pytest.mark.parametrize("who", ["a write", "another executor", "a person"])
def test_the_end_does_not_hang_on_who_notices_first(
    storage: MemoryStorage, clock: ManualClock, who: str, at: str
) -> None:
    plan = table_of(storage, clock, "planner").clustering.plan(sort_by="value", on_overlap="cancel").instant
    assert plan is not None

    def overtake() -> None:
        clock.advance_ms(EXPIRY_MS + 1_000)
        table_of(storage, clock, "second").clustering.execute(instant=plan)

    moves: dict[str, Callable[[], object]] = {
        "a write": lambda: table_of(storage, clock, "writer").ingest(ALL),
        "another executor": overtake,
        "a person": lambda: table_of(storage, clock, "user").cancel(plan, "not now"),
    }
    if who == "a person":
        with pytest.raises(Cancelled, match="not now") as refused:
            executed(storage, clock, plan, at, moves[who])
        assert "plan again" in refused.value.next_step
        return
    told = executed(storage, clock, plan, at, moves[who])
    assert (told.instant, told.groups) == (plan, 0)
    assert ("completed" in told.note, "plan again" in told.note) == (True, who == "a write")


def test_a_plan_that_a_foreign_writer_rolled_back_is_told_so(storage: MemoryStorage, clock: ManualClock) -> None:
    table = table_of(storage, clock, "planner")
    plan = table.clustering.plan(sort_by="value").instant
    assert plan is not None
    undo = instant_of_ms(clock.now_ms() + 1_000)
    storage.put(f"{TIMELINE}/{undo}.rollback.requested", rollback_plan(plan))
    storage.delete(f"{TIMELINE}/{plan}.clustering.requested")
    with pytest.raises(Cancelled, match=f"the clustering was undone by rollback {undo}") as caught:
        table.clustering.execute(instant=plan)
    assert "plan again" in caught.value.next_step
    assert "Apache Hudi rolls expired plans back" in caught.value.found
    with pytest.raises(InstantNotFound, match=f"undone by rollback {undo}"):
        table.cancel(plan)
    with pytest.raises(InvalidRequest, match="no such plan") as missing:
        table.plans(plan)
    assert missing.value.found == f"rollback {undo}"


def test_cancel_of_a_completed_instant_says_what_it_was(storage: MemoryStorage, clock: ManualClock) -> None:
    table = table_of(storage, clock, "user")
    write = table.ingest(ALL).instant
    clustering = table.clustering.run(sort_by="value").instant
    assert None not in {write, clustering}
    for instant, said in ((write, "is complete, and was never a plan"), (clustering, "the plan completed")):
        with pytest.raises(AlreadyCommitted, match=said):
            table.cancel(str(instant))
