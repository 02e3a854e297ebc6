"""Upsert 100,000 rows into 1,000,000: hudi_ops, both engines, beside Apache Hudi; prints a JSON line a run, then a table.

Variants run in turn (A B C A B C ...), each in one process that stays alive; its table is restored before every run, the
first round is dropped, and rows and sum of every result are checked. See README.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.ingest import machine, report
from benchmarks.ingest.data import BATCHES, ORDERING, Answer, Inputs, make_inputs
from benchmarks.ingest.runner import ROOT, Runner
from hudi_ops import Table

INTEROP = ROOT / ".interop"
BUNDLE = INTEROP / "jars" / "hudi-spark3.5-bundle_2.12-1.1.1.jar"
RESULTS = ROOT / "benchmarks" / "results"
VARIANTS = ("hudi", "spark", "local")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must; 2 when something needed is missing.
    """
    options = _options(arguments)
    python, jar = options.python or INTEROP / "venv" / "bin" / "python", BUNDLE
    for needed in (python, *([jar] if "hudi" in options.variants else [])):
        if not needed.exists():
            print(f"{needed} is missing.\n  Next: run bin/bootstrap --interop", file=sys.stderr)
            return 2
    shutil.rmtree(options.work, ignore_errors=True)
    work = options.work.resolve()
    _say(f"making {options.rows:,} rows and batches of {options.batch_rows:,}")
    inputs = make_inputs(work / "source", options.rows, options.batch_rows)
    extra = ["--buckets", str(options.buckets), "--driver-memory", options.driver_memory]
    if "hudi" in options.variants:
        extra += ["--jar", str(jar)]
    with ExitStack() as stack:
        runners = []
        for variant in options.variants:
            _say(f"starting {variant}, writing its base rows")
            runner = stack.enter_context(Runner(variant, python, work, extra))
            runner.prepare(inputs.base)
            runners.append(runner)
        runs = [
            run for number in range(options.warmup + options.runs) for run in _round(number, runners, inputs, options)
        ]
    versions = {key: value for runner in runners for key, value in runner.versions.items()}
    _write_results(options, runs, versions)
    shutil.rmtree(work, ignore_errors=True)  # a JVM on its way out may be deleting there, too
    return 0 if all(run["correct"] for run in runs) else 1


def _round(number: int, runners: Sequence[Runner], inputs: Inputs, options: argparse.Namespace) -> list[dict[str, Any]]:
    runs = []
    for batch in BATCHES:
        for runner in runners:
            runner.restore()
            load = machine.load()
            figures = runner.upsert(inputs.batches[batch])
            found = _answer_of(runner.table)
            run = {
                "variant": runner.variant,
                "batch": batch,
                "round": number,
                "counted": number >= options.warmup,
                **figures,
                "rows_per_s": round(options.batch_rows / figures["wall_s"]),
                "load": load,
                **found.as_dict(),
                "correct": found == inputs.answers[batch],
            }
            print(json.dumps(run), flush=True)
            runs.append(run)
    return runs


def _answer_of(table: Path) -> Answer:
    """What the table holds now, read by this process."""
    rows = Table.open(str(table)).read([ORDERING])
    return Answer(rows.num_rows, int(pc.sum(rows[ORDERING]).as_py() or 0))


def _write_results(options: argparse.Namespace, runs: list[dict[str, Any]], versions: dict[str, str]) -> None:
    counted = [run for run in runs if run["counted"]]
    facts = {**machine.machine(), **versions, "rows": f"{options.rows:,}", "batch": f"{options.batch_rows:,}"}
    table = report.summary(counted, options.batch_rows)
    text = "\n".join(f"- {key}: {value}" for key, value in facts.items()) + "\n\n" + table + "\n"
    options.results.mkdir(parents=True, exist_ok=True)
    with open(options.results / "ingest.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(run) + "\n" for run in runs)
    (options.results / "ingest.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    _say(f"written to {options.results}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument(
        "--variants", type=lambda text: text.split(","), default=list(VARIANTS), help="of hudi,spark,local"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--batch-rows", type=int, default=100_000, help="rows of a batch")
    parser.add_argument("--buckets", type=int, default=2, help="file groups in each of the 8 partitions")
    parser.add_argument("--runs", type=int, default=5, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds that are run and dropped")
    parser.add_argument("--driver-memory", default="6g", help="heap of each JVM")
    parser.add_argument("--python", type=Path, help="interpreter of the runners (default: that of .interop)")
    parser.add_argument("--work", type=Path, default=RESULTS / "work", help="scratch folder, emptied at start and end")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where ingest.jsonl and ingest.md go")
    parser.add_argument("--quick", action="store_true", help="a smoke run: 20,000 rows, one counted round")
    options = parser.parse_args(arguments)
    unknown = set(options.variants) - set(VARIANTS)
    if unknown:
        parser.error(f"unknown variants: {', '.join(sorted(unknown))}")
    options.variants = [variant for variant in VARIANTS if variant in options.variants]
    if options.quick:
        options.rows, options.batch_rows, options.runs, options.warmup = 20_000, 2_000, 1, 0
        options.driver_memory = "1g"
    return options


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
