"""Clustering by hudi_ops beside Apache Hudi, delta-rs and a pyarrow floor; prints a JSON line a run, then a report.

Variants run in turn (A B C A B C ...), each engine in one process that stays alive; its table is restored before every run, the
first round is dropped. Rows, sum and order of every result are checked. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clustering import report
from benchmarks.clustering.cases import CASES, PROCESSES, VARIANTS, Case, Variant
from benchmarks.clustering.checks import box_share, is_sorted, rows_of
from benchmarks.harness import comparison, machine
from benchmarks.harness.comparison import say
from benchmarks.harness.rows import BASE_TS, SEED, Answer, keep, make_keys, make_rows, ts_sum
from benchmarks.harness.runner import Runner, data_files, written_since


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must; 2 when something needed is missing.
    """
    parser = comparison.options_parser("clustering", __doc__, VARIANTS, CASES)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    engines = [variant.name for variant in options.variants]
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    shutil.rmtree(options.work, ignore_errors=True)
    say(f"making {options.rows:,} rows")
    rng = np.random.default_rng(SEED)
    rows = make_rows(rng, options.rows, make_keys(rng, options.rows), BASE_TS)
    source = options.work / "source"
    keep(source, rows)
    answer = Answer(rows.num_rows, ts_sum(rows))
    with ExitStack() as stack:
        runners = comparison.started(stack, options, PROCESSES, engines, source)
        runs = comparison.kept(options, _all_runs(options, runners, source, answer))
    counted = [run for run in runs if run["counted"]]
    text = report.report(comparison.facts(options, runners), counted, options.rows)
    return comparison.publish(options, text, runs)


def _all_runs(
    options: argparse.Namespace, runners: dict[str, Runner], source: Path, answer: Answer
) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        request = {"base": str(source), **case.settings()}
        variants = [variant for variant in options.variants if variant.has(case)]
        for variant in variants:
            say(f"{case.name}: preparing the table of {variant.name}")
            runners[variant.name].prepare(_prepared(case), request)
        for number, counts, variant in comparison.in_turn(options, variants):
            yield _run(number, case, variant, runners[variant.name], request, answer) | {"counted": counts}


def _prepared(case: Case) -> str:
    return "whole" if case.is_box else "partitioned"


def _run(
    number: int, case: Case, variant: Variant, runner: Runner, request: dict[str, Any], answer: Answer
) -> dict[str, Any]:
    runner.restore(_prepared(case))
    load = machine.load()
    there = data_files(runner.table)
    measured = runner.measured("cluster", request)
    new = sorted(path for path, stamp in data_files(runner.table).items() if there.get(path) != stamp)
    found = rows_of(new)
    is_correct = found == answer and (case.curve != "linear" or is_sorted(new, case.columns[0]))
    return {
        "case": case.name,
        "variant": variant.name,
        "round": number,
        "wall_s": measured["wall_s"],
        "cpu_s": measured["cpu_s"],
        "ended_processes": measured["ended_processes"],
        "peak_rss_mb": measured["peak_rss_mb"],
        **written_since(runner.table, there),
        **({"box_share": box_share(new, case.columns)} if case.is_box else {}),
        "load": load,
        **found.as_dict(),
        "correct": is_correct,
    }


if __name__ == "__main__":
    sys.exit(main())
