"""Protocols of engines.

An engine runs pure tasks over many inputs, and moves incoming rows to the tasks that need them.

A task is a plain function of one picklable input; the same tasks run in this process and on Spark's executors. Results come
back in the order of the inputs, not in that of execution, so that commits do not depend on scheduling.

The first step of two returns its result in pieces, so that a source may be larger than memory: the engine takes each piece,
holds it in memory or on disk, and hands the second step the chunks of one key at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from hudi_ops.engine.stopping import StopSignal

I = TypeVar("I")  # noqa: E741 - input of a task
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one input with one key; chunks are ordered by input, then as returned."""

    key: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Produced:
    """Piece of a task's result: a summary for the driver, and chunks for the second step.

    `size_bytes` are the Arrow bytes of the chunks; None: they are added up.
    """

    summary: Any
    chunks: tuple[Chunk, ...]
    size_bytes: int | None = None


class Scattered(Protocol):
    """Chunks of the first step, held by the engine until the second step has used them."""

    @property
    def summaries(self) -> Sequence[Any]:
        """Summaries of every `Produced`, in the order of the inputs and of each task's results."""
        ...

    def gather(self, consume: Callable[[I, list[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Run `consume(input, tables)` once per (key, input), with the key's chunks in their order.

        The task may empty its list to release memory. A second call uses the chunks of the same first step.
        """
        ...

    def regroup(
        self, produce: Callable[[I, list[pa.Table]], Iterable[Produced]], tasks: Sequence[tuple[str, I]]
    ) -> AbstractContextManager[Scattered]:
        """Run a step between the first and the second; hold the results of `produce(input, tables)`.

        They stay until the context ends, beside those of the first step. Chunks of one key are ordered by task.
        """
        ...


class Engine(Protocol):
    """Runner of tasks; a task's error reaches the caller as the same class."""

    @property
    def name(self) -> str:
        """`local` or `spark`."""
        ...

    def map(self, task: Callable[[I], R], inputs: Sequence[I], *, stop: StopSignal | None = None) -> list[R]:
        """Run the tasks and return their results in the order of the inputs.

        Raises:
            HudiOpsError: a task's own error, or the reason of `stop`, as soon as that signal is given.
        """
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
    """Engine that reads a PySpark DataFrame on the executors that hold its rows."""

    def scatter_frame(
        self, produce: Callable[[Iterator[pa.RecordBatch], str], Iterable[Produced]], frame: Any
    ) -> AbstractContextManager[Scattered]:
        """Run the first step over the partitions of a DataFrame, which is evaluated once.

        `produce` gets a partition's record batches, and the partition's name for errors.
        """
        ...
