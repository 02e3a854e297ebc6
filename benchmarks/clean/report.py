"""The report: what it was measured on, goals, medians with their spread, and ratios within a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.clean.cases import GOALS, VARIANTS
from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import ratios, spread


def report(facts: Mapping[str, str], runs: Sequence[Run]) -> str:
    """Return Markdown of the counted runs."""
    titles = {variant.name: variant.title for variant in VARIANTS}
    parts = [
        "# Results of the clean benchmark",
        "Made by `python -m benchmarks.clean`; README.md says what is compared. Ratios pair runs of one round: median (min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items() if key not in {"rows", "batch"}),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        _medians(runs, titles),
        "## Ratios to this library",
        ratios(runs, titles, "ours"),
    ]
    return "\n\n".join(parts) + "\n"


def _medians(runs: Sequence[Run], titles: Mapping[str, str]) -> str:
    lines = [
        "| case | variant | runs | wall s | CPU s | lock s | files deleted | writes off the timeline | peak RSS MB | load |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["case"], run["variant"]) == (case, variant)]
        loads = [run["load"] for run in mine]
        lock = f"{max(run['lock_s'] for run in mine):.3f}" if variant == "ours" and case == "archive" else ""
        lines.append(
            f"| `{case}` | {titles[variant]} | {len(mine)} | {spread([r['wall_s'] for r in mine])} "
            f"| {spread([r['cpu_s'] for r in mine])} | {lock} | {median(r['deleted'] for r in mine):.0f} "
            f"| {median(r['archived'] for r in mine):.0f} | {max(r['peak_rss_mb'] for r in mine)} "
            f"| {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)
