"""Tables of a report: medians with their spread, and ratios between runs of one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

Run = dict[str, Any]


def medians(runs: Sequence[Run], titles: Mapping[str, str], rows: Mapping[str, int]) -> str:
    """Markdown: a line a case and variant.

    Args:
        runs: the counted runs.
        titles: of variants.
        rows: of each case, by which its wall time is divided.
    """
    lines = [
        "| case | variant | runs | wall s | CPU s | rows/s | peak RSS MB | files | MB | filters MB | load |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["case"], run["variant"]) == (case, variant)]
        wall, loads = [run["wall_s"] for run in mine], [run["load"] for run in mine]
        size = [f"{median(run[name] for run in mine) / 1e6:.1f}" for name in ("data_bytes", "filter_bytes")]
        lines.append(
            f"| `{case}` | {titles[variant]} | {len(mine)} | {spread(wall, 3)} | {spread([r['cpu_s'] for r in mine])} "
            f"| {rows[case] / median(wall):,.0f} | {max(run['peak_rss_mb'] for run in mine):,.0f} "
            f"| {mine[0]['files']} | {' | '.join(size)} | {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)


def ratios(runs: Sequence[Run], titles: Mapping[str, str], to: str) -> str:
    """Markdown: wall and CPU time of every variant by that of the variant `to`, paired by round."""
    lines = ["| case | variant ÷ local engine | wall | CPU |", "|---|---|---|---|"]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        ours, theirs = _by_round(runs, case, to), _by_round(runs, case, variant)
        rounds = sorted(ours.keys() & theirs.keys())
        if variant == to or not rounds:
            continue
        told = [
            spread([theirs[each][name] / max(ours[each][name], 0.01) for each in rounds])
            for name in ("wall_s", "cpu_s")
        ]
        lines.append(f"| `{case}` | {titles[variant]} | {' | '.join(told)} |")
    return "\n".join(lines)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median, least and most."""
    return f"**{median(values):.{digits}f}** ({min(values):.{digits}f}-{max(values):.{digits}f})"


def _by_round(runs: Sequence[Run], case: str, variant: str) -> dict[int, Run]:
    return {run["round"]: run for run in runs if (run["case"], run["variant"]) == (case, variant)}
