"""A machine whose clock runs far ahead commits nothing that others would have to wait for."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.clock import TOLERANCE_MS, SystemClock, ToldTime
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.recover.sweep import TEMP_AGE_MS
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import BEAT_INTERVAL_S, EXPIRY_MS, lease_path
from hudi_ops.concurrency.lease.monitor import GAP_S_MAX
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.context import Owner, TableContext
from hudi_ops.errors import Busy, InvalidRequest, Unavailable
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import FileInfo
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.verify import verify_table
from tests.protocol.foreign_table import make_foreign

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
ROWS = pa.table({"id": ["a"], "n": [1]}, schema=SCHEMA)
DAY_MS = 24 * 3_600_000
MINUTE_MS = 60_000


class WrongClock(SystemClock):
    """A machine's own clock that somebody has set wrongly."""

    def __init__(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class TellingLock(InProcessLock):
    """A lock whose service runs on a machine with another clock."""

    def __init__(self, name: str, ahead_ms: int) -> None:
        super().__init__(name)
        self.ahead_ms = ahead_ms

    @property
    def told(self) -> ToldTime:
        clock = SystemClock()
        return ToldTime("the lock service", clock.now_ms() + self.ahead_ms, clock.monotonic_s())


class CountingStorage(LocalStorage):
    """A local disk that counts how often it is asked for a change time."""

    heads: int = 0

    def head(self, path: str) -> FileInfo | None:
        self.heads += ".heartbeat" in path
        return super().head(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA).ingest(ROWS)
    return tmp_path / "t"


def table_at(root: Path, ahead_ms: int, lock_ahead_ms: int | None = None, **settings: bool) -> Table:
    storage = CountingStorage(root)
    lock = InProcessLock(storage.uri) if lock_ahead_ms is None else TellingLock(storage.uri, lock_ahead_ms)
    ctx = TableContext(storage=storage, locks=lock, clock=WrongClock(ahead_ms))
    return Table(ctx, conflicts=ConflictSettings(**settings))


def renew_at(root: Path, instant: str, at_ms: int) -> None:
    """Let the lease of an instant be renewed at a time."""
    path = root / lease_path(instant)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"beaten_ms": at_ms, "expires_ms": at_ms + EXPIRY_MS}))
    os.utime(path, (at_ms / 1000, at_ms / 1000))


def content(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("lock_ahead_ms", [None, 0])
def test_a_clock_400_days_ahead_commits_nothing(root: Path, lock_ahead_ms: int | None) -> None:
    before = content(root)
    with pytest.raises(Unavailable, match="34560000 s ahead of every clock") as refused:
        table_at(root, 400 * DAY_MS, lock_ahead_ms).ingest(ROWS)
    assert content(root) == before
    assert "the storage file://" in refused.value.found
    assert ("the lock service" in refused.value.found) == (lock_ahead_ms is not None)
    assert "NTP" in refused.value.next_step
    assert Table.open(str(root)).ingest(pa.table({"id": ["b"], "n": [2]}, schema=SCHEMA)).inserted == 1
    assert verify_table(LocalStorage(root), deep=True).findings == ()


@pytest.mark.parametrize("ahead_s", [-45, 0, 25, 40, 60, 100, 150, 200, 290, 301])
def test_a_clock_that_is_let_in_makes_no_other_writer_wait(root: Path, ahead_s: int) -> None:
    """Writers within the tolerance do not stop each other; a writer beyond it is refused before its commit."""
    if ahead_s * 1_000 > TOLERANCE_MS:
        with pytest.raises(Unavailable, match="ahead of every clock"):
            table_at(root, ahead_s * 1_000).ingest(ROWS)
    else:
        assert table_at(root, ahead_s * 1_000).ingest(ROWS).instant is not None
    assert Table.open(str(root)).ingest(ROWS).instant is not None


def test_every_other_limit_is_above_the_tolerance() -> None:
    assert 1_000 * BEAT_INTERVAL_S + TOLERANCE_MS < 1_000 * GAP_S_MAX < EXPIRY_MS
    assert TOLERANCE_MS < TEMP_AGE_MS


@pytest.mark.parametrize("ahead_s", [100, 150, 290])
def test_a_clock_that_is_ahead_takes_no_live_process_for_dead(root: Path, ahead_s: int) -> None:
    """The lease of a writer and the one of an executor look expired by this clock: nothing is cancelled, taken over or planned."""
    live = TableContext(storage=LocalStorage(root), locks=InProcessLock("live"), owner=Owner("elsewhere", 1, ""))
    session = Session(live)
    writer = begin(live, session.loader, "commit")
    planned = Table(live).clustering.plan(ClusteringRequest(sort_by=["n"])).instant
    assert planned is not None
    take_over(session, planned, "clustering")
    for time in (writer.instant, planned):
        renew_at(root, time, SystemClock().now_ms() - 60_000)
    before = content(root)
    wrong = table_at(root, ahead_s * 1_000)
    for call in (
        lambda: wrong.ingest(ROWS),
        wrong.recover,
        lambda: wrong.clustering.execute(ClusteringRequest(instant=planned)),
        lambda: wrong.cancel(planned),
        lambda: wrong.savepoints.create(),
        lambda: wrong.rollback(writer.instant),
    ):
        with pytest.raises(Unavailable, match="this machine's clock is"):
            call()
        assert content(root) == before
    with pytest.raises(Busy):
        table_at(root, 0).clustering.execute(ClusteringRequest(instant=planned))


@pytest.mark.parametrize(
    ("ahead_ms", "said"),
    [(0, "in the future: the clock of elsewhere:1 was ahead"), (-10 * MINUTE_MS, "this machine's clock is")],
)
def test_a_future_instant_is_blamed_on_the_machine_whose_clock_is_wrong(root: Path, ahead_ms: int, said: str) -> None:
    clock = ManualClock(SystemClock().now_ms() + (200_000 if not ahead_ms else 0))
    owner = Owner("elsewhere", 1, "")
    Table(TableContext(storage=LocalStorage(root), locks=InProcessLock("t"), clock=clock, owner=owner)).ingest(ROWS)
    before = content(root)
    with pytest.raises(Unavailable, match=said) as refused:
        table_at(root, ahead_ms).ingest(ROWS)
    assert "NTP" in refused.value.next_step
    assert ("the machine of elsewhere:1" in refused.value.next_step) == (not ahead_ms)
    assert "the storage file://" in refused.value.found
    assert content(root) == before


def test_clocks_that_disagree_warn(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert table_at(root, 0, -400 * DAY_MS).ingest(ROWS).instant is not None
    (said,) = [one.getMessage() for one in caplog.records if "disagree" in one.getMessage()]
    assert "the lock service is 34560000 s behind it" in said
    assert "the storage file://" in said


def test_a_lock_that_agrees_lets_a_storage_without_a_clock_pass(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert table_at(root, 10 * MINUTE_MS, 10 * MINUTE_MS).ingest(ROWS).instant is not None
    assert not any("disagree" in one.getMessage() for one in caplog.records), "nothing but the lock was asked"


def test_a_clock_that_is_set_during_a_session_is_noticed(root: Path) -> None:
    table = table_at(root, 0)
    table.ingest(ROWS)
    clock = table.context.clock
    assert isinstance(clock, WrongClock)
    clock.ahead_ms = DAY_MS
    before = content(root)
    with pytest.raises(Unavailable, match="ahead of every clock"):
        table.ingest(ROWS)
    assert content(root) == before
    clock.ahead_ms = 0
    assert table.ingest(ROWS).instant is not None


def test_a_session_looks_its_lease_up_once(root: Path) -> None:
    table = table_at(root, 0)
    storage = table.context.storage
    assert isinstance(storage, CountingStorage)
    table.ingest(ROWS)
    first = storage.heads
    table.ingest(ROWS)
    assert (first, storage.heads) == (1, 1)


def test_an_injected_clock_is_not_judged(root: Path) -> None:
    ctx = TableContext(
        storage=LocalStorage(root), locks=InProcessLock("t"), clock=ManualClock(SystemClock().now_ms() + 400 * DAY_MS)
    )
    assert Table(ctx).ingest(ROWS).instant is not None


def in_the_future(root: Path, days: int = 400) -> str:
    """A table on whose timeline an instant lies in the future; returns its completion time."""
    clock = ManualClock(SystemClock().now_ms() + days * DAY_MS)
    result = Table(TableContext(storage=LocalStorage(root), locks=InProcessLock("t"), clock=clock)).ingest(ROWS)
    assert result.completion_time is not None
    return result.completion_time


def test_a_table_with_an_instant_in_the_future_goes_on_when_that_is_accepted(root: Path) -> None:
    newest = in_the_future(root)
    with pytest.raises(Unavailable, match="the table's newest instant lies") as refused:
        Table.open(str(root)).ingest(ROWS)
    assert "--accept-future-instants" in refused.value.next_step
    for number in (2, 3):
        rows = pa.table({"id": ["a"], "n": [number]}, schema=SCHEMA)
        result = table_at(root, 0, accept_future_instants=True).ingest(rows)
        assert result.completion_time is not None
        assert result.completion_time > newest
        newest = result.completion_time
    assert Table.open(str(root)).read(["n"])["n"].to_pylist() == [3]
    assert verify_table(LocalStorage(root), deep=True).findings == ()
    after = SystemClock().now_ms() + 401 * DAY_MS
    ctx = TableContext(storage=LocalStorage(root), locks=InProcessLock("t"), clock=ManualClock(after))
    later = Table(ctx, conflicts=ConflictSettings(accept_future_instants=True)).ingest(ROWS)
    assert later.instant is not None
    assert later.instant >= instant_of_ms(after), "once the clocks have caught up, instants are the present again"


def test_a_future_instant_is_not_followed_beside_apache_hudi(root: Path) -> None:
    storage = MemoryStorage("t", SystemClock())
    for info in LocalStorage(root).list():
        storage.put(info.path, LocalStorage(root).get(info.path))
    storage = make_foreign(storage)
    ahead = ManualClock(SystemClock().now_ms() + 400 * DAY_MS)
    terms, accepting = AdoptionOptions(buckets=1), ConflictSettings(accept_future_instants=True)
    Table(TableContext(storage=storage, locks=InProcessLock("t"), clock=ahead), terms).ingest(ROWS)
    before = {info.path for info in storage.list()}
    with pytest.raises(InvalidRequest, match="on a table with foreign writers"):
        Table(TableContext(storage=storage, locks=InProcessLock("t")), terms, accepting).ingest(ROWS)
    assert {info.path for info in storage.list()} == before
