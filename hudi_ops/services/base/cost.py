"""Cost of a run: estimated and measured, and the memory that rewriting files takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine

ARROW_PER_STORED = 5.0
"""Bytes of rows in memory for each byte of compressed files."""
COPIES = 2.0
"""Copies of the rows in memory while they are merged and encoded."""
PLAN_S = 0.2
"""Further cost of each execution: takeover, inflight, decision."""
FOLDED_MAX = 20
"""The first rows are sampled if this many times the memory expected from file sizes exceeds the limit."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated or measured cost of a run. `memory_bytes` is the peak; None: not measured."""

    bytes_in: int
    bytes_out: int
    seconds: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class CostError:
    """Relative errors of an estimate: measured / expected - 1; None where either is unknown."""

    bytes_out: float | None
    seconds: float | None
    memory_bytes: float | None


def memory_of(stored_bytes: int) -> int:
    """Return the bytes of memory for rewriting files of a size whose rows are held whole."""
    return round(stored_bytes * ARROW_PER_STORED * COPIES)


@dataclass(frozen=True, slots=True)
class TaskSize:
    """Expected bytes that a task reads and writes.

    `files` multiplies `Rates.fixed_s`.
    """

    bytes_in: int
    bytes_out: int
    files: int = 1


@dataclass(frozen=True, slots=True)
class Rates:
    """Speed of one core at the tasks of a service, for estimates.

    Attributes:
        fixed_s: further seconds of each task, or of each of its files: opening them, markers, puts.
        read_bytes_per_s: stored bytes that are decoded and worked on in a second.
        write_bytes_per_s: stored bytes that are encoded in a second; infinite if `read_bytes_per_s` includes that.
    """

    fixed_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float = inf

    def cost(self, tasks: Sequence[TaskSize], engine: Engine, memory_bytes: int | None = None) -> Cost:
        """Return the cost of tasks; an engine whose threads are unknown runs one at a time.

        A task that would take more than `memory_bytes` streams its rows and stays within this limit. No task is split: the whole
        takes at least as long as the longest.
        """
        threads = engine.threads if isinstance(engine, LocalEngine) else 1
        at_a_time = max(1, min(threads, len(tasks)))
        seconds = [
            self.fixed_s * task.files + task.bytes_in / self.read_bytes_per_s + task.bytes_out / self.write_bytes_per_s
            for task in tasks
        ]
        held = sorted((memory_of(task.bytes_in) for task in tasks), reverse=True)[:at_a_time]
        return Cost(
            bytes_in=sum(task.bytes_in for task in tasks),
            bytes_out=sum(task.bytes_out for task in tasks),
            seconds=round(PLAN_S + max(sum(seconds) / at_a_time, *seconds), 3) if tasks else 0.0,
            memory_bytes=sum(held if memory_bytes is None else (min(one, memory_bytes) for one in held)),
        )


def error_of(expected: Cost, was: Cost) -> CostError:
    """Return the relative errors of an estimate."""
    return CostError(
        bytes_out=_error(expected.bytes_out, was.bytes_out),
        seconds=_error(expected.seconds, was.seconds),
        memory_bytes=_error(expected.memory_bytes, was.memory_bytes),
    )


def _error(expected: float | None, was: float | None) -> float | None:
    return round(was / expected - 1, 3) if expected and was is not None else None
