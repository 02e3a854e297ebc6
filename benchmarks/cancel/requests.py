"""Time of a request until its slot is durable, alone and beside writers, with what two syncs and a turn of locks take."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cancel.cases import Run
from benchmarks.cancel.tables import made, rows
from benchmarks.concurrency.compare import Talker
from benchmarks.concurrency.contender import BASE_PATH
from benchmarks.concurrency.measured import MeasuredLock, kind_of
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.context import TableContext
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table

PLANNED = "planned"
SYNCS = 50


class SlotTimes:
    """Passes everything on to a storage, and keeps when the last slot was put."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.slot_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, body: Any) -> None:
        """As the storage inside does."""
        self._inner.put_if_absent(path, body)
        if kind_of(path) == "slot":
            self.slot_s = time.perf_counter()


def request(path: Path, hosts: str, amount: int) -> Run:
    """Request `amount` cancels, one after the other, with no other process."""
    made(path, [PLANNED]).ingest(rows([PLANNED], 1))
    found = _measured(path, hosts, iter(range(amount)))
    return {**found, "two_syncs_ms": _two_syncs_ms(path)}


def request_beside(path: Path, hosts: str, amount: int, talkers: list[Talker]) -> Run:
    """Request cancels as long as each writer makes `amount` commits in a partition of its own."""
    partitions = [f"p{number}" for number in range(len(talkers))]
    made(path, [*partitions, PLANNED]).ingest(rows([PLANNED], 1))
    job = {"table": str(path), "key": path.name, "hosts": hosts, "commits": amount, "is_kept": True}
    for number, (talker, partition) in enumerate(zip(talkers, partitions, strict=True)):
        talker.tell(json.dumps({**job, "partition": partition, "name": f"contender {number}"}))
        assert talker.hear() == "ready\n"
    for talker in talkers:
        talker.tell("go")
    heard: list[Run] = []

    def hear() -> None:
        heard.extend(json.loads(talker.hear()) for talker in talkers)

    listener = threading.Thread(target=hear)
    listener.start()
    found = _measured(path, hosts, iter(listener.is_alive, False))
    listener.join()
    held_ms = 1000 * median(each for one in heard for each in one["held_s"])
    span_s = max(one["ended"] for one in heard) - min(one["started"] for one in heard)
    return {**found, "turn_ms": held_ms * len(talkers), "commits_per_s": len(talkers) * amount / span_s}


def _measured(path: Path, hosts: str, turns: Iterator[Any]) -> Run:
    storage = SlotTimes(open_storage(str(path)))
    inner = ZooKeeperLock(hosts, BASE_PATH, path.name, owner="canceller")
    lock = MeasuredLock(inner)
    table = Table(TableContext(storage=storage, locks=lock))  # type: ignore[arg-type]
    durable_ms, call_ms, waited_ms, cpu_ms = [], [], [], []
    cancelled = []
    for _ in turns:
        instant = table.compaction.plan(partitions=[f"*{PLANNED}"], cancel="cancellable").instant
        assert instant is not None
        lock.clear()
        cpu_s, began_s = time.process_time(), time.perf_counter()
        table.request_cancel(instant, "measured")
        ended_s = time.perf_counter()
        cpu_ms.append(1000 * (time.process_time() - cpu_s))
        durable_ms.append(1000 * (storage.slot_s - began_s))
        call_ms.append(1000 * (ended_s - began_s))
        waited_ms.append(1000 * sum(lock.waited_s))
        table.execute_cancel(instant)
        cancelled.append(instant)
    records = {plan.instant for plan in table.plans(aborted=True) if plan.state == "aborted"}
    inner.close()
    return {
        "durable_ms": _rounded(durable_ms),
        "call_ms": _rounded(call_ms),
        "waited_ms": _rounded(waited_ms),
        "cpu_ms": _rounded(cpu_ms),
        "correct": records == set(cancelled) and bool(cancelled),
    }


def _two_syncs_ms(folder: Path) -> float:
    """Put one small file durably, as a slot is: its bytes, then its name; the median of many."""
    times = []
    for number in range(SYNCS):
        began_s = time.perf_counter()
        file = folder / f"sync-{number}"
        with open(file, "wb") as opened:
            opened.write(bytes(300))
            opened.flush()
            os.fsync(opened.fileno())
        place = os.open(folder, os.O_RDONLY)
        os.fsync(place)
        os.close(place)
        times.append(time.perf_counter() - began_s)
        file.unlink()
    return round(1000 * median(times), 3)


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 2) for value in values]
