"""The report: what it was measured on, goals, medians with their spread, how long planning took, and ratios within a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.compaction.cases import CASES, GOALS, VARIANTS
from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import medians, ratios, spread


def report(facts: Mapping[str, str], runs: Sequence[Run], entries: int) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: the counted runs, as `compare.py` prints them.
        entries: rows of base and batches together.
    """
    titles = {variant.name: variant.title for variant in VARIANTS}
    parts = [
        "# Results of the compaction benchmark",
        "Made by `make bench`; README.md says what is compared. Ratios pair runs of one round: median (min-max). Times are those "
        "of planning and execution together; rows/s counts rows of base and log files.",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        medians(runs, titles, {case.name: entries for case in CASES}),
        "## Planning alone",
        _planning(runs, titles),
        "## Ratios to the local engine",
        ratios(runs, titles, "local"),
    ]
    return "\n\n".join(parts) + "\n"


def _planning(runs: Sequence[Run], titles: Mapping[str, str]) -> str:
    lines = ["| case | variant | wall s | CPU s |", "|---|---|---|---|"]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["case"], run["variant"]) == (case, variant)]
        if any(run["plan_cpu_s"] or run["plan_wall_s"] > 0.001 for run in mine):
            told = [spread([run[name] for run in mine], 3) for name in ("plan_wall_s", "plan_cpu_s")]
            lines.append(f"| `{case}` | {titles[variant]} | {' | '.join(told)} |")
    return "\n".join(lines)
