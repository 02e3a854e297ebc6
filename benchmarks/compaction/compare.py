"""Compaction by hudi_ops, both engines, beside Apache Hudi, delta-rs and a pyarrow floor; prints a JSON line a run, then a report.

Variants run in turn (A B C A B C ...), each engine in one process that stays alive; its table is restored before every run, the
first round is dropped. Rows and sum of every result are checked, and in the first round every value of every row. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow.parquet as pq

from benchmarks.compaction import report
from benchmarks.compaction.cases import CASES, PROCESSES, VARIANTS, Case, Variant
from benchmarks.compaction.checks import answer_of, has_rows
from benchmarks.compaction.data import Inputs, make_inputs
from benchmarks.harness import comparison, machine
from benchmarks.harness.comparison import say
from benchmarks.harness.runner import Runner, data_files, written_since


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must; 2 when something needed is missing.
    """
    parser = comparison.options_parser("compaction", __doc__, VARIANTS, CASES)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    engines = dict.fromkeys(name for one in options.variants for name in (one.writer, one.engine))
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    shutil.rmtree(options.work, ignore_errors=True)
    say(f"making {options.rows:,} rows and batches of {options.batch_rows:,}")
    inputs = make_inputs(options.work / "source", options.rows, options.batch_rows)
    with ExitStack() as stack:
        runners = comparison.started(stack, options, PROCESSES, engines, inputs.base)
        runs = comparison.kept(options, _all_runs(options, runners, inputs))
    counted = [run for run in runs if run["counted"]]
    text = report.report(comparison.facts(options, runners), counted, inputs.entries)
    return comparison.publish(options, text, runs)


def _all_runs(options: argparse.Namespace, runners: dict[str, Runner], inputs: Inputs) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        request = {"base": str(inputs.base), "batches": [str(batch) for batch in inputs.batches], **case.settings()}
        for variant in options.variants:
            say(f"{case.name}: preparing the table of {variant.name}")
            _prepare(runners, variant, case, request)
        for number, counts, variant in comparison.in_turn(options, options.variants):
            yield _run(number, case, variant, runners[variant.engine], request, inputs) | {"counted": counts}


def _prepare(runners: dict[str, Runner], variant: Variant, case: Case, request: dict[str, Any]) -> None:
    writer, runner = runners[variant.writer], runners[variant.engine]
    writer.prepare(case.name, request)
    if writer is not runner:
        # A copy, which is adopted here: who compacts a foreign table for the first time pays for that once.
        copy = runner.prepared(_prepared(variant, case))
        shutil.copytree(writer.prepared(case.name), copy)
        runner.call("adopt", copy, request)


def _prepared(variant: Variant, case: Case) -> str:
    return f"{variant.tables_of}-{case.name}" if variant.tables_of else case.name


def _run(
    number: int, case: Case, variant: Variant, runner: Runner, request: dict[str, Any], inputs: Inputs
) -> dict[str, Any]:
    runner.restore(_prepared(variant, case))
    load = machine.load()
    there = data_files(runner.table)
    plan, execution = (runner.measured(command, request) for command in ("plan", "execute"))
    found = answer_of(runner.table, variant.engine)
    is_correct = found == inputs.answer
    if is_correct and number == 0:
        is_correct = has_rows(runner.table, variant.engine, pq.read_table(inputs.expected))
    return {
        "case": case.name,
        "variant": variant.name,
        "round": number,
        "wall_s": round(plan["wall_s"] + execution["wall_s"], 4),
        "cpu_s": round(plan["cpu_s"] + execution["cpu_s"], 2),
        "plan_wall_s": plan["wall_s"],
        "plan_cpu_s": plan["cpu_s"],
        "ended_processes": plan["ended_processes"] + execution["ended_processes"],
        "peak_rss_mb": max(plan["peak_rss_mb"], execution["peak_rss_mb"]),
        **written_since(runner.table, there),
        "load": load,
        **found.as_dict(),
        "correct": is_correct,
    }


if __name__ == "__main__":
    sys.exit(main())
