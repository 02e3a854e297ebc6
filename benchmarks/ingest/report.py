"""The report: what it was measured on, goals, medians with their spread, and ratios between runs of one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import medians, ratios
from benchmarks.ingest.cases import CASES, SINGLE, VARIANTS
from benchmarks.ingest.goals import GOALS


def report(facts: Mapping[str, str], runs: Sequence[Run], rows: Mapping[str, int], calls: Mapping[str, int]) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: the counted runs, as `compare.py` prints them.
        rows: rows of each batch.
        calls: storage calls of our commit of one row, by name; empty when it was not counted.
    """
    titles = {variant.name: variant.title for variant in VARIANTS}
    parts = [
        "# Results of the ingest benchmark",
        "Made by `make bench`; README.md says what is compared. Ratios pair runs of one round: median (min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        medians(runs, titles, {case.name: rows[case.batch] for case in CASES}),
        "## Ratios to the local engine",
        ratios(runs, titles, "local"),
    ]
    if calls:
        told = ", ".join(f"{name} {count}" for name, count in calls.items())
        parts += ["## Storage calls", f"`{SINGLE}`, local engine: **{sum(calls.values())}** calls ({told})."]
    return "\n\n".join(parts) + "\n"
