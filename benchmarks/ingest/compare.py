"""hudi_ops, both engines, beside Apache Hudi, delta-rs and a pyarrow floor; prints a JSON line a run, then a report.

Variants run in turn (A B C A B C ...), each engine in one process that stays alive; its table is restored before every run, the
first round is dropped, and rows and sum of every result are checked. See README.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.ingest import machine, report, run_delta, run_floor
from benchmarks.ingest.cases import CASES, ON_SPARK, SINGLE, VARIANTS, Case, Variant
from benchmarks.ingest.data import ORDERING, Answer, Inputs, make_inputs
from benchmarks.ingest.runner import ROOT, Runner
from hudi_ops import Table

INTEROP = ROOT / ".interop"
BUNDLE = INTEROP / "jars" / "hudi-spark3.5-bundle_2.12-1.1.1.jar"
RESULTS = ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must; 2 when something needed is missing.
    """
    options = _options(arguments)
    engines = list(dict.fromkeys(variant.engine for variant in options.variants))
    spark_python = options.python or INTEROP / "venv" / "bin" / "python"
    needed = ([spark_python] if ON_SPARK & set(engines) else []) + ([BUNDLE] if "hudi" in engines else [])
    for path in needed:
        if not path.exists():
            print(f"{path} is missing.\n  Next: run bin/bootstrap --interop", file=sys.stderr)
            return 2
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    _say(f"making {options.rows:,} rows and batches of {options.batch_rows:,}")
    inputs = make_inputs(work / "source", options.rows, options.batch_rows)
    extra = ["--driver-memory", options.driver_memory, "--schema-of", str(inputs.folders["hundred"])]
    if "hudi" in engines:
        extra += ["--jar", str(BUNDLE)]  # on Spark's class path of both
    options.results.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        runners = {}
        for engine in engines:
            _say(f"starting the process of {engine}")
            python = spark_python if engine in ON_SPARK else Path(sys.executable)
            runners[engine] = stack.enter_context(Runner(engine, python, work, extra))
        lines = stack.enter_context(open(options.results / "ingest.jsonl", "w", encoding="utf-8"))
        runs = []
        for run in _all_runs(options, runners, inputs):
            line = json.dumps(run)
            print(line, flush=True)
            print(line, file=lines, flush=True)
            runs.append(run)
        calls = _storage_calls(runners, inputs) if "local" in runners else {}
    facts = {**machine.machine(), **{key: value for one in runners.values() for key, value in one.versions.items()}}
    facts |= {"rows": f"{options.rows:,}", "batch": f"{options.batch_rows:,}"}
    counted = [run for run in runs if run["counted"]]
    text = report.report(facts, counted, inputs.rows, calls)
    options.report.write_text(text, encoding="utf-8")
    print("\n" + text)
    _say(f"written to {options.report} and {options.results / 'ingest.jsonl'}")
    shutil.rmtree(work, ignore_errors=True)  # a JVM on its way out may be deleting there, too
    return 0 if all(run["correct"] for run in runs) else 1


def _all_runs(options: argparse.Namespace, runners: dict[str, Runner], inputs: Inputs) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        variants = [variant for variant in options.variants if variant.takes(case)]
        for variant in variants:
            _say(f"{case.name}: preparing the table of {variant.name}")
            runners[variant.engine].prepare(variant, case, inputs.folders[case.base] if case.base else None)
        for number in range(options.warmup + options.runs):
            for variant in variants:
                yield _run(number, case, variant, runners[variant.engine], inputs) | {
                    "counted": number >= options.warmup
                }


def _run(number: int, case: Case, variant: Variant, runner: Runner, inputs: Inputs) -> dict[str, Any]:
    runner.restore(variant, case)
    load = machine.load()
    figures = runner.write(variant, case, inputs.folders[case.batch])
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


def _answer_of(table: Path, engine: str) -> Answer:
    """What the table holds now, read by this process."""
    checks = {"delta": run_delta.check, "floor": run_floor.check}
    column = checks[engine](str(table)) if engine in checks else Table.open(str(table)).read([ORDERING])[ORDERING]
    return Answer(len(column), int(pc.sum(column).as_py() or 0))


def _storage_calls(runners: dict[str, Runner], inputs: Inputs) -> dict[str, int]:
    case = next(case for case in CASES if case.name == SINGLE)
    variant = next(variant for variant in VARIANTS if variant.name == "local")
    runners["local"].prepare(variant, case, inputs.folders[case.base])
    runners["local"].restore(variant, case)
    return runners["local"].count(variant, case, inputs.folders[case.batch])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    variants, cases = [one.name for one in VARIANTS], [one.name for one in CASES]
    parser.add_argument("--variants", type=_names, default=variants, help=f"of {','.join(variants)}")
    parser.add_argument("--cases", type=_names, default=cases, help=f"of {','.join(cases)}")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large table")
    parser.add_argument("--batch-rows", type=int, default=100_000, help="rows of a batch")
    parser.add_argument("--runs", type=int, default=5, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds that are run and dropped")
    parser.add_argument("--driver-memory", default="6g", help="heap of each JVM")
    parser.add_argument("--python", type=Path, help="interpreter of the engines on Spark (default: that of .interop)")
    parser.add_argument("--work", type=Path, default=RESULTS / "work", help="scratch folder, emptied at start and end")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where ingest.jsonl goes")
    parser.add_argument("--report", type=Path, help="where the report goes (default: RESULTS.md in --results)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: 20,000 rows, one counted round")
    options = parser.parse_args(arguments)
    for given, known in ((options.variants, variants), (options.cases, cases)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options.variants = [one for one in VARIANTS if one.name in options.variants]
    options.cases = [one for one in CASES if one.name in options.cases]
    options.report = options.report or options.results / "RESULTS.md"
    if options.quick:
        options.rows, options.batch_rows, options.runs, options.warmup = 20_000, 2_000, 1, 0
        options.driver_memory = "1g"
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
