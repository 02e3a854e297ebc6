"""A fleet of writer processes on one table: started, killed, paused, started again; and the check of what they left.

The check: the table equals the serial replay, in the order of completion, of the attempts that completed. Which those are the table
itself tells, by the rows that each instant wrote; every acknowledged attempt is among them, once, and none that was refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_ops.clock import SystemClock
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback import RolledBackWrite
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.state import CommitReader, StateLoader
from tests.e2e.fleet_writer import SCHEMA, Orders, read_diary
from tests.signals import freeze, thaw

PROGRAM = Path(__file__).with_name("fleet_writer.py")
NOTHING_LANDED = frozenset({"Conflict", "Busy", "Cancelled", "InvalidRequest", "Unsupported"})
"""Errors that promise it; after others an attempt may have landed (hudi_ops/errors.py)."""

Row = dict[str, Any]


def make_table(root: Path, locks: Any = None) -> Table:
    """The table of all fleets: four partitions of two buckets; the later write wins."""
    return Table.create(
        str(root),
        name="fleet",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        buckets=2,
        locks=locks,
        clean={"automatic": False},  # the checks replay every commit
        archive={"automatic": False},
    )


@dataclass
class Member:
    """One writer, through all its lives."""

    orders: Orders
    process: subprocess.Popen[str] | None = None
    is_done: bool = False

    @property
    def diary(self) -> list[dict[str, Any]]:
        """All that it noted so far."""
        return list(read_diary(Path(self.orders.diary)))

    @property
    def acknowledged(self) -> int:
        """How many of its attempts succeeded."""
        return sum("instant" in line for line in self.diary)

    def last_words(self) -> str:
        """The end of what it said on stderr."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])

    @property
    def log(self) -> Path:
        """What it says on stderr."""
        return Path(self.orders.diary).with_suffix(".log")


class Fleet:
    """Writer processes by name. As a context manager it leaves none of them alive.

    Args:
        root: the table's folder.
        hosts: ZooKeeper's connect string; empty: no lock that excludes anybody.
        lock_key: the table's node.
        diaries: folder of their diaries.
        seed: decides what is written, and who is disturbed when.
    """

    def __init__(self, root: Path, hosts: str, lock_key: str, diaries: Path, seed: int) -> None:
        self.root, self.hosts, self.lock_key, self.diaries, self.seed = root, hosts, lock_key, diaries, seed
        self.members: dict[str, Member] = {}
        diaries.mkdir(exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            if member.process is not None and member.process.poll() is None:
                member.process.kill()
                member.process.wait(30)

    def add(self, name: str, commits: int, **orders: Any) -> Member:
        """Start a writer."""
        diary = str(self.diaries / f"{name}.jsonl")
        given = {"life": 0, "seed": self.seed, "commits": commits, "diary": diary, **orders}
        member = Member(Orders(str(self.root), self.hosts, self.lock_key, name, **given))
        self.members[name] = member
        self._start(member)
        return member

    def kill(self, member: Member) -> None:
        """End a writer as a crash would."""
        assert member.process is not None
        member.process.kill()
        member.process.wait(30)

    def revive(self, member: Member) -> None:
        """Start a killed writer again; it goes on where its diary ends."""
        member.orders = Orders(**{**asdict(member.orders), "life": member.orders.life + 1, "stop_at": ""})
        self._start(member)

    def tell(self, member: Member) -> None:
        """It is the writer's turn (`Orders.in_turns`)."""
        assert member.process is not None
        assert member.process.stdin is not None
        member.process.stdin.write("go\n")
        member.process.stdin.flush()

    def await_stop(self, member: Member) -> None:
        """Wait until a writer has come to where it is to stop."""
        assert member.process is not None
        assert member.process.stdout is not None
        assert member.process.stdout.readline() == "stopped\n", member.last_words()

    def pause(self, member: Member) -> None:
        """Freeze a writer; its session and its lock go on to somebody else after a while."""
        assert member.process is not None
        freeze(member.process.pid)

    def resume(self, member: Member) -> None:
        """Let a paused writer go on, unless it was killed."""
        assert member.process is not None
        if member.process.poll() is None:
            thaw(member.process.pid)

    def look(self) -> list[Member]:
        """The writers that still work; those that ended by themselves must have ended well."""
        working = []
        for member in self.members.values():
            if member.is_done:
                continue
            assert member.process is not None
            code = member.process.poll()
            if code is None:
                working.append(member)
                continue
            assert code == 0, f"writer {member.orders.name} ended with {code}:\n{member.last_words()}"
            member.is_done = True
        return working

    def acknowledged(self) -> int:
        """Commits so far."""
        return sum(member.acknowledged for member in self.members.values())

    def _start(self, member: Member) -> None:
        with open(member.log, "a", encoding="utf-8") as log:
            member.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), json.dumps(asdict(member.orders))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


@dataclass
class Told:
    """What the diaries say, and what else was attempted by others: rows by attempt, and what became of them."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    tries: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def take(self, diary: Iterable[Mapping[str, Any]]) -> None:
        """Read a diary; tries and refusals count towards the commit that followed them."""
        tries = 0
        for line in diary:
            attempt = line["attempt"]
            if "rows" in line:
                assert attempt not in self.rows, f"attempt {attempt} was made twice"
                self.rows[attempt] = line["rows"]
                continue
            tries += line.get("tries", 1)
            if "refused" in line:
                self.refused[attempt] = line["refused"]
            else:
                self.acknowledged[attempt] = line["instant"]
                self.seconds.append(line.get("seconds", 0.0))
                self.tries.append(tries)
                tries = 0

    @property
    def silent(self) -> set[str]:
        """Attempts of which nobody said what became of them: their process was killed."""
        return self.rows.keys() - self.acknowledged.keys() - self.refused.keys()


def landed(root: Path) -> list[tuple[str, str]]:
    """(instant, attempt) of every completed write that holds rows, in the order of completion; told by its own files."""
    storage = LocalStorage(root)
    commits = CommitReader(storage)
    timeline = StateLoader(storage, commits).load().timeline
    found = []
    for instant in sorted(timeline.completed_writes, key=lambda one: one.completion_time):
        metadata = commits.metadata(timeline, instant)
        assert metadata is not None
        attempts: set[str] = set()
        for stat in metadata.stats:
            rows = pq.read_table(root / stat.path, columns=["_hoodie_commit_time", "attempt"], partitioning=None)
            attempts.update(rows.filter(pc.field("_hoodie_commit_time") == instant.time)["attempt"].to_pylist())
        assert len(attempts) <= 1, f"{instant} holds rows of several attempts: {sorted(attempts)}"
        found += [(instant.time, attempt) for attempt in attempts]
    return found


def replay(order: Iterable[tuple[str, str]], rows: Mapping[str, list[Row]]) -> list[Row]:
    """The rows that a table holds after these attempts, one after the other."""
    table: dict[tuple[str, str], Row] = {}
    for instant, attempt in order:
        for row in rows[attempt]:
            key = (row["part"], row["id"])
            if row["_hoodie_is_deleted"]:
                table.pop(key, None)
            else:
                table[key] = {**row, "_hoodie_commit_time": instant}
    return list(table.values())


def check_order(told: Told, order: list[tuple[str, str]]) -> None:
    """Acknowledged attempts completed, once, in the instant that was named; refused ones did not."""
    count = Counter(attempt for _, attempt in order)
    assert [attempt for attempt, times in count.items() if times > 1] == [], "attempts that landed twice"
    assert [attempt for attempt in count if attempt not in told.rows] == [], "attempts that nobody made"
    at = {attempt: instant for instant, attempt in order}
    lost = {attempt: instant for attempt, instant in told.acknowledged.items() if at.get(attempt) != instant}
    assert lost == {}, f"acknowledged, and not there or elsewhere: {lost}"
    unwanted = [attempt for attempt, error in told.refused.items() if error in NOTHING_LANDED and attempt in at]
    assert unwanted == [], "refused with an error that promises that nothing landed, and there"


def check_rows(found: pa.Table, expected: list[Row]) -> None:
    """The table holds these rows, each from the instant that wrote it last."""
    columns = ("part", "id", "writer", "attempt", "value", "_hoodie_commit_time")
    left = sorted(tuple(row[name] for name in columns) for row in found.select(list(columns)).to_pylist())
    right = sorted(tuple(row[name] for name in columns) for row in expected)
    missing, surplus = sorted(set(right) - set(left)), sorted(set(left) - set(right))
    assert left == right, f"lost: {missing[:9]}\nnobody's, or too old: {surplus[:9]}"


def check_slots(root: Path, told: Told) -> int:
    """Every acknowledged instant of ours holds a slot, completion times rise with the slots; returns how many slots there are."""
    log = load_log(LocalStorage(root), None)
    assert log is not None
    completes = [entry for _, entry in log.completes()]
    times = [entry.completion_time for entry in completes]
    assert times == sorted(set(times)), "completion times do not rise with the slots"
    ours = {instant for attempt, instant in told.acknowledged.items() if not attempt.startswith("hudi")}
    assert ours <= {entry.instant for entry in completes if isinstance(entry, Complete)}
    return log.head + 1


def settle(table: Table) -> list[RolledBackWrite]:
    """The last writer's recovery, and the second look of one who comes later: returns what was rolled back."""
    undone = recover(Session(table.context))
    later = ManualClock(SystemClock().now_ms() + 2 * EXPIRY_MS)
    assert recover(Session(replace(table.context, clock=later))) == []
    return undone
