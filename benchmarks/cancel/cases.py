"""What is measured: requests, stops, the watcher, a clean that drives cancels, and what all of it costs others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.concurrency.cases import Goal

Run = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One measurement; `amount` says how much of it a round makes, `quick` how much in a smoke run.

    `rounds_max`: a case of minutes is not measured in every round.
    """

    name: str
    title: str
    amount: int
    quick: int
    rounds_max: int = 99


CASES = (
    Case("request", "request a cancel, one process", 150, 5),
    Case("request-8", "the same beside 8 processes that commit rows", 60, 3),
    Case("stop-local", "stop one long task of the local engine", 5, 1),
    Case("stop-spark", "stop one long task on Spark", 5, 1),
    Case("watcher", "watch three instants of one process, in seconds", 10, 2),
    Case("clean", "clean with 1,000 requests pending", 1_000, 10, rounds_max=1),
    Case("commit", "one-row commit, watcher on and off in turn", 60, 4),
    Case("compaction-local", "compaction of 16 file groups, watcher on and off in turn", 12, 2),
    Case("compaction-spark", "the same on Spark", 8, 1),
)


def p99(values: Sequence[float]) -> float:
    """Return the value that one in a hundred exceeds; with fewer values the largest."""
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


def _ratio(figure: str) -> Callable[[Run], float]:
    """Return the median over pairs: watcher on by watcher off."""
    return lambda run: median(on / off for on, off in zip(run[f"on_{figure}"], run[f"off_{figure}"], strict=True))


def _by_turn(run: Run) -> float:
    """Return the p99 of requests by the time that each writer's lock takes in turn."""
    return p99(run["durable_ms"]) / float(run["turn_ms"])


GOALS = (
    Goal("request durable, p99: at most 10 ms", "request", lambda run: p99(run["durable_ms"]), 10),
    Goal("request durable beside 8 writers, p99: at most 50 ms", "request-8", lambda run: p99(run["durable_ms"]), 50),
    Goal("the same by 2 syncs: at most 20", "request", lambda run: p99(run["durable_ms"]) / run["two_syncs_ms"], 20),
    Goal("beside 8 writers by 8 locks in turn: at most 1.5", "request-8", _by_turn, 1.5),
    Goal("request to stopped, local, longest: at most 2 s", "stop-local", lambda run: max(run["stopped_s"]), 2),
    Goal("request to stopped, Spark, longest: at most 2 s", "stop-spark", lambda run: max(run["stopped_s"]), 2),
    Goal("watcher: at most 1 storage call a second", "watcher", lambda run: run["calls_per_s"], 1),
    Goal(
        "clean with requests pending, longest hold: at most 0.3 s",
        "clean",
        lambda run: max(run["held_s"], default=0.0),
        0.3,
    ),
    Goal("one-row commit, CPU on ÷ off: at most 1.05", "commit", _ratio("cpu_s"), 1.05),
    Goal("compaction, local, CPU on ÷ off: at most 1.05", "compaction-local", _ratio("cpu_s"), 1.05),
    Goal("compaction, Spark, wall on ÷ off: at most 1.05", "compaction-spark", _ratio("wall_s"), 1.05),
)
