"""hudi_ops beside Apache Hudi, both with a metadata table: commits, and builds of its partitions; a JSON line a run, then a report.

Variants run in turn (A B A B ...), each program in one process that stays alive; its table is restored before every run, the first
round is dropped, and every result is checked, by way of the metadata table. See README.md.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.harness import comparison, machine
from benchmarks.harness.comparison import say
from benchmarks.harness.runner import Runner
from benchmarks.ingest.data import Inputs, make_inputs
from benchmarks.metadata import checks
from benchmarks.metadata.cases import CASES, PROCESSES, VARIANTS, Case, Variant
from benchmarks.metadata.report import report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must, or its metadata table other records; 2 when something needed is missing.
    """
    parser = comparison.options_parser("metadata", __doc__, VARIANTS, CASES)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    engines = dict.fromkeys(v.engine for v in options.variants if any(v.takes(case) for case in options.cases))
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    if "hudi" not in engines:
        options.variants = [variant for variant in options.variants if not variant.is_on_hudis_table]
    shutil.rmtree(options.work, ignore_errors=True)
    say(f"making {options.rows:,} rows and batches of {options.batch_rows:,}")
    inputs = make_inputs(options.work / "source", options.rows, options.batch_rows)
    with ExitStack() as stack:
        runners = comparison.started(stack, options, PROCESSES, engines, inputs.folders["hundred"])
        runs = comparison.kept(options, _all_runs(options, runners, inputs))
    counted = [run for run in runs if run["counted"]]
    return comparison.publish(options, report(comparison.facts(options, runners), counted), runs)


def _all_runs(options: argparse.Namespace, runners: dict[str, Runner], inputs: Inputs) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        variants = [variant for variant in options.variants if variant.takes(case)]
        for variant in variants:
            say(f"{case.name}: preparing the table of {variant.name}")
            foreign = str(runners["hudi"].prepared(f"hudi-{case.layout}")) if variant.is_on_hudis_table else ""
            request = _request(variant, case, inputs, case.base) | {"foreign": foreign}
            runners[variant.engine].prepare(_prepared(variant, case), request)
        for number, counts, variant in comparison.in_turn(options, variants):
            yield _run(number, case, variant, runners[variant.engine], inputs) | {"counted": counts}


def _run(number: int, case: Case, variant: Variant, runner: Runner, inputs: Inputs) -> dict[str, Any]:
    runner.restore(_prepared(variant, case))
    there = checks.metadata_files(runner.table)
    load = machine.load()
    figures = runner.measured(case.command, _request(variant, case, inputs, case.batch))
    written = {path: size for path, size in checks.metadata_files(runner.table).items() if there.get(path) != size}
    return {
        "case": case.name,
        "variant": variant.name,
        "round": number,
        **figures,
        "metadata_files": len(written),
        "metadata_bytes": sum(written.values()),
        "load": load,
        **(_built(case, runner) if case.build else _wrote(case, variant, runner, inputs)),
    }


def _wrote(case: Case, variant: Variant, runner: Runner, inputs: Inputs) -> dict[str, Any]:
    has_metadata = bool(variant.metadata)
    found = checks.rows_of(runner.table, has_metadata=has_metadata)
    is_right = not has_metadata or checks.is_listing_right(runner.table)
    return {**found.as_dict(), "correct": is_right and found == inputs.answers[case.batch]}


def _built(case: Case, runner: Runner) -> dict[str, Any]:
    rows, files = checks.rows_of(runner.table, has_metadata=True).rows, checks.files_of(runner.table)
    records = {name: checks.records_of(runner.table, name) for name in case.build}
    is_right = all(
        count == rows if name == "record_index" else count > 0 and (name != "column_stats" or count % files == 0)
        for name, count in records.items()
    )
    is_right = is_right and checks.is_built(runner.table, case.build) and checks.is_listing_right(runner.table)
    return {"rows": rows, "records": records[case.build[0]], "correct": is_right}


def _prepared(variant: Variant, case: Case) -> str:
    return f"{variant.name}-{case.layout}"


def _request(variant: Variant, case: Case, inputs: Inputs, source: str) -> dict[str, Any]:
    return {
        "source": str(inputs.folders[source]) if source else None,
        "options": {},
        "metadata": list(variant.partitions(case)),
        "foreign": "",
        **case.settings(),
    }
