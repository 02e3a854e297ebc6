"""The table that the crash tests disturb: what is in it, what the next ingest brings, and which files may lie in it afterwards."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.commit.ledger import pointers
from hudi_ops.commit.owned.kinds import owners_of
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.sweep import notes_of
from hudi_ops.concurrency.markers import FOLDER as MARKERS
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH, IndexKind, TableType
from hudi_ops.errors import InvalidRequest
from hudi_ops.files.names import parse_data_file
from hudi_ops.index.ring import INITIAL
from hudi_ops.index.ring_files import all_ring_versions, committed_path, ring_path
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.metadata.writer.begin import PROPERTIES_PATH
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Cancel, Complete, Plan
from hudi_ops.timeline.state import CommitReader, StateLoader
from hudi_ops.verify import verify_table
from tests.definitions import create_table
from tests.tables import DEFINITION, START_MS, by_key, rows, table_of

_LONG_AFTER_MS = START_MS + 30 * 24 * 3600 * 1000


FIRST = rows(*[(f"k{i}", f"p{i % 2}", i, 1, None) for i in range(8)])
# Updates, a delete, a late row that loses, an insert, and a new partition.
SECOND = rows(
    ("k0", "p0", 100, 2, None), ("k1", "p1", 0, 0, None), ("k2", "p0", 2, 2, True),
    ("n1", "p1", 7, 2, None), ("n2", "p2", 8, 2, None),
)  # fmt: skip
OLD = {f"k{i}": i for i in range(8)}
NEW = {**{key: value for key, value in OLD.items() if key != "k2"}, "k0": 100, "n1": 7, "n2": 8}
OF_P0 = {key: value for key, value in OLD.items() if value % 2 == 0}


@dataclass(frozen=True)
class Job:
    """One operation upon the table of `make_base`: its rows, if it brings any, and what the table holds after it.

    `points` is how many storage operations it takes, at least, and `writes` how many of them change something: a sweep that visits
    fewer has gone blind. A service that learns to read less may lower the first, never the second.
    """

    operation: str
    new: dict[str, int]
    rows: pa.Table | None = None
    points: int = 40
    writes: int = 15
    table_type: TableType = "COPY_ON_WRITE"
    index: IndexKind = "simple_bucket"
    metadata: bool = False

    def __str__(self) -> str:
        kind = "" if self.table_type == "COPY_ON_WRITE" else ", merge on read"
        kind += "" if self.index == "simple_bucket" else f", {self.index}"
        return self.operation + kind + (", metadata table" if self.metadata else "")

    def run(self, table: Table, source: Path) -> bool:
        """Do it, unless it was done; returns whether it was done now."""
        if self.operation == "truncate":
            return table.truncate().instant is not None
        if self.operation == "delete_partition":
            try:
                return table.delete_partition(["part=p1"]).instant is not None
            except InvalidRequest:
                return False  # it is gone already
        return table.ingest_folder(str(source), self.operation).instant is not None


UPSERT = Job("upsert", NEW, SECOND, writes=18)
JOBS = [
    UPSERT,
    Job(
        "insert",
        {**OLD, "n0": 1, "n2": 2},
        rows(("n0", "p0", 1, 1, None), ("n2", "p2", 2, 1, None)),
    ),
    Job(
        "delete",
        {key: value for key, value in OLD.items() if key not in {"k0", "k1"}},
        rows(("k0", "p0", 0, 0, None), ("k1", "p1", 0, 0, None), ("nobody", "p2", 0, 0, None)),
        writes=14,
    ),
    Job(
        "bulk_insert",
        {**OLD, "n1": 1, "n2": 2},
        rows(("n1", "p1", 1, 1, None), ("n2", "p2", 2, 1, None)),
    ),
    Job(
        "insert_overwrite",
        {**OF_P0, "k1": 10, "n2": 2},
        rows(("k1", "p1", 10, 0, None), ("n2", "p2", 2, 1, None), ("k3", "p1", 0, 9, True)),
    ),
    Job(
        "insert_overwrite_table",
        {"k1": 10, "n2": 2},
        rows(("k1", "p1", 10, 0, None), ("n2", "p2", 2, 1, None)),
    ),
    Job("delete_partition", OF_P0, points=34, writes=7),
    Job("truncate", {}, points=34, writes=7),
]

LOGGED_JOBS = [
    replace(job, table_type="MERGE_ON_READ") for job in JOBS if job.operation in {"upsert", "insert", "delete"}
]
"""Those that write log files where the table has such."""

LOCATED_JOBS = [
    replace(UPSERT, index="bloom", writes=17),
    replace(UPSERT, index="simple", table_type="MERGE_ON_READ", writes=17),
]
"""In tables whose index is asked: new keys go to small groups, and to a new one in a new partition."""


METADATA_JOBS = [
    replace(job, table_type=kind, metadata=True, writes=job.writes + 5)
    for job in JOBS
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    if job.operation in {"upsert", "insert_overwrite"} or (job.operation, kind) == ("truncate", "COPY_ON_WRITE")
]
"""In tables with a metadata table, which every reader believes."""


def make_base(
    source: Path,
    second: pa.Table | None = SECOND,
    table_type: TableType = "COPY_ON_WRITE",
    index: IndexKind = "simple_bucket",
    *,
    metadata: bool = False,
) -> MemoryStorage:
    """The table after its first ingest; the second one's file lies in `source`."""
    clock = ManualClock(START_MS)
    storage = MemoryStorage("crash", clock)
    table = table_of(storage, clock, "creator")
    create_table(table._session, replace(DEFINITION, table_type=table_type, index=index, metadata=metadata))
    source.mkdir(parents=True, exist_ok=True)
    pq.write_table(FIRST, source / "1.parquet")
    table.ingest_folder(str(source))
    if second is not None:
        pq.write_table(second, source / "2.parquet")
    assert visible(storage, clock) == OLD
    return storage


def visible(storage: MemoryStorage, clock: ManualClock) -> dict[str, int]:
    """Rows as a reader sees them, by key; no key twice."""
    return by_key(table_of(storage, clock, "reader"))


TABLES_OWN = re.compile(
    r"\.hoodie/(hoodie\.properties|\.commit_log/(0.*|cancelled/.*)|(\.holds|\.aborted|timeline/history|\.index_defs)/.*"
    r"|metadata/\.hoodie/(hoodie\.properties|timeline/history/.*))"
    r"|(.*/)?\.hoodie_partition_metadata"
)
"""Files that no instant owns."""


def misclaimed(storage: Storage) -> list[str]:
    """Files that are neither the table's own nor claimed by exactly one kind of `commit/owned/kinds.py`."""
    claims = {info.path: owners_of(info.path) for info in storage.list()}
    return [
        f"{path} {owners}" for path, owners in claims.items() if len(owners) + bool(TABLES_OWN.fullmatch(path)) != 1
    ]


def unaccounted(storage: Storage) -> list[str]:
    """Files that no completed instant, slot or property accounts for; nothing may be pending.

    The markers of rolled back writes stay for the second look at them, and for nothing longer: that look is taken at a copy.
    """
    left = _unaccounted(storage) + misclaimed(storage)
    if not any(path.startswith(f"{MARKERS}/") for path in left):
        return left
    twin = MemoryStorage("twin")
    for info in storage.list():
        twin.put(info.path, storage.get(info.path))
    recover(table_of(twin, ManualClock(_LONG_AFTER_MS), "sweeper")._session)
    noted = notes_of(storage.list_folder(MARKERS).folders)
    strange = [path for path in left if path.removeprefix(f"{MARKERS}/")[:17] not in noted]
    return strange + _unaccounted(twin)


def _metadata_files(storage: Storage) -> set[str]:
    """Files of the metadata table whose delta commits are complete there; nothing in it may be pending."""
    own = load_metadata_timeline(storage)
    assert not own.pending, f"pending in the metadata table: {[str(one) for one in own.pending]}"
    known = {PROPERTIES_PATH, INDEX_DEFINITIONS_PATH}
    for info in storage.list(FOLDER):
        name = parse_data_file(info.name)
        # A compaction that was given up leaves base files, which the next one clears away (test_metadata_compaction.py).
        is_known = name is not None and (not name.is_log or own.find(name.instant) is not None)
        if info.path.startswith(f"{TIMELINE_FOLDER}/") or is_known:
            known.add(info.path)
    return known


def _unaccounted(storage: Storage) -> list[str]:
    commits = CommitReader(storage)
    state = StateLoader(storage, commits).load()
    log = load_log(storage, None)
    assert log is not None
    assert not state.timeline.pending, f"pending after recovery: {[str(one) for one in state.timeline.pending]}"
    writes = [commits.metadata(state.timeline, one) for one in state.timeline.completed_writes]
    known = {".hoodie/hoodie.properties"} | {stat.path for one in writes for stat in one.stats}
    known |= set(itertools.chain.from_iterable(pointers(one.extra).values() for one in writes))
    known |= set(itertools.chain.from_iterable(e.notes for _, e in log.since(-1) if isinstance(e, Complete | Plan)))
    known |= _metadata_files(storage)
    known |= {f"{MARKS}/{entry.instant}" for _, entry in log.since(-1) if isinstance(entry, Cancel)}
    proven = {INITIAL, *(entry.instant for _, entry in log.completes())}
    for partition, versions in all_ring_versions(storage).items():
        known |= {path(partition, one) for one in proven & {*versions.rings} for path in (ring_path, committed_path)}
    return [
        info.path
        for info in storage.list()
        if info.path not in known
        and not info.path.startswith((f"{state.timeline.folder}/", ".hoodie/.commit_log/0"))
        and info.name != ".hoodie_partition_metadata"
    ]


def assert_whole(storage: MemoryStorage, clock: ManualClock, wanted: dict[str, int], story: str = "") -> None:
    """Readers see these rows, every file is accounted for, and `verify` finds nothing."""
    assert visible(storage, clock) == wanted, story
    assert unaccounted(storage) == [], story
    assert verify_table(storage, deep=True, clock=clock).findings == (), story
