"""The goals, and what came of each: one line a goal and case, met or missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.ingest.cases import SINGLE

Run = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """`figure` of `over` by that of `under`, paired by round; the median must be at least, or at most, `bound`.

    Without `over` the median of the figure itself is judged.
    """

    text: str
    cases: tuple[str, ...]
    under: str
    figure: str
    bound: float
    over: str = ""
    is_floor: bool = True

    def values(self, runs: Sequence[Run], case: str) -> list[float]:
        """One value a round in which both took part."""
        under = _by_round(runs, case, self.under, self.figure)
        if not self.over:
            return list(under.values())
        over = _by_round(runs, case, self.over, self.figure)
        return [over[number] / max(under[number], 1e-9) for number in sorted(over.keys() & under.keys())]

    def is_met(self, values: Sequence[float]) -> bool:
        """Whether the median keeps the bound."""
        return median(values) >= self.bound if self.is_floor else median(values) <= self.bound


_UPSERTS = ("mix", "upd", "upd-1", "upd-256")
_WRITES = ("bulk", *_UPSERTS, "ins")

GOALS = (
    Goal("local, CPU: at least 8x Apache Hudi (bucket)", _UPSERTS, "local", "cpu_s", 8.0, over="hudi"),
    Goal("local, CPU: at least 8x Apache Hudi (bloom)", ("mix", "upd"), "local", "cpu_s", 8.0, over="hudi-bloom"),
    Goal("Spark, CPU: at least 3.5x Apache Hudi (bucket)", _UPSERTS, "spark", "cpu_s", 3.5, over="hudi"),
    Goal("Spark, CPU: at least 3.5x Apache Hudi (bloom)", ("mix", "upd"), "spark", "cpu_s", 3.5, over="hudi-bloom"),
    Goal("local, CPU: at least 0.8x delta-rs MERGE", _UPSERTS, "local", "cpu_s", 0.8, over="delta"),
    Goal(
        "local without meta columns, CPU: at least 1.0x delta-rs MERGE",
        _UPSERTS,
        "local-bare",
        "cpu_s",
        1.0,
        "delta",
    ),
    Goal("local, CPU: at most 1.2x the floor", _WRITES, "floor", "cpu_s", 1.2, over="local", is_floor=False),
    Goal(
        "local without meta columns, CPU: at most 1.2x its floor",
        _WRITES,
        "floor-bare",
        "cpu_s",
        1.2,
        over="local-bare",
        is_floor=False,
    ),
    Goal("local, CPU: bulk insert at least 0.9x delta-rs", ("bulk",), "local", "cpu_s", 0.9, over="delta"),
    Goal("local, wall: one row in at most 0.08 s", (SINGLE,), "local", "wall_s", 0.08, is_floor=False),
    Goal(
        "local, bytes without filters: at most 1.05x the tuned writer's",
        _WRITES,
        "floor",
        "data_bytes",
        1.05,
        over="local",
        is_floor=False,
    ),
)


def verdicts(runs: Sequence[Run]) -> str:
    """Markdown: a line per goal and case that was measured."""
    lines = ["| goal | case | measured (min-max) | |", "|---|---|---|---|"]
    for goal in GOALS:
        for case in goal.cases:
            values = goal.values(runs, case)
            if values:
                found = f"**{median(values):.3g}** ({min(values):.3g}-{max(values):.3g})"
                lines.append(f"| {goal.text} | `{case}` | {found} | {'met' if goal.is_met(values) else '**missed**'} |")
    return "\n".join(lines)


def _by_round(runs: Sequence[Run], case: str, variant: str, figure: str) -> dict[int, float]:
    return {run["round"]: float(run[figure]) for run in runs if (run["case"], run["variant"]) == (case, variant)}
