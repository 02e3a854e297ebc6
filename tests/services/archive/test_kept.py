"""What keeps an instant, on real tables: each state stops the archiver, and its end lets it go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.errors import Conflict, Corrupt
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.services.archive.run import archive
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.archived_history import MODEL, PLAIN, made as made_late
from tests.protocol.cleaning import clean
from tests.protocol.log_actors import session_of, timeline_of
from tests.services.archive.archived_tables import (
    HISTORY,
    REQUEST,
    archived,
    assert_whole,
    history_of,
    known_times,
    long_table,
)
from tests.tables import DEFINITION, TIMELINE, WITH_METADATA, by_key, rows, table_of

ALL_BUT_ONE = ArchiveRequest(keep_min=1, keep_max=1)


def stops(storage: MemoryStorage, clock: ManualClock, at: str, why: str) -> None:
    """The archiver stops before the write of that time, for that reason."""
    done = archived(storage, clock)
    assert done.stopped_by.startswith(f"{at_action(storage, at)} {at}: "), done.stopped_by
    assert why in done.stopped_by
    assert timeline_of(storage).start == at
    assert history_of(storage)[-1].time < at


def at_action(storage: MemoryStorage, time: str) -> str:
    found = timeline_of(storage).find(time)
    assert found is not None
    return found.action


def test_a_pending_write_keeps_the_write_before_it() -> None:
    storage, clock = long_table(DEFINITION)
    session = session_of(storage, clock, "pending")
    times = known_times(storage)
    begin(session.ctx, session.loader, "commit")
    for n in range(4):
        table_of(storage, clock, "writer").ingest(rows(("k9", "p1", 100 + n, 100 + n, None)))
    stops(storage, clock, times[-1], "a completed write before it must stay")


def test_a_savepoint_keeps_its_write_and_what_came_later() -> None:
    storage, clock = long_table(DEFINITION)
    times, table = known_times(storage), table_of(storage, clock, "saver")
    table.savepoints.create(times[3])
    stops(storage, clock, times[3], "the savepoint of")
    assert verify_table(storage).findings == ()
    table.savepoints.delete(times[3])
    assert archived(storage, clock, "second").instants == 4


def test_a_savepoint_made_while_the_batch_is_written_refuses_the_batch() -> None:
    storage, clock = long_table(DEFINITION)
    times = known_times(storage)
    other = table_of(storage, clock, "saver")
    between = MoveBefore(f"^put:{HISTORY}/{times[0]}", lambda: other.savepoints.create(times[2]))
    done = archived(FaultyStorage(storage, between), clock, "first")
    assert between.moved
    assert timeline_of(storage).start == times[2]
    assert done.boundary == times[1]
    assert timeline_of(storage).find(times[2], "savepoint") is not None
    assert verify_table(storage).findings == ()


def test_a_hold_keeps_its_instant_until_it_is_released() -> None:
    storage, clock = long_table(DEFINITION)
    times, table = known_times(storage), table_of(storage, clock, "reader")
    hold = table.holds.take(times[2], purpose="an export")
    stops(storage, clock, times[2], "(an export)")
    table.holds.release(hold.id)
    assert archived(storage, clock, "second").instants == 5


def test_the_last_clean_keeps_the_instants_from_its_earliest_on() -> None:
    storage, clock = long_table(DEFINITION)
    times = known_times(storage)
    clean(storage, clock, [], earliest=times[2])
    stops(storage, clock, times[2], "the next clean begins there")


def test_a_replace_commit_waits_until_the_replaced_files_are_gone() -> None:
    storage, clock = long_table(DEFINITION)
    table = table_of(storage, clock, "writer")
    before = {info.path for info in storage.list("part=p0") if info.path.endswith(".parquet")}
    replaced = table.ingest(rows(("k0", "p0", 500, 500, None)), operation="insert_overwrite").instant
    assert replaced is not None
    for n in range(4):
        table.ingest(rows(("k9", "p1", 600 + n, 600 + n, None)))
    model = by_key(table)
    stops(storage, clock, replaced, "of a group that it replaced exists")
    clean(storage, clock, before)
    done = archived(storage, clock, "second", ALL_BUT_ONE)
    assert done.boundary is not None
    assert done.boundary > replaced
    assert by_key(table_of(storage, clock, "after"), listing="storage") == model


def test_a_replace_commit_waits_while_a_clean_that_deleted_its_files_is_pending() -> None:
    """The metadata table names these files until the clean completes: without the replace commit they would be rows again."""
    storage, clock = long_table(WITH_METADATA)
    table = table_of(storage, clock, "writer")
    replaced = table.ingest(rows(("k0", "p0", 900, 900, None)), "insert_overwrite").instant
    for number in range(901, 907):
        table.ingest(rows(("k0", "p0", number, number, None)))
        table.metadata.compact()
    model = by_key(table)
    dying = FaultyStorage(storage, DiesBefore("put:.hoodie/.commit_log/payload"))
    with pytest.raises(Crash):
        table_of(dying, clock, "cleaner").clean.execute(instant=table.clean.plan(retain=1).instant)
    done = archived(storage, clock)
    assert done.boundary < replaced
    assert f"replacecommit {replaced}" in done.stopped_by
    assert by_key(table_of(storage, clock, "reader"), listing="metadata") == model
    clock.advance_ms(EXPIRY_MS + 1_000)
    table.clean.run(retain=1)
    assert archived(storage, clock).boundary >= replaced
    assert_whole(storage, clock, model)


def test_a_metadata_table_that_was_never_compacted_keeps_everything() -> None:
    storage, clock = long_table(WITH_METADATA)
    table = table_of(storage, clock, "builder")
    table.indexing.drop()
    table.indexing.run(partitions=["files"])
    done = archived(storage, clock)
    assert (done.instants, "never compacted" in done.stopped_by) == (0, True)


def test_a_metadata_table_built_while_the_batch_is_written_refuses_the_batch() -> None:
    storage, clock = long_table(WITH_METADATA)
    times, model = known_times(storage), by_key(table_of(storage, clock, "reader"))
    other = table_of(storage, clock, "builder")

    def rebuild() -> None:
        other.indexing.drop()
        other.indexing.run(partitions=["files"])

    between = MoveBefore(f"^put:{HISTORY}/{times[0]}", rebuild)
    done = archived(FaultyStorage(storage, between), clock, "first")
    assert between.moved
    assert done.instants == 0
    assert timeline_of(storage).start == times[0]
    assert_whole(storage, clock, model)


def test_a_rolled_back_write_keeps_the_write_before_it_until_its_files_are_gone() -> None:
    storage, clock = long_table(DEFINITION)
    times = known_times(storage)
    dying = FaultyStorage(storage, DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    with pytest.raises(Crash):
        table_of(dying, clock, "dead").ingest(rows(("k9", "p1", 700, 700, None)))
    (dead,) = (one.time for one in timeline_of(storage).pending)
    left = next(info.path for info in storage.list("part=p1") if dead in info.path)
    body = storage.get(left)
    clock.advance_ms(200_000)
    writer = table_of(storage, clock, "writer")
    for n in range(4):
        writer.ingest(rows(("k9", "p1", 800 + n, 800 + n, None)))
    model = by_key(writer)
    stops(storage, clock, times[-1], "looks once more for files")
    clock.advance_ms(200_000)
    table_of(storage, clock, "sweeper").recover()
    storage.put(left, body)
    stops(storage, clock, times[-1], f"{left} of the undone instant")
    storage.delete(left)
    done = archived(storage, clock, "last", ALL_BUT_ONE)
    assert done.boundary is not None
    assert done.boundary > dead
    assert_whole(storage, clock, model)


def test_a_late_completion_waits_for_the_next_compaction() -> None:
    storage, clock, writer = made_late(replace(PLAIN))
    table = table_of(storage, clock, "writer")
    done = archived(storage, clock, request=ALL_BUT_ONE)
    assert "waits for the next compaction" in done.stopped_by
    assert timeline_of(storage).start == writer.time
    assert by_key(table) == MODEL
    clock.advance_ms(1_000)
    table.compaction.run()
    table.ingest(rows(("k3", "p0", 33, 9, None)))
    done = archived(storage, clock, "second", ALL_BUT_ONE)
    assert timeline_of(storage).find(writer.time) is None
    assert by_key(table) == {**MODEL, "k3": 33}
    assert verify_table(storage, deep=True, index=True).findings == ()


@pytest.mark.parametrize("how", ["clustering", "insert_overwrite_table", "truncate"])
def test_a_late_completion_waits_for_no_group_that_was_replaced(how: str) -> None:
    storage, clock, writer = made_late(replace(PLAIN))
    table = table_of(storage, clock, "writer")
    assert "waits for the next compaction" in archived(storage, clock, request=ALL_BUT_ONE).stopped_by
    clock.advance_ms(1_000)
    if how == "clustering":
        table.clustering.run(sort_by=["value"])
    elif how == "insert_overwrite_table":
        table.ingest(rows(("k0", "p0", 500, 500, None)), how)
    else:
        table.truncate()
    table.ingest(rows(("k3", "p0", 33, 900, None)))
    table.clean.run(policy="versions", retain=1)
    model = by_key(table)
    archived(storage, clock, "second", ALL_BUT_ONE)
    assert timeline_of(storage).find(writer.time) is None
    assert by_key(table, listing="storage") == model
    assert verify_table(storage, deep=True, index=True).findings == ()


def test_a_foreign_archiver_that_took_an_instant_meanwhile_makes_the_batch_begin_anew() -> None:
    storage, clock = long_table(DEFINITION)
    times, model = known_times(storage), by_key(table_of(storage, clock, "reader"))
    archived(storage, clock, "first", ArchiveRequest(keep_min=8, keep_max=8))
    other = storage.copy(clock)
    archived(other, clock, "foreign", ArchiveRequest(keep_min=6, keep_max=6))

    def take() -> None:
        for info in other.list_folder(HISTORY).files:
            storage.put(info.path, other.get(info.path))
        for info in storage.list_folder(TIMELINE).files:
            if other.head(info.path) is None:
                storage.delete(info.path)

    between = MoveBefore(f"^put:{HISTORY}/{times[2]}", take)
    archived(FaultyStorage(storage, between), clock, "second")
    assert between.moved
    assert known_times(storage) == times
    found = [one.time for one in history_of(storage)]
    assert found == sorted(set(found))
    assert by_key(table_of(storage, clock, "after")) == model


def _after_one_batch() -> tuple[MemoryStorage, ManualClock, str]:
    storage, clock = long_table(DEFINITION)
    archived(storage, clock, "first", ArchiveRequest(keep_min=6, keep_max=6))
    (part,) = (info.path for info in storage.list_folder(HISTORY).files if info.path.endswith(".parquet"))
    return storage, clock, part


def test_a_manifest_that_names_a_missing_file_is_reported_and_nothing_changes() -> None:
    storage, clock, part = _after_one_batch()
    storage.delete(part)
    before = [info.path for info in storage.list("")]
    with pytest.raises(Corrupt, match="names a file that does not exist"):
        archived(storage, clock, "second")
    assert [info.path for info in storage.list("")] == before


def test_a_truncated_history_file_is_reported_where_it_is_read() -> None:
    storage, _, part = _after_one_batch()
    storage.put(part, storage.get(part)[:100])
    with pytest.raises(Corrupt, match="cannot be read"):
        load_history(storage, load_config(storage))
    assert "history-broken" in {one.invariant for one in verify_table(storage).findings}


@pytest.mark.parametrize("version", [b"", b"x", b"1\n", None])
def test_a_bad_version_file_is_healed(version: bytes | None) -> None:
    storage, clock, _ = _after_one_batch()
    times = known_times(storage)
    if version is None:
        storage.delete(f"{HISTORY}/_version_")
    else:
        storage.put(f"{HISTORY}/_version_", version)
    archived(storage, clock, "second")
    assert storage.get(f"{HISTORY}/_version_") == b"2"
    assert known_times(storage) == times


def test_a_version_that_names_no_manifest_is_reported() -> None:
    storage, clock, _ = _after_one_batch()
    storage.put(f"{HISTORY}/_version_", b"7")
    with pytest.raises(Corrupt, match="names a manifest that does not exist"):
        archived(storage, clock, "second")


@pytest.mark.parametrize(
    "body",
    [
        b'{"files": [',
        b'{"files": [{"fileName": "20200101000000000_20200101000000001_0.parquet", "fileLen": 1}]}',
        b'{"files": []}',
    ],
    ids=["half", "names a missing file", "loses what was archived"],
)
def test_a_leftover_manifest_of_no_use_is_replaced(body: bytes) -> None:
    storage, clock, _ = _after_one_batch()
    times = known_times(storage)
    storage.put(f"{HISTORY}/manifest_2", body)
    archived(storage, clock, "second")
    assert known_times(storage) == times
    assert storage.get(f"{HISTORY}/_version_") == b"2"


def test_a_leftover_manifest_that_is_whole_is_kept() -> None:
    storage, clock, _ = _after_one_batch()
    other = storage.copy(clock)
    archived(other, clock, "dead", ArchiveRequest(keep_min=5, keep_max=5))
    times = known_times(storage)
    for info in other.list_folder(HISTORY).files:
        if not info.path.endswith("_version_"):
            storage.put(info.path, other.get(info.path))
    archived(storage, clock, "second")
    assert storage.get(f"{HISTORY}/_version_") == b"3"
    assert known_times(storage) == times
    found = [one.time for one in history_of(storage)]
    assert found == sorted(set(found)), "no instant is in the history twice"


def test_archivers_that_try_again_and_again_give_up(monkeypatch) -> None:
    storage, clock = long_table(DEFINITION)

    def refuse(*_: object) -> None:
        raise Conflict("changed")

    monkeypatch.setattr("hudi_ops.services.archive.run.refuse_changed", refuse)
    with pytest.raises(Conflict, match="changed"):
        archive(session_of(storage, clock, "first"), REQUEST)
    assert history_of(storage) == ()


def test_files_that_cannot_go_yet_do_not_keep_the_archiver_busy() -> None:
    storage, clock = long_table(DEFINITION)
    times = known_times(storage)
    before = {info.path: storage.get(info.path) for info in storage.list_folder(TIMELINE).files}
    archived(storage, clock)
    for path, body in before.items():
        if times[1] in path or (times[2] in path and not path.endswith(".commit")):
            storage.put(path, body)
    archived(storage, clock, "second")
    assert timeline_of(storage).start == times[1], "the pending one would be before the start"
    assert storage.get(f"{HISTORY}/_version_") == b"1"
    for info in storage.list_folder(TIMELINE).files:
        if times[2] in info.name:
            storage.delete(info.path)
    archived(storage, clock, "third")
    assert timeline_of(storage).start == times[-3]


def test_a_dropped_metadata_table_is_built_again_though_its_timeline_holds_archived_instants() -> None:
    """The metadata table's timeline is archived after the data table's; a rebuild that dies in between leaves it as it is."""
    storage, clock = long_table(WITH_METADATA)
    table = table_of(storage, clock, "builder")
    model = by_key(table)
    table.metadata.compact()
    dying = FaultyStorage(storage, DiesBefore("put_if_absent:.hoodie/metadata/.hoodie/timeline/history"))
    with pytest.raises(Crash):
        archived(dying, clock)
    clock.advance_ms(EXPIRY_MS + 1_000)
    archived_times = {one.time for one in history_of(storage)}
    assert archived_times & {one.time for one in load_metadata_timeline(storage)}
    dying = FaultyStorage(storage, DiesBefore("delete:.hoodie/metadata/"))
    with pytest.raises(Crash):
        table_of(dying, clock, "rebuilder").indexing.run(rebuild=True)
    clock.advance_ms(EXPIRY_MS + 1_000)
    assert not load_config(storage).metadata_partitions
    table_of(storage, clock, "next").indexing.run()
    assert "files" in load_config(storage).metadata_partitions
    assert_whole(storage, clock, model)
