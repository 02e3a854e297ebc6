"""How long a clean with many requests holds the lock; commits and compactions with the watcher on and off, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cancel.cases import Run
from benchmarks.cancel.tables import made, rows
from benchmarks.concurrency.measured import MeasuredLock
from hudi_ops.concurrency.lease.heartbeat_client import process_beats
from hudi_ops.engine.protocol import Engine
from hudi_ops.table.table import Table

GROUPS = 16
CLEANS_MAX = 100


class _Death(BaseException):
    """An executor dies: nothing of its clean-up runs."""


class _Dying:
    """Passes everything on to a storage, until an executor has put its first data file."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, path: str, body: Any) -> None:
        """As the storage inside does."""
        self._inner.put(path, body)
        if path.endswith(".parquet"):
            raise _Death


def clean(path: Path, amount: int) -> Run:
    """Clean a table until none of `amount` requested cancels is pending; measure the lock.

    The executor of each plan died after its data file.
    """
    partitions = [f"p{number:04d}" for number in range(amount)]
    table = made(path, partitions)
    table.ingest(rows(partitions, 1), engine="local")
    dying = Table(replace(table.context, storage=_Dying(table.context.storage)))  # type: ignore[arg-type]
    plans = []
    for partition in partitions:
        instant = table.compaction.plan(partitions=[f"part={partition}"], cancellable=True).instant
        assert instant is not None
        with suppress(_Death):
            dying.compaction.execute(instant=instant, engine="local")
        plans.append(instant)
    for instant in plans:  # a plan removes what is cancelled already, so all are made before the first request
        table.request_cancel(instant, "measured")
    waiting = len(table.plans())
    lock = MeasuredLock(table.context.locks)
    cleaner = Table(replace(table.context, locks=lock))
    cleans = 0
    began_s = time.perf_counter()
    while cleaner.plans() and cleans < CLEANS_MAX:
        cleaner.clean.run()
        cleans += 1
    seconds = time.perf_counter() - began_s
    queue = path / ".hoodie" / ".cancel"
    files = [file for instant in plans for file in path.glob(f"part=*/*_{instant}.parquet")]
    is_done = (
        not files and waiting == amount and len(cleaner.plans(aborted=True)) == amount and not list(queue.glob("*"))
    )
    values = set(table.read(["value"])["value"].to_pylist())
    return {
        "held_s": [round(each, 4) for each in lock.held_s],
        "cleans": cleans,
        "seconds": round(seconds, 2),
        "correct": is_done and values == {1},
    }


def commit(path: Path, amount: int) -> Run:
    """Commit one row `amount` times with the watcher, and as often without, in turn."""
    table = made(path, ["p0"])
    pair = _pair(table)

    def run(of: Table, number: int) -> None:
        of.ingest(rows(["p0"], number), engine="local")

    found = _in_turn(pair, amount, lambda of, number: lambda: run(of, number), lambda of, number: None)
    return {**found, "correct": set(table.read(["value"])["value"].to_pylist()) == {2 * amount}}


def compaction(path: Path, amount: int, each: int, engine: Engine) -> Run:
    """Compact 16 groups `amount` times with the watcher, and as often without, in turn."""
    partitions = [f"p{number}" for number in range(GROUPS)]
    table = made(path, partitions, each)
    pair = [Table(replace(one.context, engine=engine)) for one in _pair(table)]
    slices: list[int] = []

    def run(of: Table, _: int) -> None:
        slices.append(of.compaction.run(engine=engine.name).slices)

    def before(_: Table, number: int) -> None:
        table.ingest(rows(partitions, number, each), engine="local")

    found = _in_turn(pair, amount, lambda of, number: lambda: run(of, number), before)
    values = set(table.read(["value"])["value"].to_pylist())
    return {**found, "correct": set(slices) == {GROUPS} and values == {2 * amount}}


def _pair(table: Table) -> list[Table]:
    """Return two objects of a table, with the watcher and without: a context with own beats has none."""
    return [Table(table.context), Table(replace(table.context, beats=process_beats()))]


def _in_turn(
    pair: list[Table],
    amount: int,
    make: Callable[[Table, int], Callable[[], None]],
    before: Callable[[Table, int], None],
) -> Run:
    """Run each of a pair `amount` times, the first one first in every other turn; a run before the first does not count."""
    found: Run = {f"{name}_{figure}": [] for name in ("on", "off") for figure in ("wall_s", "cpu_s")}
    number = 0
    for turn in range(amount + 1):
        named = list(zip(("on", "off"), pair, strict=True))
        for name, table in named if turn % 2 else reversed(named):
            number += 1 if turn else 0
            before(table, number)
            call = make(table, number)
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            call()
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            if turn:
                found[f"{name}_wall_s"].append(round(wall_s, 4))
                found[f"{name}_cpu_s"].append(round(cpu_s, 4))
    return found
