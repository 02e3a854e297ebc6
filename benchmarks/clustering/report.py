"""The report: what it was measured on, goals, medians with their spread, and ratios within a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.clustering.cases import CASES, GOALS, VARIANTS
from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import medians, ratios


def report(facts: Mapping[str, str], runs: Sequence[Run], rows: int) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: the counted runs, as `compare.py` prints them.
        rows: of the table.
    """
    titles = {variant.name: variant.title for variant in VARIANTS}
    parts = [
        "# Results of the clustering benchmark",
        "Made by `python -m benchmarks.clustering`; README.md says what is compared. Ratios pair runs of one round: median "
        "(min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        medians(runs, titles, {case.name: rows for case in CASES}),
        "## Ratios to the local engine",
        ratios(runs, titles, "local"),
    ]
    return "\n\n".join(parts) + "\n"
