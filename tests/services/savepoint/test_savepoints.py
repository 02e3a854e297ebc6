"""Savepoints: what they refuse, who else makes or deletes one meanwhile, and a crash at every storage operation."""

from __future__ import annotations

import pytest

from hudi_ops.commit.apply import savepoints as applied
from hudi_ops.commit.recover.recover import recover
from hudi_ops.concurrency.attempt import begin
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.services.savepoint import savepoints as service
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.plan_bytes import encode_savepoint
from hudi_ops.timeline.content.plans import Savepoint as SavepointFile, read_result
from hudi_ops.timeline.log.entries import Savepoint
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.cleaning import clean
from tests.protocol.log_actors import session_of, timeline_of, whole_log
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, TIMELINE, by_key, made, rows, table_of

FIRST = rows(*((f"k{n}", f"p{n % 2}", n, 0, None) for n in range(6)))
SECOND = rows(("k0", "p0", 100, 1, None), ("k1", "p1", 101, 1, None))
THIRD = rows(("k2", "p0", 202, 2, None), ("k6", "p0", 6, 2, None))
BATCHES = (FIRST, SECOND, THIRD)


def writes_of(storage: MemoryStorage) -> list[str]:
    """Request times of the writes that brought rows."""
    return [one.time for one in timeline_of(storage).completed_writes][1:]


def savepoint_files(storage: MemoryStorage) -> list[str]:
    """Names of the timeline's files of savepoints."""
    return sorted(info.name for info in storage.list_folder(TIMELINE).files if "savepoint" in info.name)


def savepoint_of(storage: MemoryStorage, timeline: Timeline, instant: str) -> SavepointFile:
    """Content of a savepoint's completed file."""
    found = timeline.find(instant, "savepoint")
    assert found is not None
    said = read_result(storage, timeline, found)
    assert isinstance(said, SavepointFile)
    return said


@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["cow", "mor", "mor-mdt"])
def test_a_savepoint_names_the_files_that_a_read_as_of_it_needs(definition) -> None:
    storage, clock = made(definition, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "first")
    first, second, third = writes_of(storage)
    past = {instant: by_key(table, as_of=instant) for instant in (first, second, third)}
    for instant in (first, second):
        table.savepoints.create(instant, comments="before the new feed", user="anna")
    timeline = timeline_of(storage)
    said = savepoint_of(storage, timeline, first)
    assert (said.made_by, said.comments) == ("anna", "before the new feed")
    named = {instant: savepoint_of(storage, timeline, instant).files for instant in (first, second)}
    kept = {f"{path}/{name}" for files in named.values() for path in files for name in files[path]}
    only = storage.copy(clock)
    for info in list(storage.list("")):
        if info.path.startswith("part=") and "partition_metadata" not in info.path and info.path not in kept:
            only.delete(info.path)
    reader = table_of(only, clock, "reader")
    for instant in (first, second):
        assert by_key(reader, as_of=instant, listing="storage") == past[instant]
    assert not verify_table(storage).findings


@pytest.mark.parametrize("definition", [MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["mor", "mor-mdt"])
def test_rows_in_log_files_are_read_while_their_savepoint_is_pending(definition) -> None:
    storage, clock = made(definition, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    last, rows_before = writes_of(storage)[-1], by_key(table_of(storage, clock, "first"))
    assert {"k2", "k6"} <= rows_before.keys()
    assert any(last in info.name and ".log." in info.name for info in storage.list("")), "its rows are in base files"
    # Our process died amid its savepoint, or Apache Hudi makes one now.
    storage.put(f"{TIMELINE}/{last}.savepoint.inflight", b"")
    for how in ({}, {"listing": "storage"}, {"as_of": last}):
        assert by_key(table_of(storage, clock, "reader"), **how) == rows_before, how
    # A compaction that began then would leave the rows out for good.
    assert table_of(storage, clock, "compactor").compaction.run(threshold=1).instant is not None
    storage.delete(f"{TIMELINE}/{last}.savepoint.inflight")
    assert by_key(table_of(storage, clock, "reader")) == rows_before


def test_a_savepoint_is_made_once_and_listed_and_deleted() -> None:
    storage, clock = made(DEFINITION, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "first")
    newest = writes_of(storage)[-1]
    made_one = table.savepoints.create()
    assert (made_one.instant, made_one.note) == (newest, "made")
    slots = len(whole_log(storage).entries)
    assert table.savepoints.create(newest).note == "this savepoint exists already"
    assert len(whole_log(storage).entries) == slots, "the second call decides nothing"
    assert [one.instant for one in table.savepoints.list()] == [newest]
    assert table.savepoints.delete(newest).instant == newest
    assert table.savepoints.list() == []
    assert savepoint_files(storage) == []
    with pytest.raises(InvalidRequest, match="no savepoint of"):
        table.savepoints.delete(newest)
    assert table.savepoints.create(newest).note == "made", "it can be made again"
    assert len(savepoint_files(storage)) == 2
    assert by_key(table) == by_key(table_of(storage, clock, "other"))
    assert not verify_table(storage).findings


def test_a_savepoint_of_apache_hudi_is_listed_and_deleted() -> None:
    storage, clock = made(DEFINITION, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    instant = writes_of(storage)[0]
    storage.put(f"{TIMELINE}/{instant}.savepoint.inflight", b"")
    body = encode_savepoint(SavepointFile("", NOW_MS, "by hand", {"part=p0": ("a.parquet",)}))
    storage.put(f"{TIMELINE}/{instant}_20300317182740000.savepoint", body)
    table = table_of(storage, clock, "first")
    assert [(one.instant, one.files, one.comments) for one in table.savepoints.list()] == [(instant, 1, "by hand")]
    table.savepoints.delete(instant)
    assert savepoint_files(storage) == []


def test_what_is_no_completed_write_is_refused_and_changes_nothing() -> None:
    storage, clock = made(DEFINITION, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "first")
    running = begin(table._session.ctx, table._session.loader, "commit")
    before = sorted(info.path for info in storage.list(""))
    for instant in ("20200101000000000", running.instant):
        with pytest.raises(InvalidRequest, match="not a completed write"):
            table.savepoints.create(instant)
    assert sorted(info.path for info in storage.list("")) == before


def test_a_pending_write_below_is_busy() -> None:
    storage, clock = made(DEFINITION, FIRST), ManualClock(NOW_MS, tick_ms=1)
    slow = session_of(storage, clock, "slow")
    running = begin(slow.ctx, slow.loader, "commit")
    table = table_of(storage, clock, "first")
    table.ingest(SECOND)
    with pytest.raises(Busy, match=running.instant):
        table.savepoints.create()
    assert savepoint_files(storage) == []
    table.savepoints.create(writes_of(storage)[0])


@pytest.mark.parametrize("told", ["deleted", "pending"])
@pytest.mark.parametrize("has_earliest", [True, False])
def test_a_write_whose_file_a_clean_removes_is_refused(told, has_earliest) -> None:
    storage, clock = made(DEFINITION, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    first, second, third = writes_of(storage)
    table = table_of(storage, clock, "first")
    table.savepoints.create(first)
    gone = [path for path in _files_of(storage, first) if storage.head(path) is not None][:1]
    table.savepoints.delete(first)
    cleaned = clean(storage, clock, gone, earliest=second if has_earliest else "", told=told)
    with pytest.raises(InvalidRequest, match=cleaned) as refused:
        table.savepoints.create(first)
    assert first in str(refused.value)
    assert savepoint_files(storage) == []
    assert table.savepoints.create(third).note == "made"


def test_a_clean_that_is_planned_while_the_files_are_listed_is_seen_under_the_lock(monkeypatch) -> None:
    storage, clock = made(DEFINITION, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    first, second, _ = writes_of(storage)
    table = table_of(storage, clock, "first")
    listed = service.files_as_of

    def then_cleaned(*arguments):
        found = listed(*arguments)
        clean(storage, clock, [], earliest=second, told="pending")
        return found

    monkeypatch.setattr(service, "files_as_of", then_cleaned)
    with pytest.raises(InvalidRequest, match="retains the instants"):
        table.savepoints.create(first)
    assert savepoint_files(storage) == []
    monkeypatch.setattr(service, "refuse_cleaned", lambda *arguments: None)
    assert table.savepoints.create(first).note == "made", "without the check it would be made"


def test_a_write_below_that_completes_while_the_files_are_listed_is_in_the_savepoint(monkeypatch) -> None:
    storage, clock = made(DEFINITION, FIRST), ManualClock(NOW_MS, tick_ms=1)
    table, other = table_of(storage, clock, "first"), table_of(storage, clock, "other")
    listed, others = service.files_as_of, [SECOND]

    def then_written(session, state, instant):
        found = listed(session, state, instant)
        if others:
            other.ingest(others.pop())
        return found

    monkeypatch.setattr(service, "files_as_of", then_written)
    made_one = table.savepoints.create(writes_of(storage)[0])
    assert made_one.note == "made", "a later write changes nothing"
    monkeypatch.setattr(
        service, "_refuse_changed", lambda *arguments: (_ for _ in ()).throw(Conflict("completed meanwhile"))
    )
    table.savepoints.delete(made_one.instant)
    with pytest.raises(Conflict, match="completed meanwhile"):
        table.savepoints.create(made_one.instant)
    assert savepoint_files(storage) == []


def _files_of(storage: MemoryStorage, instant: str) -> list[str]:
    files = savepoint_of(storage, timeline_of(storage), instant).files
    return [f"{path}/{name}" for path, names in files.items() for name in names]


def finished(storage: MemoryStorage, clock: ManualClock, story: str) -> list[str]:
    """Instants with a savepoint after another process recovered the table; rows and files agree."""
    table = table_of(storage, clock, "second")
    recover(table._session)
    found = [one.instant for one in table.savepoints.list()]
    assert len(savepoint_files(storage)) == 2 * len(found), story
    assert not verify_table(storage).findings, story
    return found


@pytest.mark.parametrize("fault", [*CRASHES, *ERRORS], ids=lambda fault: fault.name)
def test_making_one_that_goes_wrong_anywhere_is_done_or_not_and_can_be_repeated(fault) -> None:
    base = made(DEFINITION, *BATCHES)
    rows_now, first = by_key(table_of(base, ManualClock(NOW_MS), "reader")), writes_of(base)[0]

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "first").savepoints.create(first)

    for left in fault_sweep(base, run, fault, "a savepoint", points=20, writes=4):
        left.land()
        left.resume()
        assert finished(left.storage, left.clock, left.story) in ([], [first]), left.story
        table = table_of(left.storage, left.clock, "second")
        table.savepoints.create(first)
        assert finished(left.storage, left.clock, left.story) == [first], left.story
        assert by_key(table) == rows_now, left.story


@pytest.mark.parametrize("fault", [*CRASHES, *ERRORS], ids=lambda fault: fault.name)
def test_deleting_one_that_goes_wrong_anywhere_is_done_or_not_and_can_be_repeated(fault) -> None:
    base = made(DEFINITION, *BATCHES)
    first = writes_of(base)[0]
    table_of(base, ManualClock(NOW_MS - 1_000), "maker").savepoints.create(first)

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "first").savepoints.delete(first)

    for left in fault_sweep(base, run, fault, "deleting a savepoint", points=12, writes=3):
        left.land()
        left.resume()
        if finished(left.storage, left.clock, left.story):
            table_of(left.storage, left.clock, "second").savepoints.delete(first)
        assert finished(left.storage, left.clock, left.story) == [], left.story


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_maker_that_slept_does_not_bring_a_deleted_savepoint_back(monkeypatch, is_guarded) -> None:
    base, clock = made(DEFINITION, *BATCHES), ManualClock(NOW_MS, tick_ms=1)
    first = writes_of(base)[0]

    def meanwhile() -> None:
        other = table_of(base, clock, "other")
        assert [one.instant for one in other.savepoints.list()] in ([], [first])
        other._session.decide(lambda state, slot: None, "finish what was decided")
        other.savepoints.delete(first)

    # The last file of the maker: the savepoint itself.
    sleeper = FaultyStorage(base, MoveBefore(f"^put_if_absent:{TIMELINE}/{first}_", meanwhile))
    if not is_guarded:
        monkeypatch.setattr(applied, "_is_gone", lambda log, slot, entry: False)
    table = table_of(sleeper, clock, "sleeper")
    table.savepoints.create(first)
    monkeypatch.undo()
    assert bool(savepoint_files(base)) is not is_guarded
    entries = [entry for _, entry in whole_log(base).since(-1) if isinstance(entry, Savepoint)]
    assert [entry.is_made for entry in entries] == [True, False]


@pytest.mark.parametrize("definition", [MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["mor", "mor-mdt"])
def test_a_savepoint_above_a_waiting_compaction_stays_readable_after_cleans(definition) -> None:
    """The compaction completes above the savepoint, which does not name its base file; reads as of the savepoint open it."""
    storage, clock = (
        made(definition, rows(("k0", "p0", 1, 1, None), ("k1", "p1", 1, 1, None))),
        ManualClock(NOW_MS, tick_ms=1),
    )
    table = table_of(storage, clock, "writer")
    table.ingest(rows(("k0", "p0", 2, 2, None)))
    planned = table.compaction.plan(threshold=0).instant
    table.ingest(rows(("k0", "p0", 3, 3, None)))
    model = by_key(table)
    savepoint = table.savepoints.create().instant
    table.compaction.execute(instant=planned)
    for version in (4, 5, 6):
        table.ingest(rows(("k0", "p0", version, version, None)))
        table.compaction.run(threshold=0)
    assert table.clean.run(retain=1).deleted > 0
    assert by_key(table, as_of=savepoint) == model
    assert by_key(table, as_of=savepoint, listing="storage") == model
    table.savepoints.restore(savepoint)
    assert by_key(table) == model
    assert verify_table(storage, deep=True).findings == ()
