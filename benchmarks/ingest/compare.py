"""hudi_ops, both engines, beside Apache Hudi, delta-rs and a pyarrow floor; prints a JSON line a run, then a report.

Variants run in turn (A B C A B C ...), each engine in one process that stays alive; its table is restored before every run, the
first round is dropped, and rows and sum of every result are checked. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.harness import comparison, delta, machine, plain_files
from benchmarks.harness.comparison import say
from benchmarks.harness.rows import ORDERING, Answer
from benchmarks.harness.runner import Runner, data_files, written_since
from benchmarks.ingest import report
from benchmarks.ingest.cases import CASES, PROCESSES, SINGLE, VARIANTS, Case, Variant
from benchmarks.ingest.data import Inputs, make_inputs
from hudi_ops import Table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must; 2 when something needed is missing.
    """
    parser = comparison.options_parser("ingest", __doc__, VARIANTS, CASES)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    engines = dict.fromkeys(v.engine for v in options.variants if any(v.takes(case) for case in options.cases))
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    shutil.rmtree(options.work, ignore_errors=True)
    say(f"making {options.rows:,} rows and batches of {options.batch_rows:,}")
    inputs = make_inputs(options.work / "source", options.rows, options.batch_rows)
    with ExitStack() as stack:
        runners = comparison.started(stack, options, PROCESSES, engines, inputs.folders["hundred"])
        runs = comparison.kept(options, _all_runs(options, runners, inputs))
        calls = _storage_calls(runners, inputs) if "local" in runners else {}
    counted = [run for run in runs if run["counted"]]
    text = report.report(comparison.facts(options, runners), counted, inputs.rows, calls)
    return comparison.publish(options, text, runs)


def _all_runs(options: argparse.Namespace, runners: dict[str, Runner], inputs: Inputs) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        variants = [variant for variant in options.variants if variant.takes(case)]
        for variant in variants:
            say(f"{case.name}: preparing the table of {variant.name}")
            _prepare(runners[variant.engine], variant, case, inputs)
        for number, counts, variant in comparison.in_turn(options, variants):
            yield _run(number, case, variant, runners[variant.engine], inputs) | {"counted": counts}


def _prepare(runner: Runner, variant: Variant, case: Case, inputs: Inputs) -> None:
    runner.prepare(_prepared(variant, case), _request(variant, case, inputs.folders[case.base] if case.base else None))


def _run(number: int, case: Case, variant: Variant, runner: Runner, inputs: Inputs) -> dict[str, Any]:
    runner.restore(_prepared(variant, case))
    load = machine.load()
    there = data_files(runner.table)
    figures = runner.measured("write", _request(variant, case, inputs.folders[case.batch]))
    figures |= written_since(runner.table, there)
    found = _answer_of(runner.table, variant.engine)
    return {
        "case": case.name,
        "variant": variant.name,
        "round": number,
        **figures,
        "load": load,
        **found.as_dict(),
        "correct": found == inputs.answers[case.batch],
    }


def _prepared(variant: Variant, case: Case) -> str:
    return f"{variant.name}-{case.layout}"


def _request(variant: Variant, case: Case, source: Path | None) -> dict[str, Any]:
    return {
        "source": None if source is None else str(source),
        "options": dict(variant.options),
        **case.settings(),
    }


def _answer_of(table: Path, engine: str) -> Answer:
    """What the table holds now, read by this process."""
    checks = {"delta": delta.ordering_of, "floor": plain_files.ordering_of}
    column = checks[engine](str(table)) if engine in checks else Table.open(str(table)).read([ORDERING])[ORDERING]
    return Answer(len(column), int(pc.sum(column).as_py() or 0))


def _storage_calls(runners: dict[str, Runner], inputs: Inputs) -> dict[str, int]:
    case = next(case for case in CASES if case.name == SINGLE)
    variant = next(variant for variant in VARIANTS if variant.name == "local")
    runner = runners["local"]
    _prepare(runner, variant, case, inputs)
    runner.restore(_prepared(variant, case))
    found: dict[str, int] = runner.call("count", runner.table, _request(variant, case, inputs.folders[case.batch]))[
        "found"
    ]
    return found


if __name__ == "__main__":
    sys.exit(main())
