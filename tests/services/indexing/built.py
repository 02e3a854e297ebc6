"""Tables for the tests of index builds, and what must hold after one was removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from hudi_ops.commit.apply.delta_maker import DeltaMaker
from hudi_ops.commit.decide.cancel import CancelReason
from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH, METADATA_PARTITIONS_INFLIGHT
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.services.base.service import Execution
from hudi_ops.services.cancel.abort import CancelResult, cancel
from hudi_ops.services.indexing.run import build_indexes, execute_build
from hudi_ops.services.indexing.service import IndexResult
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.builds import checkpoint as build_checkpoint
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.scenarios.between import clock_of
from tests.tables import NOW_MS, rows

KEYS = ("bloom_filters", "record_index")
VALUES = ("record_index", "secondary_index_value")
EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")


class At:
    """Makes a move right before the operation of a number, and lets it go on."""

    def __init__(self, number: int, move: Callable[[], object]) -> None:
        self._number = number
        self._move = move
        self.fired = False

    def fault_at(self, number: int, point: str) -> Fault | None:
        if number == self._number and not self.fired:
            self.fired = True
            self._move()
        return None


class Moves:
    """Makes moves right before operations of given numbers; None: the process dies."""

    def __init__(self, moves) -> None:
        self._moves = dict(moves)

    def fault_at(self, number: int, point: str) -> Fault | None:
        if number not in self._moves:
            return None
        move = self._moves.pop(number)
        if move is None:
            return Fault.CRASH_BEFORE
        move()
        return None


def plan_build(storage: Storage, clock: ManualClock, names: Sequence[str] = KEYS) -> str:
    """Publish the plan of a build; return its instant."""
    planned = table_of(storage, clock, "planner").indexing.plan(partitions=tuple(names))
    assert planned.instant is not None, planned.note
    return planned.instant


def execute(storage: Storage, clock: ManualClock, instant: str | None = None, actor: str = "executor") -> IndexResult:
    """Execute a plan, by default the oldest one."""
    return execute_build(table_of(storage, clock, actor)._session, instant, Execution("local"))


def build(storage: Storage, clock: ManualClock, names: Sequence[str] = KEYS, actor: str = "builder") -> IndexResult:
    """Plan a build and execute it."""
    return build_indexes(table_of(storage, clock, actor)._session, IndexRequest(partitions=names))


def cancel_build(storage: Storage, clock: ManualClock, instant: str, actor: str = "canceller") -> CancelResult:
    """Cancel a build; its executor ends by itself."""
    return cancel(table_of(storage, clock, actor)._session, instant, CancelReason("asked for", "request"))


def metadata_state(storage: MemoryStorage) -> tuple[object, ...]:
    """What a removed build must leave as it was: names, folders with their files, instants, definitions, checkpoints."""
    config = load_config(storage)
    names = tuple(name for name in storage.list_folder(FOLDER).folders if not name.startswith("."))
    files = tuple(sorted(info.path for name in names for info in storage.list(f"{FOLDER}/{name}")))
    instants = tuple(sorted(info.name for info in storage.list_folder(TIMELINE_FOLDER).files))
    defined = tuple(load_index_definitions(storage)) if storage.head(INDEX_DEFINITIONS_PATH) is not None else ()
    left = tuple(info.path for info in storage.list(build_checkpoint.FOLDER))
    return (config.metadata_partitions, config.metadata_partitions_inflight, files, instants, defined, left)


FOREIGN = "20300317174740500"
"""Instant of a writer of Apache Hudi."""
MORE = rows(("k0", "p0", 500, 6, None), ("n1", "p1", 501, 6, None), ("more", "p2", 502, 6, None))


def ticking() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def late() -> ManualClock:
    """The clock of an executor that begins a second after its plan was made."""
    return ManualClock(NOW_MS + 1_000, tick_ms=1)


def operations(base: MemoryStorage, clock: ManualClock, run: Callable[[FaultyStorage], object]) -> list[str]:
    """The operations of an undisturbed run."""
    trial = FaultyStorage(base.copy(clock))
    run(trial)
    return list(trial.history)


def slots(history: list[str]) -> list[int]:
    """Numbers of the operations that claim slots, from the PLAN on if it is among them."""
    found = [at for at, one in enumerate(history, 1) if one.startswith("put_if_absent:.hoodie/.commit_log/0")]
    published = next(
        (at for at, one in enumerate(history, 1) if one.endswith(".indexing.requested") and "put" in one), 0
    )
    plan = max((at for at in found if at < published), default=0)
    return [at for at in found if at >= plan]


def beside(definition, names, nth: int, move: Callable[[MemoryStorage, ManualClock], object], before: int = 0):
    """Build in one call, and make a move `before` operations ahead of claiming slot number `nth`; number 0 is the PLAN."""
    base = make_table(definition)
    at = slots(operations(base, ticking(), lambda storage: build(storage, ticking(), names)))[nth] - before
    clock = ticking()
    storage = base.copy(clock)
    plan = At(at, lambda: move(storage, clock))
    done = build(FaultyStorage(storage, plan), clock, names)
    assert plan.fired
    return storage, clock, done


def whole(storage: MemoryStorage, clock: ManualClock, names=KEYS) -> None:
    """The partitions are listed and right, and stay so under a write."""
    assert {*names} <= {*load_config(storage).metadata_partitions}
    assert load_config(storage).metadata_partitions_inflight == ()
    assert [one for one in faults_of(storage, clock) if one.severity == "error"] == []
    found = read_rows(storage, clock)
    table_of(storage, clock, "next").ingest(LATER)
    assert read_rows(storage, clock) == {**found, "k6": 66, "n4": 4}
    assert [one for one in faults_of(storage, clock) if one.severity == "error"] == []


def silent_write(storage: MemoryStorage, clock: ManualClock, given: pa.Table, operation: str = "upsert") -> None:
    """Write as a process that read the properties before the announcement: its delta commit lacks the partitions."""
    named = load_config(storage).metadata_partitions_inflight
    assert named != ()
    set_properties(storage, {METADATA_PARTITIONS_INFLIGHT: ""})
    fits, DeltaMaker.partitions = DeltaMaker.partitions, property(lambda self: ())
    try:
        table_of(storage, clock, "stale").ingest(given, operation)
    finally:
        DeltaMaker.partitions = fits
    set_properties(storage, {METADATA_PARTITIONS_INFLIGHT: ",".join(named)})


def announced_at(history: list[str]) -> int:
    """Number of the operation that names the partitions for writers."""
    return next(number for number, one in enumerate(history, 1) if one == "put:.hoodie/hoodie.properties")


def index_faults(storage: MemoryStorage) -> list[str]:
    """Differences of the metadata table and the files, and files of completed instants that are gone."""
    found = verify_table(storage, deep=True, index=True, clock=clock_of(storage)).findings
    return [str(one) for one in found if one.invariant.startswith(("metadata", "file-missing"))]


def strays(storage: MemoryStorage) -> list[str]:
    """Files of the metadata table's partitions whose instant is not complete there."""
    own = load_metadata_timeline(storage)
    completed = {one.time for one in own if one.is_completed}
    files = [(info.path, parse_data_file(info.name)) for info in storage.list(FOLDER)]
    return [path for path, name in files if name is not None and name.instant not in completed]


def foreign_writer(storage: MemoryStorage, clock: ManualClock) -> None:
    """A writer of Apache Hudi begins, with a heartbeat."""
    for name in (f"{FOREIGN}.commit.requested", f"{FOREIGN}.inflight"):
        storage.put(f".hoodie/timeline/{name}", b"")
    storage.put(f".hoodie/.heartbeat/{FOREIGN}", b"")


def foreign_ends(storage: MemoryStorage) -> None:
    """It is rolled back by one of its kind."""
    for path in (
        f".hoodie/timeline/{FOREIGN}.inflight",
        f".hoodie/timeline/{FOREIGN}.commit.requested",
        f".hoodie/.heartbeat/{FOREIGN}",
    ):
        storage.delete(path)
