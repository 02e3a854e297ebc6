"""What others do to a metadata table beside a write of ours, requested later or past the commit log: no row is lost or doubled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.config.table import TableType
from hudi_ops.errors import Busy, Conflict
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.slices import list_partition
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER, MetadataPartition
from hudi_ops.metadata.writer.commit import apply_delta
from hudi_ops.metadata.writer.compaction import (
    commit_bytes,
    compaction_plan_bytes,
    compaction_time,
    completion_of,
    inputs_at,
    merged_group,
)
from hudi_ops.metadata.writer.delta import make_delta
from hudi_ops.read.plan import Opened
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.log.entries import Void
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import FIRST
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import faults_of, make_table, table_of
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, START_MS, WITH_METADATA, rows

NOW = START_MS + 60_000
MINE = rows(("mine0", "p0", 1, 9, None), ("mine7", "p7", 2, 9, None))


def once(storage: FaultyStorage | MemoryStorage, at: int, data: pa.Table, operation: str = "upsert") -> str:
    """One attempt, which is not tried again; its instant."""
    table = table_of(storage, ManualClock(at, tick_ms=1), f"writer at {at}")
    batch = Batch(parse_operation(operation), rows=data)
    return ingest(table._session, batch, table.context.engine, "", 0.0).instant


def ids(storage: MemoryStorage, **how: str) -> list[str]:
    """Keys as a reader sees them much later."""
    found: list[str] = table_of(storage, ManualClock(NOW + 90_000), "reader").read(["id"], **how)["id"].to_pylist()
    return sorted(found)


def check(storage: MemoryStorage) -> None:
    """By its metadata table the table holds what storage holds; nothing is amiss."""
    assert ids(storage) == ids(storage, listing="storage")
    assert [str(one) for one in faults_of(storage, ManualClock(NOW + 90_000)) if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("operation", "kind"),
    [("bulk_insert", "COPY_ON_WRITE"), ("insert_overwrite", "COPY_ON_WRITE"), ("insert_overwrite", "MERGE_ON_READ")],
)
def test_a_delete_that_was_requested_later_does_not_take_a_key_out_of_the_record_index(
    operation: str, kind: TableType
) -> None:
    storage = make_table(replace(DEFINITION, metadata=True, index="record_index", table_type=kind), batches=(FIRST,))
    plan = MoveBefore("put:part=", lambda: once(storage, NOW + 500, rows(("k0", "p0", 0, 2, None)), "delete"))
    data = rows(("k0", "p9", 1000, 3, None))
    with contextlib.suppress(Conflict):
        once(FaultyStorage(storage, plan), NOW, data, operation)
    assert plan.moved
    once(storage, NOW + 10_000, data, operation)
    once(storage, NOW + 40_000, rows(("k0", "p9", 7, 9, None)))
    assert ids(storage).count("k0") == 1
    assert ids(storage, where="id = 'k0'") == ["k0"]
    check(storage)


def test_a_clean_that_was_requested_later_does_not_take_a_partition_off_into_which_we_write() -> None:
    storage = make_table(WITH_METADATA)
    table_of(storage, ManualClock(NOW, tick_ms=1), "deleter").delete_partition(["part=p2"])
    old = [info.path for info in storage.list("part=p2") if info.name.endswith(".parquet")]
    requested, completed = instant_of_ms(NOW + 20_500), instant_of_ms(NOW + 20_600)

    def clean() -> None:
        for path in old:
            storage.delete(path)
        gone = files_records({"part=p2": FileChanges(is_gone=True)}, version=9)
        delta = make_delta([gone], {MetadataPartition.FILES: 1}, instant=requested, version=9, token="9-9-9")
        for state in ("requested", "inflight"):
            storage.put(f".hoodie/timeline/{requested}.clean.{state}", b"")
        apply_delta(storage, delta, completed)
        storage.put(f".hoodie/timeline/{requested}_{completed}.clean", b"")

    plan = MoveBefore("put:part=p2", clean)
    with pytest.raises(Conflict, match=f"{requested} was requested later, completed first"):
        once(FaultyStorage(storage, plan), NOW + 20_000, rows(("back", "p2", 1, 9, None)))
    assert plan.moved
    once(storage, NOW + 30_000, rows(("back", "p2", 1, 9, None)))
    assert "back" in ids(storage)
    assert ids(storage) == ids(storage, listing="storage")


class DiesUndone:
    """Its process dies when it is about to make visible what it has decided."""

    def fault_at(self, number: int, point: str) -> Fault | None:
        is_first = point.startswith("put_if_absent:.hoodie/metadata") or point.endswith("_*.commit")
        is_last = point.startswith("put_if_absent:.hoodie/timeline/") and point.endswith(".commit")
        return Fault.CRASH_BEFORE if is_first or is_last else None


def begun(storage: MemoryStorage) -> None:
    """A metadata table is begun, of what is complete."""
    twin = storage.copy(ManualClock(NOW + 5_000))
    # To a stranger the write is pending: it knows of no slots.
    slots = [info.path for info in twin.list(".hoodie/.commit_log/00000000")]
    pending = [info.path for info in twin.list(".hoodie/timeline") if info.name > instant_of_ms(NOW)]
    for path in (max(slots), *pending):
        twin.delete(path)
    table_of(twin, ManualClock(NOW + 5_000, tick_ms=1), "stranger").indexing.run(partitions=["files", "column_stats"])
    for info in twin.list():
        if info.path.startswith((".hoodie/metadata/", ".hoodie/.index_defs/")):
            storage.put(info.path, twin.get(info.path))
    named = ",".join(load_config(twin).metadata_partitions)
    set_properties(
        storage, {"hoodie.table.metadata.partitions": named, "hoodie.table.metadata.partitions.inflight": ""}
    )


def compacted(storage: MemoryStorage, at: str = "") -> None:
    """The metadata table is compacted at a time, or at a fresh one, above the write's completion time."""
    time = at or instant_of_ms(NOW + 5_000)
    done = completion_of(time) if at else instant_of_ms(NOW + 5_100)
    instants = MetadataInstants(load_metadata_timeline(storage), Opened.of(storage).timeline, ArchivedTimes(storage))
    held = (MetadataPartition.FILES, MetadataPartition.COLUMN_STATS, MetadataPartition.PARTITION_STATS)
    inputs = inputs_at(time, instants, [(one, list_partition(storage, one)) for one in held])
    merged = [merged_group(storage, inputs, group, 9, instants.counts) for group in inputs.groups]
    for one in merged:
        storage.put(one.path, one.body)
    storage.put(f"{TIMELINE_FOLDER}/{time}.compaction.requested", compaction_plan_bytes(inputs))
    storage.put(f"{TIMELINE_FOLDER}/{time}.compaction.inflight", b"")
    storage.put(f"{TIMELINE_FOLDER}/{time}_{done}.commit", commit_bytes(merged, 9))


def dropped(storage: MemoryStorage) -> None:
    """The whole metadata table goes."""
    set_properties(storage, {"hoodie.table.metadata.partitions": "", "hoodie.table.metadata.partitions.inflight": ""})
    for info in list(storage.list(".hoodie/metadata")):
        storage.delete(info.path)


@pytest.mark.parametrize(
    ("happened", "metadata", "reason"),
    [
        (begun, False, "a metadata table that was begun since: column_stats, files"),
        (compacted, True, "something completed in the metadata table without a slot"),
        (dropped, True, "the metadata table that it has a delta for was dropped"),
    ],
)
def test_a_write_that_is_applied_late_is_voided_where_the_metadata_table_is_another_one(
    happened: Callable[[MemoryStorage], None], metadata: bool, reason: str
) -> None:
    batches = (FIRST,) if happened is begun else (FIRST, MINE.slice(0, 0), rows(("k6", "p0", 66, 4, None)))
    storage = make_table(WITH_METADATA if metadata else DEFINITION, batches=batches)
    with contextlib.suppress(Crash):
        once(FaultyStorage(storage, DiesUndone()), NOW, MINE)
    happened(storage)
    helper = table_of(storage, ManualClock(NOW + 20_000, tick_ms=1), "helper")
    helper.recover()
    voids = [one for one in helper._session.loader.load().log.entries if isinstance(one, Void)]
    assert [reason in one.reason for one in voids] == [True], [one.reason for one in voids]
    assert "mine0" not in ids(storage)
    assert ids(storage) == ids(storage, listing="storage")
    once(storage, NOW + 30_000, MINE)
    assert {"mine0", "mine7"} <= set(ids(storage))
    assert ids(storage) == ids(storage, listing="storage")


class OtherLock(InProcessLock):
    """The lock of a process elsewhere, which excludes no process here."""

    address = "in-process:elsewhere:7"


class WakingClock(ManualClock):
    """A clock beside which another process goes on as soon as this one waits."""

    def __init__(self, start_ms: int, move: Callable[[], object]) -> None:
        super().__init__(start_ms, tick_ms=1)
        self.move = move

    def sleep_s(self, seconds: float) -> None:
        super().sleep_s(seconds)
        self.move()


def decided_under_another_lock(storage: MemoryStorage) -> Table:
    """A write is decided and not visible; then a compaction of the metadata table completes that had begun before."""
    faulty = FaultyStorage(storage, DiesUndone())
    context = simulated_context(faulty, ManualClock(NOW, tick_ms=1), "elsewhere")
    writer = Table(replace(context, locks=OtherLock("elsewhere")))
    began = compaction_time(load_metadata_timeline(storage), Opened.of(storage).timeline)
    with contextlib.suppress(Crash):
        ingest(writer._session, Batch(parse_operation("upsert"), rows=MINE), context.engine, "", 0.0)
    compacted(storage, began)
    return Table(replace(context, storage=storage, clock=ManualClock(NOW + 1_000, tick_ms=1), locks=context.locks))


def voids_of(table: Table) -> list[Void]:
    return [one for one in table._session.loader.load().log.entries if isinstance(one, Void)]


def test_a_write_of_a_live_process_under_another_lock_is_not_voided_after_it_reported_success() -> None:
    storage = make_table(WITH_METADATA, batches=(FIRST, MINE.slice(0, 0), rows(("k6", "p0", 66, 4, None))))
    writer = decided_under_another_lock(storage)
    # It goes on while the helper waits for it, or else right before the helper's VOID.
    plan = MoveBefore("put_if_absent:.hoodie/.commit_log/00000000/", writer.recover)
    clock = WakingClock(NOW + 1_000, writer.recover)
    helper = table_of(FaultyStorage(storage, plan), clock, "helper")
    helper.recover()
    assert voids_of(helper) == []
    assert {"mine0", "mine7"} <= set(ids(storage))
    check(storage)


def test_a_live_process_under_another_lock_that_does_not_go_on_is_named_and_its_write_voided_once_it_is_dead() -> None:
    storage = make_table(WITH_METADATA, batches=(FIRST, MINE.slice(0, 0), rows(("k6", "p0", 66, 4, None))))
    decided_under_another_lock(storage)
    clock = ManualClock(NOW + 5_000, tick_ms=1)
    helper = table_of(storage, clock, "helper")
    with pytest.raises(Busy, match="its writer is alive") as raised:
        helper.recover()
    assert "simulated-elsewhere:1 under the lock in-process:elsewhere:7" in raised.value.found
    assert voids_of(helper) == []
    clock.sleep_s(EXPIRY_MS / 1000)
    helper.recover()
    assert len(voids_of(helper)) == 1
    assert ids(storage) == ids(storage, listing="storage")


@pytest.mark.parametrize(
    ("definition", "operation"),
    [(WITH_METADATA, "upsert"), (WITH_METADATA, "bulk_insert"), (LOGGED_WITH_METADATA, "upsert")],
)
def test_an_added_column_is_null_in_all_rows_before(definition, operation: str) -> None:
    storage = make_table(definition, batches=(FIRST,))
    new = rows(("fresh", "p0", 9, 9, None)).append_column("extra", pa.array([5], pa.int64()))
    table_of(storage, ManualClock(NOW, tick_ms=1), "writer").ingest(new, operation, evolve=True)
    assert ids(storage, where="extra IS NULL") == sorted(FIRST["id"].to_pylist())
    assert ids(storage, where="extra = 5") == ["fresh"]
    found = faults_of(storage, ManualClock(NOW + 90_000))
    assert [str(one) for one in found if one.invariant == "metadata-partition-stats"] == []
