"""Run tasks in threads of this process or in waves on executors, with a check between them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.attempt_status import how_taken
from hudi_ops.concurrency.lease.monitor import WATCH_INTERVAL_S, LeaseMonitor
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.progress import Progress, Tally
from hudi_ops.engine.protocol import Engine
from hudi_ops.engine.stopping import checked_by
from hudi_ops.errors import Cancelled, Unavailable
from hudi_ops.services.base.choice import Sized
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.log.cancelled import marked_cancel

logger = logging.getLogger(__name__)

_CLOCK = SystemClock()
SPARK_WAVE = 64
"""Tasks of a plan that executors get at a time; between two waves the lease is checked."""

Task = TypeVar("Task", bound=Sized)
Input = TypeVar("Input")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class OnExecutor(Generic[Input, Outcome]):
    """Task of an instant on an executor, where no signal of the driver arrives.

    A task that runs for longer than a second looks once a second whether its instant was cancelled, and then ends itself. Spark
    would end the process only after seconds, and until then the task could put a file.
    """

    run: Callable[[Input], Outcome]
    storage: Storage
    instant: str

    def __call__(self, task: Input) -> Outcome:
        """Run one task.

        Raises:
            Cancelled: the instant was cancelled.
        """
        looked_s = _CLOCK.monotonic_s()

        def check() -> None:
            nonlocal looked_s
            now_s = _CLOCK.monotonic_s()
            if now_s - looked_s < WATCH_INTERVAL_S:
                return
            looked_s = now_s
            try:
                cancel = marked_cancel(self.storage, self.instant)
            except Unavailable as error:
                logger.warning("it could not be read whether %s was cancelled: %s", self.instant, error)
                return
            if cancel is not None:
                raise Cancelled(f"the plan {how_taken(*cancel)}", instant=self.instant, taken_by=cancel[1].owner)

        with checked_by(check):
            return self.run(task)


def in_waves(
    engine: Engine, run: Callable[[Input], Outcome], tasks: Sequence[Input], monitor: LeaseMonitor, size: int
) -> Iterator[list[Outcome]]:
    """Yield the outcomes of `size` tasks at a time, in order; check the lease before each wave.

    Raises:
        Cancelled: the instant was cancelled or taken over; a watcher stops the wave that runs.
    """
    for start in range(0, len(tasks), size):
        monitor.check()
        yield engine.map(run, tasks[start : start + size], stop=monitor.stop)


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
        Cancelled: the plan was cancelled or taken over; the other tasks are not begun, and running ones end at their next check.
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
        engine.map(step, order, stop=monitor.stop)
    else:
        apart = OnExecutor(run, monitor.renewal.storage, monitor.renewal.instant)
        waves = in_waves(engine, apart, [tasks[at] for at in order], monitor, SPARK_WAVE)
        for at, outcome in zip(order, chain.from_iterable(waves), strict=True):
            tell(at, outcome)
    return [done[at] for at in range(len(tasks))]
