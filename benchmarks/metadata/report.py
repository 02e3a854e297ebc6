"""The report of writes and builds: goals, medians with their spread, and ratios between runs of one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import ratios, spread
from benchmarks.metadata.cases import GOALS, VARIANTS


def report(facts: Mapping[str, str], runs: Sequence[Run]) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: the counted runs, as `compare.py` prints them.
    """
    titles = {variant.name: variant.title for variant in VARIANTS}
    parts = [
        "# Writes and builds with a metadata table",
        "Made by `python -m benchmarks.metadata`; README.md says what is compared. Ratios pair runs of a round: median (min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        _medians(runs, titles),
        "## Ratios to the local engine",
        ratios(runs, titles, "local"),
    ]
    return "\n\n".join(parts) + "\n"


def _medians(runs: Sequence[Run], titles: Mapping[str, str]) -> str:
    lines = [
        "| case | variant | runs | wall s | CPU s | peak RSS MB | metadata files | metadata kB | load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["case"], run["variant"]) == (case, variant)]
        loads = [run["load"] for run in mine]
        lines.append(
            f"| `{case}` | {titles[variant]} | {len(mine)} | {spread([run['wall_s'] for run in mine], 3)} "
            f"| {spread([run['cpu_s'] for run in mine])} | {max(run['peak_rss_mb'] for run in mine):,.0f} "
            f"| {mine[0]['metadata_files']} | {median(run['metadata_bytes'] for run in mine) / 1e3:,.0f} "
            f"| {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)
