"""What a ZooKeeper server says of the time, against clocks that are set wrongly: agreed, refused, or warned about."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.context import TableContext
from hudi_ops.errors import Unavailable
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table

SCHEMA = pa.schema([("id", pa.string())])
ROWS = pa.table({"id": ["a"]}, schema=SCHEMA)
AHEAD_MS = 400 * 24 * 3_600_000


class AheadClock(SystemClock):
    """A machine's own clock, 400 days ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + AHEAD_MS


def table_on(storage: Storage, lock: ZooKeeperLock, clock: SystemClock) -> Table:
    return Table(TableContext(storage=storage, locks=lock, clock=clock))


def test_a_lock_node_tells_when_it_was_made(server: EmbeddedZooKeeper, new_lock) -> None:
    lock, clock = new_lock(server), SystemClock()
    assert lock.told is None
    before_ms = clock.now_ms()
    with lock.acquire(10, "look"):
        pass
    assert before_ms - 1_000 <= lock.told.wall_ms <= clock.now_ms() + 1_000
    assert server.hosts in lock.told.by


def test_a_writer_400_days_ahead_of_server_and_storage_is_refused(
    server: EmbeddedZooKeeper, new_lock, tmp_path: Path
) -> None:
    root, lock = tmp_path / "t", new_lock(server)
    Table.create(str(root), name="t", record_key=["id"], schema=SCHEMA, locks=lock).ingest(ROWS)
    before = {info.path for info in LocalStorage(root).list()}
    with pytest.raises(Unavailable, match="34560000 s ahead of every clock") as refused:
        table_on(LocalStorage(root), lock, AheadClock()).ingest(ROWS)
    assert f"ZooKeeper at {server.hosts}" in refused.value.found
    assert {info.path for info in LocalStorage(root).list()} == before
    assert table_on(LocalStorage(root), lock, SystemClock()).ingest(ROWS).instant is not None


def test_a_storage_that_agrees_with_a_wrong_clock_is_a_warning(
    server: EmbeddedZooKeeper, new_lock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA)
    storage = MemoryStorage("t", AheadClock())
    for info in LocalStorage(tmp_path / "t").list():
        storage.put(info.path, LocalStorage(tmp_path / "t").get(info.path))
    with caplog.at_level(logging.WARNING):
        assert table_on(storage, new_lock(server), AheadClock()).ingest(ROWS).instant is not None
    said = {one.getMessage() for one in caplog.records if "disagree" in one.getMessage()}
    assert any(f"ZooKeeper at {server.hosts} is 34560000 s behind it" in text for text in said)
