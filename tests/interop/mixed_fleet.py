"""Apache Hudi as one more writer of a fleet (`tests/e2e/fleet.py`): its settings, its diary, its death, and what it leaves."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_ops.storage.local import LocalStorage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.state import CommitReader, StateLoader
from tests.e2e.fleet import Row, Told
from tests.e2e.fleet_writer import BASE_PATH, PARTITIONS, SCHEMA, Diary, rows_of
from tests.interop.apache_hudi import HudiPeer, HudiPeerError

BUCKETS = 2
SESSION_S = 15.0
"""A killed holder of the lock keeps the others waiting for so long."""
OLD_S = 300
"""Age that a dead heartbeat is given: Apache Hudi's limit, and ours, is 120 s."""

SMALL = {
    "hoodie.archive.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}
"""A write with these cleans and archives nearly everything."""


def fleet_options(hosts: str, key: str) -> dict[str, str]:
    """What a writer of Apache Hudi needs beside ours; it keeps all files and instants, so that they can be looked at."""
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.url": hosts,
        "hoodie.write.lock.zookeeper.base_path": BASE_PATH,
        "hoodie.write.lock.zookeeper.lock_key": key,
        # Not too short: Apache Hudi commits without noticing that its lock is gone (docs/protocol §11).
        "hoodie.write.lock.zookeeper.session_timeout_ms": str(int(SESSION_S * 1000)),
        "hoodie.archive.automatic": "false",
        "hoodie.clean.commits.retained": "1000",
        "hoodie.keep.min.commits": "1100",
        "hoodie.keep.max.commits": "1200",
    }


class HudiWriter:
    """Apache Hudi, committing rows as our writers do and keeping the same diary."""

    def __init__(self, peer: HudiPeer, root: Path, options: dict[str, str], diary: Path, seed: int) -> None:
        self.peer, self.root, self.options, self.path = peer, root, options, diary
        self._diary = Diary(diary)
        self._dice = random.Random(f"{seed} hudi")
        self._number = 0
        self.kills = 0
        self.last = ""

    def turn(self, tries: int = 20) -> None:
        """One acknowledged commit; whatever fails on the way is noted, and tried again with other rows."""
        for _ in range(tries):
            if self.attempt():
                return
        raise AssertionError(f"Apache Hudi failed {tries} times in a row: {self.last}")

    def attempt(self, partitions: Sequence[str] = PARTITIONS, **options: str) -> bool:
        """One try; True when it is acknowledged. Of one that was killed nothing more is noted."""
        self._number += 1
        attempt = f"hudi-{self._number}"
        with self.peer.guard:  # not in the midst of a kill
            kills = self.kills
        rows = [row for row in rows_of(self._dice, "hudi", attempt, self._number) if row["part"] in partitions]
        if not any(row["id"] == attempt for row in rows):
            rows.append({**_said(attempt, self._number), "id": attempt, "part": partitions[0]})
        self._diary.note(attempt=attempt, rows=rows)
        data = pa.Table.from_pylist(rows, schema=SCHEMA)
        started_s = time.monotonic()
        try:
            self.peer.write(self.root, data, buckets=BUCKETS, options={**self.options, **options})
        except (HudiPeerError, BrokenPipeError) as error:
            self.last = str(error)
            if kills == self.kills:
                refused = "Conflict" if "HoodieWriteConflictException" in self.last else "HudiPeerError"
                self._diary.note(attempt=attempt, refused=refused, what=self.last[:2000])
            return False
        instant = instant_of(self.root, attempt)
        self._diary.note(attempt=attempt, instant=instant, seconds=round(time.monotonic() - started_s, 3))
        return True


def _said(attempt: str, number: int) -> Row:
    return {"writer": "hudi", "attempt": attempt, "value": number, "_hoodie_is_deleted": None}


def instant_of(root: Path, attempt: str) -> str:
    """The instant that wrote an attempt's own row, which nobody else touches; told by the files, newest first."""
    for file in sorted(root.glob("part=*/*.parquet"), key=lambda one: one.stat().st_mtime_ns, reverse=True):
        try:
            rows = pq.read_table(file, columns=["_hoodie_commit_time", "id"], partitioning=None)
        except FileNotFoundError:
            continue  # a rollback was faster
        found = rows.filter(pc.field("id") == attempt)
        if found.num_rows:
            return str(found["_hoodie_commit_time"][0])
    raise AssertionError(f"no file holds the row of {attempt}")


def timeline_of(root: Path) -> Timeline:
    """The table's timeline as we see it."""
    storage = LocalStorage(root)
    return StateLoader(storage, CommitReader(storage)).load().timeline


def age_leases(root: Path, *, of_hudi: bool, of_pid: int = 0) -> list[str]:
    """Make heartbeats look as if their last beat lay far back; returns their instants.

    Args:
        root: the table.
        of_hudi: those that Apache Hudi wrote; else ours, their contents included.
        of_pid: only those of this process of ours; 0: all.
    """
    old_s = time.time() - OLD_S
    aged = []
    folder = root / ".hoodie" / ".heartbeat"
    for file in folder.iterdir() if folder.exists() else ():
        if not file.name.isdecimal():
            continue
        body = file.read_bytes()
        if bool(body) is of_hudi:
            continue
        if body:
            said = json.loads(body)
            if of_pid and said["owner"]["pid"] != of_pid:
                continue
            file.write_bytes(json.dumps({**said, **_old_times(said, old_s)}).encode())
        os.utime(file, (old_s, old_s))
        crc = file.with_name(f".{file.name}.crc")
        crc.unlink(missing_ok=True)
        aged.append(file.name)
    return aged


def _old_times(said: dict[str, Any], old_s: float) -> dict[str, int]:
    shift_ms = int((time.time() - old_s) * 1000)
    return {key: value - shift_ms for key, value in said.items() if key.endswith("_ms")}


def strays(root: Path) -> list[str]:
    """Data files that no completed instant names; all instants must still be on the timeline, and nothing cleaned."""
    storage = LocalStorage(root)
    commits = CommitReader(storage)
    timeline = StateLoader(storage, commits).load().timeline
    named = set()
    for instant in timeline.completed_writes:
        metadata = commits.metadata(timeline, instant)
        named |= {stat.path for stat in metadata.stats} if metadata is not None else set()
    files = {str(file.relative_to(root)) for file in root.glob("part=*/*.parquet")}
    return sorted(files - named)


def left_over(root: Path) -> list[str]:
    """What no settled table has: pending instants, leases, markers."""
    found = [str(instant) for instant in timeline_of(root).pending]
    for folder in (".heartbeat", ".temp"):
        found += [str(file.relative_to(root)) for file in (root / ".hoodie" / folder).rglob("*") if file.is_file()]
    return [one for one in found if not one.endswith(".crc")]


def told_by(diaries: Path) -> Told:
    """All diaries of a folder."""
    told = Told()
    for file in sorted(diaries.glob("*.jsonl")):
        told.take(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return told
