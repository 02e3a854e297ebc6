"""A process beside others on one table: it commits, or builds indexes, as its commands say.

A command is a line of JSON on stdin, an answer a line on stdout. Times are wall times that all processes share; CPU seconds are of
all threads of this process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.rows import ORDERING
from benchmarks.metadata.watched import ANNOUNCES, WatchedLock
from hudi_ops import Table
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.errors import Busy, Conflict

_LOCKS = "/hudi/locks"
Answer = dict[str, Any]


class Worker:
    """One table, opened for one run.

    Args:
        table: its path.
        hosts: of ZooKeeper.
        key: of its lock.
        name: of this process.
        cpus: processors that it may use from now on; None: as before.
    """

    def __init__(self, table: str, hosts: str, key: str, name: str, cpus: list[int] | None) -> None:
        if cpus is not None:
            for thread in Path("/proc/self/task").iterdir():
                os.sched_setaffinity(int(thread.name), cpus)
        self._inner = ZooKeeperLock(hosts, _LOCKS, key, owner=name)
        self._lock = WatchedLock(self._inner)
        self._table = Table.open(table, locks=self._lock)

    def commit(self, source: str) -> Answer:
        """Commit the rows of a file, which are read before the time is taken."""
        rows = pq.read_table(source)
        began, cpu_s = time.time(), time.process_time()
        self._table.ingest(rows, engine="local")
        return {"began": began, "cpu_s": time.process_time() - cpu_s, "ended": time.time()}

    def go_on(self, source: str, stop: str) -> Answer:
        """Commit one row after the other until a file is there; the first commit is said at once."""
        rows = pq.read_table(source)
        place = rows.schema.get_field_index(ORDERING)
        ended: list[float] = []
        refused = 0
        while not Path(stop).exists():
            row = rows.slice(len(ended) % rows.num_rows, 1)
            row = row.set_column(place, ORDERING, pa.array([row[ORDERING][0].as_py() + len(ended)]))
            try:
                self._table.ingest(row, engine="local")
            except (Conflict, Busy):
                refused += 1
                continue
            ended.append(time.time())
            if len(ended) == 1:
                say({"first": ended[0]})
        return {"ended": ended, "refused": refused}

    def build(self, partitions: list[str], waits: bool) -> Answer:
        """Build indexes; `waits`: say so before they are announced, and go on after the next line."""
        told: Answer = {}

        def before(purpose: str) -> None:
            if waits and purpose.startswith(ANNOUNCES) and "announcing" not in told:
                told["announcing"] = time.time()
                say({"announcing": told["announcing"]})
                sys.stdin.readline()

        def after(purpose: str) -> None:
            if purpose.startswith(ANNOUNCES):
                told.update(announced=time.time(), announced_cpu_s=time.process_time() - cpu_s)

        self._lock.before, self._lock.after = before, after
        began, cpu_s = time.time(), time.process_time()
        done = self._table.indexing.run(partitions=partitions, engine="local")
        told |= {"began": began, "cpu_s": time.process_time() - cpu_s, "ended": time.time()}
        return {
            **told,
            "rounds": done.rounds,
            "bytes_in": done.bytes_in,
            "correct": {*partitions} <= {*done.partitions},
        }

    def close(self) -> None:
        """End the session with ZooKeeper."""
        self._table.close()
        self._inner.close()


def say(answer: Answer) -> None:
    """Print one line."""
    print(json.dumps(answer), flush=True)


def main() -> None:
    """Answer commands until stdin ends."""
    worker: Worker | None = None
    for line in sys.stdin:
        fields = json.loads(line)
        command = fields.pop("command")
        if command == "open":
            worker = Worker(**fields)
            say({"open": True})
            continue
        assert worker is not None, "open comes first"
        if command == "close":
            worker.close()
            worker = None
            say({"open": False})
        else:
            say(getattr(worker, command)(**fields))


if __name__ == "__main__":
    main()
