"""A stop signal ends tasks at their next check, lets no new one begin, and does not wait for a task that has no check."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from hudi_ops.engine.local import GRACE_S, LocalEngine
from hudi_ops.engine.stopping import StopSignal, check_stop
from hudi_ops.errors import Cancelled, Conflict

DEADLINE_S = 20.0


def refuse() -> None:
    raise Cancelled("cancelled in a test")


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    signal = StopSignal(refuse)
    yield signal
    signal.give()


def given_once_running(stop: StopSignal, running: threading.Event) -> None:
    assert running.wait(DEADLINE_S)
    stop.give()


def test_without_a_signal_results_come_in_the_order_of_the_inputs(stop: StopSignal) -> None:
    assert LocalEngine(threads=2).map(lambda value: value * 2, range(20), stop=stop) == [2 * one for one in range(20)]
    assert LocalEngine(threads=2).map(str, [], stop=stop) == []


def test_the_error_of_a_task_is_raised_and_stops_those_not_yet_begun(stop: StopSignal) -> None:
    begun = []

    def task(value: int) -> None:
        begun.append(value)
        raise Conflict(f"task {value}")

    with pytest.raises(Conflict, match="task 0"):
        LocalEngine(threads=1).map(task, range(5_000), stop=stop)
    assert len(begun) < 5_000


@pytest.mark.parametrize("inputs", [1, 9])
@pytest.mark.parametrize("threads", [1, 2])
def test_running_tasks_end_at_their_next_check(stop: StopSignal, threads: int, inputs: int) -> None:
    running, ended, begun = threading.Event(), [], []

    def task(value: int) -> None:
        begun.append(value)
        running.set()
        deadline_s = time.monotonic() + DEADLINE_S
        try:
            while time.monotonic() < deadline_s:
                check_stop()
                time.sleep(0.001)
        finally:
            ended.append(value)

    giver = threading.Thread(target=given_once_running, args=(stop, running))
    giver.start()
    with pytest.raises(Cancelled, match="in a test"):
        LocalEngine(threads=threads).map(task, range(inputs), stop=stop)
    giver.join()
    assert ended == begun, "the engine waits for tasks that end themselves"
    assert len(begun) <= threads, "no new task begins"


def test_a_task_without_a_check_is_not_waited_for(stop: StopSignal) -> None:
    running, hold, begun = threading.Event(), threading.Event(), []

    def task(value: int) -> None:
        begun.append(value)
        running.set()
        hold.wait(DEADLINE_S)

    giver = threading.Thread(target=given_once_running, args=(stop, running))
    giver.start()
    started_s = time.monotonic()
    with pytest.raises(Cancelled):
        LocalEngine(threads=1).map(task, [1, 2], stop=stop)
    assert time.monotonic() - started_s < GRACE_S + DEADLINE_S / 4
    hold.set()
    giver.join()
    assert begun == [1]


def test_outside_of_a_task_that_can_be_stopped_a_check_passes(stop: StopSignal) -> None:
    stop.give()
    check_stop()
