"""Requests of cancels, executions that they stop, and what the watcher costs; a JSON line a run, then a report.

Every run begins from a table made anew; the result of each is checked: rows, and the records of all cancelled plans. See README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.cancel.cases import CASES, Case, Run
from benchmarks.cancel.costs import clean, commit, compaction
from benchmarks.cancel.report import report
from benchmarks.cancel.requests import request, request_beside
from benchmarks.cancel.stops import stop, watcher
from benchmarks.concurrency.compare import Talker
from benchmarks.harness import machine
from benchmarks.harness.places import RESULTS
from benchmarks.harness.session import start_session
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine

WRITERS = 8
SEED = 19


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it; return 0, or 1 when a table held something else than it must."""
    options = _options(arguments)
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    options.results.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    with ExitStack() as stack:
        lines = stack.enter_context(open(options.results / "cancel.jsonl", "w", encoding="utf-8"))
        measure = _Measure(options, work, stack)
        # A case with all its rounds before the next: a JVM or writers of one case are not there in another.
        for case in options.cases:
            for number in range(min(options.runs, case.rounds_max)):
                load = machine.load()
                found = measure.of(case)(work / f"{case.name}-{number}", case.amount)
                run = {"case": case.name, "round": number, "load": load, **found}
                line = json.dumps(run)
                print(line, flush=True)
                print(line, file=lines, flush=True)
                runs.append(run)
                shutil.rmtree(work / f"{case.name}-{number}")
    text = report({**machine.machine(), "pyarrow": pa.__version__}, runs, options.cases)
    options.report.write_text(text, encoding="utf-8")
    print("\n" + text)
    shutil.rmtree(work, ignore_errors=True)  # a JVM on its way out may be deleting there, too
    return 0 if all(run["correct"] for run in runs) else 1


class _Measure:
    """Measurements by case, with the servers and sessions that they need, started when the first one asks."""

    def __init__(self, options: argparse.Namespace, work: Path, stack: ExitStack) -> None:
        self._options, self._work, self._stack = options, work, stack
        self._dice = random.Random(SEED)
        self._hosts = ""
        self._spark: Engine | None = None

    def of(self, case: Case) -> Callable[[Path, int], Run]:
        """Return the measurement of a case: a function of its table's path and its amount."""
        rows, small = self._options.rows, self._options.rows // 200
        measures: dict[str, Callable[[Path, int], Run]] = {
            "request": lambda path, amount: request(path, self._zookeeper(), amount),
            "request-8": self._request_beside,
            "stop-local": lambda path, amount: stop(path, amount, rows, LocalEngine(), self._dice),
            "stop-spark": lambda path, amount: stop(path, amount, rows, self._session(), self._dice),
            "watcher": watcher,
            "clean": clean,
            "commit": commit,
            "compaction-local": lambda path, amount: compaction(path, amount, small, LocalEngine()),
            "compaction-spark": lambda path, amount: compaction(path, amount, small, self._session()),
        }
        return measures[case.name]

    def _request_beside(self, path: Path, amount: int) -> Run:
        with ExitStack() as stack:
            command = [sys.executable, "-m", "benchmarks.concurrency.contender"]
            talkers = [
                stack.enter_context(Talker(command, self._work / f"contender-{number}.log"))
                for number in range(WRITERS)
            ]
            return request_beside(path, self._zookeeper(), amount, talkers)

    def _zookeeper(self) -> str:
        if not self._hosts:
            self._hosts = self._stack.enter_context(EmbeddedZooKeeper(self._work / "zookeeper")).hosts
        return self._hosts

    def _session(self) -> Engine:
        if self._spark is None:
            from hudi_ops.engine.spark import SparkEngine

            session = start_session("cancel", None, str(self._work / "spark"), "1g")
            self._stack.callback(session.stop)
            self._spark = SparkEngine(session)
        return self._spark


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cancel", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", type=lambda text: text.split(","), default=names, help=f"of {','.join(names)}")
    parser.add_argument("--runs", type=int, default=3, help="rounds")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the group of a long task")
    parser.add_argument("--work", type=Path, default=RESULTS / "work-cancel", help="scratch folder, emptied")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where cancel.jsonl goes")
    parser.add_argument("--report", type=Path, help="where the report goes (default: CANCEL.md in --results)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: one round, little of each")
    options = parser.parse_args(arguments)
    if unknown := set(options.cases) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.cases = [case for case in CASES if case.name in options.cases]
    if options.quick:
        options.runs, options.rows = 1, min(options.rows, 1_500_000)
        options.cases = [replace(case, amount=case.quick) for case in options.cases]
    options.report = options.report or options.results / "CANCEL.md"
    return options


if __name__ == "__main__":
    sys.exit(main())
