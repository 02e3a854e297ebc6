"""Ordered concatenation of streams, each produced by its own thread within a bound."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741 - input of a task, as in engine.protocol
R = TypeVar("R")


def in_order(produce: Callable[[I], Iterator[R]], inputs: Iterable[I], *, threads: int, ahead: int) -> Iterator[R]:
    """Yield the results of `produce` for each input, in the order of the inputs.

    At most `threads * (ahead + 1)` results are held; with one thread streams run in the calling thread. An error of a stream is
    raised when its turn comes. Closing the iterator ends all threads before it returns.
    """
    if threads == 1:
        for value in inputs:
            yield from produce(value)
        return
    rest = iter(inputs)
    running: deque[_Stream[R]] = deque()
    try:
        while True:
            running.extend(_Stream(produce, value, ahead) for value in islice(rest, threads - len(running)))
            if not running:
                return
            yield from running[0].results()
            running.popleft().close()
    finally:
        for stream in running:
            stream.close()


class _Stream(Generic[R]):
    """Stream with a thread that fills a bounded buffer."""

    def __init__(self, produce: Callable[[I], Iterator[R]], value: I, ahead: int) -> None:
        self._changed = threading.Condition()
        self._ready: deque[R] = deque()
        self._ahead = ahead
        self._error: BaseException | None = None
        self._is_done = self._is_closed = False
        self._thread = threading.Thread(target=self._run, args=(produce, value), name="hudi-ops-stream", daemon=True)
        self._thread.start()

    def results(self) -> Iterator[R]:
        """Yield results as they come; raise the stream's error after the last one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._is_done)
                if not self._ready:
                    break
                result = self._ready.popleft()
                self._changed.notify_all()
            yield result
            del result
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread and wait for it, so that no file stays open."""
        with self._changed:
            self._is_closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def _run(self, produce: Callable[[I], Iterator[R]], value: I) -> None:
        try:
            for result in produce(value):
                if not self._put(result):
                    return
        except BaseException as error:  # noqa: BLE001 - carried over to the consumer
            self._error = error
        finally:
            with self._changed:
                self._is_done = True
                self._changed.notify_all()

    def _put(self, result: R) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < self._ahead or self._is_closed)
            if not self._is_closed:
                self._ready.append(result)
                self._changed.notify_all()
            return not self._is_closed
