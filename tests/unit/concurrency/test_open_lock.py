"""Which lock a table's declaration opens: the same for every door, and none out of a URL that is not one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.concurrency.lock.open_lock import lock_of, open_lock, parse_lock_url
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.tables_file import locate_table
from hudi_ops.context import Owner
from hudi_ops.errors import Busy, InvalidRequest


@pytest.mark.parametrize("url", [None, "in-process"])
def test_without_a_url_the_lock_is_that_of_the_process(url: str | None, tmp_path: Path) -> None:
    lock = open_lock(url, table_uri=str(tmp_path), lock_key="t")
    assert isinstance(lock, InProcessLock)
    assert open_lock(url, table_uri=tmp_path.as_uri(), lock_key="t") is lock
    assert open_lock(url, table_uri=f"{tmp_path}/other", lock_key="t") is not lock


def test_it_is_the_lock_that_a_table_takes_by_itself(tmp_path: Path) -> None:
    import pyarrow as pa

    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=pa.schema([("id", pa.int64())]))
    assert table.context.locks is open_lock(None, table_uri=str(tmp_path / "t"), lock_key="t")


def test_a_zookeeper_url_names_servers_and_path() -> None:
    lock = open_lock("zookeeper://a:2181,b-1.c:2182/hudi/locks", table_uri="/data/trips", lock_key="rides")
    assert isinstance(lock, ZooKeeperLock)
    assert (lock.hosts, lock.path) == ("a:2181,b-1.c:2182", "/hudi/locks/rides")
    assert open_lock("zookeeper://[::1]:2181/locks/", table_uri="/data/t", lock_key="t").path == "/locks/t"  # type: ignore[attr-defined]
    assert parse_lock_url("zookeeper://a:1/b/").base_path == "/b"


def test_it_says_who_asks() -> None:
    lock = open_lock("zookeeper://a:2181/locks", table_uri="/data/trips", lock_key="trips")
    assert lock._owner == str(Owner.of_this_process())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "zookeeper",
        "zookeeper://",
        "zookeeper://host:2181",
        "zookeeper://host:2181/",
        "zookeeper://host/locks",
        "zookeeper://:2181/locks",
        "zookeeper://host:2181,/locks",
        "zookeeper://host:2181/a//b",
        "zookeeper://host:2181/a/../b",
        "zookeeper://host:2181/a b",
        "zookeeper://host:999999/a",
        "zk://host:2181/locks",
        "file:///locks",
    ],
)
def test_what_is_no_lock_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_lock(url, table_uri="/data/trips", lock_key="trips")
    assert repr(url) in str(caught.value) or "ZooKeeper" in str(caught.value)


def test_a_declared_table_has_one_lock_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables.yaml").write_text(
        "lock: zookeeper://127.0.0.1:2181/locks\ntables:\n  trips: {path: data/t1, record_key: [id]}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)
    by_name, by_path = lock_of(locate_table("trips")), lock_of(locate_table("data/t1"))
    assert by_name.path == by_path.path == "/locks/trips"  # type: ignore[attr-defined]
    assert isinstance(lock_of(locate_table("data/t2")), InProcessLock)


def test_kazoo_comes_with_the_first_zookeeper_lock() -> None:
    program = (
        "import sys\n"
        "from hudi_ops.concurrency.lock.open_lock import open_lock\n"
        "open_lock(None, table_uri='/data/trips', lock_key='trips')\n"
        "assert 'kazoo' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_writer_waits_for_the_lock_as_long_as_its_settings_say(tmp_path: Path) -> None:
    locks = InProcessLock("t")
    schema = pa.schema([("id", pa.int64())])
    settings = ConflictSettings(lock_wait_s=0.05)
    table = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=schema, locks=locks, conflicts=settings
    )
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locks.acquire(1.0, "something else"):
            held.set()
            assert done.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert held.wait(60)
        with pytest.raises(Busy, match=r"not free within 0\.05 s") as refused:
            table.ingest(pa.table({"id": [1]}, schema=schema))
    finally:
        done.set()
        other.join()
    assert "conflicts.lock_wait_s" in refused.value.next_step
    assert table.ingest(pa.table({"id": [1]}, schema=schema)).inserted == 1
