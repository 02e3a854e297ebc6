"""The report: what it was measured on, goals, and times of each read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.harness.goals import Run, verdicts
from benchmarks.read.cases import CASES, READS, VARIANTS
from benchmarks.read.goals import GOALS


def report(facts: Mapping[str, str], runs: Sequence[Run]) -> str:
    """Markdown; `facts` are machine and versions, `runs` those that count."""
    loads = [run["load"] for run in runs]
    return (
        "\n\n".join([
            "# Results of the read benchmark",
            "Made by `python -m benchmarks.read`; README.md says what is compared. Median (min-max).",
            "\n".join(f"- {key}: {value}" for key, value in facts.items())
            + f"\n- load of the last minute: {min(loads):.1f}-{max(loads):.1f}",
            "## Goals",
            verdicts(GOALS, runs),
            "## Wall time of a read, ms",
            _times(runs, "wall_s"),
            "## CPU time of a read, ms",
            _times(runs, "cpu_s"),
        ])
        + "\n"
    )


def _times(runs: Sequence[Run], figure: str) -> str:
    names = {case.name: f"{case.table_type}, {READS[case.read]}" for case in CASES}
    there = [case for case in names if any(run["case"] == case for run in runs)]
    lines = [f"| reader | {' | '.join(names[case] for case in there)} |", "|---" * (len(there) + 1) + "|"]
    for variant in VARIANTS:
        cells = []
        for case in there:
            found = [run[figure] * 1000 for run in runs if (run["case"], run["variant"]) == (case, variant.name)]
            cells.append(f"**{median(found):.0f}** ({min(found):.0f}-{max(found):.0f})" if found else "")
        if any(cells):
            lines.append(f"| {variant.title} | {' | '.join(cells)} |")
    return "\n".join(lines)
