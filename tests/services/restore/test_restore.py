"""Restore: rows, ledger and metadata table return to the savepoint; what is refused; a crash at every storage operation."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, inherit_lease
from hudi_ops.errors import Busy, Cancelled, Conflict, Corrupt, InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.log.commit_log import payload_folder
from hudi_ops.timeline.log.entries import Restore
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.log_actors import session_of, timeline_of, whole_log
from tests.protocol.sweep import CRASHES, ERRORS, JudgedStates, fault_sweep
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, TIMELINE, by_key, made, rows, table_of

FIRST = rows(*((f"k{n}", f"p{n % 2}", n, 0, None) for n in range(6)))
SECOND = rows(("k0", "p0", 100, 1, None), ("k1", "p1", 101, 1, None))
THIRD = rows(("k2", "p0", 202, 2, None), ("k6", "p0", 6, 2, None))
MODEL = {f"k{n}": n for n in range(6)}
KINDS = pytest.mark.parametrize(
    "definition", [DEFINITION, MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["cow", "mor", "mor-mdt"]
)


def writes_of(storage: MemoryStorage) -> list[str]:
    return [one.time for one in timeline_of(storage).completed_writes]


def saved(definition: object = LOGGED_WITH_METADATA) -> tuple[MemoryStorage, ManualClock, str]:
    """A table with a savepoint of its first rows and two writes above it."""
    storage, clock = made(definition, FIRST), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    savepoint = table.savepoints.create().instant
    table.ingest(SECOND)
    table.ingest(THIRD)
    return storage, clock, savepoint


def data_files(storage: MemoryStorage) -> set[str]:
    return {info.path for info in storage.list("") if info.path.startswith("part=")}


@KINDS
def test_the_table_returns_to_the_savepoint_and_goes_on(definition) -> None:
    storage, clock, savepoint = saved(definition)
    before = made(definition, FIRST)
    table = table_of(storage, clock, "restorer")
    undone = [one for one in writes_of(storage) if one > savepoint]
    preview = table.savepoints.restore(dry_run=True)
    done = table.savepoints.restore(savepoint)
    assert (preview.undone, preview.files) == (done.undone, done.files) == (tuple(reversed(undone)), done.files)
    assert by_key(table) == by_key(table_of(storage, clock, "reader")) == MODEL
    assert len(data_files(storage)) == len(data_files(before))
    assert verify_table(storage, deep=True).findings == ()
    assert set(done.rebuilt) == set(preview.rebuilt)
    assert (not done.rebuilt) == (definition is not LOGGED_WITH_METADATA)
    table_of(storage, clock, "writer").ingest(SECOND)
    assert by_key(table) == MODEL | {"k0": 100, "k1": 101}
    assert table.savepoints.restore(savepoint).undone != (), "it can be restored again"
    assert by_key(table) == MODEL
    assert table.savepoints.restore(savepoint).note == "no write completed after the savepoint"


def test_source_files_of_undone_writes_are_taken_again(tmp_path: Path) -> None:
    storage, clock = made(DEFINITION), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    pq.write_table(FIRST, tmp_path / "first.parquet")
    table.ingest_folder(str(tmp_path))
    savepoint = table.savepoints.create().instant
    pq.write_table(SECOND, tmp_path / "second.parquet")
    assert table.ingest_folder(str(tmp_path)).files == 1
    table.savepoints.restore(savepoint)
    assert by_key(table) == MODEL
    assert table_of(storage, clock, "another").ingest_folder(str(tmp_path)).files == 1
    assert by_key(table) == MODEL | {"k0": 100, "k1": 101}


def test_a_compaction_that_completed_after_an_undone_write_does_not_bring_its_ledger(tmp_path: Path) -> None:
    """The compaction was planned below the savepoint, so it stays; it carries the ledgers as they were when it completed."""
    storage, clock = made(MERGE_ON_READ, FIRST), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    pq.write_table(rows(("k0", "p0", 50, 1, None)), tmp_path / "first.parquet")
    assert table.ingest_folder(str(tmp_path)).files == 1
    assert table.compaction.plan().instant is not None
    table.ingest(rows(("k3", "p1", 33, 1, None)))
    savepoint = table.savepoints.create().instant
    pq.write_table(SECOND, tmp_path / "second.parquet")
    assert table.ingest_folder(str(tmp_path)).files == 1
    assert table.compaction.execute().instant < savepoint
    table.savepoints.restore(savepoint)
    assert by_key(table) == MODEL | {"k0": 50, "k3": 33}
    after = table_of(storage, clock, "another")
    after.archive.run(keep_min=2, keep_max=2)
    assert after.ingest_folder(str(tmp_path)).files == 1, "the first file is taken, the second one not any more"
    assert by_key(table) == MODEL | {"k0": 100, "k1": 101, "k3": 33}
    assert after.ingest_folder(str(tmp_path)).files == 0


@pytest.mark.parametrize("what", ["unknown", "newer savepoint", "none", "lost file"])
def test_what_is_refused_changes_nothing(what) -> None:
    storage, clock, savepoint = saved()
    table = table_of(storage, clock, "restorer")
    wanted, error, said = savepoint, InvalidRequest, ""
    if what == "unknown":
        wanted, said = "20200101000000000", "no savepoint of 20200101000000000"
    elif what == "newer savepoint":
        table.savepoints.create()
        said = "a newer savepoint protects"
    elif what == "none":
        table.savepoints.delete(savepoint)
        wanted, said = None, "the table has no savepoint"
    else:
        error, said = Corrupt, "files of the savepoint are lost"
        storage.delete(min(path for path in data_files(storage) if savepoint in path))
    before = {info.path for info in storage.list("")}
    for dry_run in (True, False):
        with pytest.raises(error, match=said):
            table.savepoints.restore(wanted, dry_run=dry_run)
    assert {info.path for info in storage.list("")} == before


def test_a_live_writer_is_busy_and_a_dead_one_is_rolled_back() -> None:
    storage, clock, savepoint = saved()
    slow = session_of(storage, clock, "slow")
    running = begin(slow.ctx, slow.loader, "deltacommit")
    table = table_of(storage, clock, "restorer")
    with pytest.raises(Busy, match=running.instant):
        table.savepoints.restore(savepoint)
    assert by_key(table) != MODEL
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.savepoints.restore(savepoint)
    assert by_key(table) == MODEL
    assert timeline_of(storage).find(running.instant) is None


def test_plans_above_are_cancelled_and_those_below_stay() -> None:
    storage, clock = made(MERGE_ON_READ, FIRST), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    table.ingest(SECOND)
    below = table.compaction.plan().instant
    table.ingest(rows(("k3", "p1", 3, 1, None)))
    model = by_key(table)
    savepoint = table.savepoints.create().instant
    table.compaction.execute(instant=below)
    table.ingest(THIRD)
    above = table.compaction.plan().instant
    table.ingest(rows(("k4", "p0", 44, 4, None)))
    done = table.savepoints.restore(savepoint)
    assert done.cancelled == (above,)
    assert below not in done.undone, "a compaction that was planned below changes no row"
    assert by_key(table) == model
    assert verify_table(storage, deep=True).findings == ()


def test_a_preview_names_what_is_in_the_way_and_no_plan_that_stays() -> None:
    storage, clock = made(MERGE_ON_READ, FIRST), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    table.ingest(SECOND)
    assert table.compaction.plan().instant is not None
    table.ingest(rows(("k3", "p1", 3, 1, None)))
    table.savepoints.create()
    assert table.savepoints.restore(dry_run=True).note == "", "a plan below the savepoint stays"
    slow = session_of(storage, clock, "slow")
    running = begin(slow.ctx, slow.loader, "deltacommit")
    assert running.instant in table.savepoints.restore(dry_run=True).note


def test_a_pending_clean_is_finished_and_keeps_the_savepoint() -> None:
    storage, clock, savepoint = saved(DEFINITION)
    table = table_of(storage, clock, "writer")
    for number in range(3):
        table.ingest(rows(("k0", "p0", 300 + number, 10 + number, None), ("k1", "p1", 7, 10 + number, None)))
    planned = table.clean.plan(retain=1).instant
    assert planned is not None
    table.savepoints.restore(savepoint)
    found = timeline_of(storage).find(planned, "clean")
    assert found is not None
    assert found.is_completed
    assert by_key(table) == MODEL
    table.ingest(SECOND)
    table.clean.run(retain=1)
    assert by_key(table) == MODEL | {"k0": 100, "k1": 101}
    assert table.savepoints.restore(savepoint).undone
    assert by_key(table) == MODEL
    assert verify_table(storage, deep=True).findings == ()


def test_a_write_that_slept_past_its_lease_is_cancelled() -> None:
    storage, clock, savepoint = saved(DEFINITION)
    restorer = table_of(storage, clock, "restorer")

    def restore() -> None:
        clock.advance_ms(EXPIRY_MS + 1_000)
        restorer.savepoints.restore(savepoint)

    move = MoveBefore("put_if_absent:.hoodie/.commit_log/0", restore)
    with pytest.raises(Cancelled):
        table_of(FaultyStorage(storage, move), clock, "sleeper").ingest(rows(("k0", "p0", 111, 9, None)))
    assert move.moved
    assert by_key(restorer) == MODEL
    assert verify_table(storage, deep=True).findings == ()


def test_a_write_that_the_restore_could_not_see_is_made_again_upon_the_savepoint() -> None:
    """It had read the table and taken its lease, and was not on the timeline yet."""
    storage, clock, savepoint = saved(DEFINITION)
    restorer = table_of(storage, clock, "restorer")
    move = MoveBefore(".commit.requested", lambda: restorer.savepoints.restore(savepoint))
    slots = len(whole_log(storage).entries)
    table_of(FaultyStorage(storage, move), clock, "sleeper").ingest(rows(("k0", "p0", 111, 9, None)))
    assert move.moved
    decided = [type(entry).__name__ for entry in whole_log(storage).entries[slots:]]
    assert decided == ["Restore", "Takeover", "Complete", "Cancel", "Complete", "Complete"], (
        "the first attempt was refused"
    )
    assert by_key(restorer) == MODEL | {"k0": 111}
    assert verify_table(storage, deep=True).findings == ()


def test_a_late_applier_puts_no_undone_write_back() -> None:
    storage, clock, savepoint = saved(DEFINITION)
    restorer = table_of(storage, clock, "restorer")
    late = writes_of(storage)[-1]

    def restore() -> None:
        clock.advance_ms(EXPIRY_MS + 1_000)
        restorer.savepoints.restore(savepoint)

    name = next(info.name for info in storage.list_folder(TIMELINE).files if info.name.startswith(f"{late}_"))
    storage.delete(f"{TIMELINE}/{name}")  # as if its applier had not put it yet
    move = MoveBefore(f"put_if_absent:{TIMELINE}/{name}", restore)
    other = table_of(FaultyStorage(storage, move), clock, "late")
    other.recover()
    assert move.moved
    assert late not in writes_of(storage)
    assert by_key(restorer) == MODEL
    assert verify_table(storage, deep=True).findings == ()


def test_writers_wait_for_a_pending_restore() -> None:
    storage, clock, savepoint = saved(DEFINITION)
    writer = table_of(storage, clock, "writer")
    refused: list[str] = []

    def write() -> None:
        with pytest.raises((Busy, Conflict)) as caught:
            writer.ingest(rows(("k9", "p0", 9, 9, None)))
        refused.append(caught.value.what)

    move = MoveBefore("delete:part=", write)
    table_of(FaultyStorage(storage, move), clock, "restorer").savepoints.restore(savepoint)
    assert move.moved
    assert "being restored" in refused[0]
    assert by_key(writer) == MODEL


def test_a_checkpoint_above_the_savepoint_names_the_restore() -> None:
    storage, clock, savepoint = saved(DEFINITION)
    table = table_of(storage, clock, "consumer")
    above = table.changes().checkpoint
    restored = table.savepoints.restore(savepoint).instant
    with pytest.raises(InvalidRequest, match=f"restore {restored}"):
        table.changes(since=above)
    after = table.changes()
    assert table.changes(since=after.checkpoint).to_arrow().num_rows == 0


JUDGED = JudgedStates()
"""What the next test has judged: crashes and errors leave some states alike."""


@pytest.mark.parametrize("fault", [*CRASHES, *ERRORS])
def test_a_restore_goes_wrong_at_every_storage_operation(fault: Fault) -> None:
    base, _, savepoint = saved()

    def restore(storage: FaultyStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "first").savepoints.restore(savepoint)

    for left in fault_sweep(base, restore, fault, "a restore", points=150, writes=60, runs=20, most=30, judged=JUDGED):
        left.clock.advance_ms(EXPIRY_MS + 1_000)
        second = table_of(left.storage, left.clock, "second")
        done = second.savepoints.restore(savepoint)
        assert by_key(second) == MODEL, left.story
        second.recover()
        table_of(left.storage, left.clock, "third").ingest(SECOND)
        assert by_key(second) == MODEL | {"k0": 100, "k1": 101}, left.story
        assert verify_table(left.storage, deep=True, clock=left.clock).findings == (), (left.story, done)
        restores = [one for one in whole_log(left.storage).entries if isinstance(one, Restore)]
        assert len(restores) == 1, left.story


@pytest.mark.parametrize("kind", ["restore", "clean"])
def test_an_executor_that_died_after_its_completion_leaves_one_payload(kind: str) -> None:
    storage, clock, savepoint = saved(DEFINITION)
    table = table_of(storage, clock, "executor")
    instant = table.savepoints.restore(savepoint).instant if kind == "restore" else table.clean.run(retain=1).instant
    assert instant is not None
    (kept,) = storage.list(payload_folder(instant))
    storage.put(f"{payload_folder(instant)}/99-0123456789abcdef", b"of a slot that another executor took")
    inherit_lease(table.context, instant, "execute")
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "next").recover()
    assert storage.list(payload_folder(instant)) == [kept]
    assert verify_table(storage, clock=clock).findings == ()
