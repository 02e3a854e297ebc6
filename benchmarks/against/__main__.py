"""Run the benchmarks of hudi_ops in two checkouts in turn, and print the ratios of their costs, paired by round.

    git worktree add ../before COMMIT
    python -m benchmarks.against ../before --rounds 5

Each checkout runs its own benchmarks with its own code, and only the variants of hudi_ops on the local engine. A ratio is the cost
before by the cost now: above 1, now is cheaper. The exit code is 1 when the mean ratio of a benchmark is below `--floor`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks.harness import machine
from benchmarks.harness.comparison import say
from benchmarks.harness.places import ROOT


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as both checkouts run it.

    Attributes:
        name: its module in `benchmarks`, and the name of its results.
        options: that leave the variants of hudi_ops on the local engine.
        figures: that are compared; one that ends in `_per_s` is a rate, all others are costs.
    """

    name: str
    options: tuple[str, ...]
    figures: tuple[str, ...] = ("cpu_s", "wall_s")


BENCHMARKS = (
    Benchmark("ingest", ("--variants", "local", "--runs", "3")),
    Benchmark("compaction", ("--variants", "local", "--runs", "3")),
    Benchmark("clean", ("--variants", "ours", "--runs", "3")),
    Benchmark(
        "concurrency",
        ("--cases", "alone,alone-anew,disjoint-2,disjoint-8,same-8", "--runs", "2"),
        ("latency_s", "commits_per_s"),
    ),
)

Costs = dict[tuple[str, str], float]
"""Median cost of a figure of a case, in the unit of the figure; the inverse of a rate."""
Ratios = dict[tuple[str, str], list[float]]
"""Costs before by costs now, one a round."""


def costs_of(benchmark: Benchmark, checkout: Path) -> Costs:
    """Run a benchmark in a checkout; return its costs."""
    with tempfile.TemporaryDirectory() as folder:
        options = [*benchmark.options, "--work", f"{folder}/work", "--results", folder]
        command = [sys.executable, "-m", f"benchmarks.{benchmark.name}", *options]
        env = {**os.environ, "PYTHONPATH": str(checkout)}
        done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode} in {checkout}:\n{done.stderr[-3000:]}")
        runs = [json.loads(line) for line in Path(folder, f"{benchmark.name}.jsonl").read_text().splitlines()]
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        if run.get("counted", True):
            for figure in benchmark.figures:
                values[run["case"], figure].append(run[figure])
    medians = {key: max(median(each), 1e-6) for key, each in values.items()}
    return {(case, of): 1 / cost if of.endswith("_per_s") else cost for (case, of), cost in medians.items()}


def compare(benchmark: Benchmark, before: Path, rounds: int) -> Ratios:
    """Run a benchmark in both checkouts in turn; the order changes with each round."""
    ratios: Ratios = defaultdict(list)
    for number in range(rounds):
        say(f"{benchmark.name}: round {number + 1} of {rounds}, load {machine.load()}")
        order = (before, ROOT) if number % 2 else (ROOT, before)
        costs = {checkout: costs_of(benchmark, checkout) for checkout in order}
        for key in costs[ROOT].keys() & costs[before].keys():
            ratios[key].append(costs[before][key] / costs[ROOT][key])
    return ratios


def mean(ratios: Ratios, figure: str) -> float:
    """Return the geometric mean over cases of the median ratios of a figure."""
    return geometric_mean([median(each) for (_, of), each in ratios.items() if of == figure])


def report(ratios: Ratios, benchmark: Benchmark) -> str:
    """Write a Markdown table: a line for each case, the mean of all cases at its end."""
    lines = [f"| {benchmark.name} | {' | '.join(benchmark.figures)} |", "|---|" + "---|" * len(benchmark.figures)]
    for case in sorted({case for case, _ in ratios}):
        rows = [ratios[case, figure] for figure in benchmark.figures]
        shown = [f"{median(row):.2f} ({min(row):.2f}-{max(row):.2f})" for row in rows]
        lines.append(f"| `{case}` | {' | '.join(shown)} |")
    means = [f"**{mean(ratios, figure):.3f}**" for figure in benchmark.figures]
    return "\n".join([*lines, f"| all cases | {' | '.join(means)} |"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print a table for each benchmark as it ends; return the exit code."""
    names = [one.name for one in BENCHMARKS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="checkout of the other commit")
    parser.add_argument("--only", choices=names, action="append", help="a benchmark; may be repeated (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each benchmark")
    parser.add_argument("--floor", type=float, default=0.97, help="least mean ratio of the first figure")
    options = parser.parse_args(arguments)
    before = options.before.resolve()
    if not (before / "benchmarks").is_dir():
        parser.error(f"{before} is no checkout of this project\n  Next: git worktree add {before} COMMIT")
    below = []
    for benchmark in BENCHMARKS:
        if benchmark.name in (options.only or names):
            ratios = compare(benchmark, before, options.rounds)
            print(report(ratios, benchmark) + "\n", flush=True)
            if mean(ratios, benchmark.figures[0]) < options.floor:
                below.append(benchmark.name)
    if below:
        print(f"below {options.floor}: {', '.join(below)}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
