"""Progress of many units.

Goal: what progress costs grows with the number of units, and its counts are right from any thread. Method: sizes that count how
often they are read, and threads that add at the same time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Progress, Tally
from hudi_ops.services.base.waves import run_tasks

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
