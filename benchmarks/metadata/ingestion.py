"""Ingestion beside an index build: what a commit takes and costs, and how fast a build catches up.

`python -m benchmarks.metadata.ingestion`; no Apache Hudi. A process commits the same batches to the same table in each run; another
one builds indexes meanwhile. Runs are in turn (A B C D A B C D ...), a first round is dropped. `--full` is the size of the goals.
See README.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness import machine
from benchmarks.harness.goals import Run
from benchmarks.harness.places import RESULTS
from benchmarks.metadata.beside import HAS_BUILD, VARIANTS, report
from benchmarks.metadata.busy_tables import INDEXES, add_places, base_rows, is_right, make_base, put_batches, restore
from benchmarks.metadata.company import Company
from benchmarks.metadata.in_turn import publish
from hudi_ops import Table

CASES = ("ingestion", "catch-up")
FULL_ROWS = 1_000_000
START = 6
"""Number of commits before the build begins; they are not compared."""
Answer = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a report.

    Returns:
        0; 1 when an index is not what it must be.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata.ingestion", description=__doc__)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES), help=f"of {','.join(CASES)}")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table")
    parser.add_argument("--full", action="store_true", help=f"{FULL_ROWS:,} rows, the size of the goals")
    parser.add_argument("--batch-rows", type=int, default=10_000, help="rows of a commit: half updates, half inserts")
    parser.add_argument("--commits", type=int, default=40, help="commits of a run")
    parser.add_argument("--missing", type=int, default=8, help="commits that catch-up adds")
    parser.add_argument("--runs", type=int, default=5, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds that are run and dropped")
    parser.add_argument("--pinned", action="store_true", help="give writer and build a processor each, in all runs")
    add_places(parser, "ingestion", RESULTS)
    options = parser.parse_args(arguments)
    if unknown := {*options.cases} - {*CASES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    options.rows = FULL_ROWS if options.full else options.rows
    options.work = options.work.resolve()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    runs = [run for run in _all_runs(options) if run["round"] > 0]
    shutil.rmtree(options.work, ignore_errors=True)
    facts = {
        **machine.machine(),
        "pyarrow": pa.__version__,
        "rows": f"{options.rows:,}",
        "batch": f"{options.batch_rows:,}",
        "processors": "one for the writer, one for the build" if options.pinned else "shared by all processes",
    }
    publish("ingestion-pinned" if options.pinned else "ingestion", report(facts, runs), runs, options.results)
    return 0 if all(run["correct"] for run in runs) else 1


def _all_runs(options: argparse.Namespace) -> Iterator[Run]:
    """All runs, each printed as it comes."""
    rows, prepared, indexed = base_rows(options.rows), options.work / "prepared", options.work / "indexed"
    make_base(prepared, rows, "cow")
    restore(prepared, indexed)
    Table.open(str(indexed)).indexing.run(partitions=INDEXES, engine="local")
    half = options.batch_rows // 2
    batches = put_batches(options.work / "batches", rows, max(options.commits, options.missing), half, half)
    with Company(options.work, ["writer", "builder"]) as company:
        for case in options.cases:
            for number in range(1 - options.warmup, options.runs + 1):
                for variant in VARIANTS if case == "ingestion" else ("catch-up",):
                    key = f"{case}-{number}-{variant}"
                    run = _Run(company, indexed if variant == "indexed" else prepared, key, options.pinned)
                    load = machine.load()
                    if case == "ingestion":
                        found = run.ingest(batches[: options.commits], variant)
                    else:
                        found = run.catch_up(batches[: options.missing])
                    told: Run = {"case": case, "variant": variant, "round": number, **found, "load": load}
                    print(json.dumps(told), flush=True)
                    yield told


class _Run:
    """One run, upon tables restored for it."""

    def __init__(self, company: Company, prepared: Path, key: str, pinned: bool) -> None:
        self._company = company
        self._key = key
        self._cpus = ([0], [1]) if pinned else (None, None)
        self._table, self._copy = prepared.with_name("table"), prepared.with_name("copy")
        restore(prepared, self._table)
        restore(prepared, self._copy)
        company.open("writer", self._table, key, self._cpus[0])

    def ingest(self, batches: Sequence[str], variant: str) -> Answer:
        """Commit all batches; a build of the table, or of its copy, begins after the first ones."""
        company, table = self._company, self._table
        has_build = variant in HAS_BUILD
        if has_build:
            table = self._copy if variant == "elsewhere" else table
            company.open("builder", table, f"{self._key}-{table.name}", self._cpus[1])
        commits: list[Answer] = []
        for number, source in enumerate(batches):
            if number == START and has_build:
                company.tell("builder", "build", partitions=list(INDEXES), waits=False)
            commits.append(company.ask("writer", "commit", source=source))
        built = company.hear("builder") if has_build else {}
        company.close()
        is_fit = not built or (built["correct"] and is_right(table))
        return {"commits": commits, "built": built, "correct": is_fit}

    def catch_up(self, batches: Sequence[str]) -> Answer:
        """Build, and commit all batches between its last look and its announcement."""
        company = self._company
        company.open("builder", self._table, self._key, self._cpus[1])
        company.tell("builder", "build", partitions=list(INDEXES), waits=True)
        company.hear("builder")
        commits = [company.ask("writer", "commit", source=source) for source in batches]
        company.go("builder")
        built = company.hear("builder")
        company.close()
        return {"commits": commits, "built": built, "correct": built["correct"] and is_right(self._table)}


if __name__ == "__main__":
    sys.exit(main())
