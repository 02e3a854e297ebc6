"""What an engine is: it runs pure tasks over many inputs, and moves incoming rows to the task that needs them.

A task is a plain function of one picklable input; the same tasks run in this process and on Spark's executors. Results come
back in the order of the inputs, whatever order they ran in, so that what is committed does not depend on scheduling.

The first step of two gives what it makes bit by bit, so that a source may be larger than memory: the engine takes each bit away,
holds it in memory or on disk, and hands the second step the chunks of one key at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

I = TypeVar("I")  # noqa: E741 - input of a task
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one input that belong to one key. The chunks of a key are ordered by input, then as the input's task gave them."""

    key: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Produced:
    """One bit of what a producing task made: a summary for the driver, and chunks for the tasks of the second step."""

    summary: Any
    chunks: tuple[Chunk, ...]


class Scattered(Protocol):
    """Chunks of the first step, held by the engine until the second step has used them."""

    @property
    def summaries(self) -> Sequence[Any]:
        """Those of every `Produced`, in the order of the inputs and of what each task gave."""
        ...

    def gather(self, consume: Callable[[I, list[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Run `consume(input, tables)` once per (key, input); `tables` are the key's chunks in their order.

        The list belongs to the task, which may empty it to give memory back.

        May be called again: a second attempt uses what the first step made for the first one.
        """
        ...

    def regroup(
        self, produce: Callable[[I, list[pa.Table]], Iterable[Produced]], tasks: Sequence[tuple[str, I]]
    ) -> AbstractContextManager[Scattered]:
        """A step between the two: as `gather`, but what `produce(input, tables)` makes is held as chunks in its turn.

        These chunks stay until the context ends, beside those that they were made of. Chunks of one key are ordered by task.
        """
        ...


class Engine(Protocol):
    """Runs tasks. An error that a task raises reaches the caller as the same class."""

    @property
    def name(self) -> str:
        """`local` or `spark`."""
        ...

    def map(self, task: Callable[[I], R], inputs: Sequence[I]) -> list[R]:
        """Results in the order of the inputs."""
        ...

    def scatter(
        self, produce: Callable[[I], Iterable[Produced]], inputs: Iterable[I]
    ) -> AbstractContextManager[Scattered]:
        """Run the first step, and keep its chunks for `gather` until the context ends.

        `inputs` may be a stream: it is read once, in the calling thread, hardly ahead of the tasks.
        """
        ...


@runtime_checkable
class FrameEngine(Engine, Protocol):
    """An engine that reads a PySpark DataFrame where its rows are."""

    def scatter_frame(
        self, produce: Callable[[Iterator[pa.RecordBatch], str], Iterable[Produced]], frame: Any
    ) -> AbstractContextManager[Scattered]:
        """As `scatter`, over the partitions of a DataFrame, which is evaluated once.

        Args:
            produce: called with a partition's record batches, and with words for errors that say which one it is.
            frame: a classic DataFrame.
        """
        ...
