"""The ZooKeeper lock against a real server: exclusion, refusal, loss of the session, and limits on every wait.

Processes that hold the lock are stopped and killed, servers are frozen and crash: nothing here is simulated.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest
from kazoo.client import KazooClient

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.errors import Busy, InvalidRequest, Unavailable
from tests.signals import freeze, thaw
from tests.zookeeper.own_server import OwnServer

NewLock = Callable[..., ZooKeeperLock]


def test_processes_exclude_each_other(server: EmbeddedZooKeeper, new_process) -> None:
    one, two = new_process(server), new_process(server)
    tokens = []
    for first, second in ((one, two), (two, one)) * 5:
        assert first.ask("acquire 20 first") == "acquired"
        assert second.ask("acquire 0.05 second") == "refused"
        tokens.append(int(first.ask("token")))
        assert first.ask("release") == "released"
    assert tokens == sorted(set(tokens)), "tokens grow with every acquisition, whoever makes it"


def test_threads_on_one_session_exclude_each_other(server: EmbeddedZooKeeper, new_lock: NewLock) -> None:
    lock, inside, most = new_lock(server), 0, 0

    def work(_: int) -> None:
        nonlocal inside, most
        with lock.acquire(60, "count"):
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.001)  # lets the others run: without the lock they would be inside too
            inside -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(30)))
    assert most == 1


def test_the_holder_is_shown_with_everything_it_said(server: EmbeddedZooKeeper, new_lock: NewLock) -> None:
    lock = new_lock(server, owner="dag ingestion", run="scheduled__2026-11-21")
    watcher = new_lock(server)
    assert watcher.holder() is None
    before_ms = time.time_ns() // 1_000_000
    with lock.acquire(10, "ingest 20261121101500123"):
        holder = watcher.holder()
    assert holder is not None
    assert (holder.owner, holder.run) == ("dag ingestion", "scheduled__2026-11-21")
    assert (holder.host, holder.purpose) == (socket.gethostname(), "ingest 20261121101500123")
    assert before_ms <= holder.since_ms <= time.time_ns() // 1_000_000
    assert watcher.holder() is None


@pytest.mark.parametrize("timeout_s", [0, 0.2])
def test_a_refusal_names_the_holder_and_leaves_no_node(
    server: EmbeddedZooKeeper, new_process, new_lock: NewLock, line_at, timeout_s: float
) -> None:
    other = new_process(server)
    assert other.ask("acquire 20 compact 20261121101500123") == "acquired"
    started_s = time.monotonic()
    named = r"held by child, host .*, run run-7, for compact 20261121101500123, since 20"
    with pytest.raises(Busy, match=named) as caught, new_lock(server).acquire(timeout_s, "ingest"):
        pytest.fail("two hold the lock")
    assert time.monotonic() - started_s < timeout_s + 5
    assert json.loads(json.dumps(caught.value.as_dict()))["holder"]["owner"] == "child"
    assert len(line_at(server)) == 1, "only the holder's node is left"
    assert other.ask("release") == "released"
    assert line_at(server) == []


def test_the_deadline_holds_while_the_line_moves(
    server: EmbeddedZooKeeper, new_process, new_lock: NewLock, line_at, eventually
) -> None:
    """kazoo begins a new wait for each node ahead that leaves; ours must not."""
    first, second = new_process(server), new_process(server)
    assert first.ask("acquire 20 first") == "acquired"
    second.tell("acquire 60 second")
    eventually(lambda: len(line_at(server)) == 2)
    waited_s: list[float] = []

    def wait() -> None:
        started_s = time.monotonic()
        with pytest.raises(Busy), new_lock(server).acquire(4.0, "third"):
            pytest.fail("two hold the lock")
        waited_s.append(time.monotonic() - started_s)

    third = threading.Thread(target=wait)
    third.start()
    eventually(lambda: len(line_at(server)) == 3)
    begun_s = time.monotonic()
    eventually(lambda: time.monotonic() - begun_s > 2.0)
    second.end()  # the node ahead of the third leaves when the session of the killed process ends
    third.join(60)
    assert 3.9 < waited_s[0] < 6.0


def test_since_tells_when_it_was_taken_not_when_the_wait_began(
    server: EmbeddedZooKeeper, new_process, new_lock: NewLock, line_at, eventually
) -> None:
    other, lock = new_process(server), new_lock(server)
    assert other.ask("acquire 20 first") == "acquired"
    freed_ms: list[int] = []

    def free() -> None:
        eventually(lambda: len(line_at(server)) == 2)
        begun_s = time.monotonic()
        eventually(lambda: time.monotonic() - begun_s > 1.5)
        freed_ms.append(time.time_ns() // 1_000_000)
        other.ask("release")

    freer = threading.Thread(target=free)
    freer.start()
    with lock.acquire(60, "second") as held:
        freer.join(60)
        holder = lock.holder()
        assert holder is not None
        assert holder.since_ms >= freed_ms[0]
        assert held.still_mine()


def test_a_paused_holder_loses_it_for_good(server: EmbeddedZooKeeper, new_process, new_lock: NewLock) -> None:
    paused, lock = new_process(server), new_lock(server)
    assert paused.ask("acquire 20 paused") == "acquired"
    assert paused.ask("mine") == "True"
    token = int(paused.ask("token"))
    freeze(paused.process.pid)
    with lock.acquire(30, "next") as held:
        assert held.token > token
        thaw(paused.process.pid)
        assert paused.ask("mine") == "False", "at once, before kazoo's threads have noticed anything"
        assert held.still_mine()
    for _ in range(50):
        assert paused.ask("mine") == "False", "nor once it has connected again, though nobody holds it now"
    assert paused.ask("release") == "released"
    assert paused.ask("acquire 20 again") == "acquired"
    assert paused.ask("mine") == "True"


def test_a_killed_holder_is_followed(server: EmbeddedZooKeeper, new_process, new_lock: NewLock) -> None:
    killed = new_process(server)
    assert killed.ask("acquire 20 killed") == "acquired"
    killed.end()
    with new_lock(server).acquire(30, "next") as held:
        assert held.still_mine()


def test_a_node_removed_by_hand_is_noticed(server: EmbeddedZooKeeper, new_lock: NewLock, key: str) -> None:
    lock = new_lock(server)
    client = KazooClient(server.hosts)
    client.start()
    with lock.acquire(10, "ingest") as held:
        client.delete(f"/hudi/locks/{key}", recursive=True)
        assert not held.still_mine()
        assert not held.still_mine()
    client.stop()
    client.close()
    with lock.acquire(10, "ingest") as held:
        assert held.still_mine()


def test_a_crashed_server_suspends_and_the_same_session_goes_on(
    own_server: OwnServer, new_lock: NewLock, eventually
) -> None:
    lock = new_lock(own_server, session_timeout_s=30.0)
    with lock.acquire(10, "ingest") as held:
        assert held.still_mine()
        own_server.kill()
        assert not held.still_mine()
        assert own_server.start()
        eventually(held.still_mine)
    with lock.acquire(10, "again"):
        pass


def test_a_session_that_ended_while_nobody_asked(
    server: EmbeddedZooKeeper, new_process, new_lock: NewLock, eventually
) -> None:
    """The first question comes when the client is connected again, with another session."""
    paused = new_process(server)
    assert paused.ask("acquire 20 paused") == "acquired"
    freeze(paused.process.pid)
    with new_lock(server, owner="next").acquire(30, "next"):
        thaw(paused.process.pid)
        eventually(lambda: paused.ask("holder") == "next")
        assert paused.ask("mine") == "False"


def test_a_server_that_lost_its_data(own_server: OwnServer, new_lock: NewLock, line_at, eventually) -> None:
    """It refuses sessions that saw more than it knows; the lock must find back by itself, with a session anew."""
    lock = new_lock(own_server, connect_timeout_s=1.0)

    def takes_it() -> bool:
        try:
            with lock.acquire(1, "again") as anew:
                return anew.still_mine()
        except Unavailable:
            return False

    with lock.acquire(10, "ingest") as held:
        own_server.kill()
        for file in (own_server.folder / "data" / "version-2").iterdir():
            file.unlink()
        assert own_server.start()
        eventually(takes_it)
        assert not held.still_mine(), "a lost acquisition does not come back with the next one"
    assert line_at(own_server) == []


def test_a_frozen_server_does_not_hang_anyone(own_server: OwnServer, new_lock: NewLock, line_at) -> None:
    lock = new_lock(own_server, session_timeout_s=3.0, connect_timeout_s=1.0)
    started_s = time.monotonic()
    with lock.acquire(10, "ingest") as held:
        own_server.pause()
        assert not held.still_mine()
        with pytest.raises(Unavailable, match=own_server.hosts):
            lock.holder()
        with (
            pytest.raises(Unavailable, match=own_server.hosts),
            new_lock(own_server, connect_timeout_s=1.0).acquire(1, "x"),
        ):
            pytest.fail("nobody answered")
    assert time.monotonic() - started_s < 20, "the release has a limit too"
    own_server.resume()
    with lock.acquire(30, "again") as held:
        assert held.still_mine()
        assert len(line_at(own_server)) == 1


def test_an_interrupted_wait_leaves_no_node(
    server: EmbeddedZooKeeper, new_process, new_lock: NewLock, line_at, eventually, request
) -> None:
    # A Spark session of another test leaves its own handler behind, which answers for a session that is gone.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, previous))
    other, lock = new_process(server), new_lock(server)
    assert other.ask("acquire 20 first") == "acquired"

    def interrupt() -> None:
        eventually(lambda: len(line_at(server)) == 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt), lock.acquire(60, "interrupted"):
        pytest.fail("two hold the lock")
    interrupter.join(60)
    eventually(lambda: len(line_at(server)) == 1)
    assert other.ask("release") == "released"
    with lock.acquire(10, "again"):
        pass


def test_released_when_the_block_fails(server: EmbeddedZooKeeper, new_lock: NewLock, line_at) -> None:
    lock = new_lock(server)
    with pytest.raises(ZeroDivisionError), lock.acquire(10, "fail") as held:
        raise ZeroDivisionError
    assert not held.still_mine()
    assert line_at(server) == []


def test_close_ends_the_session_and_use_opens_another(server: EmbeddedZooKeeper, new_lock: NewLock, line_at) -> None:
    lock = new_lock(server)
    with lock.acquire(10, "ingest") as held:
        lock.close()
        assert not held.still_mine()
        assert line_at(server) == []
    with lock.acquire(10, "ingest"):
        pass
    lock.close()
    lock.close()


def test_no_server_names_the_hosts() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{reserved.getsockname()[1]}"
        lock = ZooKeeperLock(hosts, "/hudi", "t", owner="ours", connect_timeout_s=0.5)
        started_s = time.monotonic()
        with pytest.raises(Unavailable, match=hosts), lock.acquire(60, "ingest"):
            pytest.fail("nobody answered")
        with pytest.raises(Unavailable, match=hosts):
            lock.holder()
        assert time.monotonic() - started_s < 20


@pytest.mark.parametrize(
    ("hosts", "base_path", "key"),
    [
        ("", "/hudi", "t"),
        ("localhost:port", "/hudi", "t"),
        ("localhost:2181", "hudi", "t"),
        ("localhost:2181", "/hudi", ""),
        ("localhost:2181", "/hudi//locks", "t"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(hosts: str, base_path: str, key: str) -> None:
    with pytest.raises(InvalidRequest):
        ZooKeeperLock(hosts, base_path, key, owner="ours")


def _use_in_child(lock: ZooKeeperLock, answers: Connection) -> None:
    try:
        with lock.acquire(5, "child") as held:
            answers.send(held.still_mine())
    except InvalidRequest as error:
        answers.send(str(error))


def test_after_a_fork_only_unused_locks_work(server: EmbeddedZooKeeper, new_lock: NewLock) -> None:
    used, unused = new_lock(server), ZooKeeperLock(server.hosts, "/hudi/locks", "unused", owner="ours")
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe()
    answers = []
    with used.acquire(10, "parent") as held:
        for lock in (used, unused):
            child = fork.Process(target=_use_in_child, args=(lock, theirs))
            child.start()
            assert mine.poll(30)
            answers.append(mine.recv())
            child.join(30)
            assert child.exitcode == 0
        assert held.still_mine(), "the child's end must not end the parent's session"
    assert "was opened by process" in answers[0]
    assert answers[1] is True


def test_it_does_not_travel(server: EmbeddedZooKeeper, new_lock: NewLock) -> None:
    with pytest.raises(InvalidRequest, match="cannot be sent to another process"):
        pickle.dumps(new_lock(server))
