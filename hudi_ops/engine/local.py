"""The engine of one process: threads over pyarrow, which releases the interpreter lock while it works."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from hudi_ops.engine.protocol import I, Produced, R


class LocalEngine:
    """Runs tasks in threads of this process.

    Args:
        threads: tasks at a time; 1 runs them one after the other in the calling thread, which simulations need.
    """

    name = "local"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1
        """Tasks at a time."""

    def map(self, task: Callable[[I], R], inputs: Sequence[I]) -> list[R]:
        """Results in the order of the inputs; the first error stops the tasks that have not begun."""
        if self.threads == 1 or len(inputs) < 2:
            return [task(one) for one in inputs]
        pool = ThreadPoolExecutor(max_workers=min(self.threads, len(inputs)))
        try:
            return list(pool.map(task, inputs))
        finally:
            # Running tasks are waited for: a caller that cleans up must not race with a task that still writes.
            pool.shutdown(wait=True, cancel_futures=True)

    @contextmanager
    def scatter(self, produce: Callable[[I], Produced], inputs: Sequence[I]) -> Iterator[LocalScattered]:
        """Chunks stay in this process's memory."""
        yield LocalScattered(self, self.map(produce, inputs))


class LocalScattered:
    """Chunks of a first step in memory, grouped by key."""

    def __init__(self, engine: LocalEngine, produced: Sequence[Produced]) -> None:
        self._engine = engine
        self.summaries: list[Any] = [one.summary for one in produced]
        self._chunks: dict[str, list[tuple[int, pa.Table]]] = {}
        for one in produced:
            for chunk in one.chunks:
                self._chunks.setdefault(chunk.key, []).append((chunk.ordinal, chunk.rows))

    def gather(self, consume: Callable[[I, Sequence[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Run the second step, one task a key."""

        def run(task: tuple[str, I]) -> R:
            key, value = task
            ordered = sorted(self._chunks.get(key, ()), key=lambda chunk: chunk[0])
            return consume(value, [rows for _, rows in ordered])

        return self._engine.map(run, tasks)
