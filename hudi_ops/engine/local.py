"""Engine of one process: threads over pyarrow, which releases the interpreter lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa

from hudi_ops.engine.memory import memory_bytes_min, memory_limit_bytes
from hudi_ops.engine.protocol import I, Produced, R
from hudi_ops.engine.spill import ChunkStore, Place
from hudi_ops.engine.stopping import StopSignal
from hudi_ops.errors import InvalidRequest

_MEMORY_SHARE = 4
GRACE_S = 0.25
"""Time that running tasks get to end themselves after a stop signal."""


class LocalEngine:
    """Engine that runs tasks in threads of this process.

    Args:
        threads: tasks at a time; 1 runs them one after the other in the calling thread, which simulations need.
        memory_bytes: incoming rows of a step that stay in memory; more go to disk. None: a quarter of what this process may use.
        spill_folder: folder on that disk; None: the system's folder for temporary files (`TMPDIR`).

    Raises:
        InvalidRequest: `memory_bytes` is less than the threads need.
    """

    name = "local"

    def __init__(
        self,
        threads: int | None = None,
        *,
        memory_bytes: int | None = None,
        spill_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.threads = threads or os.cpu_count() or 1
        """Tasks at a time."""
        least = memory_bytes_min(self.threads)
        if memory_bytes is not None and memory_bytes < least:
            raise InvalidRequest(
                f"memory_bytes is too small for {self.threads} threads",
                expected=f"at least {least} bytes",
                found=f"{memory_bytes}",
                next_step=f"give {least} or more, or fewer threads",
                setting="memory_bytes",
                minimum=least,
            )
        self._given_bytes = memory_bytes
        self.spill_folder = os.fspath(spill_folder) if spill_folder is not None else None
        """Folder for rows beyond the limit; None: the system's."""

    @cached_property
    def memory_bytes(self) -> int:
        """Bytes of incoming rows that stay in memory."""
        return self._given_bytes if self._given_bytes is not None else memory_limit_bytes() // _MEMORY_SHARE

    def map(self, task: Callable[[I], R], inputs: Sequence[I], *, stop: StopSignal | None = None) -> list[R]:
        """Run the tasks in order of the inputs; the first error stops those not yet begun.

        After a stop signal it waits `GRACE_S` for running tasks and returns; a task that has no check runs on.
        """
        if stop is None and (self.threads == 1 or len(inputs) < 2):
            return [task(value) for value in inputs]
        pool = ThreadPoolExecutor(max_workers=min(self.threads, len(inputs) or 1))
        try:
            if stop is None:
                return list(pool.map(task, inputs))
            return stop.results([pool.submit(stop.ends(task), value) for value in inputs], GRACE_S)
        finally:
            # Running tasks are waited for: a caller that cleans up must not race with a task that still writes.
            pool.shutdown(wait=stop is None or not stop.is_given, cancel_futures=True)

    @contextmanager
    def scatter(
        self, produce: Callable[[I], Iterable[Produced]], inputs: Iterable[I], *, held_bytes: int = 0
    ) -> Iterator[LocalScattered]:
        """Run the first step and hold its chunks until the context ends.

        They are in memory, or beyond `memory_bytes` (of which `held_bytes` are taken) in a temporary file. `inputs` may be a
        stream.
        """
        store = ChunkStore(max(0, self.memory_bytes - held_bytes), self.spill_folder)

        def run(numbered: tuple[int, I]) -> list[tuple[Place, Any]]:
            number, value = numbered
            summaries = []
            for run, produced in enumerate(produce(value)):
                store.add((number, run), produced.chunks, produced.size_bytes)
                summaries.append(((number, run), produced.summary))
            return summaries

        try:
            found = [piece for summaries in self._stream(run, enumerate(inputs)) for piece in summaries]
            store.seal()
            yield LocalScattered(self, store, [summary for _, summary in sorted(found, key=lambda piece: piece[0])])
        finally:
            store.close()

    def _stream(self, task: Callable[[I], R], inputs: Iterable[I]) -> Iterator[R]:
        """Run tasks as `map` does, holding at most one input more than there are threads."""
        if self.threads == 1:
            yield from map(task, inputs)
            return
        waiting: deque[Future[R]] = deque()
        pool = ThreadPoolExecutor(max_workers=self.threads)
        try:
            for value in inputs:
                waiting.append(pool.submit(task, value))
                if len(waiting) > self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class LocalScattered:
    """Chunks of a first step, held by this process."""

    def __init__(self, engine: LocalEngine, store: ChunkStore, summaries: list[Any]) -> None:
        self._engine = engine
        self._store = store
        self.summaries = summaries

    @property
    def spilled_bytes(self) -> int:
        """Bytes of chunks on disk."""
        return self._store.spilled_bytes

    def gather(self, consume: Callable[[I, list[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Run the second step, a task per key, with one key's chunks in memory per thread."""

        def run(task: tuple[str, I]) -> R:
            key, value = task
            return consume(value, self._store.read(key))

        return self._engine.map(run, tasks)

    def regroup(
        self, produce: Callable[[I, list[pa.Table]], Iterable[Produced]], tasks: Sequence[tuple[str, I]]
    ) -> AbstractContextManager[LocalScattered]:
        """Run a step between the first and the second, within the memory of one step."""

        def run(task: tuple[str, I]) -> Iterable[Produced]:
            key, value = task
            return produce(value, self._store.read(key))

        return self._engine.scatter(run, tasks, held_bytes=self._store.held_bytes)
