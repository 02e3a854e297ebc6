"""How long a clean with many requests holds the lock; commits and compactions with the watcher on and off, in turn."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.cancel.cases import Run
from benchmarks.cancel.tables import made, rows
from benchmarks.concurrency.measured import MeasuredLock
from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.heartbeat_client import process_beats
from hudi_ops.context import Owner
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.names import base_file_name
from hudi_ops.table.table import Table
from hudi_ops.timeline.names import inflight_name

GROUPS = 16
CLEANS_MAX = 100


def _owner_that_ended() -> Owner:
    """Return the owner of a process that has ended."""
    process = subprocess.Popen(["true"])
    owner = replace(Owner.of_this_process(), pid=process.pid, started="1")
    process.wait()
    return owner


def _begin_and_die(session: Session, partition: str, instant: str) -> None:
    """Leave what an executor leaves that dies after its first data file."""
    attempt = take_over(session, instant, "compaction")
    assert attempt is not None
    timeline = attempt.begun.timeline
    session.ctx.storage.put(timeline.path(inflight_name(instant, "compaction")), b"")
    name = base_file_name("00000000-0000-0000-0000-000000000000-0", 0, attempt.epoch, instant)
    BaseFileOutput(session.ctx.storage, instant, f"part={partition}", "", name, None).put(pa.py_buffer(b"PAR1"))


def clean(path: Path, amount: int) -> Run:
    """Clean a table until none of `amount` requested cancels is pending; measure the lock.

    The executor of each plan died after its data file.
    """
    partitions = [f"p{number:04d}" for number in range(amount)]
    table = made(path, partitions)
    table.ingest(rows(partitions, 1), engine="local")
    plans = [
        table.compaction.plan(partitions=[f"part={one}"], cancel="cancellable").instant or "" for one in partitions
    ]
    dead = Session(replace(table.context, owner=_owner_that_ended()))
    for partition, instant in zip(partitions, plans, strict=True):
        _begin_and_die(dead, partition, instant)
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
