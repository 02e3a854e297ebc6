"""Bucket indexes of hudi_ops, and resizes beside Apache Hudi's; prints a JSON line a run, then a report.

Variants run in turn (A B C A B C ...), so that those of a round find the same machine; the first round is dropped. Results of all
runs are checked. See README.md.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clustering.checks import rows_of
from benchmarks.harness import comparison, machine
from benchmarks.harness.comparison import say
from benchmarks.harness.goals import Run
from benchmarks.harness.rows import BASE_TS, ORDERING, SEED, Answer, keep, make_keys, make_rows, ts_sum
from benchmarks.harness.runner import Runner, data_files, written_since
from benchmarks.index import report
from benchmarks.index.cases import BUCKETS, CASES, PROCESSES, VARIANTS, Case
from benchmarks.index.inside import calls

_LATER = 10**12
"""By so much the ordering values of updates are higher."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a result was wrong; 2 when something needed is missing.
    """
    parser = comparison.options_parser("index", __doc__, VARIANTS, CASES)
    options = comparison.chosen(parser.parse_args(arguments), VARIANTS, CASES)
    resizes = [case for case in options.cases if case.name.startswith("resize")]
    engines = [one.name for one in options.variants if one.name in PROCESSES] if resizes else []
    if not comparison.is_ready(options, PROCESSES, engines):
        return 2
    shutil.rmtree(options.work, ignore_errors=True)
    with ExitStack() as stack:
        source, updates = options.work / "source", options.work / "updates"
        answers = _make_rows(options, source, updates)
        runners = comparison.started(stack, options, PROCESSES, engines, source)
        runs = comparison.kept(options, _all_runs(options, runners, source, updates, answers))
    text = report.report(comparison.facts(options, runners), [run for run in runs if run["counted"]])
    return comparison.publish(options, text, runs)


def _make_rows(options: argparse.Namespace, source: Path, updates: Path) -> tuple[Answer, Answer]:
    """Make the rows of the resizes; return what the table holds without and with the updates."""
    rng = np.random.default_rng(SEED)
    rows = make_rows(rng, options.rows, make_keys(rng, options.rows), BASE_TS)
    keep(source, rows)
    changed = rows.take(np.sort(rng.choice(options.rows, options.batch_rows, replace=False)))
    place = changed.schema.get_field_index(ORDERING)
    keep(updates, changed.set_column(place, ORDERING, [changed[ORDERING].to_numpy() + _LATER]))
    return Answer(options.rows, ts_sum(rows)), Answer(options.rows, ts_sum(rows) + options.batch_rows * _LATER)


def _all_runs(
    options: argparse.Namespace,
    runners: dict[str, Runner],
    source: Path,
    updates: Path,
    answers: tuple[Answer, Answer],
) -> Iterator[dict[str, Any]]:
    for case in options.cases:
        variants = [variant for variant in options.variants if variant.has(case)]
        if case.name.startswith("resize"):
            yield from _resizes(
                options, case, {one.name: runners[one.name] for one in variants}, source, updates, answers
            )
            continue
        say(f"{case.name}: making the tables")
        place = options.work / case.name
        prepared = calls(case, place, options.rows, options.batch_rows)
        for number, counts, variant in comparison.in_turn(options, variants):
            named = {"case": case.name, "variant": variant.name, "round": number, "counted": counts}
            yield {**named, **_timed(prepared[variant.name])}
        shutil.rmtree(place)


def _timed(ready: Any) -> Run:
    call = ready()
    gc.collect()
    load, wall_s, cpu_s = machine.load(), time.perf_counter(), time.process_time()
    is_correct = call()
    took = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
    return {**{name: round(seconds, 5) for name, seconds in took.items()}, "load": load, "correct": is_correct}


def _resizes(
    options: argparse.Namespace,
    case: Case,
    runners: dict[str, Runner],
    source: Path,
    updates: Path,
    answers: tuple[Answer, Answer],
) -> Iterator[dict[str, Any]]:
    request = {
        "base": str(source),
        "updates": str(updates) if case.has_logs else "",
        "buckets": BUCKETS,
        "split_bytes": 1,
    }
    for name, runner in runners.items():
        say(f"{case.name}: preparing the table of {name}")
        runner.prepare(case.name, request)
    for number, counts, variant in comparison.in_turn(options, [one for one in VARIANTS if one.name in runners]):
        runner = runners[variant.name]
        runner.restore(case.name)
        load, before = machine.load(), data_files(runner.table)
        measured = runner.measured("resize", request)
        found = measured.pop("found")
        new = [path for path, stamp in data_files(runner.table).items() if before.get(path) != stamp]
        yield {
            "case": case.name,
            "variant": variant.name,
            "round": number,
            "counted": counts,
            **measured,
            **written_since(runner.table, before),
            "load": load,
            "correct": (found, len(new), rows_of(new)) == (BUCKETS, 2 * BUCKETS, answers[case.has_logs]),
        }


if __name__ == "__main__":
    sys.exit(main())
