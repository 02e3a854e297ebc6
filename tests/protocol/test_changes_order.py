"""Readers of changes beside writers that finish in any order: nothing is passed over, and each guard is needed for that.

The writers touch different partitions, so that neither has to start again. One runs step by step; before one of its storage
operations the other runs whole, and a consumer takes what there is and keeps the checkpoint.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.read import changes
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Folder, NewFiles, new_files
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.log import checkpoint as checkpoints
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.crash_table import make_base
from tests.protocol.overtaken_writers import EVEN, ODD, WORKING, Consumer, overtaken, upsert
from tests.tables import NOW_MS, TIMELINE, table_of


def timeline_of(storage: MemoryStorage) -> Timeline:
    return load_timeline(storage, load_config(storage))


def inversions(storage: MemoryStorage) -> int:
    """Pairs of writes that completed in another order than they were requested."""
    completed = [one.completion_time for one in timeline_of(storage).completed_writes]
    return sum(one > other for one, other in itertools.combinations(completed, 2))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    return make_base(tmp_path_factory.mktemp("source"), None)


def test_a_write_requested_first_and_completed_last_is_given(base: MemoryStorage) -> None:
    out_of_order = 0
    for number in itertools.count(1):
        storage, _, consumer, fired = overtaken(base, number)
        if not fired:
            break
        out_of_order += inversions(storage)
        later = consumer.poll()
        assert consumer.held == EVEN | ODD, number
        assert later in (EVEN, {}), f"{number}: nothing is given twice"
        assert consumer.poll() == {}
    assert number > 24
    assert out_of_order > 10


def test_with_a_fence_rows_come_in_the_order_of_requests(base: MemoryStorage) -> None:
    held_back = 0
    for number in itertools.count(1):
        _, _, consumer, fired = overtaken(base, number, fence=True)
        if not fired:
            break
        held_back += "k1" not in consumer.held or consumer.held["k1"] == 1
        consumer.poll()
        assert consumer.held == EVEN | ODD, number
        given = [time for call in consumer.calls for time in sorted(call)]
        assert given == sorted(given), number
    assert held_back > 10


def test_without_the_fence_they_do_not(base: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "earliest_live", lambda *_: "")
    with pytest.raises(AssertionError):
        test_with_a_fence_rows_come_in_the_order_of_requests(base)


def test_a_writer_that_died_does_not_hold_the_fence(base: MemoryStorage) -> None:
    storage, clock, consumer, _ = overtaken(base, WORKING, fence=True, crash=True)
    assert (timeline_of(storage).pending != (), consumer.held.get("k1")) == (True, 1)
    clock.advance_ms(121_000)
    consumer.poll()
    assert consumer.held == {f"k{i}": i for i in (0, 2, 4, 6)} | ODD


def test_a_neighbour_that_was_rolled_back_changes_nothing(base: MemoryStorage) -> None:
    storage, clock, consumer, _ = overtaken(base, WORKING, crash=True)
    clock.advance_ms(121_000)
    upsert(storage, clock, "next", {"k8": 8})
    assert timeline_of(storage).pending == ()
    assert any(one.kind == "rollback" for one in timeline_of(storage))
    assert consumer.poll() == {"k8": 8}


def test_a_late_write_beside_archived_neighbours_is_given(base: MemoryStorage) -> None:
    storage, _, consumer, _ = overtaken(base, WORKING)
    first, second, late, early = timeline_of(storage).completed_writes
    assert late.completion_time > early.completion_time
    archive(storage, [first.time, second.time, late.time])
    assert timeline_of(storage).completed_writes == (early,)
    assert consumer.poll() == EVEN
    fresh = Consumer(storage, ManualClock(NOW_MS))
    fresh.poll()
    assert (fresh.held, len(fresh.calls[0])) == (EVEN | ODD, 4)


def archive(storage: MemoryStorage, times: list[str]) -> None:
    """As Apache Hudi archives: a file of instants, the manifest, the version; then the files go."""
    timeline = timeline_of(storage)
    instants = [one for time in times for one in timeline.by_time[time]]
    table = pa.table({
        "instantTime": [one.time for one in instants],
        "completionTime": [one.completion_time for one in instants],
        "action": [one.kind for one in instants],
        "metadata": [storage.get(timeline.path(one.file_name)) for one in instants],
        "plan": pa.nulls(len(instants), pa.binary()),
        "version": [1] * len(instants),
    })
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    name = f"{times[0]}_{times[-1]}_0.parquet"
    history = f"{TIMELINE}/history"
    storage.put(f"{history}/{name}", sink.getvalue())
    storage.put(f"{history}/manifest_1", f'{{"files": [{{"fileName": "{name}", "fileLen": 1}}]}}'.encode())
    storage.put(f"{history}/_version_", b"1")
    for info in storage.list_folder(TIMELINE).files:
        if info.name.split(".")[0].split("_")[0] in times:
            storage.delete(info.path)


class TornListing:
    """A storage that lists the timeline in two requests, once; something happens between them."""

    def __init__(self, inner: MemoryStorage, between: Callable[[], str]) -> None:
        self._inner = inner
        self._between: Callable[[], str] | None = between

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list_new(self, prefix: str, known: frozenset[str]) -> NewFiles:
        return new_files(self.list_folder(prefix), known)

    def list_folder(self, prefix: str = "") -> Folder:
        if prefix != TIMELINE or self._between is None:
            return self._inner.list_folder(prefix)
        before, self._between, between = self._inner.list_folder(prefix), None, self._between
        split = between()
        after = self._inner.list_folder(prefix)
        files = [one for one in before.files if one.name < split] + [one for one in after.files if one.name >= split]
        return Folder(tuple(files), after.folders)


def consume_a_torn_listing(base: MemoryStorage) -> dict[str, int]:
    """Both writers run whole while the timeline is listed, and the listing shows the second one only."""
    storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)

    def between() -> str:
        upsert(storage, clock, "even", EVEN)
        upsert(storage, clock, "odd", ODD)
        return timeline_of(storage).completed_writes[-1].time

    torn: Any = TornListing(storage, between)
    consumer = Consumer(torn, clock)
    consumer.poll()
    consumer.poll()
    return consumer.held


def test_a_listing_in_several_requests_passes_over_nothing(base: MemoryStorage) -> None:
    assert consume_a_torn_listing(base) == EVEN | ODD


def test_without_the_second_listing_it_does(base: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def once(storage: Any, config: Any, *, with_leases: bool) -> changes.Seen:
        timeline = load_timeline(storage, config)
        return changes.Seen(timeline, changes.newest_completion(timeline.instants), timeline.start)

    monkeypatch.setattr(changes, "look", once)
    assert consume_a_torn_listing(base) == {f"k{i}": i for i in (0, 2, 4, 6)} | ODD


def test_a_read_from_a_torn_listing_leaves_open_what_it_missed(base: MemoryStorage) -> None:
    storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)

    def between() -> str:
        upsert(storage, clock, "even", EVEN)
        upsert(storage, clock, "odd", ODD)
        return timeline_of(storage).completed_writes[-1].time

    torn: Any = TornListing(storage, between)
    scan = table_of(torn, clock, "reader").scan()
    held = {row["id"]: row["value"] for row in scan.to_arrow().to_pylist()}
    assert held == {f"k{i}": i for i in (0, 2, 4, 6)} | ODD
    later = table_of(storage, clock, "reader").changes(scan.checkpoint)
    assert {row["id"]: row["value"] for row in later.to_arrow().to_pylist()} == EVEN


def complete_below_the_checkpoint(base: MemoryStorage) -> dict[str, int]:
    """A stranger whose clock is behind: its completion time lies below that of a write that was consumed."""
    storage, _, consumer, _ = overtaken(base, WORKING)
    *_, late, early = timeline_of(storage).completed_writes
    path = f"{TIMELINE}/{late.file_name}"
    body = storage.get(path)
    storage.delete(path)
    storage.put(f"{TIMELINE}/{late.time}_{int(early.completion_time) - 1}.commit", body)
    consumer.poll()
    assert consumer.poll() == {}
    return consumer.held


def test_a_completion_below_the_checkpoint_is_given(base: MemoryStorage) -> None:
    assert complete_below_the_checkpoint(base) == EVEN | ODD


def test_a_checkpoint_that_forgets_what_was_pending_loses_it(
    base: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudi_ops.read.checkpoints.still_open", lambda *_: ())
    assert complete_below_the_checkpoint(base) == {f"k{i}": i for i in (0, 2, 4, 6)} | ODD


def test_a_write_taken_back_after_it_was_consumed_is_an_error(base: MemoryStorage) -> None:
    storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)
    consumer = Consumer(storage, clock)
    upsert(storage, clock, "odd", ODD)
    consumer.poll()
    for info in storage.list_folder(TIMELINE).files:
        if info.name.startswith(timeline_of(storage).completed_writes[-1].time):
            storage.delete(info.path)
    with pytest.raises(InvalidRequest, match="was undone by") as caught:
        consumer.poll()
    assert "checkpoint of that read" in caught.value.next_step


def test_of_another_table_is_an_error(base: MemoryStorage, tmp_path: Path) -> None:
    storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)
    consumer = Consumer(storage, clock)
    consumer.poll()
    assert consumer.checkpoint is not None
    one = checkpoints.Checkpoint.decode(consumer.checkpoint)
    consumer.checkpoint = checkpoints.Checkpoint(one.completed, one.instant, "another", one.open).encode()
    with pytest.raises(InvalidRequest, match="another table"):
        consumer.poll()
