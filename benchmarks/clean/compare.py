"""Clean, archive and restore by hudi_ops and by Apache Hudi upon copies of one table; a JSON line a run, then a report.

Variants run in turn, each in one process that stays alive; the table is put back before every run, the first round is dropped.
After each run both hold the same rows; after a clean and a restore also the same data files. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clean import report
from benchmarks.clean.cases import CASES, KEEP_MAX, KEEP_MIN, PROCESSES, RETAIN, VARIANTS, Case
from benchmarks.harness import comparison, machine
from benchmarks.harness.comparison import say
from benchmarks.harness.runner import Runner, data_files
from hudi_ops import Table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])
ROWS = 100
"""Rows of each partition."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held something else than it must; 2 when something needed is missing.
    """
    parser = comparison.options_parser("clean", __doc__, VARIANTS, CASES)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    engines = [variant.name for variant in options.variants]
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    shutil.rmtree(options.work, ignore_errors=True)
    source = options.work / "source"
    source.mkdir(parents=True)
    pq.write_table(SCHEMA.empty_table(), source / "schema.parquet")
    tables = {case: made(options.work / "tables" / case.name, case, options) for case in options.cases}
    with ExitStack() as stack:
        runners = comparison.started(stack, options, PROCESSES, engines, source)
        runs = comparison.kept(options, _all_runs(options, runners, tables))
        facts = comparison.facts(options, runners)
    text = report.report(facts, [run for run in runs if run["counted"]])
    return comparison.publish(options, text, runs)


def made(folder: Path, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Make the table of a case; return its folder, and the instant of its savepoint if it has one."""
    commits = case.quick if options.quick else case.commits
    say(f"{case.name}: a table of {commits} commits")
    table = Table.create(
        folder,
        name="measured",
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type="cow",
        metadata=False,
        meta_fields=True,
        clean={"automatic": False},
        archive={"automatic": False},
    )
    savepoint = ""
    for number in range(commits):
        values = [
            (f"{part}-{row}", f"p{part}", number, number) for part in range(case.partitions) for row in range(ROWS)
        ]
        columns = zip(*values, strict=True)
        table.ingest(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA))
        if case.name == "restore" and number == commits // 2:
            savepoint = table.savepoints.create().instant or ""
    if case.cleaned:
        table.clean.run(retain=RETAIN)
    table.close()
    return {"folder": folder, "savepoint": savepoint}


def _all_runs(
    options: argparse.Namespace, runners: Mapping[str, Runner], tables: Mapping[Case, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        table = tables[case]
        files: dict[str, set[str]] = {}
        for number, counts, variant in comparison.in_turn(options, options.variants):
            runner = runners[variant.name]
            prepared = runner.prepared(case.name)
            if not prepared.exists():
                shutil.copytree(table["folder"], prepared)
            yield _run(number, case, variant.name, runner, table["savepoint"], files) | {"counted": counts}


def _run(
    number: int, case: Case, variant: str, runner: Runner, savepoint: str, files: dict[str, set[str]]
) -> dict[str, Any]:
    request = {"retain": RETAIN, "keep_min": KEEP_MIN, "keep_max": KEEP_MAX, "savepoint": savepoint}
    runner.restore(case.name)
    before = _held(runner.table)
    if variant == "hudi":
        runner.call("enter", runner.table, request)
    load = machine.load()
    measured = runner.measured(case.name, request)
    after = _held(runner.table)
    files[variant] = {path.name for path in data_files(runner.table) if ".hoodie" not in path.parts}
    # Read by this library; the files are compared below.
    rows = Table.open(str(runner.table)).read(["value"])["value"].to_pylist()
    return {
        "case": case.name,
        "variant": variant,
        "round": number,
        "wall_s": measured["wall_s"],
        "cpu_s": measured["cpu_s"],
        "peak_rss_mb": measured["peak_rss_mb"],
        "lock_s": (measured["found"] or {}).get("lock_s", 0.0),
        "deleted": before[0] - after[0],
        "archived": before[1] - after[1],
        "load": load,
        "correct": _is_right(case, rows, files, before, after),
    }


def _held(table: Path) -> tuple[int, int]:
    """Return the number of data files, and of completed writes on the timeline."""
    files = sum(1 for path in data_files(table) if ".hoodie" not in path.parts)
    return files, sum(1 for path in (table / ".hoodie" / "timeline").glob("*.commit"))


def _is_right(
    case: Case, rows: Sequence[int], files: Mapping[str, set[str]], before: tuple[int, int], after: tuple[int, int]
) -> bool:
    same_files = case.name == "archive" or len({frozenset(names) for names in files.values()}) == 1
    did = after[1] < before[1] if case.name == "archive" else after[0] < before[0]
    return did and same_files and len(rows) == ROWS * case.partitions and len(set(rows)) == 1


if __name__ == "__main__":
    sys.exit(main())
