"""Play a history of calls on ten tables in memory, and tell the sha256 of every file after each call.

Run by `compare.py` in a process for each commit, with the `hudi_ops` that PYTHONPATH names. Time moves between the calls only, and
ids follow from the name of the process, so the same code writes the same bytes. Some processes die in the middle of a call; another
one finishes their work an hour later. The names that this module imports must stand in both commits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import hudi_ops
from hudi_ops import Table
from hudi_ops.config.definition import TableDefinition
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.errors import HudiOpsError
from hudi_ops.services.create.create import create_table
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.names import instant_of_ms

START_MS = 1_900_000_000_000
HOUR_MS = 3_600_000
BY_HAND = UpkeepSettings(CleanSettings(automatic=False), ArchiveSettings(automatic=False))
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])

COW: dict[str, Any] = {"table_type": "cow", "record_key": ["id"], "partition_by": ["part"], "ordering": "ts"}
MOR = COW | {"table_type": "mor"}
BUCKETS = {"index": "bucket", "buckets": 2, "metadata": False}
RING = {"index": "bucket", "buckets": 2, "buckets_min": 1, "buckets_max": 16}
TABLES: dict[str, dict[str, Any]] = {
    "cow-buckets": COW | BUCKETS,
    "cow-buckets-metadata": COW | BUCKETS | {"metadata": True},
    "cow-bloom-metadata": COW | {"index": "bloom", "metadata": True},
    "cow-record-index": COW | {"index": "record_index", "metadata": True},
    "cow-simple-unpartitioned": COW | {"index": "simple", "metadata": False, "partition_by": []},
    "mor-buckets": MOR | BUCKETS,
    "mor-buckets-metadata": MOR | BUCKETS | {"metadata": True},
    "mor-record-index": MOR | {"index": "record_index", "metadata": True},
    "mor-consistent": MOR | RING | {"bucket_engine": "consistent", "metadata": False},
    "mor-extendible-metadata": MOR | RING | {"bucket_engine": "extendible", "metadata": True},
}

SLOT = r"^put_if_absent:\.hoodie/\.commit_log/\d+/"
DATA = r"^put(_if_absent)?:[^.]"
DELETED_DATA = r"^delete:[^.]"
DELETED = r"^delete:"
METADATA = r"^put(_if_absent)?:\.hoodie/metadata/[^.]"


class DiesAt:
    """A process ends before or after its operation number `which` at a point."""

    def __init__(self, point: str, which: int, fault: Fault) -> None:
        self._point, self._left, self._fault = re.compile(point), which, fault

    def fault_at(self, number: int, point: str) -> Fault | None:
        """Return the fault of an operation, if it is the last one of the process."""
        if not self._point.search(point):
            return None
        self._left -= 1
        return self._fault if self._left == 0 else None


class History:
    """The calls on one table, and the files after each of them."""

    def __init__(self, name: str, bodies: Path) -> None:
        self.definition = TABLES[name]
        self._name, self._bodies = name, bodies
        self._clock = ManualClock(START_MS)
        self._storage = MemoryStorage(name, self._clock)
        self._writer: Table | None = None
        self.calls: list[tuple[str, str, dict[str, str]]] = []

    def call(self, name: str, work: Callable[[Table], object]) -> None:
        """Let the writer, which lives as long as the history, do some work."""
        if self._writer is None:
            self._writer = self._process("writer", self._storage)
        self._finish(name, self._writer, work)

    def other(self, name: str, work: Callable[[Table], object]) -> None:
        """Let a new process do some work."""
        self._finish(name, self._process(f"other-{len(self.calls)}", self._storage), work)

    def dying(
        self, name: str, work: Callable[[Table], object], point: str, which: int = 1, fault: Fault = Fault.CRASH_BEFORE
    ) -> None:
        """Let a new process die in the middle of some work; an hour passes."""
        storage = FaultyStorage(self._storage, DiesAt(point, which, fault))
        self._finish(name, self._process(f"dying-{len(self.calls)}", storage), work)
        self._clock.advance_ms(HOUR_MS)

    def put(self, path: str, body: bytes = b"") -> None:
        """Put a file that no writer of ours knows."""
        self._storage.put(path, body)

    def begin_foreign(self, *, has_heartbeat: bool) -> str:
        """Put the files of a write that a writer of Apache Hudi begins now; return its instant."""
        self._clock.advance_ms(1_000)
        instant = instant_of_ms(self._clock.now_ms())
        kind = "deltacommit" if self.definition["table_type"] == "mor" else "commit"
        self.put(f".hoodie/timeline/{instant}.{kind}.requested")
        self.put(f".hoodie/timeline/{instant}.{'' if kind == 'commit' else 'deltacommit.'}inflight")
        if has_heartbeat:
            self.put(f".hoodie/.heartbeat/{instant}")
        folder = "p0/" if self.definition["partition_by"] else ""
        path = f"{folder}00000000-1111-2222-3333-444444444444-0_0-5-9_{instant}.parquet"
        self.put(path, b"rows that must never show")
        self.put(f".hoodie/.temp/{instant}/{path}.marker.CREATE")
        return instant

    def wait(self) -> None:
        """Let an hour pass."""
        self._clock.advance_ms(HOUR_MS)

    def _process(self, actor: str, storage: Any) -> Table:
        return Table(simulated_context(storage, self._clock, f"{self._name}-{actor}"), upkeep=BY_HAND)

    def _finish(self, name: str, table: Table, work: Callable[[Table], object]) -> None:
        self._clock.advance_ms(1_000)
        outcome = "returned"
        try:
            work(table)
        except Crash:
            outcome = "died"
        except HudiOpsError as error:
            outcome = f"{type(error).__name__}: {error.what}"
        self.calls.append((name, outcome, self._files()))

    def _files(self) -> dict[str, str]:
        files = {}
        for info in self._storage.list():
            body = self._storage.get(info.path)
            files[info.path] = hashlib.sha256(body).hexdigest()
            kept = self._bodies / files[info.path]
            if not kept.exists():
                kept.write_bytes(body)
        return files


def rows(version: int, keys: range = range(24)) -> pa.Table:
    """Return a row for each key; values and times follow from the version."""
    found = [{"id": f"k{n}", "part": f"p{n % 3}", "value": version * 100 + n, "ts": version} for n in keys]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def play(name: str, bodies: Path) -> History:
    """Play the history of one table."""
    history = History(name, bodies)
    is_mor = history.definition["table_type"] == "mor"
    has_ring = "bucket_engine" in history.definition
    definition = TableDefinition(name=name, **history.definition)
    history.call("create", lambda table: create_table(table._session, definition, SCHEMA))
    for version in (1, 2):
        history.call(f"upsert {version}", lambda table, version=version: table.ingest(rows(version)))
    history.call("delete", lambda table: table.ingest(rows(3, range(4)), operation="delete"))
    _write_and_die(history)
    if is_mor:
        _rewrite(history, "compaction", {})
    if has_ring:
        _rewrite(history, "resize", {"split_bytes": 1, "merge_bytes": 0})
        history.other("merge buckets", lambda table: table.resize.run(split_bytes=1 << 40, merge_bytes=1 << 30))
    else:
        _rewrite(history, "clustering", {"rewrite": True, "sort_by": ["value"]})
    if history.definition["metadata"]:
        _index(history)
    _clean_and_archive(history)
    _restore(history)
    _beside_foreign_writers(history)
    _mend(history)
    return history


def _write_and_die(history: History) -> None:
    """Let writers die at five points; the next write undoes or finishes what they left."""
    for version, (point, which, fault) in enumerate(
        [
            (DATA, 2, Fault.CRASH_BEFORE),
            (SLOT, 1, Fault.CRASH_BEFORE),
            (SLOT, 1, Fault.CRASH_AFTER),
            (r"^put(_if_absent)?:\.hoodie/timeline/\d+_\d+\.", 1, Fault.CRASH_AFTER),
            (METADATA, 1, Fault.CRASH_AFTER),
        ],
        10,
    ):
        where = f"{fault.name} at operation {which} of {point}"
        history.dying(f"dying upsert: {where}", lambda table, v=version: table.ingest(rows(v)), point, which, fault)
        history.call("upsert after it", lambda table, v=version: table.ingest(rows(v, range(20, 28))))
    history.dying("dying upsert, rolled back by hand", lambda table: table.ingest(rows(16)), SLOT)
    history.other("recover", lambda table: table.recover())


def _rewrite(history: History, kind: str, request: dict[str, Any]) -> None:
    """Run, take over, cancel and abort plans of a service that rewrites file groups."""

    def service(table: Table) -> Any:
        return getattr(table, kind)

    def plan(table: Table) -> None:
        service(table).plan(**request)

    def execute(table: Table) -> None:
        service(table).execute()

    def upsert(version: int) -> None:
        history.call(f"upsert {version}", lambda table: table.ingest(rows(version)))

    history.call(f"run a {kind}", lambda table: service(table).run(**request))
    upsert(20)
    history.other(f"plan a {kind}", plan)
    history.dying(f"executor of a {kind} dies before its second file", execute, DATA, 2)
    history.other(f"take a {kind} over", execute)
    upsert(21)
    history.other(f"plan a {kind}", plan)
    history.dying(f"executor of a {kind} dies behind its slot", execute, SLOT, 1, Fault.CRASH_AFTER)
    upsert(22)
    history.other(f"plan a {kind}", plan)
    history.other(f"cancel a {kind} that waits", _cancel)
    history.other(f"plan a {kind}", plan)
    history.dying(f"executor of a {kind} dies before its slot", execute, SLOT)
    history.other(f"cancel a {kind} that was begun", _cancel)
    history.other(f"plan a {kind}", plan)
    history.dying(f"executor of a {kind} dies before its second file", execute, DATA, 2)
    history.dying(f"canceller of a {kind} dies at its second deletion", _cancel, DELETED, 2)
    upsert(23)
    history.other("recover", lambda table: table.recover())
    history.other(f"run a {kind}", lambda table: service(table).run(**request))


def _cancel(table: Table) -> None:
    for row in table.plans():
        table.cancel(row.instant, force=True)


def _index(history: History) -> None:
    """Build, take over, cancel and drop an index of the metadata table; compact it."""

    def plan(table: Table) -> None:
        table.indexing.plan(partitions=["bloom_filters"])

    def run(table: Table) -> None:
        table.indexing.run(partitions=["bloom_filters"])

    def execute(table: Table) -> None:
        table.indexing.execute()

    def drop(table: Table) -> None:
        table.indexing.drop(["bloom_filters"])

    history.other("build bloom filters", run)
    history.call("upsert 30", lambda table: table.ingest(rows(30)))
    history.dying("dropper dies at its second deletion", drop, DELETED, 2)
    history.other("drop bloom filters", drop)
    history.other("plan bloom filters", plan)
    history.dying("builder dies at its first file", execute, METADATA)
    history.call("upsert 31", lambda table: table.ingest(rows(31)))
    history.other("take the build over", execute)
    history.other("drop bloom filters", drop)
    history.other("plan bloom filters", plan)
    history.dying("builder dies behind its first file", execute, METADATA, 1, Fault.CRASH_AFTER)
    history.other("cancel the build", _cancel)
    history.call("upsert 32", lambda table: table.ingest(rows(32)))
    history.other("compact the metadata table", lambda table: table.metadata.compact())
    history.dying("builder dies behind its plan", run, SLOT, 1, Fault.CRASH_AFTER)
    history.dying("builder dies behind its slot", run, SLOT, 2, Fault.CRASH_AFTER)
    history.other("recover", lambda table: table.recover())
    history.other("build bloom filters", run)


def _clean_and_archive(history: History) -> None:
    """Clean, with a cleaner that dies, and archive, with an archiver that dies."""
    versions = {"policy": "versions", "retain": 1}
    history.dying("cleaner dies at its third deletion", lambda table: table.clean.run(**versions), DELETED_DATA, 3)
    history.other("finish the clean", lambda table: table.clean.run(**versions))
    history.call("upsert 40", lambda table: table.ingest(rows(40)))
    history.other("clean", lambda table: table.clean.run(**versions))
    history.dying("archiver dies", lambda table: table.archive.run(keep_min=4, keep_max=4), DELETED, 2)
    history.other("archive", lambda table: table.archive.run(keep_min=2, keep_max=2))
    history.call("overwrite a partition", lambda table: table.ingest(rows(41, range(0, 24, 3)), "insert_overwrite"))


def _restore(history: History) -> None:
    """Restore a savepoint, with a process that dies during it."""
    history.other("create a savepoint", lambda table: table.savepoints.create())
    for version in (50, 51):
        history.call(f"upsert {version}", lambda table, version=version: table.ingest(rows(version)))
    if history.definition["table_type"] == "mor":
        history.other("plan a compaction", lambda table: table.compaction.plan())
    history.dying("restore dies at its second deletion", lambda table: table.savepoints.restore(), DELETED_DATA, 2)
    history.other("finish the restore", lambda table: table.savepoints.restore())
    history.other(
        "delete the savepoint",
        lambda table: [table.savepoints.delete(held.instant) for held in table.savepoints.list()],
    )
    history.call("upsert 52", lambda table: table.ingest(rows(52)))


def _beside_foreign_writers(history: History) -> None:
    """Write beside two writers of Apache Hudi that die: one has a heartbeat, the other is rolled back by hand."""
    history.begin_foreign(has_heartbeat=True)
    history.call("upsert beside a foreign write", lambda table: table.ingest(rows(70)))
    history.wait()
    history.call("upsert after its heartbeat stopped", lambda table: table.ingest(rows(71)))
    instant = history.begin_foreign(has_heartbeat=False)
    history.call("upsert beside one without a heartbeat", lambda table: table.ingest(rows(72)))
    history.other("recover", lambda table: table.recover())
    history.dying(
        "rollback of it dies at its second deletion",
        lambda table: table.rollback(instant, abandoned=True),
        DELETED,
        2,
    )
    history.other("finish the rollback", lambda table: table.recover())
    history.call("upsert after it", lambda table: table.ingest(rows(73)))


def _mend(history: History) -> None:
    """Let `repair` remove what `verify` finds: files of no writer, and those of a dead one."""
    history.dying("dying upsert", lambda table: table.ingest(rows(60)), SLOT)
    folder = "" if history.definition["partition_by"] == [] else "p0/"
    history.put(f"{folder}00000000-0000-4000-8000-000000000000_0-0-0_20300101000000000.parquet", b"no file of a writer")
    history.put(".hoodie/.temp/20300101000000000/p0/lost.parquet.marker.CREATE", b"")
    history.put(".hoodie/.heartbeat/20300101000000000", b"")
    history.other("verify", lambda table: table.verify())
    history.other("repair", lambda table: table.repair(abandoned=True))
    history.call("upsert 61", lambda table: table.ingest(rows(61)))


def main(bodies: str, *names: str) -> None:
    """Print the loaded package, then a line of JSON for each table."""
    logging.disable(logging.CRITICAL)
    print(json.dumps(hudi_ops.__file__), flush=True)
    for name in names or TABLES:
        print(json.dumps([name, play(name, Path(bodies)).calls]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
