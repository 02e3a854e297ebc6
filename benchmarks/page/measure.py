"""Latencies of the page in an API server of Airflow with one worker, and of heartbeats of a task beside previews; see README.md.

Prints a JSON line a case on standard error, then a report.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

from benchmarks.harness import machine
from benchmarks.page.load import Latencies, at_rate
from benchmarks.page.server import Airflow, serving
from benchmarks.page.tables import HUGE, LARGE, fill_registry, make_tables

PAGE = "/hudi-ops"
RATE = 10
"""Requests a second of users, and heartbeats of tasks."""

PREVIEWS = 10
LOOKS = 5
BUSY = 429


@dataclass(frozen=True)
class Case:
    """What is measured, the percentile that counts, and its goal in milliseconds."""

    name: str
    text: str
    percent: float
    goal_ms: float


CASES = (
    Case("list", "list of {tables:,} tables, 10 requests/s, p95", 95, 200),
    Case("table", "one table of {instants:,} instants and {groups:,} groups, p95", 95, 200),
    Case("look", "a fresh look at it, longest", 100, 3_000),
    Case("heartbeat-quiet", "heartbeat of a task, nothing beside it, p99", 99, 200),
    Case("heartbeat", "heartbeat of a task beside 10 previews of {huge:,} groups, p99", 99, 200),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a report; return 0."""
    options = _options(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="page-")))
        make_tables((options.folder or folder).resolve(), folder, options.instants, options.groups, options.huge)
        fill_registry(f"sqlite:///{folder / 'registry.db'}", folder / "tables.yaml", options.tables)
        airflow = stack.enter_context(serving(folder))
        found = [_measured(case, airflow, options) for case in CASES if options.only in case.name]
    facts = {**machine.machine(), "load": f"{min(one['load'] for one in found)} to {max(one['load'] for one in found)}"}
    print(json.dumps({"facts": facts, "results": found}) if options.json else report(found, facts))
    return 0


def _measured(case: Case, airflow: Airflow, options: argparse.Namespace) -> dict[str, Any]:
    """Measure a case; return its figures."""
    latencies = _MEASURES[case.name](airflow, options)
    value = latencies.percentile(case.percent)
    found = {
        "case": case.name,
        "text": case.text.format(**vars(options)),
        "requests": len(latencies.ms),
        "median_ms": round(median(latencies.ms), 1),
        "p_ms": round(value, 1),
        "longest_ms": round(max(latencies.ms), 1),
        "goal_ms": case.goal_ms,
        "met": value <= case.goal_ms,
        "load": machine.load(),
    }
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def _list(airflow: Airflow, options: argparse.Namespace) -> Latencies:
    asked = [f"?page={page}" for page in range(1, 6)] + [
        "?sort=name",
        "?sort=run",
        "?sort=seen",
        "?search=table_01",
        "",
    ]
    return _get(airflow, [f"{PAGE}/{query}" for query in asked], options.seconds)


def _table(airflow: Airflow, options: argparse.Namespace) -> Latencies:
    # One after another: this goal is about one request, and a large page takes more than a tenth of a second on a loaded machine.
    return _get(airflow, [f"{PAGE}/tables/{LARGE}"], options.seconds, rate=2)


def _get(airflow: Airflow, paths: Sequence[str], seconds: float, rate: float = RATE) -> Latencies:
    call = lambda number: airflow.call("GET", paths[number % len(paths)])[0]  # noqa: E731
    for number in range(len(paths)):
        call(number)  # the first request makes the application, and compiles its templates
    return at_rate(call, rate, seconds)


def _look(airflow: Airflow, _: argparse.Namespace) -> Latencies:
    def timed() -> float:
        begun = time.monotonic()
        airflow.must("POST", f"{PAGE}/tables/{LARGE}/look", {})
        return (time.monotonic() - begun) * 1000

    return Latencies(tuple(timed() for _ in range(LOOKS)))


def _heartbeats(airflow: Airflow, seconds: float, until: Event | None = None) -> Latencies:
    task = _running_task(airflow)
    path = f"/execution/task-instances/{task['id']}/heartbeat"
    body = {"hostname": task["hostname"], "pid": task["pid"]}
    return at_rate(lambda _: airflow.call("PUT", path, body, task["token"])[0], RATE, seconds, until)


def _beside_previews(airflow: Airflow, _: argparse.Namespace) -> Latencies:
    ended = Event()

    def preview(_: int) -> None:
        for _ in _until_answered():
            command = {"command": ["compact", HUGE]}
            status, content = airflow.call("POST", f"{PAGE}/tables/{HUGE}/preview", command)
            if status == BUSY:
                continue
            if status >= 300:
                raise RuntimeError(f"a preview ended with {status}: {content[:1_000]!r}")
            return

    def all_previews() -> None:
        try:
            with ThreadPoolExecutor(PREVIEWS) as pool:
                list(pool.map(preview, range(PREVIEWS)))
        finally:
            ended.set()

    _running_task(airflow)
    with ThreadPoolExecutor(1) as pool:
        previews = pool.submit(all_previews)
        latencies = _heartbeats(airflow, 300, ended)
        previews.result()
    return latencies


def _until_answered() -> Iterator[None]:
    """Yield until 10 previews are through: one runs, one waits, the others are asked to come again."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        yield
        time.sleep(0.2)
    raise TimeoutError("a preview was not answered within 300 s")


def _running_task(airflow: Airflow) -> dict[str, Any]:
    """Return the task that runs; it is started once."""
    if not _RUNNING:
        _RUNNING.update(airflow.running_task())
    return _RUNNING


_RUNNING: dict[str, Any] = {}
_MEASURES = {
    "list": _list,
    "table": _table,
    "look": _look,
    "heartbeat-quiet": lambda airflow, options: _heartbeats(airflow, options.seconds),
    "heartbeat": _beside_previews,
}


def report(found: Sequence[Mapping[str, Any]], facts: Mapping[str, str]) -> str:
    """Return the report: a line for each case."""
    lines = [*(f"- {key}: {value}" for key, value in facts.items()), ""]
    lines += [
        "| measure | requests | median ms | measured ms | longest ms | goal ms | |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        verdict = "met" if one["met"] else "**missed**"
        cells = [f"{one[name]:,}" for name in ("requests", "median_ms")]
        cells += [f"**{one['p_ms']:,}**", f"{one['longest_ms']:,}", f"{one['goal_ms']:,.0f}", verdict]
        lines.append(f"| {one['text']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000, help="tables of the list")
    parser.add_argument("--instants", type=int, default=1_000, help="instants of the large table")
    parser.add_argument("--groups", type=int, default=10_000, help="file groups of the large table")
    parser.add_argument("--huge", type=int, default=100_000, help="file groups of the table that is previewed")
    parser.add_argument("--seconds", type=float, default=30, help="how long each load lasts")
    parser.add_argument("--only", default="", help="cases whose name holds this, such as `heartbeat`")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--folder", type=Path, help="keep the tables here, and use them again")
    options = parser.parse_args(arguments)
    if not any(options.only in case.name for case in CASES):
        parser.error(f"no case holds {options.only!r}; there are: {', '.join(case.name for case in CASES)}")
    return options
