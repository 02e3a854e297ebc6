"""The report: goals, what each case cost, and the storage calls of one commit, itemised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.concurrency.cases import CASES, GOALS, Run


def report(facts: Mapping[str, str], runs: Sequence[Run], counted: Mapping[str, Any]) -> str:
    """Markdown.

    Args:
        facts: machine and versions.
        runs: as `compare.py` prints them.
        counted: storage calls of one commit of ours by case: `calls`, `under_lock`, `in_order`; empty when ours was not measured.
    """
    parts = [
        "# Results of the concurrency benchmark",
        "Made by `python -m benchmarks.concurrency`; README.md says what is compared. Median (min-max) of runs.",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        _verdicts(runs),
        "## Commits",
        _commits(runs),
        "## Lock and storage, ours",
        _lock(runs),
    ]
    for name, one in counted.items():
        parts += [f"## The {sum(one['calls'].values())} storage calls of one commit, `{name}`", _calls(one)]
    return "\n\n".join(parts) + "\n"


def _verdicts(runs: Sequence[Run]) -> str:
    lines = ["| goal | case | measured | |", "|---|---|---|---|"]
    for goal in GOALS:
        if values := goal.values(runs):
            verdict = "met" if goal.is_met(values) else "**missed**"
            lines.append(f"| {goal.text} | `{goal.case}` | {_spread(values)} | {verdict} |")
    return "\n".join(lines)


def _commits(runs: Sequence[Run]) -> str:
    lines = [
        "| case | | runs | commits/s | latency s, median | p95 | instants a commit | refused in all | load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        mine = [run for run in runs if run["case"] == case.name]
        if not mine:
            continue
        loads = [run["load"] for run in mine]
        refused = sum(sum(run["refused"].values()) for run in mine)
        instants = f"{median(run['instants_per_commit'] for run in mine):.2f}" if case.is_ours else ""
        lines.append(
            f"| `{case.name}` | {case.title} | {len(mine)} | {_of(mine, 'commits_per_s')} | {_of(mine, 'latency_s')} "
            f"| {_of(mine, 'latency_p95_s')} | {instants} | {refused} | {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines)


def _lock(runs: Sequence[Run]) -> str:
    lines = [
        "| case | locks a commit | held ms, median | p95 | waited ms | time held | waiting | calls a commit | under lock |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        mine = [run for run in runs if run["case"] == case.name and "held_ms" in run]
        if mine:
            shares = (f"{median(run[name] for run in mine):.0%}" for name in ("held_share", "waited_share"))
            lines.append(
                f"| `{case.name}` | {_of(mine, 'locks_per_commit')} | {_of(mine, 'held_ms')} | {_of(mine, 'held_p95_ms')} "
                f"| {_of(mine, 'waited_ms')} | {' | '.join(shares)} | {_of(mine, 'calls_per_commit')} "
                f"| {_of(mine, 'calls_under_lock')} |"
            )
    return "\n".join(lines)


def _calls(counted: Mapping[str, Any]) -> str:
    lines = ["| call | times | of which under the lock |", "|---|---|---|"]
    for call, times in sorted(counted["calls"].items(), key=lambda one: (-one[1], one[0])):
        lines.append(f"| {call} | {times} | {counted['under_lock'].get(call, 0)} |")
    under = sum(counted["under_lock"].values())
    told = ", ".join(f"{number} {call}" for number, call in enumerate(counted["in_order"], 1))
    return "\n".join(lines) + f"\n\nUnder the lock: {under}. In order: {told}."


def _of(runs: Sequence[Run], figure: str) -> str:
    return _spread([run[figure] for run in runs])


def _spread(values: Sequence[float]) -> str:
    return f"**{median(values):.3g}** ({min(values):.3g}-{max(values):.3g})"
