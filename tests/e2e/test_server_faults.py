"""Clients, an ingest and a compaction on Spark, beside a timeline server that dies, stops, forgets, and lies.

The server is killed, stopped (SIGSTOP) and started again with an old store; a proxy before it delays, cuts, replays and alters its
answers. All operations succeed, rows equal the dict, and no client uses a view that differs from a listing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.config.tables_file import locate_table
from hudi_ops.config.write_settings import ViewServer, ViewSettings
from hudi_ops.read.current_view import storage_at
from hudi_ops.read.plan import ReadRequest, plan_read
from hudi_ops.view.columns.kept import view_source
from hudi_ops.view.remote.client import DEADLINE_S
from tests.bounds import bound
from tests.lies import Lie, altered, flipped, lying, unsealed
from tests.servers import ServerProcess, forget_servers

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, KEYS = 16, 50
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])
SPARK = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 "
    "--conf spark.driver.bindAddress=127.0.0.1 --driver-memory 1g pyspark-shell"
)


def rows(value: int, *parts: str) -> pa.Table:
    """All keys of some partitions with one value."""
    made = [{"id": f"{part}-{key}", "part": part, "value": value, "ts": value} for part in parts for key in range(KEYS)]
    return pa.Table.from_pylist(made, SCHEMA)


def create(path: Path, name: str) -> Table:
    return Table.create(
        str(path), name=name, record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", table_type="mor",
        buckets=2, metadata=False,
    )  # fmt: skip


def declare(file: Path, url: str) -> Path:
    """Write a tables.yaml whose tables ask a server, and keep their views in a folder of this machine."""
    table = (
        "record_key: [id], partition_by: [part], ordering: ts, type: mor, buckets: 2, metadata: false, source: landing"
    )
    view = f"view: {{store: STORE, folder: views, server: {{url: '{url}'}}}}"
    text = f"tables:\n  served: {{path: served, {table}, {view}}}\n  other: {{path: other, {table}, {view}}}\n"
    file.write_text(text.replace("STORE", "memory"))
    (server := file.with_name("server.yaml")).write_text(text.replace("STORE", "disk"))
    return server


class Lies:
    """Wrong answers of each kind in turn. Checksums match in replays, in answers of another table, and in `sealed instant`."""

    def __init__(self, other: Callable[[str], bytes]) -> None:
        self.other, self.old, self.told = other, dict[str, bytes](), Counter[str]()
        self.kinds: dict[str, Lie] = {
            "dropped row": lambda path, body: unsealed(body, lambda rows: rows[:-1]),
            "added row": lambda path, body: unsealed(body, lambda rows: [*rows, rows[-1]]),
            "changed instant": lambda path, body: unsealed(body, self._instant),
            "changed size": lambda path, body: unsealed(body, lambda rows: [{**one, "size": 7} for one in rows]),
            "sealed instant": lambda path, body: altered(body, rows=self._instant),
            "another table": lambda path, body: self.other(path),
            "older answer": lambda path, body: self.old.get(path.rpartition("/")[2], body),
            "flipped byte": lambda path, body: flipped(body, random.Random(len(body)).random()),
            "nothing": lambda path, body: b"",
        }

    @staticmethod
    def _instant(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{**one, "instant": "20990101000000000"} for one in rows]

    def tell(self, kind: str) -> Lie:
        def lie(path: str, body: bytes) -> bytes:
            self.old.setdefault(path.rpartition("/")[2], body)
            found = self.kinds[kind](path, body)
            if found != body:
                self.told[kind] += 1
            return found

        return lie


@contextmanager
def clients(tables: Path, committed: Path, stop: Path, folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Run the readers; they end once `stop` is there."""
    started = []
    for number in range(CLIENTS):
        with open(folder / f"client-{number}.err", "w", encoding="utf-8") as errors:
            command = [sys.executable, "-m", "tests.e2e.view_reader", str(tables), "served", str(committed), str(stop)]
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            started.append(
                subprocess.Popen(
                    [*command, str(KEYS)], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            )
    try:
        yield started
    finally:
        stop.touch()
        for one in started:
            one.wait(120)


def spark_job(tables: Path, folder: Path, script: str, *options: str) -> subprocess.Popen[str]:
    """Start a Spark application on the table."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    env |= {"PYSPARK_SUBMIT_ARGS": SPARK, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "spark_apps" / script), "--table=served", "--engine=spark", *options]
    with open(folder / f"{script}.err", "w", encoding="utf-8") as errors:
        env["HUDI_OPS_TABLES"] = str(tables)
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)


@pytest.mark.timeout(900)
def test_operations_go_on_beside_any_server(tmp_path: Path) -> None:
    table, other = create(tmp_path / "served", "served"), create(tmp_path / "other", "other")
    table.ingest(rows(1, "p0", "p1"))
    other.ingest(rows(9, "p0"))
    (committed := tmp_path / "committed").write_text("1")
    (landing := tmp_path / "landing").mkdir()
    pq.write_table(rows(5, "p2"), landing / "1.parquet")
    tables, dice, value = tmp_path / "tables.yaml", random.Random(48), 1
    with lying("http://127.0.0.1:1") as proxy:
        for_server, log = declare(tables, proxy.url), tmp_path / "server.log"
        server = ServerProcess.start(for_server, "--port", "0", log=log)
        proxy.target = server.url
        answer_of_other = ask_other(tmp_path / "other", server.url)
        lies = Lies(lambda path: answer_of_other[path.rpartition("/")[2]])
        old_store = tmp_path / "old-views"

        def write() -> None:
            nonlocal value
            value += 1
            table.ingest(rows(value, "p0", "p1"))
            (new := committed.with_name("new")).write_text(str(value))
            new.replace(committed)

        def honest(seconds: float) -> None:
            proxy.honest()
            pause(seconds, write)

        def lie(kind: str) -> None:
            proxy.lie = lies.tell(kind)
            pause(1.0, write)

        def slow() -> None:
            proxy.wait_s = 1.5
            pause(1.6, write)

        def cut() -> None:
            proxy.cut = dice.randint(1, 400)
            pause(1.0, write)

        def stopped() -> None:
            server.send(signal.SIGSTOP)
            pause(2.5, write)
            server.send(signal.SIGCONT)

        def killed() -> None:
            nonlocal server
            server.kill()
            pause(1.0, write)
            if old_store.exists():  # the views of long ago, as from a copy
                shutil.rmtree(tmp_path / "views", ignore_errors=True)
                shutil.copytree(old_store, tmp_path / "views")
            server = ServerProcess.start(for_server, "--port", "0", log=log)
            proxy.target = server.url

        with ExitStack() as ended, clients(tables, committed, tmp_path / "stop", tmp_path) as readers:
            ended.callback(lambda: server.kill())
            honest(1.0)
            shutil.copytree(tmp_path / "views", old_store)
            jobs = [("ingest", spark_job(tables, tmp_path, "ingest.py", f"--source={landing}"))]
            faults = [slow, cut, stopped, killed, *((lambda kind=kind: lie(kind)) for kind in lies.kinds)]
            ended.callback(lambda: [job.kill() for _, job in jobs])
            rounds, rounds_min = 0, bound(1, 1, 5) * len(faults)
            until_s = time.monotonic() + bound(460, 490, 800)
            while rounds < rounds_min or any(job.poll() is None for _, job in jobs) or len(jobs) < 2:
                faults[rounds % len(faults)]()
                honest(0.5)
                rounds += 1
                if len(jobs) == 1 and jobs[0][1].poll() is not None:
                    jobs.append(("compaction", spark_job(tables, tmp_path, "compact.py", "--threshold=1")))
                assert time.monotonic() < until_s, "the jobs do not end"
            honest(2.0)
    for name, job in jobs:
        assert job.wait(10) == 0, f"{name}: {job.stdout.read() if job.stdout else ''}"
    found, asked = Counter[str](), Counter[str]()
    for number, reader in enumerate(readers):
        said = reader.stdout.read() if reader.stdout else ""
        assert reader.returncode == 0, (tmp_path / f"client-{number}.err").read_text()[-3_000:]
        found += Counter(json.loads(said)["found"])
        asked += Counter(json.loads(said)["asked"])
    print(f"clients: {dict(found)}; questions: {dict(asked)}; {value} commits; lies {dict(lies.told)}")
    shown = {row["id"]: row["value"] for row in Table.open(tmp_path / "served").read().to_pylist()}
    wanted = {row["id"]: row["value"] for row in (*rows(value, "p0", "p1").to_pylist(), *rows(5, "p2").to_pylist())}
    assert shown == wanted
    assert found["served"] >= CLIENTS, "the server answered between its faults"
    assert asked["bad"] >= 5
    assert asked["no answer"] >= 3
    never = {*lies.kinds} - {*lies.told}
    assert not never, "each kind of wrong answer was told"


def pause(seconds: float, write: Callable[[], None]) -> None:
    """Commit, and let some time pass."""
    until_s = time.monotonic() + seconds
    write()
    threading.Event().wait(max(0.0, until_s - time.monotonic()))


def ask_other(path: Path, url: str) -> dict[str, bytes]:
    """Return answers about another table, by what was asked."""
    import urllib3

    from hudi_ops.storage.local import LocalStorage
    from tests.servers import path_of

    storage, found = LocalStorage(path), {}
    for what, method in (("files", "POST"), ("partitions", "GET")):
        body = b"{}" if method == "POST" else None
        reply = urllib3.request(method, url + path_of(storage, what, table="other"), body=body)
        assert reply.status == 200, reply.data
        found[what] = reply.data
    return found


def test_a_dead_or_stopped_server_costs_one_deadline(tmp_path: Path) -> None:
    """A first read plan takes at most the deadline longer than without a server."""
    create(tmp_path / "served", "served").ingest(rows(1, "p0", "p1"))
    server = ServerProcess.start(declare(tmp_path / "tables.yaml", "http://127.0.0.1:1"), "--port", "0")
    location = locate_table("served", tmp_path / "tables.yaml")

    def plan_s(url: str | None) -> float:
        forget_servers()
        settings = ViewSettings(server=ViewServer(url=url, table="served") if url else None)
        storage = storage_at(location, settings)
        began_s = time.monotonic()
        assert len(plan_read(storage, ReadRequest()).tasks) == 4
        assert (view_source(storage) == "server") is (
            url == server.url and server.process.poll() is None and not stopped
        )
        return time.monotonic() - began_s

    stopped = False
    plan_s(server.url)
    without = min(plan_s(None) for _ in range(3))
    server.send(signal.SIGSTOP)
    stopped = True
    with_stopped = min(plan_s(server.url) for _ in range(2))
    server.send(signal.SIGCONT)
    server.kill()
    with_dead = min(plan_s(server.url) for _ in range(2))
    print(f"read plan: {without:.3f} s without a server, {with_stopped:.3f} s stopped, {with_dead:.3f} s dead")
    assert with_dead - without <= DEADLINE_S
    assert with_stopped - without <= DEADLINE_S + 0.5, "half a second is the machine's"
