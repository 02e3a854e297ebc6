"""The report: what it was measured on, goals, medians with their spread, and ratios between runs of one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.ingest.cases import CASES, SINGLE, VARIANTS
from benchmarks.ingest.goals import verdicts

Run = dict[str, Any]
_TITLES = {variant.name: variant.title for variant in VARIANTS}


def report(facts: Mapping[str, str], runs: Sequence[Run], rows: Mapping[str, int], calls: Mapping[str, int]) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: the counted runs, as `compare.py` prints them.
        rows: rows of each batch.
        calls: storage calls of our commit of one row, by name; empty when it was not counted.
    """
    parts = [
        "# Results of the ingest benchmark",
        "Made by `make bench`; README.md says what is compared. Ratios pair runs of one round: median (min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(runs),
        "## Runs",
        _medians(runs, rows),
        "## Ratios to the local engine",
        _ratios(runs),
    ]
    if calls:
        told = ", ".join(f"{name} {count}" for name, count in calls.items())
        parts += ["## Storage calls", f"`{SINGLE}`, local engine: **{sum(calls.values())}** calls ({told})."]
    return "\n\n".join(parts) + "\n"


def _medians(runs: Sequence[Run], rows: Mapping[str, int]) -> str:
    lines = [
        "| case | variant | runs | wall s | CPU s | rows/s | peak RSS MB | files | MB | filters MB | load |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    batches = {case.name: case.batch for case in CASES}
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["case"], run["variant"]) == (case, variant)]
        wall, loads = [run["wall_s"] for run in mine], [run["load"] for run in mine]
        size = [f"{median(run[name] for run in mine) / 1e6:.1f}" for name in ("data_bytes", "filter_bytes")]
        lines.append(
            f"| `{case}` | {_TITLES[variant]} | {len(mine)} | {_spread(wall, 3)} | {_spread([r['cpu_s'] for r in mine])} "
            f"| {rows[batches[case]] / median(wall):,.0f} | {max(run['peak_rss_mb'] for run in mine):,.0f} "
            f"| {mine[0]['files']} | {' | '.join(size)} | {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)


def _ratios(runs: Sequence[Run]) -> str:
    lines = ["| case | variant ÷ local engine | wall | CPU |", "|---|---|---|---|"]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        ours, theirs = _by_round(runs, case, "local"), _by_round(runs, case, variant)
        rounds = sorted(ours.keys() & theirs.keys())
        if variant == "local" or not rounds:
            continue
        told = [
            _spread([theirs[each][name] / max(ours[each][name], 0.01) for each in rounds])
            for name in ("wall_s", "cpu_s")
        ]
        lines.append(f"| `{case}` | {_TITLES[variant]} | {' | '.join(told)} |")
    return "\n".join(lines)


def _by_round(runs: Sequence[Run], case: str, variant: str) -> dict[int, Run]:
    return {run["round"]: run for run in runs if (run["case"], run["variant"]) == (case, variant)}


def _spread(values: Sequence[float], digits: int = 2) -> str:
    return f"**{median(values):.{digits}f}** ({min(values):.{digits}f}-{max(values):.{digits}f})"
