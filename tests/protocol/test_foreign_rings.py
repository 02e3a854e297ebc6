"""Hash rings after Apache Hudi removed, overwrote or undid: no write goes to a replaced group, and a repair leads out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.index.ring import INITIAL
from hudi_ops.index.ring_files import RingReader, committed_path, ring_path
from hudi_ops.services.base.slices import live_slices
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.names import instant_of_ms
from tests.tables import MERGE_ON_READ, NOW_MS, TIMELINE, by_key, made, rows, table_of

CONSISTENT = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=4)
P0 = "part=p0"
Opened = Callable[[MemoryStorage], Table]


def batch(value: int, keys: str = "abcdefgh") -> pa.Table:
    return rows(*((key, "p0", value, value, None) for key in keys))


@pytest.fixture
def opened() -> Opened:
    clock = ManualClock(NOW_MS + 3_600_000)
    return lambda storage: table_of(storage, clock, "writer")


def foreign_replace(table: Table, operation: str, *, moved: bool = False, path: str = P0) -> str:
    """Replace all groups of a partition as Apache Hudi does, which leaves the ring; `moved`: their files become new groups."""
    session, storage = table._session, table.context.storage
    state = session.loader.load()
    ids, stats = [], []
    time, done = (instant_of_ms(NOW_MS + 60_000 + n) for n in (0, 500))
    for number, slice_ in enumerate(live_slices(session, state, [path])):
        ids.append(slice_.file_id)
        if moved:
            assert slice_.base is not None
            written = next(
                stat
                for one in state.timeline.completed_writes
                for stat in session.commits.metadata(state.timeline, one).stats
                if stat.path == slice_.base.path
            )
            file_id = f"{number:08d}-0000-0000-0000-000000000000-0"
            name = f"{path}/{file_id}_0-0-0_{time}.parquet"
            storage.put(name, storage.get(slice_.base.path))
            stats.append(replace(written, path=name, file_id=file_id))
    said = CommitMetadata(operation=operation, replaced={path: tuple(ids)}, stats=tuple(stats))
    for name in (f"{time}.replacecommit.requested", f"{time}.replacecommit.inflight"):
        storage.put(f"{TIMELINE}/{name}", b"")
    storage.put(f"{TIMELINE}/{time}_{done}.replacecommit", said.to_bytes())
    return time


def findings(table: Table) -> set[tuple[str, str]]:
    found = table.verify(deep=True).findings
    return {(one.severity, one.invariant) for one in found if one.invariant.startswith("ring-")}


def test_removal_by_apache_hudi_stops_writes_until_the_ring_is_renewed(opened: Opened) -> None:
    storage = made(CONSISTENT, batch(1))
    time = foreign_replace(opened(storage), "DELETE_PARTITION")
    before = {info.path for info in storage.list(P0)}
    with pytest.raises(Corrupt, match=f"delete_partition of another writer, {time}") as raised:
        opened(storage).ingest(batch(2, "ab"))
    assert "hudi-ops repair TABLE ring-replaced" in raised.value.next_step
    assert {info.path for info in storage.list(P0)} == before
    assert findings(opened(storage)) == {("warning", "ring-replaced")}
    (done,) = opened(storage).repair("ring-replaced").repairs
    assert done.is_done, done.note
    assert findings(opened(storage)) == set()
    opened(storage).ingest(batch(2, "ab"))
    assert by_key(opened(storage)) == {"a": 2, "b": 2}
    assert opened(storage).repair("ring-replaced").repairs == ()


def test_overwrite_by_apache_hudi_stops_writes_and_is_never_deleted(opened: Opened) -> None:
    storage = made(CONSISTENT, batch(1))
    foreign_replace(opened(storage), "INSERT_OVERWRITE", moved=True)
    before = {info.path for info in storage.list(P0)}
    with pytest.raises(Corrupt, match="insert_overwrite of another writer") as raised:
        opened(storage).ingest(batch(2, "ab"))
    assert "insert_overwrite" in raised.value.next_step
    assert {info.path for info in storage.list(P0)} == before
    assert findings(opened(storage)) == {("error", "ring-replaced")}
    (left,) = opened(storage).repair("ring-replaced").repairs
    assert not left.is_done
    held = opened(storage).read().select(["id", "part", "value", "ts", "_hoodie_is_deleted"])
    assert held.num_rows == 8
    opened(storage).ingest(held, operation="insert_overwrite")
    assert findings(opened(storage)) == set()
    opened(storage).ingest(batch(2, "ab"))
    assert by_key(opened(storage)) == dict.fromkeys("cdefgh", 1) | {"a": 2, "b": 2}


@pytest.mark.parametrize("is_sealed", [False, True])
def test_ring_of_an_undone_removal_does_not_count(opened: Opened, is_sealed: bool) -> None:
    storage = made(CONSISTENT, batch(1))
    table = opened(storage)
    saved = table.savepoints.create().instant
    removed = table.delete_partition("part=p0").instant
    ring = storage.get(ring_path(P0, removed))
    assert storage.head(committed_path(P0, removed)) is None, "Apache Hudi's undo would leave a ring with a commit file"
    table.savepoints.restore(saved)
    storage.put(ring_path(P0, removed), ring)  # as Apache Hudi's restore leaves it
    if is_sealed:
        storage.put(committed_path(P0, removed), b"")
        with pytest.raises(Corrupt, match=f"restore .* undid {removed}") as raised:
            opened(storage).ingest(batch(2, "ab"))
        assert "hudi-ops repair TABLE ring-left" in raised.value.next_step
        assert findings(opened(storage)) == {("error", "ring-left")}
        (done,) = opened(storage).repair("ring-left").repairs
        assert done.is_done, done.note
        assert findings(opened(storage)) == set()
    opened(storage).ingest(batch(2, "ab"))
    state = opened(storage)._session.loader.load()
    ring_now = RingReader.of(storage, state, opened(storage)._session.commits).read(P0)
    assert ring_now is not None
    assert ring_now.instant == INITIAL
    assert by_key(opened(storage)) == dict.fromkeys("cdefgh", 1) | {"a": 2, "b": 2}


def undone_with_its_ring_left(table: Table) -> str:
    """Remove the partition and restore, as Apache Hudi does: it leaves the ring, which counts; return its instant."""
    storage = table.context.storage
    saved = table.savepoints.create().instant
    removed = table.delete_partition("part=p0").instant
    ring = storage.get(ring_path(P0, removed))
    table.savepoints.restore(saved)
    table.savepoints.delete(saved)
    storage.put(ring_path(P0, removed), ring)
    storage.put(committed_path(P0, removed), b"")
    return removed


def test_cleans_keep_the_ring_below_one_that_was_undone_and_repairs_keep_the_last_one(opened: Opened) -> None:
    storage = made(CONSISTENT, batch(1))
    removed = undone_with_its_ring_left(opened(storage))
    for value in range(2, 6):
        opened(storage).ingest(rows(("z", "p1", value, value, None)), operation="insert_overwrite")
    opened(storage).clean.run(retain=1)
    assert storage.head(ring_path(P0, INITIAL)) is not None
    initial = storage.get(ring_path(P0, INITIAL))
    storage.delete(ring_path(P0, INITIAL))
    (left,) = opened(storage).repair("ring-left").repairs
    assert not left.is_done
    assert "no other ring" in left.note
    storage.put(ring_path(P0, INITIAL), initial)
    (done,) = opened(storage).repair("ring-left").repairs
    assert done.is_done, done.note
    assert storage.head(ring_path(P0, removed)) is None
    opened(storage).ingest(batch(2, "ab"))
    assert by_key(opened(storage)) == dict.fromkeys("cdefgh", 1) | {"a": 2, "b": 2, "z": 5}


@pytest.mark.parametrize("is_partitioned", [True, False])
def test_truncate_renews_the_ring_of_an_emptied_table(opened: Opened, is_partitioned: bool) -> None:
    storage = made(replace(CONSISTENT, partition_by=CONSISTENT.partition_by if is_partitioned else ()), batch(1))
    foreign_replace(opened(storage), "DELETE_PARTITION", path=P0 if is_partitioned else "")
    with pytest.raises(Corrupt, match="delete_partition of another writer"):
        opened(storage).ingest(batch(2, "ab"))
    if is_partitioned:
        assert opened(storage).truncate().instant is not None
    else:
        (done,) = opened(storage).repair("ring-replaced").repairs
        assert done.is_done, done.note
    opened(storage).ingest(batch(2, "ab"))
    assert by_key(opened(storage)) == {"a": 2, "b": 2}


def test_a_refused_write_leaves_nothing_on_the_timeline(opened: Opened) -> None:
    storage = made(CONSISTENT, batch(1))
    foreign_replace(opened(storage), "DELETE_PARTITION")
    before = {info.path for info in storage.list(".hoodie/timeline")} | {
        info.path for info in storage.list(".hoodie/.heartbeat")
    }
    with pytest.raises(Corrupt, match="delete_partition of another writer"):
        opened(storage).ingest(batch(2, "ab"))
    state = opened(storage)._session.loader.load()
    assert state.timeline.pending == ()
    assert {info.path for info in storage.list(".hoodie/.heartbeat")} <= before


def test_a_ring_that_another_program_archives_is_sealed_by_later_writes_or_reported(opened: Opened) -> None:
    storage = made(CONSISTENT, batch(1))
    removed = opened(storage).delete_partition("part=p0").instant
    foreign_replace(opened(storage), "INSERT_OVERWRITE", path="part=p9")
    assert storage.head(committed_path(P0, removed)) is None
    for value in range(2, 14):
        opened(storage).ingest(rows(("z", "p1", value, value, None)))
    assert storage.head(committed_path(P0, removed)) is not None
    opened(storage).ingest(batch(2, "ab"))
    opened(storage).clean.run(retain=1)
    opened(storage).archive.run(keep_min=2, keep_max=3)
    storage.delete(committed_path(P0, removed))  # as Apache Hudi's archive leaves it
    assert findings(opened(storage)) == {("warning", "ring-unsealed")}
    (done,) = opened(storage).repair("ring-unsealed").repairs
    assert done.is_done, done.note
    assert findings(opened(storage)) == set()
