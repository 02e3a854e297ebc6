"""One writer process of ours: stays alive, and on each command commits one row again and again, as fast as it can.

It answers each line of stdin with a line: first `ready` when its table is open and one commit has warmed it, then, told to `go`,
what it measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from typing import Any

import pyarrow as pa

from benchmarks.concurrency.measured import MeasuredLock, kind_of
from benchmarks.harness.storage_calls import CountingStorage
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Conflict
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])
BASE_PATH = "/hudi/locks"
GIVE_UP_AFTER = 200
"""Refusals in a row after which a contender says that it starves."""


def row(partition: str, value: int) -> pa.Table:
    """The row that a contender changes again and again."""
    return pa.Table.from_pylist([{"id": "k0", "part": partition, "value": value}], schema=SCHEMA)


class Contender:
    """One case's work of one process."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self.storage = CountingStorage(open_storage(job["table"]))
        inner: Any = in_process_lock(job["table"])
        if job["hosts"]:
            inner = ZooKeeperLock(job["hosts"], BASE_PATH, job["key"], owner=job["name"])
        self._inner = inner
        self.lock = MeasuredLock(inner, self.storage)
        self._table: Table | None = None

    def warm(self) -> None:
        """One commit that counts for nothing: imports, the session with ZooKeeper."""
        self._commit(0, Counter())
        self.lock.clear()
        self.storage.calls.clear()
        self.storage.paths.clear()

    def run(self) -> dict[str, Any]:
        """All commits; times in seconds."""
        latencies: list[float] = []
        refused: Counter[str] = Counter()
        started = time.time()
        for number in range(1, self._job["commits"] + 1):
            began_s = time.perf_counter()
            self._commit(number, refused)
            latencies.append(time.perf_counter() - began_s)
        paths = self.storage.paths
        return {
            "started": started,
            "ended": time.time(),
            "latencies_s": latencies,
            "refused": dict(refused),
            "instants": sum(path.endswith("commit.requested") and name == "put_if_absent" for name, path in paths),
            "waited_s": self.lock.waited_s,
            "held_s": self.lock.held_s,
            "purposes": dict(Counter(self.lock.purposes)),
            "calls": _told(Counter((name, kind_of(path)) for name, path in paths)),
            "calls_under_lock": _told(self.lock.under),
            "in_order": [f"{name} {kind_of(path)}" for name, path in paths] if self._job["commits"] == 1 else [],
        }

    def close(self) -> None:
        """End the session with ZooKeeper."""
        if isinstance(self._inner, ZooKeeperLock):
            self._inner.close()

    def _commit(self, value: int, refused: Counter[str]) -> None:
        for _ in range(GIVE_UP_AFTER):
            if self._table is None or not self._job["is_kept"]:
                self._table = Table(TableContext(storage=self.storage, locks=self.lock))
            try:
                self._table.ingest(row(self._job["partition"], value), engine="local")
            except (Conflict, Busy) as error:
                refused[type(error).__name__] += 1
            else:
                return
        raise SystemExit(f"{self._job['name']} starves: refused {GIVE_UP_AFTER} times in a row ({dict(refused)})")


def _told(calls: Counter[tuple[str, str]]) -> dict[str, int]:
    return {f"{name} {kind}": count for (name, kind), count in sorted(calls.items())}


def main() -> None:
    for line in sys.stdin:
        contender = Contender(json.loads(line))
        contender.warm()
        print("ready", flush=True)
        sys.stdin.readline()  # go
        found = contender.run()
        contender.close()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
