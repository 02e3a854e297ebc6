"""Time from a request to the end of an execution amid a long task, and the calls of the watcher."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cancel.cases import Run
from benchmarks.cancel.tables import made, rows
from benchmarks.harness import process_tree
from benchmarks.harness.storage_calls import CountingStorage
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import begin
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Cancelled
from hudi_ops.table.table import Table

PARTITION = "p0"
DEADLINE_S = 120.0
LATEST_S = 1.0
"""Latest moment of a request after the execution began, in seconds."""
STARTED_S = 0.3
"""A Python worker that has used the processor for so long works on its task."""
QUIET_S = 0.5
"""Workers that use no processor for so long have stopped."""


def stop(path: Path, amount: int, each: int, engine: Engine, dice: random.Random) -> Run:
    """Cancel `amount` executions of a plan of one file group at random moments of its one task."""
    table = made(path, [PARTITION], each)
    table.ingest(rows([PARTITION], 1, each), engine="local")
    stopped_s, worked_s = [], []
    correct = True
    for _ in range(amount):
        instant = table.compaction.plan(cancel="cancellable").instant
        assert instant is not None
        executor = Table(replace(table.context, engine=engine))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(executor.compaction.execute, instant=instant, engine=engine.name)
            _until(lambda name=instant: next(path.glob(f".hoodie/timeline/{name}.compaction.inflight"), None))
            before = _worked(engine)
            _until(lambda before=before: engine.name == "local" or _worked(engine) > before + STARTED_S)
            time.sleep(dice.uniform(0, LATEST_S))
            before = _worked(engine)
            table.request_cancel(instant, "measured")
            asked_s = time.perf_counter()
            error = running.exception(DEADLINE_S)
            stopped_s.append(round(time.perf_counter() - asked_s, 3))
        correct &= isinstance(error, Cancelled) and table.plans(instant, aborted=True)[0].state == "aborted"
        worked_s.append(round(_until_idle(engine, asked_s, before), 3))
    values = set(table.read(["value"])["value"].to_pylist())
    return {"stopped_s": stopped_s, "worked_s": worked_s, "rows": each, "correct": correct and values == {1}}


def watcher(path: Path, seconds: int) -> Run:
    """Watch three instants of this process for some seconds, and count the calls of the watcher."""
    table = made(path, [PARTITION])
    storage = CountingStorage(table.context.storage)
    session = Session(replace(table.context, storage=storage))  # type: ignore[arg-type]
    attempts = [begin(session.ctx, session.loader, "deltacommit") for _ in range(3)]
    session.loader.load()
    with ExitStack() as stack:
        for attempt in attempts:
            stack.enter_context(session.keep(attempt.instant, "execute"))
        storage.calls.clear()
        threads = [one for one in threading.enumerate() if one.name == "hudi-ops-watcher"]
        time.sleep(seconds)
        calls = dict(storage.calls)
    found = sum(calls.values())
    return {"calls_per_s": found / seconds, "calls": calls, "threads": len(threads), "correct": 0 < found <= seconds}


def _worked(engine: Engine) -> float:
    """Return the processor seconds of the engine's own processes so far."""
    if engine.name != "spark":
        return 0.0
    pids = [pid for pid in process_tree.tree(os.getpid()) if b"pyspark" in _command(pid) and b"daemon" in _command(pid)]
    return sum(seconds for (pid, _), seconds in process_tree.cpu_times(os.getpid()).items() if pid in pids)


def _until_idle(engine: Engine, since_s: float, worked: float) -> float:
    """Return the time from a moment to the last work of a task, in a thread of this process or in Spark's workers."""
    if engine.name == "local":
        _until(lambda: not [one for one in threading.enumerate() if one.name.startswith("ThreadPoolExecutor")])
        return time.perf_counter() - since_s
    last_s, seen_s = since_s, time.perf_counter()
    while time.perf_counter() - seen_s < QUIET_S:
        now = _worked(engine)
        if now > worked:
            worked, last_s = now, time.perf_counter()
            seen_s = last_s
        time.sleep(0.02)
    return last_s - since_s


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _until(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.002)
