"""Commits of one row by 1 to 8 writer processes over a ZooKeeper lock, beside Apache Hudi's; a JSON line a run, then a report.

Every run begins from a table made anew; the result of each is checked: rows, last values, and the number of commits. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Self

import pyarrow as pa

from benchmarks.concurrency.cases import CASES, Case, Run
from benchmarks.concurrency.contender import SCHEMA
from benchmarks.concurrency.report import report
from benchmarks.harness import machine
from benchmarks.harness.places import BUNDLE, INTEROP_PYTHON, RESULTS, ROOT
from hudi_ops import Table
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper

ROWS = 100


class Talker:
    """A contender's process, one line there and one back; its words on stderr go to a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        # Another Spark's home or worker Python, inherited from the caller, would be used instead of the program's own.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
        with open(log, "w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=log.parent,
                env={**env, "PYTHONPATH": str(ROOT)},
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tell(self, line: str) -> None:
        """One line there."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """One line back."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            tail = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            raise SystemExit(f"a contender ended with {self._process.wait()}; its last words:\n{tail}")
        return line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it.

    Returns:
        0; 1 when a table held something else than it must; 2 when something needed is missing.
    """
    options = _options(arguments)
    needs_hudi = any(not case.is_ours for case in options.cases)
    for path in (INTEROP_PYTHON, BUNDLE) if needs_hudi else ():
        if not path.exists():
            print(f"{path} is missing.\n  Next: run bin/bootstrap --interop", file=sys.stderr)
            return 2
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    options.results.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    calls: Run = {}
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedZooKeeper(work / "zookeeper"))
        lines = stack.enter_context(open(options.results / "concurrency.jsonl", "w", encoding="utf-8"))
        # Not at once: while ours are measured no JVM of Spark is about.
        for is_ours in (True, False):
            cases = [case for case in options.cases if case.is_ours is is_ours]
            if not cases:
                continue
            with ExitStack() as inner:
                talkers = [inner.enter_context(one) for one in _talkers(cases, work)]
                for number in range(options.runs):
                    for case in cases:
                        run = _run(case, number, talkers, work, server.hosts)
                        line = json.dumps(run)
                        print(line, flush=True)
                        print(line, file=lines, flush=True)
                        runs.append(run)
                if is_ours:
                    calls = {name: _count(name, talkers, work, server.hosts) for name in ("alone", "alone-anew")}
    text = report({**machine.machine(), "pyarrow": pa.__version__}, runs, calls)
    options.report.write_text(text, encoding="utf-8")
    print("\n" + text)
    shutil.rmtree(work, ignore_errors=True)  # a JVM on its way out may be deleting there, too
    return 0 if all(run["correct"] for run in runs) else 1


def _talkers(cases: Sequence[Case], work: Path) -> list[Talker]:
    if not cases[0].is_ours:
        python = INTEROP_PYTHON
        told = ["--jar", str(BUNDLE), "--work", str(work)]
        return [Talker([str(python), "-m", "benchmarks.concurrency.hudi_contender", *told], work / "hudi.log")]
    return [
        Talker([sys.executable, "-m", "benchmarks.concurrency.contender"], work / f"contender-{number}.log")
        for number in range(max(case.writers for case in cases))
    ]


def _jobs(case: Case, table: Path, hosts: str) -> list[dict[str, Any]]:
    job = {
        "table": str(table),
        "key": table.name,
        "hosts": hosts if case.has_zookeeper else "",
        "commits": case.commits,
        "is_kept": case.is_kept,
    }
    if not case.is_ours:
        return [{**job, "partitions": case.partitions, "warm": 5}]
    return [{**job, "partition": one, "name": f"contender {n}"} for n, one in enumerate(case.partitions)]


def _measured(case: Case, talkers: Sequence[Talker], table: Path, hosts: str) -> list[dict[str, Any]]:
    jobs = _jobs(case, table, hosts)
    for talker, job in zip(talkers, jobs, strict=False):
        talker.tell(json.dumps(job))
        assert talker.hear() == "ready\n"
    for talker, _ in zip(talkers, jobs, strict=False):
        talker.tell("go")
    return [json.loads(talker.hear()) for talker, _ in zip(talkers, jobs, strict=False)]


def _run(case: Case, number: int, talkers: Sequence[Talker], work: Path, hosts: str) -> Run:
    table = _fresh(case, work, f"{case.name}-{number}")
    load = machine.load()
    found = _measured(case, talkers, table, hosts)
    commits = case.writers * case.commits
    span_s = max(one["ended"] for one in found) - min(one["started"] for one in found)
    latencies = sorted(each for one in found for each in one["latencies_s"])
    run: Run = {
        "case": case.name,
        "round": number,
        "commits": commits,
        "commits_per_s": round(commits / span_s, 2),
        "latency_s": round(median(latencies), 4),
        "latency_p95_s": round(latencies[len(latencies) * 95 // 100], 4),
        "refused": dict(sum((Counter(one["refused"]) for one in found), Counter())),
        "load": load,
        "correct": _is_correct(case, table),
    }
    if case.is_ours:
        run |= _of_lock_and_storage(found, commits, span_s)
    shutil.rmtree(table)
    return run


def _of_lock_and_storage(found: list[dict[str, Any]], commits: int, span_s: float) -> Run:
    held, waited = (sorted(each for one in found for each in one[name]) for name in ("held_s", "waited_s"))
    return {
        "instants_per_commit": round(sum(one["instants"] for one in found) / commits, 2),
        "locks_per_commit": round(len(held) / commits, 2),
        "held_ms": round(median(held) * 1000, 2),
        "held_p95_ms": round(held[len(held) * 95 // 100] * 1000, 2),
        "waited_ms": round(median(waited) * 1000, 2),
        "held_share": round(sum(held) / span_s, 3),
        "waited_share": round(sum(waited) / span_s / len(found), 3),
        "calls_per_commit": round(sum(sum(one["calls"].values()) for one in found) / commits, 1),
        "calls_under_lock": round(sum(sum(one["calls_under_lock"].values()) for one in found) / commits, 1),
    }


def _count(name: str, talkers: Sequence[Talker], work: Path, hosts: str) -> Run:
    """The storage calls of one commit, alone and in order."""
    case = next(one for one in CASES if one.name == name)
    table = _fresh(case, work, "count")
    (found,) = _measured(replace(case, commits=1), talkers[:1], table, hosts)
    shutil.rmtree(table)
    return {"calls": found["calls"], "under_lock": found["calls_under_lock"], "in_order": found["in_order"]}


def _fresh(case: Case, work: Path, name: str) -> Path:
    """A table of a hundred rows in eight file groups; Apache Hudi makes its own."""
    path = work / name
    if case.is_ours:
        made = Table.create(
            str(path),
            name="fleet",
            record_key=["id"],
            schema=SCHEMA,
            partition_by=["part"],
            metadata=False,
            clean={"automatic": False},
            archive={"automatic": False},
        )
        rows = [{"id": f"k{number}", "part": f"p{number % 8}", "value": 0} for number in range(ROWS)]
        made.ingest(pa.Table.from_pylist(rows, schema=SCHEMA), "bulk_insert", engine="local")
    return path


def _is_correct(case: Case, table: Path) -> bool:
    """Rows, each group's last value, and every commit."""
    rows = Table.open(str(table), buckets=1).read(["part", "id", "value"]).to_pylist()
    touched = set(case.partitions)
    last = {row["part"]: row["value"] for row in rows if row["id"] == "k0" and row["part"] in touched}
    timeline = table / ".hoodie" / "timeline"
    commits = sum(1 for file in timeline.glob("*_*.commit") if not file.name.startswith("."))
    warm = case.writers if case.is_ours else 5
    made = case.writers * case.commits + warm + (2 if case.is_ours else 1)
    return len(rows) == ROWS + len(touched - {"p0"}) and set(last.values()) == {case.commits} and commits == made


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.concurrency", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", type=lambda text: text.split(","), default=names, help=f"of {','.join(names)}")
    parser.add_argument("--runs", type=int, default=5, help="rounds")
    parser.add_argument("--work", type=Path, default=RESULTS / "work-concurrency", help="scratch folder, emptied")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where concurrency.jsonl goes")
    parser.add_argument("--report", type=Path, help="where the report goes (default: CONCURRENCY.md in --results)")
    parser.add_argument(
        "--quick", action="store_true", help="a smoke run: one round of few commits, without Apache Hudi"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.cases) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.cases = [case for case in CASES if case.name in options.cases and (case.is_ours or not options.quick)]
    if options.quick:
        options.runs, options.cases = 1, [replace(case, commits=2) for case in options.cases]
    options.report = options.report or options.results / "CONCURRENCY.md"
    return options


if __name__ == "__main__":
    sys.exit(main())
