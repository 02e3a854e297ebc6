"""hudi_ops beside the package `hudi`, delta-rs, DuckDB and pyarrow; prints a JSON line a run, then a report.

Variants run in turn (A B C A B C ...), each reader in one process that stays alive; each read opens the table anew, and number of
rows and sum of one column of every read are checked. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import comparison, machine
from benchmarks.harness.comparison import say
from benchmarks.harness.rows import keep
from benchmarks.harness.runner import Runner
from benchmarks.read import report
from benchmarks.read.cases import CASES, PROCESSES, VARIANTS, Case, Variant
from benchmarks.read.data import Inputs, make_inputs, make_tables

_OURS = "ours"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a read gave other rows than it must; 2 when something needed is missing.
    """
    parser = comparison.options_parser("read", __doc__, VARIANTS, CASES)
    parser.set_defaults(runs=9)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    engines = dict.fromkeys(variant.engine for variant in options.variants)
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    shutil.rmtree(options.work, ignore_errors=True)
    say(f"making {options.rows:,} rows and upserts of {options.batch_rows:,}")
    inputs = make_inputs(options.rows, options.batch_rows)
    keep(options.work / "source", inputs.base)
    make_tables(options.work / "tables", inputs)
    with ExitStack() as stack:
        runners = comparison.started(stack, options, PROCESSES, engines, options.work / "source")
        runs = comparison.kept(options, _all_runs(options, runners, inputs))
    counted = [run for run in runs if run["counted"]]
    return comparison.publish(options, report.report(comparison.facts(options, runners), counted), runs)


def _all_runs(options: argparse.Namespace, runners: dict[str, Runner], inputs: Inputs) -> Iterator[dict[str, Any]]:
    tables = options.work / "tables"
    for case in options.cases:
        variants = [variant for variant in options.variants if case.table_type in variant.table_types]
        without: dict[int, float] = {}
        for number, counts, variant in comparison.in_turn(options, variants):
            run = _run(number, case, variant, runners[variant.engine], tables, inputs) | {"counted": counts}
            if variant.name == _OURS:
                without[number] = run["wall_s"]
            if number in without:
                run["more_s"] = round(run["wall_s"] - without[number], 4)
            yield run


def _run(number: int, case: Case, variant: Variant, runner: Runner, tables: Path, inputs: Inputs) -> dict[str, Any]:
    request = {
        "path": str(tables / f"{case.table_type}-{variant.layout}"),
        "columns": case.columns,
        "partition": inputs.partition if case.read == "part" else None,
        "key": inputs.key if case.read == "key" else None,
        "keeps": variant.keeps,
    }
    if variant.keeps:
        runner.call("read", runner.table, request)
    else:
        runner.call("forget", runner.table, request)
    load = machine.load()
    figures = runner.measured("read", request)
    found = runner.call("check", runner.table, request)["found"]
    expected = inputs.answer(case)
    return {
        "case": case.name,
        "variant": variant.name,
        "round": number,
        **figures,
        "load": load,
        "found": found,
        "expected": asdict(expected),
        "correct": found == [expected.rows, expected.ts_sum],
    }


if __name__ == "__main__":
    sys.exit(main())
