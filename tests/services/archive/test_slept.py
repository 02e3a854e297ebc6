"""Archivers that die or sleep between manifest and slot: what others do then, and what they may not undo when they wake up."""

from __future__ import annotations

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.errors import Conflict
from hudi_ops.services.archive.manifests import current, publish
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.archived import HistoryPart, manifest_parts
from hudi_ops.timeline.content.history_parts import encode_manifest
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.log_actors import timeline_of
from tests.services.archive.archived_tables import (
    HISTORY,
    archived,
    assert_whole,
    history_of,
    known_times,
    long_table,
)
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, by_key, rows, table_of


def assert_restored(storage: MemoryStorage, clock: ManualClock, model: dict[str, int], story: str = "") -> None:
    """The rows are those of the model, and nothing is damaged; a batch below the savepoint may be in both places."""
    reader = table_of(storage, clock, "reader")
    assert by_key(reader) == by_key(reader, listing="storage") == model, story
    report = verify_table(storage, deep=True, index=True)
    assert {one.invariant for one in report.findings} <= {"archive-begun"}, (story, report.findings)


SLOT = "put_if_absent:.hoodie/.commit_log/0"
DAY_MS = 24 * 3600 * 1000


def died_before_slot(storage: MemoryStorage, clock: ManualClock) -> list[str]:
    """Let an archiver die between manifest and slot; return the instants that are in both places."""
    with pytest.raises(Crash):
        archived(FaultyStorage(storage, DiesBefore(SLOT)), clock, "dead")  # type: ignore[arg-type]
    clock.advance_ms(EXPIRY_MS + 1_000)
    on_timeline = {one.time for one in timeline_of(storage).completed_writes}
    return sorted(on_timeline & {one.time for one in history_of(storage)})


@pytest.mark.parametrize("definition", [DEFINITION, LOGGED_WITH_METADATA], ids=["cow", "mor-mdt"])
def test_a_restore_takes_undone_instants_out_of_the_history_of_a_dead_archiver(definition) -> None:
    storage, clock = long_table(definition)
    both = died_before_slot(storage, clock)
    assert len(both) >= 3
    table = table_of(storage, clock, "user")
    model = by_key(table, as_of=both[1])
    table.savepoints.create(both[1])
    preview = table.savepoints.restore(dry_run=True)
    done = table.savepoints.restore()
    assert {*both[2:]} < {*done.undone} == {*preview.undone}
    assert [one.time for one in history_of(storage)] == both[:2], "undone instants left the history, others stay"
    assert_restored(storage, clock, model)
    table.savepoints.delete(both[1])
    for version in range(1_000, 1_005):
        table_of(storage, clock, "writer").ingest(rows(("k9", "p1", version, version, None)))
        table_of(storage, clock, "writer").metadata.compact() if definition.metadata else None
    times = known_times(storage)
    done_again = archived(storage, clock)
    assert done_again.instants >= 3, done_again.stopped_by
    assert {*times} <= {*known_times(storage)}
    assert not {*done.undone} & {*times}
    assert_whole(storage, clock, {**model, "k9": 1_004})


def test_a_restore_that_dies_anywhere_withdraws_them_in_the_end() -> None:
    """The history changes between the RESTORE and the first deletion."""
    base, clock = long_table(DEFINITION)
    both = died_before_slot(base, clock)
    table = table_of(base, clock, "user")
    model = by_key(table, as_of=both[1])
    table.savepoints.create(both[1])
    for point in (f"put:{HISTORY}/", f"put_if_absent:{HISTORY}/manifest", f"put:{HISTORY}/_version_", "delete:part="):
        later = ManualClock(clock.now_ms(), tick_ms=1)
        storage = base.copy(later)
        with pytest.raises(Crash):
            table_of(FaultyStorage(storage, DiesBefore(point)), later, "first").savepoints.restore()
        later.advance_ms(EXPIRY_MS + 1_000)
        assert by_key(table_of(storage, later, "between")) == model
        table_of(storage, later, "second").savepoints.restore()
        assert [one.time for one in history_of(storage)] == both[:2], point
        assert_restored(storage, later, model, point)


def test_an_archiver_that_sleeps_before_its_slot_is_refused_after_a_restore() -> None:
    storage, clock = long_table(DEFINITION)
    table = table_of(storage, clock, "user")
    target = timeline_of(storage).completed_writes[2].time
    model = by_key(table, as_of=target)

    def restore() -> None:
        table.savepoints.create(target)
        table.savepoints.restore()

    move = MoveBefore(SLOT, restore)
    sleeper = FaultyStorage(storage, move)
    assert archived(sleeper, clock, "sleeper").instants == 0  # type: ignore[arg-type]
    assert move.moved
    assert not [one.time for one in history_of(storage) if one.time > target]
    assert_restored(storage, clock, model)
    table_of(storage, clock, "writer").ingest(rows(("k9", "p1", 1_000, 1_000, None)))
    assert_restored(storage, clock, {**model, "k9": 1_000})


def test_the_next_archiver_finishes_the_batch_of_a_dead_one() -> None:
    storage, clock = long_table(DEFINITION)
    model = by_key(table_of(storage, clock, "reader"))
    both = died_before_slot(storage, clock)
    report = verify_table(storage, deep=True, clock=clock)
    assert {one.severity for one in report.findings} <= {"info"}, "the table is whole"
    done = archived(storage, clock, "second", ArchiveRequest(keep_min=3, keep_max=100))
    assert done.boundary == both[-1]
    assert not {one.time for one in timeline_of(storage)} & {*both}
    assert_whole(storage, clock, model)


def test_a_manifest_without_its_version_is_a_batch_that_was_begun() -> None:
    """A merge of levels would name it otherwise, and its instants would stay in both places."""
    storage, clock = long_table(DEFINITION)
    with pytest.raises(Crash):
        archived(FaultyStorage(storage, DiesBefore(f"put:{HISTORY}/_version_")), clock, "dead")  # type: ignore[arg-type]
    clock.advance_ms(EXPIRY_MS + 1_000)
    storage.put(f"{HISTORY}/manifest_2", storage.get(f"{HISTORY}/manifest_1"))
    storage.put(f"{HISTORY}/manifest_1", encode_manifest(()))
    storage.put(f"{HISTORY}/_version_", b"1")
    assert archived(storage, clock, "second", ArchiveRequest(keep_min=3, keep_max=100)).instants >= 3
    assert version_of(storage) == 2
    assert_whole(storage, clock, by_key(table_of(storage, clock, "reader")))


def version_of(storage: MemoryStorage) -> int:
    return int(storage.get(f"{HISTORY}/_version_"))


def two_archivers(point: str, which: int = 1) -> tuple[MemoryStorage, ManualClock, FaultyStorage, list[str]]:
    """An archiver without its lock sleeps at a point of its second batch, while another one writes and archives."""
    storage, clock = long_table(DEFINITION)
    archived(storage, clock, "earlier", ArchiveRequest(keep_min=6, keep_max=6))
    assert version_of(storage) == 1

    def others() -> None:
        writer = table_of(storage, clock, "writer")
        for version in range(1_000, 1_004):
            writer.ingest(rows(("k9", "p1", version, version, None)))
        archived(storage, clock, "other")

    tried = FaultyStorage(storage.copy(), None)
    archived(tried, ManualClock(clock.now_ms(), tick_ms=1), "sleeper")  # type: ignore[arg-type]
    at = [number for number, found in enumerate(tried.history, 1) if point in found]
    move = MoveBefore.at(at[which - 1], others)
    sleeper = FaultyStorage(storage, move)
    archived(sleeper, clock, "sleeper")  # type: ignore[arg-type]
    assert point in move.moved_at
    return storage, clock, sleeper, known_times(storage)


@pytest.mark.parametrize("point", [f"put_if_absent:{HISTORY}/manifest_2", f"put:{HISTORY}/_version_"])
def test_a_sleeping_archiver_hides_nothing_that_others_archived(point: str) -> None:
    storage, clock, _, times = two_archivers(point)
    newest = max(
        int(info.name.partition("_")[2]) for info in storage.list(HISTORY) if info.name.startswith("manifest_")
    )
    assert version_of(storage) == newest == current(storage, HISTORY).number
    assert len(times) == 1 + 9 + 4, "an instant is in neither place"
    assert_whole(storage, clock, by_key(table_of(storage, clock, "reader")) | {"k9": 1_003})


def test_a_later_version_is_not_put_over() -> None:
    """An archiver that slept before it looked at the version does not put its own: its death would hide what others archived."""
    storage, _, sleeper, _ = two_archivers(f"get:{HISTORY}/_version_", 3)
    assert f"put:{HISTORY}/_version_" not in sleeper.history
    assert version_of(storage) == current(storage, HISTORY).number >= 3


def test_a_history_file_that_no_manifest_names_goes_after_a_day() -> None:
    storage, clock = long_table(DEFINITION)
    with pytest.raises(Crash):
        archived(FaultyStorage(storage, DiesBefore(f"put_if_absent:{HISTORY}/manifest")), clock, "dead")  # type: ignore[arg-type]
    (left,) = (info.path for info in storage.list(HISTORY) if info.name.endswith(".parquet"))
    clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "writer").ingest(rows(("k9", "p1", 1_000, 1_000, None)))
    archived(storage, clock, "second", ArchiveRequest(keep_min=2, keep_max=2))
    assert storage.head(left) is not None, "its archiver may be asleep"
    clock.advance_ms(DAY_MS)
    archived(storage, clock, "third")
    assert storage.head(left) is None
    parts = {part.name for part in manifest_parts(storage, f"{HISTORY}/manifest_1")}
    assert parts == {info.name for info in storage.list(HISTORY) if info.name.endswith(".parquet")}


def test_a_manifest_that_would_add_a_missing_file_is_refused() -> None:
    storage, clock = long_table(DEFINITION)
    archived(storage, clock)
    before = current(storage, HISTORY)
    added = HistoryPart("20300101000000000_20300101000000001_0.parquet", 1)
    with pytest.raises(Conflict, match="was deleted before a manifest named it"):
        publish(storage, HISTORY, lambda parts: (*parts, added))
    assert current(storage, HISTORY) == before


def test_an_archiver_that_slept_for_a_day_does_not_name_a_file_that_is_gone() -> None:
    storage, clock = long_table(DEFINITION)
    model = by_key(table_of(storage, clock, "reader"))

    def others() -> None:
        table_of(storage, clock, "writer").ingest(rows(("k9", "p1", 1_000, 1_000, None)))
        clock.advance_ms(DAY_MS + 1_000)
        for info in storage.list(HISTORY):
            storage.delete(info.path)  # as if another archiver took it for a leftover

    move = MoveBefore(f"head:{HISTORY}/", others)
    archived(FaultyStorage(storage, move), clock, "sleeper")  # type: ignore[arg-type]
    assert move.moved
    assert_whole(storage, clock, model | {"k9": 1_000})
