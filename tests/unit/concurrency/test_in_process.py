"""The in-process lock: exclusion, order, refusal in words. Real threads, released and observed through events."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

from hudi_ops.concurrency.lock.in_process import InProcessLock, in_process_lock
from hudi_ops.errors import Busy, Internal, InvalidRequest

DEADLINE_S = 20.0


def eventually(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        threading.Event().wait(0.002)


class Holder:
    """A thread that holds the lock until it is told to let go."""

    def __init__(self, lock: InProcessLock, purpose: str) -> None:
        self._let_go = threading.Event()
        self.has_it = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(lock, purpose), name="the-holder")
        self._thread.start()

    def _run(self, lock: InProcessLock, purpose: str) -> None:
        with lock.acquire(DEADLINE_S, purpose):
            self.has_it.set()
            self._let_go.wait(DEADLINE_S)

    def let_go(self) -> None:
        self._let_go.set()
        self._thread.join(DEADLINE_S)


def test_threads_exclude_each_other() -> None:
    lock, inside, most = InProcessLock("t"), 0, 0
    tokens: list[int] = []

    def work(_: int) -> None:
        nonlocal inside, most
        with lock.acquire(DEADLINE_S, "count") as held:
            inside += 1
            most = max(most, inside)
            tokens.append(held.token)
            threading.Event().wait(0.0005)  # lets the others run: without the lock they would be inside too
            inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert most == 1
    assert tokens == list(range(1, 201)), "each acquisition has a greater token than the one before"


def test_a_refusal_names_the_holder_and_leaves_the_line() -> None:
    lock = InProcessLock("file:/tables/flights")
    holder = Holder(lock, "ingest 20261121101500123")
    assert holder.has_it.wait(DEADLINE_S)
    named = r"file:/tables/flights .* the-holder .* ingest 20261121101500123"
    with pytest.raises(Busy, match=named) as caught, lock.acquire(0.05, "clean"):
        pytest.fail("two hold the lock")
    assert caught.value.details["holder"]["purpose"] == "ingest 20261121101500123"
    assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details
    holder.let_go()
    with lock.acquire(0, "clean") as held:
        assert held.still_mine()


def test_first_come_first_served() -> None:
    lock, order = InProcessLock("t"), []
    holder = Holder(lock, "first")
    assert holder.has_it.wait(DEADLINE_S)
    threads = []

    def work(number: int) -> None:
        with lock.acquire(DEADLINE_S, "later"):
            order.append(number)

    for number in range(5):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        eventually(lambda: len(lock._waiting) == len(threads))
    holder.let_go()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert order == [0, 1, 2, 3, 4]


def test_the_same_thread_cannot_enter_twice() -> None:
    lock = InProcessLock("t")
    with lock.acquire(1, "outer"):
        with pytest.raises(Internal, match="already holds"), lock.acquire(1, "inner"):
            pytest.fail("entered twice")
        assert lock.holder() is not None, "the refusal must not release what the outer block holds"
    assert lock.holder() is None


def test_released_by_an_error_and_no_longer_mine() -> None:
    lock = InProcessLock("t")
    with pytest.raises(ZeroDivisionError), lock.acquire(1, "fail") as held:
        raise ZeroDivisionError
    assert not held.still_mine()
    assert lock.holder() is None


def test_one_name_one_lock_and_no_leak() -> None:
    name = "file:/tables/shared"
    first = in_process_lock(name)
    assert in_process_lock(name) is first
    assert in_process_lock(name + "2") is not first
    with first.acquire(1, "count"):
        pass
    del first
    gc.collect()
    with in_process_lock(name).acquire(1, "count") as held:
        assert held.token == 1, "nobody kept it, so it was made anew"


def _take_in_child(lock: InProcessLock, answers: Connection) -> None:
    with lock.acquire(1, "child") as held:
        answers.send((held.still_mine(), lock.holder().purpose))


def test_a_forked_child_does_not_inherit_the_holder() -> None:
    lock = InProcessLock("t")
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe()
    with lock.acquire(1, "parent") as held:
        child = fork.Process(target=_take_in_child, args=(lock, theirs))
        child.start()
        assert mine.poll(DEADLINE_S)
        assert mine.recv() == (True, "child")
        child.join(DEADLINE_S)
        assert child.exitcode == 0
        assert held.still_mine()


def test_it_does_not_travel() -> None:
    with pytest.raises(InvalidRequest, match="cannot be sent"):
        pickle.dumps(InProcessLock("t"))
