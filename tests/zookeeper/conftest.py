"""A real ZooKeeper for a session of tests, processes that hold its locks on command, and waiting for conditions."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from tests.zookeeper.own_server import OwnServer

DEADLINE_S = 60.0
BASE_PATH = "/hudi/locks"


class Talker:
    """A process that answers each line with a line; no answer in time fails the test instead of hanging it."""

    def __init__(self, command: list[str]) -> None:
        self._errors: list[str] = []
        self._answers: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for stream, take in ((self.process.stdout, self._answers.put), (self.process.stderr, self._errors.append)):
            threading.Thread(target=self._drain, args=(stream, take), daemon=True).start()
        assert self.hear() == "ready"

    def _drain(self, stream, take) -> None:
        for line in stream:
            take(line.strip())

    def hear(self) -> str:
        try:
            return self._answers.get(timeout=DEADLINE_S)
        except queue.Empty:
            pytest.fail("no answer from the process; it said:\n" + "\n".join(self._errors[-30:]))

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.hear()

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits for a condition, and fails when it does not come true in time."""

    def wait(condition: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline_s, f"the condition did not come true within {DEADLINE_S} s"
            threading.Event().wait(0.01)

    return wait


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """The session's server; tests that disturb a server use `own_server`."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OwnServer]:
    with OwnServer(tmp_path / "zookeeper") as running:
        yield running


@pytest.fixture
def key() -> str:
    """A lock of its own for each test."""
    return f"flights-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def new_lock(key: str) -> Iterator[Callable[..., ZooKeeperLock]]:
    """Makes locks on one path, each with its own session, and closes them at the end."""
    made: list[ZooKeeperLock] = []

    def make(server: EmbeddedZooKeeper, owner: str = "ours", **settings) -> ZooKeeperLock:
        settings = {"session_timeout_s": 3.0, "connect_timeout_s": 5.0, **settings}
        made.append(ZooKeeperLock(server.hosts, BASE_PATH, key, owner=owner, **settings))
        return made[-1]

    yield make
    for lock in made:
        lock.close()


@pytest.fixture
def talker_to() -> Iterator[Callable[[list[str]], Talker]]:
    """Starts programs that answer lines, and ends them after the test."""
    made: list[Talker] = []

    def make(command: list[str]) -> Talker:
        made.append(Talker(command))
        return made[-1]

    yield make
    for talker in made:
        talker.end()


@pytest.fixture
def new_process(key: str, talker_to: Callable[[list[str]], Talker]) -> Callable[[EmbeddedZooKeeper], Talker]:
    """Makes processes that hold the lock of the test on command."""
    program = str(Path(__file__).with_name("lock_holder.py"))
    return lambda server: talker_to([sys.executable, program, server.hosts, BASE_PATH, key])


@pytest.fixture
def line_at(key: str) -> Callable[[EmbeddedZooKeeper], list[str]]:
    """The nodes that stand in line for the test's lock, seen by a client that has nothing to do with our code."""

    def look(server: EmbeddedZooKeeper) -> list[str]:
        client = KazooClient(server.hosts)
        client.start(timeout=DEADLINE_S)
        try:
            path = f"{BASE_PATH}/{key}"
            return client.get_children(path) if client.exists(path) else []
        finally:
            client.stop()
            client.close()

    return look
