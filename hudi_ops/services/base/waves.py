"""Run tasks in threads of this process or in waves on executors, with a check between them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from hudi_ops.concurrency.lease.monitor import LeaseMonitor
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Progress, Tally
from hudi_ops.engine.protocol import Engine
from hudi_ops.services.base.service import Sized

logger = logging.getLogger(__name__)

SPARK_WAVE = 64
"""Tasks of a plan that executors get at a time; between two waves the lease is checked."""

Task = TypeVar("Task", bound=Sized)
Input = TypeVar("Input")
Outcome = TypeVar("Outcome")


def in_waves(
    engine: Engine, run: Callable[[Input], Outcome], tasks: Sequence[Input], check: Callable[[], None], size: int
) -> Iterator[list[Outcome]]:
    """Yield the outcomes of `size` tasks at a time, in order; call `check` before each wave."""
    for start in range(0, len(tasks), size):
        check()
        yield engine.map(run, tasks[start : start + size])


def run_tasks(
    engine: Engine,
    run: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    monitor: LeaseMonitor,
    progress: Callable[[Progress], None],
    what: str,
) -> list[Outcome]:
    """Run all tasks, largest first, and return the outcomes in the order of the tasks.

    Raises:
        Cancelled: the plan was cancelled or taken over; the other tasks are not begun.
    """
    order = sorted(range(len(tasks)), key=lambda at: -tasks[at].bytes_in)
    done: dict[int, Outcome] = {}

    def told(one: Progress) -> None:
        logger.info("%s: %s of %s done, %s of %s bytes", what, one.done, one.total, one.bytes_done, one.bytes_in)
        progress(one)

    tally = Tally(told, what, len(tasks), sum(task.bytes_in for task in tasks))

    def tell(at: int, outcome: Outcome) -> None:
        done[at] = outcome
        tally.add(tasks[at].bytes_in)

    def step(at: int) -> None:
        monitor.check()
        tell(at, run(tasks[at]))

    if isinstance(engine, LocalEngine):
        engine.map(step, order)
    else:
        waves = in_waves(engine, run, [tasks[at] for at in order], monitor.check, SPARK_WAVE)
        for at, outcome in zip(order, chain.from_iterable(waves), strict=True):
            tell(at, outcome)
    return [done[at] for at in range(len(tasks))]
