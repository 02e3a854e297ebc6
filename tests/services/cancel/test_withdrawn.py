"""Cancel plans where Apache Hudi writes too: interrupted withdrawals, executors that left, programs that began."""

from __future__ import annotations

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy, HudiOpsError, OutcomeUnknown
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE
from hudi_ops.timeline.log.entries import Cancel
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.log_actors import timeline_of, whole_log
from tests.protocol.scenarios.cancels import shared_table
from tests.protocol.scenarios.worlds import UPSERT_A, rows_of
from tests.services.cancel.rewriting import execute_rewrite
from tests.tables import by_key, table_of

CHANGED = {"a1": 101, "a2": 2, "a3": 103, "b1": 1, "b2": 2}
PASS = ConflictSettings(foreign_without_heartbeat="pass", retries=0)


class Shared:
    """The table with a plan that no process began, and processes by name."""

    def __init__(self) -> None:
        self.storage: MemoryStorage = shared_table()
        assert isinstance(self.storage._clock, ManualClock)
        self.clock = self.storage._clock
        (plan,) = timeline_of(self.storage).pending
        self.plan = plan.time
        self.requested = f".hoodie/timeline/{self.plan}.clustering.requested"
        self.body = self.storage.get(self.requested)

    def table(self, actor: str, faults: object = None) -> Table:
        storage = FaultyStorage(self.storage, faults) if faults is not None else self.storage
        return table_of(storage, self.clock, actor, conflicts=PASS)

    def write(self, actor: str = "writer", faults: object = None) -> str:
        return self.table(actor, faults).ingest(rows_of(dict(UPSERT_A.values))).instant

    def later(self) -> None:
        self.clock.advance_ms(EXPIRY_MS + 1_000)

    def cancelled(self) -> list[str]:
        return [entry.instant for entry in whole_log(self.storage).entries if isinstance(entry, Cancel)]

    def assert_aborted(self) -> None:
        assert self.storage.head(self.requested) is None
        assert [one.time for one in timeline_of(self.storage).aborted] == [self.plan]
        assert self.storage.list(QUEUE) == []
        assert self.plan in self.cancelled()
        assert by_key(self.table("reader")) == CHANGED
        assert [one for one in verify_table(self.storage, clock=self.clock).findings if one.severity == "error"] == []


@pytest.fixture
def shared() -> Shared:
    return Shared()


class FailsAt:
    """The first operation at a point lands, and its reply is lost."""

    def __init__(self, point: str, error: Fault | type[BaseException]) -> None:
        self._point, self._error, self._is_done = point, error, False

    def fault_at(self, number: int, point: str) -> Fault | None:
        if self._is_done or not point.startswith(self._point):
            return None
        self._is_done = True
        if isinstance(self._error, Fault):
            return self._error
        raise self._error


class FailsBehind(FailsAt):
    """The same after the requested file was deleted."""

    def __init__(self, path: str, point: str, error: Fault | type[BaseException]) -> None:
        super().__init__(point, error)
        self._path, self._is_deleted = path, False

    def fault_at(self, number: int, point: str) -> Fault | None:
        self._is_deleted |= point == f"delete:{self._path}"
        return super().fault_at(number, point) if self._is_deleted else None


@pytest.mark.parametrize(
    ("point", "error"),
    [
        ("delete:.hoodie/timeline", Fault.ERROR_AFTER),
        ("delete:.hoodie/timeline", KeyboardInterrupt),
        ("list_folder:.hoodie/timeline", Fault.ERROR_BEFORE),
        ("list_folder:.hoodie/timeline", KeyboardInterrupt),
    ],
)
def test_an_interrupted_withdrawal_puts_the_plan_back(
    shared: Shared, point: str, error: Fault | type[BaseException]
) -> None:
    faults = FailsBehind(shared.requested, point, error)
    with pytest.raises((HudiOpsError, KeyboardInterrupt)):
        shared.table("user", faults).request_cancel(shared.plan)
    assert shared.storage.get(shared.requested) == shared.body
    assert shared.storage.list(QUEUE) == []
    assert shared.cancelled() == []
    shared.write()
    shared.assert_aborted()


@pytest.mark.parametrize("finisher", ["write", "clean", "cancel"])
def test_the_next_process_finishes_what_a_dead_canceller_began(shared: Shared, finisher: str) -> None:
    with pytest.raises(Crash):
        shared.table("user", DiesBefore("put_if_absent:.hoodie/.commit_log/0")).request_cancel(shared.plan)
    assert timeline_of(shared.storage).pending == ()
    assert {one.invariant for one in verify_table(shared.storage, clock=shared.clock).findings} == {"foreign-instant"}
    if finisher == "clean":
        shared.table("cleaner").clean.run()
        assert shared.storage.get(shared.requested) == shared.body
    if finisher == "cancel":
        assert shared.table("second").cancel(shared.plan).state == "aborted"
    shared.write()
    shared.assert_aborted()


def test_an_inflight_file_that_came_after_a_dead_canceller_gets_its_requested_file_back(shared: Shared) -> None:
    with pytest.raises(Crash):
        shared.table("user", DiesBefore("put_if_absent:.hoodie/.commit_log/0")).request_cancel(shared.plan)
    shared.storage.put(f".hoodie/timeline/{shared.plan}.clustering.inflight", b"")
    with pytest.raises(Busy, match="another program began"):
        shared.write()
    assert shared.storage.get(shared.requested) == shared.body
    assert shared.plan not in shared.cancelled()


def test_a_plan_that_a_failed_executor_left_is_ended_by_the_second_write(shared: Shared) -> None:
    with pytest.raises(Crash):
        execute_rewrite(shared.table("executor", DiesBefore("put:.hoodie/.commit_log/payload")), shared.plan)
    with pytest.raises(Busy, match=f"{shared.plan}.*") as refused:
        shared.write()
    assert "it is cancelled, and leaves the timeline" in refused.value.next_step
    assert shared.plan in shared.cancelled()
    assert shared.storage.get(shared.requested) == shared.body, "it stays until the executor's files are gone"
    shared.later()
    shared.table("cleaner").clean.run()
    shared.write()
    assert by_key(shared.table("reader")) == CHANGED
    assert [one.time for one in timeline_of(shared.storage).aborted] == [shared.plan]


def test_force_ends_a_plan_whose_foreign_program_died(shared: Shared) -> None:
    shared.storage.put(f".hoodie/timeline/{shared.plan}.clustering.inflight", b"")
    user = shared.table("user")
    with pytest.raises(Busy, match="another program began") as refused:
        user.cancel(shared.plan)
    assert f"hudi-ops cancel TABLE {shared.plan} --force" in refused.value.next_step
    assert user.cancel(shared.plan, force=True).state == "aborted"
    shared.write()
    shared.assert_aborted()


def test_a_program_that_begins_amid_a_withdrawal_keeps_the_plan(shared: Shared) -> None:
    def begins() -> None:
        shared.storage.put(f".hoodie/timeline/{shared.plan}.clustering.inflight", b"")

    with pytest.raises(Busy, match="another program began"):
        shared.write(faults=MoveBefore(f"^delete:{shared.requested}", begins))
    assert shared.storage.get(shared.requested) == shared.body
    assert shared.plan not in shared.cancelled()
    assert shared.storage.list(QUEUE) == []


def test_a_cancel_whose_mark_fails_is_seen_by_later_writes(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = FailsAt(f"put:.hoodie/.commit_log/cancelled/{shared.plan}", Fault.ERROR_BEFORE)
    with pytest.raises(HudiOpsError):
        shared.write("first", lost)
    for number in range(3):
        shared.table(f"writer {number}").ingest(rows_of({"b1": 1}))
    shared.later()
    shared.table("cleaner").clean.run()
    shared.write()
    shared.assert_aborted()


def test_an_unknown_outcome_of_the_cancel_is_not_one_of_the_write(shared: Shared) -> None:
    class NeverAnswers:
        def fault_at(self, number: int, point: str) -> Fault | None:
            return Fault.LANDS_LATER if point.startswith("put_if_absent:.hoodie/.commit_log/0") else None

    with pytest.raises(HudiOpsError) as failed:
        shared.write(faults=NeverAnswers())
    assert not isinstance(failed.value, OutcomeUnknown)
