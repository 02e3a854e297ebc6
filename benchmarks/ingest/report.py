"""The figures of all runs as a table: medians with their spread, and ratios between runs of one round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

NAMES = {"local": "hudi_ops, local engine", "spark": "hudi_ops, Spark engine", "hudi": "Apache Hudi"}

Run = dict[str, Any]


def summary(runs: Sequence[Run], batch_rows: int) -> str:
    """Markdown: a line per batch and variant, then the paired ratios.

    Args:
        runs: the counted runs, as `compare.py` prints them.
        batch_rows: rows of a batch.
    """
    return _medians(runs, batch_rows) + "\n\n" + _ratios(runs)


def _medians(runs: Sequence[Run], batch_rows: int) -> str:
    lines = [
        "| batch | variant | runs | wall s (min-max) | CPU s (min-max) | rows/s | peak RSS MB | load |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for batch, variant in dict.fromkeys((run["batch"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["batch"], run["variant"]) == (batch, variant)]
        wall = [run["wall_s"] for run in mine]
        loads = [run["load"] for run in mine]
        lines.append(
            f"| `{batch}` | {NAMES[variant]} | {len(mine)} | {_spread(wall)} | {_spread([run['cpu_s'] for run in mine])} "
            f"| {batch_rows / median(wall):,.0f} | {max(run['peak_rss_mb'] for run in mine):,.0f} "
            f"| {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)


def _ratios(runs: Sequence[Run]) -> str:
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    pairs = [(slow, fast) for place, slow in enumerate(variants) for fast in variants[place + 1 :]]
    lines = ["| batch | ratio, paired by round | wall | CPU |", "|---|---|---|---|"]
    for batch in dict.fromkeys(run["batch"] for run in runs):
        for slow, fast in pairs:
            wall, cpu = (_paired(runs, batch, slow, fast, _getter(name)) for name in ("wall_s", "cpu_s"))
            lines.append(f"| `{batch}` | {NAMES[slow]} ÷ {NAMES[fast]} | {_spread(wall, 1)} | {_spread(cpu, 1)} |")
    return "\n".join(lines)


def _getter(name: str) -> Callable[[Run], float]:
    return lambda run: float(run[name])


def _paired(runs: Sequence[Run], batch: str, slow: str, fast: str, value: Callable[[Run], float]) -> list[float]:
    by_variant = {
        variant: {run["round"]: value(run) for run in runs if (run["batch"], run["variant"]) == (batch, variant)}
        for variant in (slow, fast)
    }
    rounds = sorted(by_variant[slow].keys() & by_variant[fast].keys())
    return [by_variant[slow][each] / max(by_variant[fast][each], 0.01) for each in rounds]


def _spread(values: Sequence[float], digits: int = 2) -> str:
    return f"**{median(values):.{digits}f}** ({min(values):.{digits}f}-{max(values):.{digits}f})"
