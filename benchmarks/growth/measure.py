"""One-row commits into one open table, a process for each kind of table; and ledgers of one-file ingests.

Prints a JSON line a run, then a report; see README.md. The exit code is 1 when a table holds another row than it must; a missed
goal is said in the report.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import machine
from hudi_ops.commit.ledger import POINTER_PREFIX, read_ledger, source_id_of
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import FileInfo

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
CASES = {
    "cow": ("--type", "cow"),
    "cow-metadata": ("--type", "cow", "--metadata"),
    "mor": ("--type", "mor"),
    "mor-metadata": ("--type", "mor", "--metadata"),
}
RATIO_MAX = 1.3
LEDGER_BYTES_MAX = 50_000_000
URI = "file:///landing"
Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it; return 0, or 1 when a table held something else than it must."""
    options = _options(arguments)
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    options.results.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for number in range(options.runs):
        for case in options.cases:
            runs.append(_run(case, number, options))
            print(json.dumps(runs[-1]), flush=True)
    ledgers = ledger_bytes(options.files)
    print(json.dumps({"ledgers": options.files, "bytes": ledgers}), flush=True)
    (options.results / "growth.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    text = report(runs, options.commits, options.files, ledgers)
    (options.report or options.results / "GROWTH.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    shutil.rmtree(options.work, ignore_errors=True)
    return 0 if all(run["correct"] for run in runs) else 1


def ledger_bytes(files: int) -> int:
    """Return the stored bytes of all ledgers after a number of ingests of one file each."""
    storage, path, source_id = MemoryStorage(), "", source_id_of(URI)
    for number in range(files):
        ledger = read_ledger(storage, {POINTER_PREFIX + source_id: path} if path else {}, URI)
        info = FileInfo(f"events/part-{number:06d}.csv", 1000, 1_700_000_000_000)
        path = ledger.put_with(storage, [info], f"{20260101000000000 + number}")
    return sum(info.size_bytes for info in storage.list())


def report(runs: Sequence[Run], commits: int, files: int, ledgers: int) -> str:
    """Return the report: what each hundred commits cost, and the goals."""
    told = "\n".join(f"- {key}: {value}" for key, value in machine.machine().items())
    cases = list(dict.fromkeys(run["case"] for run in runs))
    lines = [f"# Growth without services\n\n{told}\n\nMedians of {len(runs) // len(cases)} runs, CPU milliseconds.\n"]
    lines.append("| table | a commit, first part | last part | ratio (min-max) | |\n|---|---|---|---|---|")
    for case in cases:
        own = [run for run in runs if run["case"] == case]
        ratios = [run["parts"][-1] / run["parts"][0] for run in own]
        first, last = (median(run["parts"][at] for run in own) for at in (0, -1))
        spread = f"**{median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
        lines.append(f"| `{case}` | {first:.1f} | {last:.1f} | {spread} | {_verdict(median(ratios) <= RATIO_MAX)} |")
    lines.append(f"\nGoal: the last part of {commits} commits costs at most {RATIO_MAX} times the first.\n")
    lines.append(
        "| table | load, open, 50 commits | all | ratio | opened anew, 50 commits | all | names | one listing |"
    )
    lines.append("|---|---|---|---|---|---|---|---|")
    for case in cases:
        own = [run for run in runs if run["case"] == case]
        load, cold = (
            [median(list(run[kind].values())[at] for run in own) for at in (0, -1)] for kind in ("load_ms", "cold_ms")
        )
        names, listing = (median(run[kind] for run in own) for kind in ("names", "listing_ms"))
        lines.append(
            f"| `{case}` | {load[0]:.2f} | {load[1]:.2f} | {load[1] / load[0]:.2f} | {cold[0]:.1f} | {cold[1]:.1f} "
            f"| {names:.0f} | {listing:.2f} |"
        )
    lines.append("\n`load` reads settings, log and timeline; `one listing` is what the names of its folder cost.\n")
    lines.append(
        f"Ledgers of {files} ingests of one file: {ledgers / 1e6:.1f} MB, {_verdict(ledgers < LEDGER_BYTES_MAX)} "
        f"(goal: under {LEDGER_BYTES_MAX / 1e6:.0f} MB for 10,000)."
    )
    return "\n".join(lines) + "\n"


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def _run(case: str, number: int, options: argparse.Namespace) -> Run:
    table = options.work / f"{case}-{number}"
    counts = ["--commits", str(options.commits), "--part", str(options.part)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth.job", "--table", str(table), *CASES[case], *counts],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    shutil.rmtree(table)
    return {"case": case, "round": number, "load": machine.load(), **json.loads(done.stdout)}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--part", type=int, default=100, help="commits of one measurement")
    parser.add_argument("--files", type=int, default=10_000, help="one-file ingests of the ledger's measurement")
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds")
    parser.add_argument(
        "--work", type=Path, default=RESULTS / "work" / "growth", help="folder of the tables, on a real disk"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", type=Path, default=None)
    options = parser.parse_args(arguments)
    if options.quick:
        options.runs, options.commits, options.part, options.files = 1, 20, 10, 50
    return options
