"""Our lock and Apache Hudi's: its lock provider is Curator's `InterProcessMutex`, so that is what ours meets here."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.errors import Busy

HAND_OVERS = 20
REFUSED_S = 0.3


@pytest.fixture
def curator(server: EmbeddedZooKeeper, key: str, talker_to: Callable) -> object:
    java = shutil.which("java")
    assert java, "Java is needed: run bin/bootstrap"
    jars = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    program = str(Path(__file__).with_name("CuratorHolder.java"))
    return talker_to([java, "-cp", f"{jars}/*", program, server.hosts, f"/hudi/locks/{key}"])


def test_curator_holds_we_are_refused_then_acquire(
    server: EmbeddedZooKeeper, curator, new_lock: Callable[..., ZooKeeperLock]
) -> None:
    lock = new_lock(server)
    for _ in range(HAND_OVERS):
        assert curator.ask("acquire 20000") == "acquired"
        with pytest.raises(Busy, match="held by"), lock.acquire(REFUSED_S, "ingest"):
            pytest.fail("we hold what Curator holds")
        assert curator.ask("release") == "released"
        with lock.acquire(20, "ingest") as held:
            assert held.still_mine()


def test_we_hold_curator_is_refused_then_acquires(
    server: EmbeddedZooKeeper, curator, new_lock: Callable[..., ZooKeeperLock]
) -> None:
    lock = new_lock(server)
    for _ in range(HAND_OVERS):
        with lock.acquire(20, "ingest") as held:
            assert curator.ask(f"acquire {int(REFUSED_S * 1000)}") == "refused"
            assert held.still_mine()
        assert curator.ask("acquire 20000") == "acquired"
        assert curator.ask("release") == "released"


def test_waiting_on_each_other(
    server: EmbeddedZooKeeper, curator, new_lock: Callable[..., ZooKeeperLock], line_at, eventually
) -> None:
    """Each hand-over goes to one who already waits, in both directions."""
    lock, waiting = new_lock(server), lambda: len(line_at(server)) == 2
    assert curator.ask("acquire 20000") == "acquired"
    with ThreadPoolExecutor(1) as releasing:
        for _ in range(HAND_OVERS):
            released = releasing.submit(lambda: (eventually(waiting), curator.ask("release")))
            with lock.acquire(20, "ingest") as held:
                assert released.result()[1] == "released"
                curator.tell("acquire 20000")
                eventually(waiting)
                assert held.still_mine()
            assert curator.hear() == "acquired"
    assert curator.ask("release") == "released"


def test_who_holds_it_is_shown_for_curator_too(
    server: EmbeddedZooKeeper, curator, new_lock: Callable[..., ZooKeeperLock]
) -> None:
    lock = new_lock(server)
    assert curator.ask("acquire 20000") == "acquired"
    holder = lock.holder()
    assert holder is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+|[0-9a-f:]+", holder.owner), holder
    assert holder.host == holder.owner
    with pytest.raises(Busy, match=re.escape(f"held by {holder.owner}")), lock.acquire(0, "ingest"):
        pytest.fail("we hold what Curator holds")
    assert curator.ask("release") == "released"
    assert lock.holder() is None
