"""The report: goals with what they were held against, then what each case measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.cancel.cases import GOALS, Case, Run, p99
from benchmarks.harness.tables import spread


def report(facts: Mapping[str, str], runs: Sequence[Run], cases: Sequence[Case]) -> str:
    """Return the report as Markdown: facts of the machine, and the runs as `compare.py` prints them."""
    by_case = {case: [run for run in runs if run["case"] == case.name] for case in cases}
    parts = [
        "# Results of the cancel benchmark",
        "Made by `python -m benchmarks.cancel`; README.md says what is measured. Median (min-max) of runs.",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        _verdicts(runs),
        "## Cases",
        "\n".join(_row(case, found) for case, found in by_case.items() if found),
    ]
    return "\n\n".join(parts) + "\n"


def _verdicts(runs: Sequence[Run]) -> str:
    lines = ["| goal | case | measured | |", "|---|---|---|---|"]
    for goal in GOALS:
        if values := goal.values(runs):
            verdict = "met" if goal.is_met(values) else "**missed**"
            lines.append(f"| {goal.text} | `{goal.case}` | {spread(values, 3)} | {verdict} |")
    return "\n".join(lines)


def _row(case: Case, runs: Sequence[Run]) -> str:
    loads = [run["load"] for run in runs]
    return f"- `{case.name}`, {case.title} ({len(runs)} runs, load {min(loads):.1f}-{max(loads):.1f}): {_said(runs)}."


def _said(runs: Sequence[Run]) -> str:
    first = runs[0]
    if "durable_ms" in first:
        text = f"{len(_all(runs, 'durable_ms'))} requests; durable {_times(runs, 'durable_ms')}"
        text += f", the whole call {_times(runs, 'call_ms')}, of which waiting for the lock {_times(runs, 'waited_ms')}"
        text += f", CPU {_times(runs, 'cpu_ms')}"
        if "turn_ms" in first:
            commits = spread([run["commits_per_s"] for run in runs], 1)
            return f"{text}; anchor, 8 locks in turn: {spread([run['turn_ms'] for run in runs], 1)} ms; {commits} commits/s beside"
        return f"{text}; anchor, two syncs: {spread([run['two_syncs_ms'] for run in runs], 2)} ms"
    if "stopped_s" in first:
        text = f"{len(_all(runs, 'stopped_s'))} executions of {first['rows']:,} rows; stopped after {_seconds(runs, 'stopped_s')}"
        return f"{text}; the task itself ended after {_seconds(runs, 'worked_s')}"
    if "calls" in first:
        return f"{spread([run['calls_per_s'] for run in runs])} storage calls a second by {first['threads']} thread"
    if "held_s" in first:
        held = _all(runs, "held_s") or [0.0]
        return (
            f"{len(held)} holds, median {1000 * median(held):.1f} ms, longest {1000 * max(held):.1f} ms; "
            f"{spread([run['cleans'] for run in runs], 0)} cleans in {spread([run['seconds'] for run in runs], 1)} s"
        )
    ratios = {figure: _ratios(runs, figure) for figure in ("wall_s", "cpu_s")}
    on = median(_all(runs, "on_wall_s"))
    return f"{len(ratios['wall_s'])} pairs, {on:.3f} s; on ÷ off: wall {_paired(ratios['wall_s'])}, CPU {_paired(ratios['cpu_s'])}"


def _all(runs: Sequence[Run], figure: str) -> list[float]:
    return [each for run in runs for each in run[figure]]


def _times(runs: Sequence[Run], figure: str) -> str:
    found = _all(runs, figure)
    return f"{median(found):.1f} ms (p99 {p99(found):.1f})"


def _seconds(runs: Sequence[Run], figure: str) -> str:
    found = _all(runs, figure)
    return f"{median(found):.2f} s (longest {max(found):.2f})"


def _ratios(runs: Sequence[Run], figure: str) -> list[float]:
    return [on / off for run in runs for on, off in zip(run[f"on_{figure}"], run[f"off_{figure}"], strict=True) if off]


def _paired(ratios: Sequence[float]) -> str:
    ordered = sorted(ratios)
    quarter = len(ordered) // 4
    return f"**{median(ordered):.3f}** (quartiles {ordered[quarter]:.3f}-{ordered[-1 - quarter]:.3f})"
