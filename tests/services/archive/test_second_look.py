"""Late files of completed writes: the write stays on the timeline until the second look, and its commit tells them later."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from hudi_ops.commit.recover.sweep import note_path, sweep_again
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.markers import FOLDER, put_marker
from hudi_ops.services.repair.deletion import delete_unnamed
from hudi_ops.services.repair.owners import Left
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.definitions import Definition
from tests.protocol.log_actors import timeline_of
from tests.services.archive.archived_tables import ALL_BUT_ONE, MODEL, archived, assert_whole, settle, write
from tests.services.resize.hand_plans import Wanted, plan_of_nodes, run_plan
from tests.services.resize.ringed_tables import CONSISTENT
from tests.tables import (
    DEFINITION,
    MERGE_ON_READ,
    NOW_MS,
    WITH_METADATA,
    by_key,
    made,
    rows,
    table_of,
)


def resized(table: Table) -> str:
    instant = plan_of_nodes(table, Wanted((0,)))
    run_plan(table, instant)
    return instant


KINDS: dict[str, tuple[Definition, Callable[[Table], str | None]]] = {
    "ingest": (DEFINITION, lambda table: write(table, 20)),
    "clustering": (DEFINITION, lambda table: table.clustering.run(sort_by=["id"]).instant),
    "compaction": (MERGE_ON_READ, lambda table: table.compaction.run(threshold=1).instant),
    "resize": (CONSISTENT, resized),
    "listed": (WITH_METADATA, lambda table: write(table, 20)),
}


@cache
def _completed(kind: str) -> tuple[MemoryStorage, str]:
    definition, act = KINDS[kind]
    storage, clock = (
        made(definition, rows(*((f"k{n}", "p0", n, 1, None) for n in range(8)))),
        ManualClock(NOW_MS, tick_ms=1),
    )
    table = table_of(storage, clock, "writer", metadata_compact_after=1)
    write(table, 10)
    instant = act(table)
    assert instant is not None
    return storage, instant


def completed(kind: str) -> tuple[MemoryStorage, ManualClock, str, str]:
    """A table, its clock, a completed write, and the path of a file that a late task of this write would put."""
    before, instant = _completed(kind)
    clock = ManualClock(NOW_MS + 60_000, tick_ms=1)
    storage = before.copy(clock)
    path = next(info.path for info in storage.list("part=p0") if info.name.endswith(f"_{instant}.parquet"))
    folder, _, name = path.rpartition("/")
    return storage, clock, instant, f"{folder}/{name[:9]}dead{name[13:36]}-0_9-9-9_{instant}.parquet"


@pytest.mark.parametrize("kind", ["ingest", "clustering", "compaction", "resize"])
def test_a_completed_write_stays_on_the_timeline_until_the_second_look(kind: str) -> None:
    storage, clock, instant, path = completed(kind)
    put_marker(storage, instant, path, replaces=False)
    storage.put(note_path(instant, clock.now_ms() + EXPIRY_MS), b"")
    model = settle(storage, clock, 100)
    assert "looks once more for late files of this write" in archived(storage, clock, request=ALL_BUT_ONE).stopped_by
    assert timeline_of(storage).start <= instant
    storage.put(path, b"PAR1")
    assert by_key(table_of(storage, clock, "reader"), listing="storage") == model
    clock.advance_ms(EXPIRY_MS + 1_000)
    archived(storage, clock, "second", ALL_BUT_ONE)
    assert timeline_of(storage).start > instant
    assert storage.head(path) is None
    assert_whole(storage, clock, model)


@pytest.mark.parametrize(
    ("kind", "noted"),
    [("ingest", True), ("clustering", False), ("compaction", True), ("resize", True), ("resize", False)],
)
def test_the_archived_commit_tells_late_files_from_its_own(kind: str, noted: bool) -> None:
    """An archiver that does not know the notes passed the write, or the task announced its file only then."""
    storage, clock, instant, path = completed(kind)
    settle(storage, clock, 100)
    archived(storage, clock, request=ALL_BUT_ONE)
    assert timeline_of(storage).start > instant
    own = next((info.path for info in storage.list("part=p0") if info.name.endswith(f"_{instant}.parquet")), None)
    storage.put(path, b"PAR1")
    put_marker(storage, instant, path, replaces=False)
    if own is not None:
        put_marker(storage, instant, own, replaces=True)
    if noted:
        storage.put(note_path(instant, clock.now_ms() + EXPIRY_MS), b"")
        clock.advance_ms(EXPIRY_MS + 1_000)
    table_of(storage, clock, "sweeper").recover()
    assert storage.head(path) is None
    if not noted:
        storage.put(path, b"PAR1")  # it was announced, and is written once more
        clock.advance_ms(EXPIRY_MS + 1_000)
        table_of(storage, clock, "again").recover()
    assert storage.head(path) is None
    assert storage.list(FOLDER) == []
    assert_whole(storage, clock, {**MODEL, "k0": 103})


def test_a_second_look_at_an_archived_write_counts_the_files_that_it_looks_for() -> None:
    """The bound of one write counts them: a write may have announced thousands."""
    storage, clock, instant, path = completed("ingest")
    settle(storage, clock, 100)
    archived(storage, clock, request=ALL_BUT_ONE)
    for number in range(3):
        put_marker(storage, instant, path.replace("_9-9-9_", f"_{number}-9-9_"), replaces=False)
    storage.put(path.replace("_9-9-9_", "_1-9-9_"), b"PAR1")
    storage.put(note_path(instant, until_ms := clock.now_ms()), b"")
    session = table_of(storage, clock, "sweeper")._session
    assert sweep_again(session, session.loader.load(), instant, [until_ms]) == 3
    assert storage.list(FOLDER) == []
    assert not [info.path for info in storage.list("part=p0") if info.name.endswith(f"-9-9_{instant}.parquet")]


@pytest.mark.parametrize("kind", ["clustering", "compaction", "resize", "listed"])
def test_verify_reports_a_late_file_of_an_archived_write_and_repair_removes_it(kind: str) -> None:
    storage, clock, instant, path = completed(kind)
    body = storage.get(next(info.path for info in storage.list("part=p0") if f"_{instant}." in info.name))
    model = settle(storage, clock, 100)
    archived(storage, clock, request=ALL_BUT_ONE)
    assert timeline_of(storage).start > instant
    storage.put(path, body)
    if kind == "listed":
        table_of(storage, clock, "builder").indexing.run(rebuild=True)
    found = {(one.invariant, one.where) for one in verify_table(storage, deep=True).findings}
    assert found == {("leftover-visible", path)}
    table_of(storage, clock, "user").repair()
    assert storage.head(path) is None
    assert_whole(storage, clock, model)


def test_repair_leaves_a_log_file_below_an_archived_resize_whose_writer_cannot_be_told() -> None:
    """The resize never names it; the write that does may still be on the timeline."""
    storage, clock, instant, path = completed("resize")
    settle(storage, clock, 100)
    archived(storage, clock, request=ALL_BUT_ONE)
    folder, _, name = path.rpartition("/")
    log = f"{folder}/.{name.partition('_')[0]}_{instant}.log.1_0-1-1"
    storage.put(log, b"#HUDI#")
    session = table_of(
        storage, clock, "user"
    )._session  # the repair of one finding, which `verify` has no reason to report here
    with pytest.raises(Left, match="archived resize"):
        delete_unnamed(session, log, abandoned=True)
    assert storage.head(log) is not None
