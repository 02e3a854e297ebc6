"""Writers over a real ZooKeeper whose lock is lost, doubled or another's, at the worst moments: slots decide, rows stay right.

The moments are named by the storage operation before which the trouble comes. Interleavings 2, 3, 4 and 16 of optimistic
concurrency; a refused acquisition that leaves no node (5) is in `test_lock.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from kazoo.client import KazooClient

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lock import zookeeper
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.context import Owner, TableContext
from hudi_ops.errors import Busy
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.testing.simulated import NoBeats
from hudi_ops.verify import verify_table
from tests.definitions import Definition, create_table
from tests.fault_plans import MoveBefore
from tests.tables import PLAIN_SCHEMA as SCHEMA, by_key, plain_rows
from tests.zookeeper.own_server import OwnServer

BEFORE_THE_CHECK = "put:.hoodie/.commit_log/payload/"
AFTER_THE_CHECK = "put_if_absent:.hoodie/.commit_log/0"
OLD = {"a1": 0, "b1": 0}


def rows(part: str, value: int) -> pa.Table:
    return plain_rows((f"{part}1", part, value))


def shown(storage: MemoryStorage) -> dict[str, int]:
    return by_key(Table(TableContext(storage=storage, locks=None)))


class Writers:
    """One table, and writers of it, each with a lock of its own."""

    def __init__(self, server: EmbeddedZooKeeper, new_lock: Callable[..., ZooKeeperLock]) -> None:
        self.storage = MemoryStorage("contended", SystemClock())
        self._server = server
        self._new_lock = new_lock
        first = self.table("creator")
        create_table(first._session, Definition("t", SCHEMA, ("id",), ("part",), None, buckets=1))
        for part in "ab":
            first.ingest(rows(part, 0))

    def table(self, name: str, lock: ZooKeeperLock | None = None) -> Table:
        return Table(self.context(name, lock))

    def context(self, name: str, lock: ZooKeeperLock | None = None) -> TableContext:
        lock = lock or self._new_lock(self._server, owner=name)
        return TableContext(storage=self.storage, locks=lock, owner=Owner(name, 1, ""), beats=NoBeats())

    def disturbed(self, name: str, point: str, move: Callable[[], object]) -> Table:
        ctx = self.context(name)
        return Table(replace(ctx, storage=FaultyStorage(self.storage, MoveBefore(f"^{point}", move))))

    def remove_nodes(self, key: str) -> None:
        """As an operator may, or an expired session does: every lock that is held is lost."""
        client = KazooClient(self._server.hosts)
        client.start()
        client.delete(f"/hudi/locks/{key}", recursive=True)
        client.stop()
        client.close()

    def is_whole(self) -> bool:
        report = verify_table(self.storage, deep=True)
        return not report.findings or pytest.fail("\n".join(map(str, report.findings)))


@pytest.fixture
def writers(server: EmbeddedZooKeeper, new_lock: Callable[..., ZooKeeperLock]) -> Writers:
    return Writers(server, new_lock)


def test_a_lock_lost_before_the_check_decides_nothing(writers: Writers, key: str, line_at, server) -> None:
    table = writers.disturbed("ours", BEFORE_THE_CHECK, lambda: writers.remove_nodes(key))
    with pytest.raises(Busy, match="lock was lost"):
        table.ingest(rows("a", 1))
    assert shown(writers.storage) == OLD
    assert writers.is_whole()
    table.ingest(rows("a", 2))
    assert shown(writers.storage) == OLD | {"a1": 2}
    assert line_at(server) == []


def test_a_lock_lost_after_the_check_loses_no_write_of_others(writers: Writers, key: str) -> None:
    """The other one takes the lock that we lost, and the slot that we wanted, and overlaps: ours starts again upon it."""
    other = writers.table("theirs")

    def lose() -> None:
        writers.remove_nodes(key)
        other.ingest(pa.concat_tables([rows("a", 7), rows("b", 7)]))

    table = writers.disturbed("ours", AFTER_THE_CHECK, lose)
    table.ingest(rows("a", 1))
    assert shown(writers.storage) == {"a1": 1, "b1": 7}
    assert writers.is_whole()


def test_a_lock_lost_after_the_check_beside_a_write_elsewhere(writers: Writers, key: str) -> None:
    other = writers.table("theirs")

    def lose() -> None:
        writers.remove_nodes(key)
        other.ingest(rows("b", 7))

    table = writers.disturbed("ours", AFTER_THE_CHECK, lose)
    # Its slot is gone, and for another one it would need the lock: an Apache Hudi writer knows no slots.
    with pytest.raises(Busy, match="lock was lost"):
        table.ingest(rows("a", 1))
    assert shown(writers.storage) == OLD | {"b1": 7}
    table.ingest(rows("a", 1))
    assert shown(writers.storage) == {"a1": 1, "b1": 7}
    assert writers.is_whole()


def test_a_lock_lost_after_the_check_and_nobody_came(writers: Writers, key: str) -> None:
    table = writers.disturbed("ours", AFTER_THE_CHECK, lambda: writers.remove_nodes(key))
    table.ingest(rows("a", 1))
    assert shown(writers.storage) == OLD | {"a1": 1}
    assert writers.is_whole()


@pytest.mark.parametrize("part", ["a", "b"])
def test_two_who_both_believe_that_they_hold_it(
    writers: Writers, key: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the question whether it is still held, the slot alone must do."""
    monkeypatch.setattr(zookeeper._HeldNode, "still_mine", lambda held: True)
    other = writers.table("theirs")

    def double() -> None:
        writers.remove_nodes(key)
        other.ingest(pa.concat_tables([rows(part, 7), rows("c", 7)]))

    table = writers.disturbed("ours", AFTER_THE_CHECK, double)
    table.ingest(rows("a", 1))
    assert shown(writers.storage) == OLD | {f"{part}1": 7, "c1": 7} | {"a1": 1}
    assert writers.is_whole()


def test_a_server_that_restarts_while_somebody_decides(
    own_server: OwnServer, new_lock: Callable[..., ZooKeeperLock], line_at
) -> None:
    """SUSPENDED: nothing is decided, whether the session comes back or not; an ensemble that changes its leader looks the same."""
    writers = Writers(own_server, lambda server, **settings: new_lock(server, session_timeout_s=30.0, **settings))

    def restart() -> None:
        own_server.kill()
        assert own_server.start()

    table = writers.disturbed("ours", BEFORE_THE_CHECK, restart)
    try:
        table.ingest(rows("a", 1))
    except Busy as error:
        assert "lock was lost" in error.what  # noqa: PT017 - both ends are right, depending on who is faster
        assert shown(writers.storage) == OLD
        table.ingest(rows("a", 1))
    assert shown(writers.storage) == OLD | {"a1": 1}
    assert writers.is_whole()
    assert line_at(own_server) == []


def test_two_writers_with_different_locks(
    writers: Writers, server: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """They never wait for each other; the slots keep both right, and each hears of the other's lock."""
    elsewhere = ZooKeeperLock(server.hosts, "/another/path", "t", owner="theirs")
    other = writers.table("theirs", elsewhere)
    table = writers.disturbed("ours", AFTER_THE_CHECK, lambda: other.ingest(rows("a", 7)))
    table.ingest(rows("a", 1))
    elsewhere.close()
    assert shown(writers.storage) == OLD | {"a1": 1}
    assert writers.is_whole()
    assert "they do not exclude each other" in caplog.text
    assert elsewhere.address in caplog.text
