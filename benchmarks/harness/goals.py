"""The form of a goal, and what came of each: one line a goal and case, met or missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

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


def verdicts(goals: Sequence[Goal], runs: Sequence[Run]) -> str:
    """Markdown: a line per goal and case that was measured."""
    lines = ["| goal | case | measured (min-max) | |", "|---|---|---|---|"]
    for goal in goals:
        for case in goal.cases:
            values = goal.values(runs, case)
            if values:
                found = f"**{median(values):.3g}** ({min(values):.3g}-{max(values):.3g})"
                lines.append(f"| {goal.text} | `{case}` | {found} | {'met' if goal.is_met(values) else '**missed**'} |")
    return "\n".join(lines)


def _by_round(runs: Sequence[Run], case: str, variant: str, figure: str) -> dict[int, float]:
    return {run["round"]: float(run[figure]) for run in runs if (run["case"], run["variant"]) == (case, variant)}
