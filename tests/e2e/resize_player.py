"""One process of a table whose buckets are split and merged while others write: a writer, or the one that resizes.

Run with one argument, a JSON object with the fields of `Part`. Both play until a file tells them to stop, and note what they do in
a diary, one system call for each line: a kill leaves a line whole or not there. A write must not fail. A resize may lose to others,
who took its plan over or completed a write in the same moment: that is noted, and the next resize follows.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from tests.e2e.fleet_writer import BASE_PATH, Diary, read_diary

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("part", pa.string()),
    ("attempt", pa.string()),
    ("payload", pa.string()),
    ("_hoodie_is_deleted", pa.bool_()),
])
SIZES: dict[str, Any] = {"split_bytes": 100_000, "merge_bytes": 12_000}
PAYLOAD_CHARS = 400
LOCK = "resized"
FIRST_KEYS = 1_600
"""Keys of a writer's first attempt: its four buckets are too large at once."""
KEYS_MIN, KEYS_MAX = 400, 2_400
"""A partition grows to the latter and shrinks to the former in turn: its buckets are split, and merged."""
MARK = ".mark"


@dataclass(frozen=True)
class Part:
    """What a process plays.

    Attributes:
        root: folder of the table.
        hosts: ZooKeeper's connect string.
        name: of the process; its lives share it, and the diary.
        life: 0 for the first process of this name, one more after each kill.
        seed: rows follow from seed, name and life.
        diary: file to which each line is appended.
        stop: file that ends the process once it is there.
        resizes: whether it plans and executes resizes; else it writes.
    """

    root: str
    hosts: str
    name: str
    life: int
    seed: int
    diary: str
    stop: str
    resizes: bool = False


class CountingStorage(LocalStorage):
    """The disk; counts the instants that are begun."""

    begun = 0

    def put_if_absent(self, path: str, body: Any) -> None:
        """As the disk does."""
        self.begun += path.startswith(".hoodie/timeline/") and path.endswith(".deltacommit.requested")
        super().put_if_absent(path, body)


def rows_of(dice: random.Random, part: Part, attempt: str, known: list[str], *, shrinks: bool) -> list[dict[str, Any]]:
    """Rows of one attempt, all of keys that no other process writes: new and changed ones, or many deletes if `shrinks`.

    The first has a new key that is never changed: it tells whether the attempt completed.
    """
    chosen = dice.sample(known, min(len(known), 220 if shrinks else 12))
    gone = {*chosen[: 210 if shrinks else 2]}
    new = [f"{attempt}.{number}" for number in range(FIRST_KEYS if not known else 2 if shrinks else 100)]
    said = {"part": f"p{part.name[-1]}", "attempt": attempt}
    keys = [f"{attempt}{MARK}", *new, *chosen]
    return [{**said, "id": key, "_hoodie_is_deleted": key in gone or None} for key in keys]


def told(rows: list[dict[str, Any]], dice: random.Random) -> pa.Table:
    """The rows with what fills the files."""
    return pa.Table.from_pylist([{**row, "payload": dice.randbytes(PAYLOAD_CHARS // 2).hex()} for row in rows], SCHEMA)


def write(table: Table, storage: CountingStorage, part: Part, diary: Diary) -> None:
    """Write until told to stop."""
    dice = random.Random(f"{part.seed} {part.name} {part.life}")
    known: set[str] = set()
    for line in read_diary(Path(part.diary)):
        learn(known, line.get("rows", ()))
    number, shrinks = 0, False
    while not Path(part.stop).exists():
        number += 1
        attempt = f"{part.name}-{part.life}-{number}"
        shrinks = len(known) > (KEYS_MIN if shrinks else KEYS_MAX)
        rows = rows_of(dice, part, attempt, sorted(known), shrinks=shrinks)
        diary.note(attempt=attempt, rows=rows)
        begun, started_s = storage.begun, time.monotonic()
        try:
            done = table.ingest(told(rows, dice))
        except HudiOpsError as error:
            diary.note(attempt=attempt, failed=type(error).__name__, what=str(error)[:1_000])
            raise
        seconds = round(time.monotonic() - started_s, 3)
        diary.note(attempt=attempt, instant=done.instant, tries=storage.begun - begun, seconds=seconds, at=time.time())
        learn(known, rows)


def learn(known: set[str], rows: Iterable[dict[str, Any]]) -> None:
    """Take what an attempt wrote into the keys that later ones change."""
    for row in rows:
        if not row["id"].endswith(MARK):
            (known.discard if row["_hoodie_is_deleted"] else known.add)(row["id"])


def resize(table: Table, part: Part, diary: Diary) -> None:
    """Plan and execute resizes until told to stop."""
    number = 0
    while not Path(part.stop).exists():
        number += 1
        diary.note(resize=f"{part.name}-{part.life}-{number}")
        started_s = time.monotonic()
        try:
            done = table.resize.run(**SIZES)
        except HudiOpsError as error:
            diary.note(failed=type(error).__name__, what=str(error)[:1_000])
            if not error.retryable and type(error).__name__ not in {"Conflict", "Cancelled"}:
                raise
            continue
        seconds = round(time.monotonic() - started_s, 3)
        kinds = {"splits": done.splits, "merges": done.merges, "left_out": done.left_out}
        diary.note(resized=done.instant, completed=done.completion_time, seconds=seconds, note=done.note, **kinds)
        if done.instant is None:
            time.sleep(0.05)


def main() -> None:
    """Play the part until told to stop."""
    part = Part(**json.loads(sys.argv[1]))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    storage = CountingStorage(part.root)
    lock = ZooKeeperLock(part.hosts, BASE_PATH, LOCK, session_timeout_s=3.0, connect_timeout_s=10.0, owner=part.name)
    table = Table(TableContext(storage=storage, locks=lock), conflicts=ConflictSettings(retries=20))
    diary = Diary(Path(part.diary))
    if part.resizes:
        resize(table, part, diary)
    else:
        write(table, storage, part, diary)
    lock.close()


if __name__ == "__main__":
    main()
