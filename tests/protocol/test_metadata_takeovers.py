"""Compactions that somebody left between the metadata table's commit and their own, and that another executor takes over."""

from __future__ import annotations

import pytest

from hudi_ops.commit.decide import takeover
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Cancelled
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.writer.commit import apply_delta, undo_delta
from hudi_ops.metadata.writer.delta import make_delta
from hudi_ops.read.plan import Opened
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from hudi_ops.timeline.names import inflight_name, instant_of_ms, ms_of_instant
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.slices import list_table
from tests.bounds import SOAK
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import faults_of, make_table, metadata_files, read_rows, table_of
from tests.protocol.sweep import fault_sweep
from tests.tables import LOGGED_WITH_METADATA, NOW_MS

STAGES = "3-41-97"
"""In names of Apache Hudi's: the number of a stage is above any epoch of ours."""


def planned() -> tuple[MemoryStorage, str]:
    storage = make_table(LOGGED_WITH_METADATA)
    plan = table_of(storage, ManualClock(NOW_MS - 1_000), "planner").compaction.plan()
    assert plan.instant is not None
    return storage, plan.instant


def left_by_apache_hudi(storage: MemoryStorage, instant: str) -> None:
    """Inflight, base files and the delta of all of them, complete; no markers, no heartbeat, no completed file."""
    storage.put(timeline_of(storage).path(inflight_name(instant, "compaction")), b"")
    opened = Opened.of(storage)
    made: dict[str, dict[str, int]] = {}
    for one in visible_slices(opened.config, opened.timeline, opened.commits, list_table(storage, opened.config)):
        if one.logs and one.base is not None:
            body, name = storage.get(one.base.path), f"{one.file_id}_{STAGES}_{instant}.parquet"
            storage.put(f"{one.partition_path}/{name}", body)
            made.setdefault(one.partition_path, {})[name] = len(body)
    records = files_records({path: FileChanges(added=files) for path, files in made.items()}, version=9)
    delta = make_delta([records], {MetadataPartition.FILES: 1}, instant=instant, version=9, token=STAGES)
    apply_delta(storage, delta, instant_of_ms(ms_of_instant(instant) + 400))


def execute(storage, clock: ManualClock, actor: str, instant: str) -> None:
    table_of(storage, clock, actor).compaction.execute(instant=instant, abandoned=True)


def refuse_left(storage: MemoryStorage, clock: ManualClock, instant: str, rows: dict[str, int], story: str) -> None:
    """One delta, ours, and nothing in the tables that is not on storage, or says something else than it."""
    assert read_rows(storage, clock) == rows, story
    assert [one for one in faults_of(storage, clock) if one.invariant != "states-missing"] == [], story
    assert [one.time for one in load_metadata_timeline(storage) if one.is_completed].count(instant) == 1, story
    assert [name for name in metadata_files(storage, STAGES) if instant in name] == [], story


def test_the_delta_of_whoever_began_it_goes_with_its_files() -> None:
    storage, instant = planned()
    clock = ManualClock(NOW_MS, tick_ms=1)
    rows = read_rows(storage, clock)
    left_by_apache_hudi(storage, instant)
    assert read_rows(storage, clock) == rows
    execute(storage, clock, "taker", instant)
    refuse_left(storage, clock, instant, rows, "")


@pytest.mark.parametrize("is_foreign", [True, False], ids=["apache hudi's", "ours"])
def test_a_taker_that_dies_leaves_it_to_the_next_one(is_foreign: bool) -> None:
    base, instant = planned()
    rows = read_rows(base, ManualClock(NOW_MS))
    if is_foreign:
        left_by_apache_hudi(base, instant)
    # Every eighth change: after the slot, the clearing, and the delta are among them.
    for left in fault_sweep(
        base,
        lambda storage, clock: execute(storage, clock, "first", instant),
        Fault.CRASH_AFTER,
        "a takeover",
        points=20,
        step=1 if SOAK else 8,
        only_changes=True,
    ):
        assert read_rows(left.storage, left.clock) == rows, left.story
        left.clock.advance_ms(EXPIRY_MS + 1_000)
        execute(left.storage, left.clock, "second", instant)
        refuse_left(left.storage, left.clock, instant, rows, left.story)


def test_a_taker_that_sleeps_takes_nothing_from_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, instant = planned()
    clock = ManualClock(NOW_MS, tick_ms=1)
    rows = read_rows(storage, clock)
    left_by_apache_hudi(storage, instant)

    def sleeping(storage, instants, check):
        def meanwhile() -> None:
            clock.advance_ms(EXPIRY_MS + 1_000)
            execute(storage, clock, "second", instant)
            check()

        monkeypatch.setattr(takeover, "undo_delta", undo_delta)
        return undo_delta(storage, instants, meanwhile)

    monkeypatch.setattr(takeover, "undo_delta", sleeping)
    with pytest.raises(Cancelled):
        execute(storage, clock, "first", instant)
    refuse_left(storage, clock, instant, rows, "")
