"""Progress of many units.

Goal: what progress costs grows with the number of units, and its counts are right from any thread. Method: sizes that count how
often they are read, and threads that add at the same time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Progress, ProgressLines, Tally
from hudi_ops.services.base.waves import run_tasks
from hudi_ops.testing.clock import ManualClock

UNITS = 400


class Task:
    reads = 0

    @property
    def bytes_in(self) -> int:
        Task.reads += 1
        return 3


class Monitor:
    stop = None
    renewal = SimpleNamespace(storage=None, instant="")

    def check(self) -> None:
        """Let every task begin."""


class InOrder:
    """An engine that is not local: its tasks come in waves."""

    name = "spark"

    def map(self, run: Any, tasks: Any, *, stop: Any) -> list[Any]:
        return [run(task) for task in tasks]


@pytest.fixture
def told() -> list[Progress]:
    Task.reads = 0
    return []


@pytest.mark.parametrize("engine", [LocalEngine(), InOrder()], ids=["local", "waves"])
def test_sizes_are_read_a_few_times_whatever_the_number_of_tasks(engine: Any, told: list[Progress]) -> None:
    tasks: Any = [Task() for _ in range(UNITS)]
    assert len(run_tasks(engine, id, tasks, Monitor(), told.append, "slices")) == UNITS  # type: ignore[arg-type]
    assert told == [Progress("slices", done, UNITS, 3 * done, 3 * UNITS) for done in range(1, UNITS + 1)]
    assert Task.reads <= 4 * UNITS


def test_threads_count_each_unit_once_and_one_at_a_time(told: list[Progress]) -> None:
    tally = Tally(told.append, "files", UNITS, 5 * UNITS)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: tally.add(5), range(UNITS)))
    assert [one.done for one in told] == list(range(1, UNITS + 1))
    assert told[-1] == Progress("files", UNITS, UNITS, 5 * UNITS, 5 * UNITS)


def test_several_units_are_told_together(told: list[Progress]) -> None:
    tally = Tally(told.append, "files", 5)
    tally.add(7, 3)
    tally.add(1, 2)
    assert told == [Progress("files", 3, 5, 7), Progress("files", 5, 5, 8)]


def test_a_log_gets_lines_with_what_is_done_and_left() -> None:
    clock = ManualClock(0)
    lines = ProgressLines("compacting trips", print, clock)
    assert lines.line() == "compacting trips: 0 s so far"
    clock.advance_ms(40_000)
    lines.tell(Progress("file slices", 1, 4))
    assert lines.line() == "compacting trips: file slices 1 of 4, 40 s so far, about 120 s left"
    clock.advance_ms(40_000)
    lines.tell(Progress("file slices", 2, 4, 3_000, 4_000, "waits"))
    said = "file slices 2 of 4 (3,000 of 4,000 bytes), 80 s so far, about 27 s left, waits"
    assert lines.line() == f"compacting trips: {said}"
    clock.advance_ms(20_000)
    lines.tell(Progress("file slices", 4, 4))
    assert lines.line() == "compacting trips: file slices 4 of 4, 100 s so far"
    lines.tell(Progress("records", 1, 2))
    clock.advance_ms(5_000)
    assert "about 5 s left" in lines.line(), "each kind of work has a rate of its own"


def test_one_long_step_is_not_silent() -> None:
    said: Queue[str] = Queue()
    with ProgressLines("verifying trips", said.put, every_s=0.01) as lines:
        assert said.get(timeout=60).startswith("verifying trips: ")
    assert not lines._thread.is_alive(), "a line would follow the end of the work"
