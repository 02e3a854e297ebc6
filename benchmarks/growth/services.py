"""`python -m benchmarks.growth.services`: growth of tables that are cleaned, archived and compacted while they are written.

A process for each kind of table; prints a JSON line a case, then a report. The exit code is 1 when a table holds another row than
it must; a missed goal is said in the report.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth.measure import RESULTS, ROOT
from benchmarks.harness import machine

CASES = {
    "cow": ("--type", "cow"),
    "mor-metadata": ("--type", "mor", "--metadata"),
    "files": ("--type", "cow", "--files"),
}
"""`files` takes one file of a source with each commit, and twice as many."""
RATIO_MAX = 1.2
Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it; return 0, or 1 when a table held something else than it must."""
    options = _options(arguments)
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    options.results.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for case in options.cases:
        runs.append(_run(case, options))
        print(json.dumps(runs[-1]), flush=True)
    text = report(runs)
    (options.report or options.results / "SERVICES.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    shutil.rmtree(options.work, ignore_errors=True)
    return 0 if all(run["correct"] for run in runs) else 1


def report(runs: Sequence[Run]) -> str:
    """Return the report: what the last commits cost beside those of a new table, and what lies in `.hoodie`."""
    told = "\n".join(f"- {key}: {value}" for key, value in machine.machine().items())
    lines = [f"# Growth with services\n\n{told}\n\nCPU milliseconds of a commit, with its share of the services.\n"]
    lines.append(
        "| table | first part | last part, a new table | the same, the grown table | ratio | |\n|---|---|---|---|---|---|"
    )
    for run in runs:
        fresh, grown = run["paired"]
        verdict = "met" if grown / fresh <= RATIO_MAX else "**missed**"
        lines.append(
            f"| `{run['case']}` | {run['parts'][0]:.1f} | {fresh:.1f} | {grown:.1f} | **{grown / fresh:.2f}** | {verdict} |"
        )
    lines.append(f"\nGoal: at most {RATIO_MAX}. Longest time under the lock for a batch of an archive, in seconds: ")
    lines[-1] += ", ".join(f"`{run['case']}` {run['lock_s']:.3f}" for run in runs) + "."
    for run in runs:
        moments = run["moments"]
        kinds = sorted({kind for _, held in moments for kind in held})
        lines.append(f"\n## `.hoodie` of `{run['case']}`: files, kB\n")
        lines.append("| kind | " + " | ".join(f"{count} commits" for count, _ in moments) + " |")
        lines.append("|---" * (len(moments) + 1) + "|")
        for kind in kinds:
            cells = (held.get(kind, (0, 0)) for _, held in moments)
            lines.append(f"| {kind} | " + " | ".join(f"{files}, {size / 1000:.0f}" for files, size in cells) + " |")
    return "\n".join(lines) + "\n"


def _run(case: str, options: argparse.Namespace) -> Run:
    table = options.work / case
    commits = options.commits * (2 if case == "files" else 1)
    counts = ["--commits", str(commits), "--part", str(options.part)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth.serviced_job", "--table", str(table), *CASES[case], *counts],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {"case": case, "load": machine.load(), **json.loads(done.stdout)}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth.services", description=__doc__)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--part", type=int, default=100, help="commits of one measurement")
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds")
    parser.add_argument("--work", type=Path, default=RESULTS / "work" / "services", help="folder of the tables")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", type=Path, default=None)
    options = parser.parse_args(arguments)
    if options.quick:
        options.commits, options.part = 60, 20
    return options


if __name__ == "__main__":
    sys.exit(main())
