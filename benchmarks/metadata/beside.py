"""The report of ingestion beside a build: commits are compared with those of the same number in the run without a build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median

import numpy as np

from benchmarks.harness.goals import Goal, Run, verdicts
from benchmarks.harness.tables import spread

VARIANTS = {
    "alone": "no build",
    "beside": "a build of the table",
    "elsewhere": "a build of a copy of the table: what the machine adds",
    "indexed": "no build, the indexes are there from the start",
}
HAS_BUILD = ("beside", "elsewhere")
_INGESTION, _CATCH_UP = ("ingestion",), ("catch-up",)
GOALS = (
    Goal(
        "commit latency beside a build, p50: at most 1.10x",
        _INGESTION,
        "alone",
        "p50_s",
        1.10,
        "beside",
        is_floor=False,
    ),
    Goal(
        "commit latency beside a build, p95: at most 1.10x",
        _INGESTION,
        "alone",
        "p95_s",
        1.10,
        "beside",
        is_floor=False,
    ),
    Goal(
        "CPU of a commit after the announcement: at most 1.15x",
        _INGESTION,
        "alone",
        "after_cpu_s",
        1.15,
        "beside",
        is_floor=False,
    ),
    Goal(
        "the same beside a commit to a table that has the indexes: at most 1.15x",
        _INGESTION,
        "indexed",
        "after_cpu_s",
        1.15,
        "beside",
        is_floor=False,
    ),
    Goal("catch-up, CPU: at least 5x the throughput of ingestion", _CATCH_UP, "catch-up", "cpu_s", 5.0, "writer"),
    Goal("catch-up, wall: at least 5x the throughput of ingestion", _CATCH_UP, "catch-up", "wall_s", 5.0, "writer"),
)
Chosen = Callable[[Run, Run], bool]


def report(facts: Mapping[str, str], runs: Sequence[Run]) -> str:
    """Markdown.

    Args:
        facts: machine and settings.
        runs: the counted runs, as `ingestion.py` prints them.
    """
    figures = [*_figures(runs)]
    parts = [
        "# Ingestion beside an index build",
        "Made by `python -m benchmarks.metadata.ingestion`; README.md says what is measured. Ratios pair runs of a round: median"
        " (min-max).",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        verdicts(GOALS, figures),
        _compared(runs),
        _caught_up([run for run in runs if run["case"] == "catch-up"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def is_beside(commit: Run, built: Run) -> bool:
    """Whether a commit ran while the build did."""
    return bool(commit["ended"] > built["began"] and commit["began"] < built["ended"])


def is_after(commit: Run, built: Run) -> bool:
    """Whether a commit began after the announcement, so that it carries the indexes."""
    return bool(commit["began"] >= built["announced"])


def is_between(commit: Run, built: Run) -> bool:
    """Whether it began between the announcement and the end of the build."""
    return is_after(commit, built) and bool(commit["began"] < built["ended"])


def is_later(commit: Run, built: Run) -> bool:
    """Whether it began after the build."""
    return bool(commit["began"] >= built["ended"])


def _pairs(runs: Sequence[Run], variant: str, other: str = "alone") -> Iterator[tuple[Run, Run]]:
    """Each run of a variant with that of another one in its round; runs whose build outlasted the commits are left out."""
    others = {run["round"]: run for run in runs if run["variant"] == other}
    for run in runs:
        is_whole = run["variant"] == variant and run["built"]["ended"] < run["commits"][-1]["began"]
        if is_whole and run["round"] in others:
            yield run, others[run["round"]]


def _chosen(run: Run, other: Run, choice: Chosen) -> tuple[list[Run], list[Run]]:
    """Commits of a run with a build, and those of the same numbers in the other run."""
    numbers = [number for number, commit in enumerate(run["commits"]) if choice(commit, run["built"])]
    return [run["commits"][number] for number in numbers], [other["commits"][number] for number in numbers]


def _latencies(commits: Sequence[Run]) -> list[float]:
    return [commit["ended"] - commit["began"] for commit in commits]


def _figures(runs: Sequence[Run]) -> Iterator[Run]:
    """What the goals compare: one line a round and variant."""
    for name in ("alone", "indexed"):
        for run, other in _pairs(runs, "beside", name):
            beside, after = _chosen(run, other, is_beside), _chosen(run, other, is_after)
            yield from _of_commits(run, "beside", beside[0], after[0]) if name == "alone" else ()
            yield from _of_commits(run, name, beside[1], after[1])
    for run in runs:
        if run["case"] == "catch-up":
            built, named = run["built"], {"case": "catch-up", "round": run["round"]}
            took = {"cpu_s": built["cpu_s"] - built["announced_cpu_s"], "wall_s": built["ended"] - built["announced"]}
            yield {**named, "variant": "catch-up", **took}
            cpu_s = sum(commit["cpu_s"] for commit in run["commits"])
            yield {**named, "variant": "writer", "cpu_s": cpu_s, "wall_s": sum(_latencies(run["commits"]))}


def _of_commits(run: Run, variant: str, during: Sequence[Run], after: Sequence[Run]) -> Iterator[Run]:
    p50_s, p95_s = np.percentile(_latencies(during), [50, 95])
    yield {
        "case": "ingestion",
        "variant": variant,
        "round": run["round"],
        "p50_s": float(p50_s),
        "p95_s": float(p95_s),
        "after_cpu_s": fmean(commit["cpu_s"] for commit in after),
    }


def _compared(runs: Sequence[Run]) -> str:
    """A line a variant and choice of commits, all rounds together."""
    lines = [
        "| run | beside | commits | of all rounds | p50 s, the other | p50 s | ratio | p95 s, the other | p95 s | ratio "
        "| CPU s a commit, the other | CPU s | ratio |",
        "|---" * 13 + "|",
    ]
    choices = {
        "while it runs": is_beside,
        "after the announcement": is_after,
        "of these, while it runs": is_between,
        "of these, after its end": is_later,
    }
    for variant, base in (("beside", "alone"), ("elsewhere", "alone"), ("beside", "indexed")):
        for title, choice in choices.items():
            pairs = [_chosen(run, other, choice) for run, other in _pairs(runs, variant, base)]
            mine, others = ([commit for pair in pairs for commit in pair[side]] for side in (0, 1))
            if not mine:
                continue
            cells = []
            for percent in (50, 95):
                ours, theirs = (float(np.percentile(_latencies(one), percent)) for one in (mine, others))
                cells += [f"{theirs:.3f}", f"{ours:.3f}", f"**{ours / theirs:.2f}**"]
            ours, theirs = (fmean(commit["cpu_s"] for commit in one) for one in (mine, others))
            cells += [f"{theirs:.3f}", f"{ours:.3f}", f"**{ours / theirs:.2f}**"]
            lines.append(f"| {VARIANTS[variant]} | {VARIANTS[base]} | {title} | {len(mine)} | {' | '.join(cells)} |")
    if len(lines) == 2:
        return ""
    ingestion = [run for run in runs if run["case"] == "ingestion"]
    loads = [run["load"] for run in ingestion]
    walls = [run["built"]["ended"] - run["built"]["began"] for run in ingestion if run["variant"] == "beside"]
    rounds = [run["built"]["rounds"] for run in ingestion if run["variant"] == "beside"]
    told = f"Builds of the table took {spread(walls)} s and {median(rounds):.0f} ({min(rounds)}-{max(rounds)}) rounds."
    return "\n".join(lines) + f"\n\n{told} Load {min(loads):.1f}-{max(loads):.1f}."


def _caught_up(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    cpu = [run["built"]["cpu_s"] - run["built"]["announced_cpu_s"] for run in runs]
    wall = [run["built"]["ended"] - run["built"]["announced"] for run in runs]
    commits = [sum(commit["cpu_s"] for commit in run["commits"]) for run in runs]
    loads = [run["load"] for run in runs]
    return (
        f"Catch-up of {len(runs[0]['commits'])} commits, to the end of the build: CPU {spread(cpu)} s, wall {spread(wall)} s; "
        f"these commits: CPU {spread(commits)} s. Load {min(loads):.1f}-{max(loads):.1f}."
    )
