"""What is measured: so many writers, on one file group or each on its own, ours or Apache Hudi's; and what we aim for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Run = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One measurement. `commits` are those of each writer; `is_ours` False means Apache Hudi.

    `is_kept`: each writer keeps its `Table`; else it is opened anew for each commit, as by a scheduled job.
    """

    name: str
    title: str
    writers: int
    commits: int
    is_disjoint: bool = True
    has_zookeeper: bool = True
    is_ours: bool = True
    is_kept: bool = True

    @property
    def partitions(self) -> list[str]:
        """Where each writer writes."""
        return [f"p{number if self.is_disjoint else 0}" for number in range(self.writers)]


CASES = (
    Case("alone", "one writer", 1, 40),
    Case("alone-anew", "one writer, the table opened anew for each", 1, 40, is_kept=False),
    Case("alone-in-process", "one writer, a lock of its process", 1, 40, has_zookeeper=False),
    Case("disjoint-2", "2 writers, a file group each", 2, 30),
    Case("disjoint-4", "4 writers, a file group each", 4, 20),
    Case("disjoint-8", "8 writers, a file group each", 8, 15),
    Case("same-8", "8 writers, one file group", 8, 6, is_disjoint=False),
    Case("hudi", "Apache Hudi, one writer", 1, 10, is_ours=False),
    Case("hudi-8", "Apache Hudi, 8 writers, a file group each", 8, 3, is_ours=False),
)


@dataclass(frozen=True)
class Goal:
    """A bound for the median over runs of one figure of a case; `is_floor` asks for at least so much."""

    text: str
    case: str
    figure: Callable[[Run], float]
    bound: float
    is_floor: bool = False

    def values(self, runs: Sequence[Run]) -> list[float]:
        """One value a run."""
        return [self.figure(run) for run in runs if run["case"] == self.case]

    def is_met(self, values: Sequence[float]) -> bool:
        """Whether the median keeps the bound."""
        return median(values) >= self.bound if self.is_floor else median(values) <= self.bound


GOALS = (
    Goal("one-row commit, the whole transaction: at most 0.08 s", "alone", lambda run: run["latency_s"], 0.08),
    Goal("its storage calls: at most 18", "alone", lambda run: run["calls_per_commit"], 18),
    Goal("its lock held: at most 10 ms", "alone", lambda run: run["held_ms"], 10),
    Goal("lock held among 8 writers: at most 10 ms", "disjoint-8", lambda run: run["held_ms"], 10),
    Goal(
        "8 writers, a file group each: at least 30 commits/s", "disjoint-8", lambda run: run["commits_per_s"], 30, True
    ),
)
