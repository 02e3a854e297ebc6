"""What an engine is: it runs pure tasks over many inputs, and moves incoming rows to the task that needs them.

A task is a plain function of one picklable input; the same tasks run in this process and on Spark's executors. Results come
back in the order of the inputs, whatever order they ran in, so that what is committed does not depend on scheduling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

I = TypeVar("I")  # noqa: E741 - input of a task
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one input that belong to one key; `ordinal` orders the chunks of a key, ascending."""

    key: str
    ordinal: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Produced:
    """What one producing task made: a summary for the driver, and chunks for the tasks of the second step."""

    summary: Any
    chunks: tuple[Chunk, ...]


class Scattered(Protocol):
    """Chunks of the first step, held by the engine until the second step has used them."""

    @property
    def summaries(self) -> Sequence[Any]:
        """One per producing task, in the order of the inputs."""
        ...

    def gather(self, consume: Callable[[I, Sequence[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Run `consume(input, tables)` once per (key, input); `tables` are the key's chunks by ascending ordinal."""
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

    def scatter(self, produce: Callable[[I], Produced], inputs: Sequence[I]) -> AbstractContextManager[Scattered]:
        """Run the first step, and keep its chunks for `gather` until the context ends."""
        ...
