"""Tables with a resize to cancel, beside completed and dead writers, begun or not; and what must be so after the cancel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.index.ring import INITIAL
from hudi_ops.index.ring_files import ring_path
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.partitions import FOLDER as METADATA
from hudi_ops.services.cancel.abort import CancelResult
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.cancel.aborted import QUEUE
from hudi_ops.timeline.cancel.aborted_history import FOLDER as ABORTED_HISTORY
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.protocol.crash_table import unaccounted
from tests.protocol.log_actors import timeline_of
from tests.services.resize.hand_plans import P0, Wanted, changed_ring, plan_of_nodes, rings_of, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, changes, opened, plan_of
from tests.tables import NOW_MS, START_MS, TIMELINE, by_key, made, rows

KEYS = range(24)
PLANNED_GROUPS = (Wanted((0,)), Wanted((1, 2)))
"""A split and a merge, both in the first partition; its last bucket stays."""
LATE_MS = NOW_MS + 10 * EXPIRY_MS
"""When a resize is cancelled: all leases are dead, but for those of writers that run then."""
PAYLOAD = "put:.hoodie/.commit_log/payload"
MODEL = {f"k{n}": 100 + n for n in KEYS if n != 6} | {"k24": 124, "k8": 208}


def batch(value: int, keys: range = KEYS) -> pa.Table:
    """Rows of each key, half of them in the partition that is resized; their values and times follow from `value`."""
    return rows(*((f"k{n}", f"p{n % 2}", value + n, value, None) for n in keys))


def model_of(value: int) -> dict[str, int]:
    """What a table shows after `batch`."""
    return {f"k{n}": value + n for n in KEYS}


def write_around(storage: MemoryStorage, clock: ManualClock) -> None:
    """Let two writers complete and one die behind its child logs, beside a pending resize; then the rows are those of `MODEL`."""
    writer = opened(storage, "writer", clock)
    writer.ingest(batch(100, range(25)))
    dying = opened(FaultyStorage(storage, DiesBefore(PAYLOAD)), "dead", clock)
    with contextlib.suppress(Crash):
        dying.ingest(batch(900))
    writer.ingest(rows(("k6", "p0", 0, 200, True), ("k8", "p0", 208, 200, None)))


@cache
def _made(is_begun: bool, metadata: bool, is_shared: bool) -> MemoryStorage:
    storage = made(replace(CONSISTENT, metadata=metadata), batch(0))
    clock = ManualClock(NOW_MS, tick_ms=1)
    if is_shared:
        let_hudi_write(storage)
    instant = plan_of_nodes(opened(storage, clock=clock), *PLANNED_GROUPS)
    write_around(storage, clock)
    if is_begun:
        begin(storage, clock, instant)
    return storage


def planned(*, is_begun: bool, metadata: bool, is_shared: bool = False) -> tuple[MemoryStorage, str]:
    """A table of `MODEL` with a pending resize, and its instant."""
    storage = _made(is_begun, metadata, is_shared).copy()
    (resize,) = (one.time for one in timeline_of(storage).pending if one.action == "clustering")
    return storage, resize


def let_hudi_write(storage: MemoryStorage) -> None:
    """Let Apache Hudi complete a write without rows: from now on it writes to the table, too."""
    instant, done = instant_of_ms(START_MS + 30_000), instant_of_ms(START_MS + 30_001)
    for name in ("deltacommit.requested", "deltacommit.inflight"):
        storage.put(f"{TIMELINE}/{instant}.{name}", b"")
    schema = next(
        CommitMetadata.from_bytes(storage.get(info.path), info.path).extra["schema"]
        for info in storage.list(TIMELINE)
        if info.name.endswith(".deltacommit")
    )
    body = CommitMetadata(operation="UPSERT", extra={"schema": schema}).to_bytes()
    storage.put(f"{TIMELINE}/{instant}_{done}.deltacommit", body)


def begin(storage: MemoryStorage, clock: ManualClock, instant: str) -> None:
    """Let an executor die half-way, and put the ring file that an executor of Apache Hudi puts before it completes."""
    table = opened(FaultyStorage(storage, DiesBefore("^put:part=p0", 3)), "executor", clock)
    with contextlib.suppress(Crash):
        run_plan(table, instant)
    files = [info.name for info in storage.list(P0) if info.name.endswith(f"_{instant}.parquet")]
    assert len(files) == 2, files
    ring = changed_ring(rings_of(opened(storage, clock=clock), [P0])[P0], changes(plan_of_resize(storage)), instant)
    storage.put(ring_path(P0, instant), ring.to_bytes())


def plan_of_resize(storage: MemoryStorage) -> Any:
    """The pending resize's plan, also beside pending writes."""
    twin = storage.copy()
    for info in twin.list(TIMELINE):
        if info.name.endswith(("deltacommit.requested", "deltacommit.inflight")):
            twin.delete(info.path)
    return plan_of(twin)


def cancel(storage: Storage, clock: ManualClock, instant: str, actor: str = "first") -> CancelResult:
    """Request and execute the cancel, without waiting."""
    return opened(storage, actor, clock).cancel(instant, "not needed", wait_s=0)


def finish(
    storage: MemoryStorage, clock: ManualClock, instant: str, model: dict[str, int], story: str, late: Callable[[], Any]
) -> None:
    """Let another process end the resize, archive everything and update every key; then nothing of the resize is left."""
    for listing in ("auto", "storage"):
        assert by_key(opened(storage, "reader", clock), listing=listing) == model, story
    clock.advance_ms(EXPIRY_MS + 1_000)
    table = opened(storage, "second", clock)
    late()
    table.recover()
    with contextlib.suppress(InvalidRequest, Busy):
        table.cancel(instant, "not needed", wait_s=0)
    for _ in range(3):  # a dead rollback is finished, the plan is removed, then the second look is due
        clock.advance_ms(EXPIRY_MS + 1_000)
        table.recover()
    assert table.cancel(instant).state == "aborted", story  # a queue file that landed late goes
    (aborted,) = timeline_of(storage).aborted
    assert (aborted.time, State.SWEPT in aborted.states) == (instant, True), story
    check(storage, clock, instant, model, story)
    assert [path for path in unaccounted(storage) if "/.bucket_index/" not in path] == [], story
    archive_all(table)
    table.ingest(batch(3_000, range(25)))
    check(storage, clock, instant, {**model, **{f"k{n}": 3_000 + n for n in range(25)}}, story)


def check(storage: MemoryStorage, clock: ManualClock, instant: str, model: dict[str, int], story: str) -> None:
    """The rows are those of the model in each listing; the resize left nothing, and nothing is damaged."""
    assert (left := left_of(storage, instant)) == [], f"{left} {story}"
    assert storage.list(QUEUE) == [], story
    assert timeline_of(storage).pending == (), story
    for listing in ("auto", "storage"):
        assert by_key(opened(storage, "reader", clock), listing=listing) == model, story
    table = opened(storage, "reader", clock)
    assert rings_of(table, [P0])[P0].instant == INITIAL, story
    if storage.list(METADATA):
        assert [name for name in files_records(table) if instant in name] == [], story
    findings = verify_table(storage, deep=True, index=True, clock=clock).findings
    assert [str(one) for one in findings if one.invariant != "foreign-instant"] == [], story


def left_of(storage: MemoryStorage, instant: str) -> list[str]:
    """What a cancelled resize must not leave: data files, ring files, pending files and notes."""
    kept = (".aborted", ".aborted.swept", f"/cancelled/{instant}")
    paths = [info.path for info in storage.list() if instant in info.path and not info.path.endswith(kept)]
    return [path for path in paths if not path.startswith(f"{ABORTED_HISTORY}/")]


def files_records(table: Table) -> list[str]:
    """The names of all data files in the partition `files` of the metadata table."""
    session = table._session
    state = session.loader.load()
    metadata = open_metadata(session.ctx.storage, state.config, state.timeline)
    walked = open_listing(session.ctx.storage, state.config, metadata, "metadata").walk()
    return [file.path for files in walked.files.values() for file in files]


def archive_all(table: Table) -> None:
    """Archive all that can be: a clean first, since replaced files keep their writes on the timeline."""
    table.clean.run(retain=1)
    table.archive.run(keep_min=1, keep_max=1)
