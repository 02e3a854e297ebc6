"""The report: what it was measured on, goals, medians with their spread, and ratios within a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import spread
from benchmarks.index.cases import CASES, GOALS, VARIANTS


def report(facts: Mapping[str, str], runs: Sequence[Run]) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: the counted runs, as `compare.py` prints them.
    """
    parts = [
        "# Results of the index benchmark",
        "Made by `python -m benchmarks.index`; README.md says what is compared. Ratios pair runs of one round: median (min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        _runs(runs),
    ]
    return "\n\n".join(parts) + "\n"


def _runs(runs: Sequence[Run]) -> str:
    titles = {variant.name: variant.title for variant in VARIANTS}
    first = {case.name: case.variants[0] for case in CASES}
    lines = ["| case | variant | runs | wall s | CPU s | CPU ÷ first variant | load |", "|---|---|---|---|---|---|---|"]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = {run["round"]: run for run in runs if (run["case"], run["variant"]) == (case, variant)}
        base = {run["round"]: run for run in runs if (run["case"], run["variant"]) == (case, first[case])}
        quotients = [run["cpu_s"] / max(base[number]["cpu_s"], 1e-6) for number, run in mine.items() if number in base]
        loads = [run["load"] for run in mine.values()]
        cells = [spread([run[name] for run in mine.values()], 3) for name in ("wall_s", "cpu_s")]
        told = spread(quotients) if quotients and variant != first[case] else ""
        lines.append(
            f"| `{case}` | {titles[variant]} | {len(mine)} | {' | '.join(cells)} | {told} | {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)
