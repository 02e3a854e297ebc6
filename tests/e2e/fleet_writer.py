"""One writer process of a fleet: commits again and again, and writes down every attempt, before and after, in a diary.

Run with one argument, a JSON object with the fields of `Orders`. It ends with code 0 once enough attempts were acknowledged, its
earlier lives' included; what `hudi_ops` promises to be no reason to stop (lost to others, no lock, no ZooKeeper) is noted, and the
next attempt follows. Each line of the diary is one write of the operating system: a kill leaves it whole or not there.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.concurrency.lock.locks import LockProvider
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("part", pa.string()),
    ("writer", pa.string()),
    ("attempt", pa.string()),
    ("value", pa.int64()),
    ("_hoodie_is_deleted", pa.bool_()),
])
PARTITIONS = ("p0", "p1", "p2", "p3")
SHARED_KEYS = 12
BASE_PATH = "/hudi/locks"


@dataclass(frozen=True)
class Orders:
    """What a writer is to do.

    Attributes:
        root: folder of the table.
        hosts: ZooKeeper's connect string; empty: a lock of its own, which excludes nobody.
        lock_key: the table's node below `BASE_PATH`.
        name: of the writer; its lives share it, and the diary.
        life: 0 for the first process of this name, one more after each kill.
        seed: of the fleet; rows follow from seed, name, life and the attempt's number.
        commits: how many acknowledged attempts are enough.
        diary: file to which each attempt is appended.
        session_s: time-out of the ZooKeeper session.
        stop_at: pattern of the path at whose put the writer stops for ever; empty: nowhere.
        stop_after: whether it stops after that put, not before it.
        in_turns: wait for a line on stdin before each commit; the end of stdin ends the writer.
    """

    root: str
    hosts: str
    lock_key: str
    name: str
    life: int
    seed: int
    commits: int
    diary: str
    session_s: float = 3.0
    stop_at: str = ""
    stop_after: bool = True
    in_turns: bool = False


class WatchedStorage(LocalStorage):
    """The disk; counts the instants that are begun, and may stop for ever at a name."""

    begun = 0
    stop_at = ""
    stop_after = True

    def put(self, path: str, body: Any) -> None:
        """As the disk does."""
        with self._watched(path):
            super().put(path, body)

    def put_if_absent(self, path: str, body: Any) -> None:
        """As the disk does."""
        self.begun += path.endswith("commit.requested")
        with self._watched(path):
            super().put_if_absent(path, body)

    def _watched(self, path: str) -> _Stop:
        return _Stop(bool(self.stop_at and re.search(self.stop_at, path)), after=self.stop_after)


@dataclass
class _Stop:
    is_here: bool
    after: bool

    def __enter__(self) -> None:
        if self.is_here and not self.after:
            self._stop()

    def __exit__(self, *_: object) -> None:
        if self.is_here and self.after:
            self._stop()

    def _stop(self) -> None:
        os.write(
            sys.stdout.fileno(), b"stopped\n"
        )  # one system call: two threads that stop at once do not mix their lines
        threading.Event().wait()


class Diary:
    """A file of JSON lines, one system call each."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, **facts: Any) -> None:
        """One more line."""
        os.write(self._file, (json.dumps(facts) + "\n").encode())


def read_diary(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a diary; none when its writer never got to write one."""
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def rows_of(dice: random.Random, writer: str, attempt: str, number: int) -> list[dict[str, Any]]:
    """Rows of one attempt: keys that everybody changes and deletes, in one or two partitions, and one that is its own."""
    chosen = dice.sample(PARTITIONS, dice.choice((1, 1, 2)))
    said = {"writer": writer, "attempt": attempt, "value": number}
    rows = [{**said, "id": attempt, "part": chosen[0], "_hoodie_is_deleted": None}]
    for part in chosen:
        for key in dice.sample(range(SHARED_KEYS), dice.randint(3, 6)):
            deleted = True if dice.random() < 0.2 else None
            rows.append({**said, "id": f"k{key:02d}", "part": part, "_hoodie_is_deleted": deleted})
    return rows


def lock_of(orders: Orders) -> LockProvider:
    """The table lock, or one that nobody else can see."""
    if not orders.hosts:
        return in_process_lock(orders.root)
    return ZooKeeperLock(
        orders.hosts,
        BASE_PATH,
        orders.lock_key,
        session_timeout_s=orders.session_s,
        connect_timeout_s=10.0,
        owner=orders.name,
    )


def main() -> None:
    """Commit until enough was acknowledged."""
    orders = Orders(**json.loads(sys.argv[1]))
    storage = WatchedStorage(orders.root)
    lock = lock_of(orders)
    acknowledged = sum("instant" in line for line in read_diary(Path(orders.diary)))
    diary = Diary(Path(orders.diary))
    dice = random.Random(f"{orders.seed} {orders.name} {orders.life}")
    # Writers of Apache Hudi in a mixed fleet clean failed writes lazily: what one leaves without a heartbeat blocks nobody.
    settings = ConflictSettings(foreign_without_heartbeat="pass")
    table = Table(TableContext(storage=storage, locks=lock), conflicts=settings)
    storage.stop_at, storage.stop_after = orders.stop_at, orders.stop_after
    number = 0
    is_my_turn = not orders.in_turns
    while acknowledged < orders.commits:
        if not is_my_turn and not sys.stdin.readline():
            break
        is_my_turn = True
        number += 1
        attempt = f"{orders.name}-{orders.life}-{number}"
        rows = rows_of(dice, orders.name, attempt, number)
        diary.note(attempt=attempt, rows=rows)
        begun, started_s = storage.begun, time.monotonic()
        try:
            result = table.ingest(pa.Table.from_pylist(rows, schema=SCHEMA))
        except HudiOpsError as error:
            tries = storage.begun - begun
            diary.note(attempt=attempt, refused=type(error).__name__, tries=tries, what=str(error)[:400])
            if not error.retryable and type(error).__name__ != "Cancelled":
                raise
            continue
        acknowledged += 1
        is_my_turn = not orders.in_turns
        diary.note(
            attempt=attempt,
            instant=result.instant,
            completed=result.completion_time,
            tries=storage.begun - begun,
            seconds=round(time.monotonic() - started_s, 3),
        )
    if isinstance(lock, ZooKeeperLock):
        lock.close()


if __name__ == "__main__":
    main()
