"""Kill writers and all services of one table at random for a while, then prove that nothing was lost, doubled or left.

    .venv/bin/python -m tests.e2e.storm --minutes 60 --seed 7 [--rings]

Each role is a process of its own that works in a loop until it is killed: two writers, compaction, clustering (with `--rings`
resize), clean, archive, index builds and drops, cancels. A ZooKeeper locks between them. A writer alone has its keys; it notes each
attempt before and after it. At the end all plans are ended, and the clock goes past the leases. Then each key has the value of
its last acknowledged attempt, or of a later one whose outcome is open; `verify` finds nothing; each file belongs to the table or to
one row of `commit/owned/kinds.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.commit.owned.kinds import owners_of
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.errors import HudiOpsError
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import misclaimed
from tests.tables import past_expiry
from tests.zookeeper.own_server import OwnServer

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64()), ("text", pa.string())])
WRITERS = ("write-0", "write-1")
SERVICES = ("compact", "clean", "archive", "index", "cancel")
KEYS, ROWS = 400, 40
"""Keys of a writer, and rows of one of its attempts."""
REST_S = 0.3
KILL_S = 2.0, 5.0
"""Time between two kills: a process needs a moment until it works."""
LOCKS = "/storm/locks"
SESSION_S = 3.0
"""Time until a killed process loses its lock and its place in the queue: with the default of 15 s all would wait nearly always."""


def opened(root: str, hosts: str, name: str) -> Table:
    """The table, with the lock of a process."""
    return Table.open(root, locks=ZooKeeperLock(hosts, LOCKS, "storm", owner=name, session_timeout_s=SESSION_S))


def write(table: Table, name: str, dice: random.Random, diary: Path) -> None:
    """One attempt: upsert some of the writer's keys, and note it before and after."""
    lines = diary.read_text().splitlines() if diary.exists() else []
    number = 1 + sum(line.startswith("try") for line in lines)
    first = WRITERS.index(name) * KEYS
    keys = sorted(dice.sample(range(first, first + KEYS), ROWS))
    with diary.open("a") as file:
        file.write(f"try {number} {json.dumps(keys)}\n")
        file.flush()
        columns = [keys, [f"p{key % 3}" for key in keys], [number] * ROWS, ["x" * 50] * ROWS]
        table.ingest(pa.table(columns, schema=SCHEMA))
        file.write(f"ok {number}\n")


def serve(table: Table, name: str, dice: random.Random) -> None:
    """One round of a service."""
    if name == "compact":
        table.compaction.run(strategy="count", threshold=1, engine="local")
    elif name == "cluster":
        table.clustering.run(sort_by="value", rewrite=True, engine="local")
    elif name == "resize":
        table.resize.run(split_bytes=40_000, merge_bytes=9_000, engine="local")
    elif name == "clean":
        table.clean.run(retain=3)
    elif name == "archive":
        table.archive.run(keep_min=8, keep_max=12)
    elif name == "index":
        if dice.random() < 0.5:
            table.indexing.drop("partition_stats")
        table.indexing.run(partitions="partition_stats", engine="local", timeout_s=30)
    else:
        pending = [row.instant for row in table.plans()]
        if pending and dice.random() < 0.3:
            table.request_cancel(dice.choice(pending))
        table.cancel_overdue()


def work(root: str, hosts: str, name: str, diary: Path) -> None:
    """Work in a role until the process is killed; note each refusal."""
    dice = random.Random()
    table = opened(root, hosts, name)
    while True:
        try:
            if name in WRITERS:
                write(table, name, dice, diary)
            else:
                serve(table, name, dice)
            print(f"{name}: done", flush=True)
        except HudiOpsError as error:
            print(f"{name}: {type(error).__name__}: {error.what}", flush=True)
        time.sleep(dice.random() * REST_S)


class Storm:
    """The processes of all roles, and what became of them."""

    def __init__(self, folder: Path, hosts: str, seed: int, roles: tuple[str, ...]) -> None:
        self.folder, self.hosts, self.seed, self.roles = folder, hosts, seed, roles
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []
        self._logs = {name: (folder / f"{name}.log").open("ab") for name in roles}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start the process of a role."""
        words = [str(self.folder / "table"), self.hosts, name, str(self.diary(name))]
        command = [sys.executable, "-m", "tests.e2e.storm", "--role", *words]
        self._running[name] = subprocess.Popen(command, stdout=self._logs[name], stderr=self._logs[name])

    def diary(self, name: str) -> Path:
        """File of a writer's attempts."""
        return self.folder / f"{name}.diary"

    def rage(self, seconds: float) -> None:
        """Kill and start again; writers and services alike."""
        dice, until_s = random.Random(self.seed), time.monotonic() + seconds
        for name in self.roles:
            self.start(name)
        while time.monotonic() < until_s:
            time.sleep(dice.uniform(*KILL_S))
            for name, process in self._running.items():
                if process.poll() is not None:
                    self.ended.append(f"{name} ended with {process.returncode}: see {name}.log")
                    self.start(name)
            victim = dice.choice(self.roles)
            self._running[victim].kill()
            self._running[victim].wait()
            self.kills[victim] += 1
            self.start(victim)
        for process in self._running.values():
            process.kill()
            process.wait()


def settled(table: Table) -> Table:
    """End all plans that are left, and let the second look at files of ended processes pass."""
    later = Table(replace(table.context, clock=past_expiry()))
    for row in later.plans():
        if row.action == "clean":
            later.clean.execute(instant=row.instant)  # a begun clean is finished, never cancelled
        else:
            later.cancel(row.instant, force=True)
    for hours in (1, 2):
        clock = past_expiry()
        clock.advance_ms(hours * 3_600_000)
        recover(Session(replace(table.context, clock=clock)))
    return later


def faults(table: Table, storm: Storm) -> list[str]:
    """What was lost, doubled or left."""
    told: list[str] = []
    rows = table.read(["id", "value"]).to_pydict()
    twice = [key for key, count in Counter(rows["id"]).items() if count > 1]
    values = dict(zip(rows["id"], rows["value"], strict=True))
    told += [f"{len(twice)} keys stand twice: {twice[:5]}"] if twice else []
    for name in WRITERS:
        least: dict[int, int] = {}
        may: dict[int, set[int]] = {}
        tried: dict[int, list[int]] = {}
        for line in storm.diary(name).read_text().splitlines():
            word, number, *keys = line.split(" ", 2)
            if word == "try":
                tried[int(number)] = json.loads(keys[0])
                for key in tried[int(number)]:
                    may.setdefault(key, set()).add(int(number))
            else:
                least |= dict.fromkeys(tried[int(number)], int(number))
        told += [
            f"{name}: key {key} has {values.get(key)}, acknowledged was {value}"
            for key, value in least.items()
            if values.get(key, -1) < value
        ]
        told += [
            f"{name}: key {key} has {values[key]}, never written"
            for key in may
            if key in values and values[key] not in may[key]
        ]
    told += [
        f"verify: {one}" for one in verify_table(table.context.storage, deep=True).findings if one.severity != "info"
    ]
    told += [f"pending: {row.instant} {row.action}" for row in table.plans()]
    told += misclaimed(table.context.storage)
    for info in table.context.storage.list():
        traces = {kind for kind, _ in owners_of(info.path)} & {
            "marker",
            "note of a second sweep",
            "lease",
            "queue file",
        }
        told += [f"{info.path} is left"] if traces else []
    logs = {name: (storm.folder / f"{name}.log").read_text() for name in storm.roles}
    told += [f"{name} never ended a round: see its log" for name, log in logs.items() if f"{name}: done" not in log]
    return [*told, *storm.ended]


def main(words: list[str]) -> int:
    """Run a storm, or one role of it; return the exit code."""
    if words[:1] == ["--role"]:
        root, hosts, name, diary = words[1:]
        work(root, hosts, name, Path(diary))
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.storm", description=str(__doc__))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rings", action="store_true", help="a table with hash rings, which are resized")
    parser.add_argument("--folder", type=Path, default=None, help="kept; default: a temporary folder")
    chosen = parser.parse_args(words)
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    engine, moving = ("consistent", "resize") if chosen.rings else ("simple", "cluster")
    definition: dict[str, Any] = {"record_key": ["id"], "partition_by": ["part"], "table_type": "mor", "buckets": 4}
    Table.create(
        str(folder / "table"), name="storm", schema=SCHEMA, ordering="value", bucket_engine=engine, **definition
    ).close()
    with OwnServer(folder / "zookeeper") as server:
        storm = Storm(folder, server.hosts, chosen.seed, (*WRITERS, *SERVICES, moving))
        storm.rage(chosen.minutes * 60)
        table = settled(opened(str(folder / "table"), server.hosts, "judge"))
        wrong = faults(table, storm)
        done = Counter(line for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines())
        print(json.dumps({"seed": chosen.seed, "kills": dict(storm.kills), "rows": table.read(["id"]).num_rows}))
        print("\n".join(f"{count:6} {line}" for line, count in done.most_common(60)))
    print("\n".join(wrong[:50]) or "nothing lost, nothing doubled, no file left", f"\n{len(wrong)} faults; {folder}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
