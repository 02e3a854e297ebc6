"""Interleavings of a sync of the file-system view with other actions, by their numbers in RFC-03's list, and its storage calls.

Each test changes the table by processes of their own, and compares the kept view of one reader with a view built anew.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops import Corrupt
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.kept import keep_view, kept_view
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.sync import synced
from hudi_ops.view.columns.table_view import View, view_of
from tests.definitions import Definition, create_table
from tests.fault_plans import DiesBefore
from tests.protocol.view_memory import stand_ins
from tests.protocol.viewed_table import Played
from tests.tables import (
    BY_HAND,
    DEFINITION,
    LOGGED_WITH_METADATA,
    MERGE_ON_READ,
    START_MS,
    by_key,
    rows,
    table_of,
)
from tests.views import assert_view_is_synced, view_anew


@pytest.mark.parametrize("others", [10, 1_000, 100_000])
@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ, LOGGED_WITH_METADATA], ids=["cow", "mor", "mor-mdt"])
def test_a_sync_lists_the_timeline_once_and_reads_what_completed(definition: Definition, others: int) -> None:
    """Goal: no partition is listed, however many other files the table has."""
    played = Played(definition)
    for count in (1, 3):
        before = played.view()
        before = before.with_files(before.files.added(stand_ins(others)))
        written = [played.write() for _ in range(count)]
        config = load_config(played.storage)
        counted = FaultyStorage(played.storage)
        timeline = load_timeline(counted, config)
        found = synced(replace(before, commits=CommitReader(counted)), counted, config, timeline)
        assert isinstance(found, View)
        calls = [call.partition(":") for call in counted.history]
        assert [operation for operation, _, _ in calls] == ["list_folder"] + ["get"] * count
        assert {time for time in written for _, _, path in calls[1:] if time in path} == {*written}
        anew = view_anew(played.storage)
        assert newest_slices(found.of_partitions(anew.files.partitions)).objects() == newest_slices(anew).objects()
        assert found.files.count == anew.files.count + others


def test_5_an_instant_that_completes_after_the_listing_belongs_to_the_next_sync() -> None:
    played = Played()
    config = load_config(played.storage)
    early = load_timeline(played.storage, config)
    played.write()
    found = kept_view(played.storage, config, early, CommitReader(played.storage))
    assert found is not None
    assert found.timeline == early
    assert played.syncs()


@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ], ids=["cow", "mor"])
def test_6_a_pending_write_that_was_rolled_back_unseen_leaves_nothing(definition: Definition) -> None:
    played = Played(definition)
    dying = FaultyStorage(played.storage, DiesBefore("^put_if_absent:.hoodie/.commit_log"))
    with pytest.raises(Crash):
        table_of(dying, played.clock, "dead", upkeep=BY_HAND).ingest(rows(("kx", "p0", 9, 9, None)))
    assert played.syncs()
    played.clock.advance_ms(3_600_000)
    played.table().recover()
    assert played.syncs()
    played.write()
    assert played.syncs()


def test_7_a_cancelled_clustering_is_never_seen() -> None:
    played = Played()
    planned = played.table().clustering.plan(sort_by=["value"])
    assert planned.instant is not None
    assert played.syncs()
    played.table().cancel(planned.instant)
    played.clock.advance_ms(3_600_000)
    played.table().recover()
    assert played.syncs()
    assert played.table().clustering.run(sort_by=["value"]).instant is not None
    assert played.syncs(), "groups were replaced, and new ones made"


def test_8_a_clean_takes_its_files_out() -> None:
    played = Played()
    for _ in range(6):
        played.write()
    assert played.syncs()
    before = played.view().files.count
    done = played.table().clean.run(retain=1)
    assert done.deleted
    assert played.syncs()
    assert played.view().files.count == before - done.deleted


def test_9_what_was_archived_stays() -> None:
    played = Played()
    for _ in range(8):
        played.write()
    keep_view(played.storage, played.view().settled())
    played.table().clean.run(retain=2)
    played.table().archive.run(keep_min=3, keep_max=3)
    assert played.syncs(), "every archived instant was seen"
    for _ in range(8):
        played.write()
    played.table().clean.run(retain=2)
    played.table().archive.run(keep_min=3, keep_max=3)
    assert not played.syncs(), "instants came and were archived unseen"
    assert played.syncs()


def test_9_a_file_of_which_nothing_tells_any_more_is_looked_for_anew() -> None:
    """A late task left a base file; the view did not ask its commit whether it names it, and then the commit was archived."""
    played = Played()
    written = played.write()
    own = next(file for file in played.view().files["part=p1"] if file.instant == written)
    late = own.path.replace("0000000", "0000001", 1)
    played.storage.put(late, b"PAR1")
    keep_view(played.storage, view_anew(played.storage))
    played.storage.delete(late)
    for _ in range(6):
        played.write()
    assert played.syncs()
    played.table().clean.run(retain=2)
    played.table().archive.run(keep_min=3, keep_max=3)
    assert not played.syncs()
    assert late not in {file.path for file in played.view().files["part=p1"]}


def test_10_a_restore_begins_anew() -> None:
    played = Played()
    saved = played.write()
    played.table().savepoints.create(saved)
    played.write()
    assert played.syncs()
    played.clock.advance_ms(60_000)
    played.table().savepoints.restore(saved)
    assert not played.syncs()
    played.write()
    assert played.syncs()


def test_10_a_completed_write_that_another_program_undid_begins_anew() -> None:
    played = Played()
    undone = played.write()
    assert played.syncs()
    timeline = load_timeline(played.storage, load_config(played.storage))
    for info in list(played.storage.list()):
        if info.path.startswith(f"{timeline.folder}/{undone}") or f"_{undone}." in info.path:
            played.storage.delete(info.path)
    assert not played.syncs()
    assert played.syncs()


def test_10_an_instant_at_the_start_that_was_undone_was_not_archived() -> None:
    played = Played()
    timeline = load_timeline(played.storage, load_config(played.storage))
    first = timeline.find(timeline.start)
    assert first is not None
    played.storage.delete(timeline.path(first.file_name))
    assert not played.syncs()


def test_12_an_instant_that_cannot_be_read_leaves_the_last_view() -> None:
    played = Played()
    written = played.write()
    config = load_config(played.storage)
    timeline = load_timeline(played.storage, config)
    instant = timeline.find(written)
    assert instant is not None
    path = timeline.path(instant.file_name)
    body = played.storage.get(path)
    played.storage.put(path, body[: len(body) // 2])
    with pytest.raises(Corrupt, match=written):
        kept_view(played.storage, config, timeline, CommitReader(played.storage))
    played.storage.put(path, body)
    assert played.syncs(), "the view of before is continued"


def test_18_an_empty_table_has_an_empty_view() -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("empty", clock)
    create_table(table_of(storage, clock, "writer", upkeep=BY_HAND)._session, DEFINITION)
    assert not assert_view_is_synced(storage)
    assert view_anew(storage).files == {}
    table_of(storage, clock, "writer", upkeep=BY_HAND).ingest(rows(("k", "p0", 1, 1, None)))
    assert assert_view_is_synced(storage)


def test_a_table_that_was_dropped_and_made_again_has_another_view() -> None:
    played = Played()
    assert by_key(played.table())
    for info in list(played.storage.list()):
        played.storage.delete(info.path)
    played.clock.advance_ms(60_000)
    create_table(played.table()._session, DEFINITION)
    assert by_key(played.table()) == {}
    played.write()
    assert len(by_key(played.table())) == 1


def test_a_view_by_the_metadata_table_reads_no_commit() -> None:
    played = Played(LOGGED_WITH_METADATA)
    state = played.table()._session.loader.load()
    metadata = open_metadata(played.storage, state.config, state.timeline)
    assert metadata is not None
    listed = open_listing(played.storage, state.config, metadata, "metadata").walk().files
    commits = CommitReader(played.storage)
    found = view_of(state.config, state.timeline, commits, listed, are_named=True)
    assert commits.reads == 0
    assert newest_slices(found).objects() == newest_slices(view_anew(played.storage)).objects()
