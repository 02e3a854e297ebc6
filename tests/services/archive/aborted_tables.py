"""A table with aborted plans below what archiving keeps, and what must be so of their records."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.services.archive.aborted import archive_aborted
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.cancel.aborted import aborted_path
from hudi_ops.timeline.cancel.aborted_history import FOLDER
from tests.definitions import Definition
from tests.fault_plans import DiesBefore
from tests.protocol.log_actors import session_of, timeline_of
from tests.services.archive.archived_tables import archived
from tests.tables import LOGGED_WITH_METADATA, MERGE_ON_READ, NOW_MS, made, rows, table_of

Made = tuple[MemoryStorage, tuple[str, ...]]


def write(storage: Storage, clock: ManualClock, *values: int) -> None:
    """Let a write complete for each value."""
    for value in values:
        table_of(storage, clock, "writer", metadata_compact_after=3).ingest(rows(("k9", "p1", value, value, None)))


def abort(storage: MemoryStorage, clock: ManualClock, why: str, *, begun: bool = False) -> str:
    """Plan a compaction and cancel it; `begun`: an executor wrote a file and died. Returns the plan's instant."""
    planned = table_of(storage, clock, "planner").compaction.plan(cancel="cancellable").instant
    assert planned is not None
    if begun:
        dying = FaultyStorage(storage, DiesBefore("put:.hoodie/.commit_log/payload"))
        with suppress(Crash):
            table_of(dying, clock, "executor").compaction.execute()
        clock.advance_ms(EXPIRY_MS + 1_000)
    done = table_of(storage, clock, "user").cancel(planned, why)
    assert (done.state, bool(done.files)) == ("aborted", begun)
    return planned


@cache
def _made(definition: Definition, archived_before: bool) -> Made:
    storage, clock = made(definition, after=3), ManualClock(NOW_MS, tick_ms=1)
    plans = []
    if archived_before:
        write(storage, clock, 1, 2)
        plans.append(abort(storage, clock, "reason 0"))
        write(storage, clock, *range(3, 12))
        table_of(storage, clock, "archiver").archive.run(keep_min=3, keep_max=4)
        assert timeline_of(storage).aborted == ()
    write(storage, clock, 12, 13)
    plans.append(abort(storage, clock, "reason 1", begun=True))
    write(storage, clock, 14)
    plans.append(abort(storage, clock, "reason 2"))
    clock.advance_ms(EXPIRY_MS + 1_000)
    write(storage, clock, *range(15, 22))
    return storage, tuple(plans)


def aborted_table(
    definition: Definition = LOGGED_WITH_METADATA, *, archived_before: bool = False
) -> tuple[MemoryStorage, ManualClock, tuple[str, ...]]:
    """A table whose swept plans lie among old writes, the clock, and the plans; the first one's record may be archived already."""
    storage, plans = _made(definition, archived_before)
    clock = ManualClock(NOW_MS + 3_600_000, tick_ms=1)
    return storage.copy(clock), clock, plans


@cache
def _passed() -> Made:
    storage, clock, plans = aborted_table(MERGE_ON_READ, archived_before=True)
    path = aborted_path(timeline_of(storage), timeline_of(storage).aborted[0])
    with suppress(Crash):
        archived(FaultyStorage(storage, DiesBefore(f"get:{path}")), clock, "dead")
    assert len(timeline_of(storage).aborted) == 2
    return storage, plans


def passed_table() -> tuple[MemoryStorage, ManualClock, tuple[str, ...]]:
    """A table whose archiver died right before it moved two records; the history has the first plan's."""
    storage, plans = _passed()
    clock = ManualClock(NOW_MS + 3_600_000, tick_ms=1)
    return storage.copy(clock), clock, plans


def moved(storage: Storage, clock: ManualClock, actor: str = "first") -> int:
    """Move the records that may leave the timeline, in a process of its own; returns their number."""
    session = session_of(storage, clock, actor)
    return archive_aborted(session, session.loader.load())


def assert_recorded(storage: MemoryStorage, clock: ManualClock, plans: tuple[str, ...], story: str = "") -> None:
    """Each plan is aborted for whoever asks, with its reason."""
    table = table_of(storage, clock, "asker")
    listed = {row.instant: (row.state, row.reason) for row in table.plans(aborted=True)}
    for plan in plans:
        (row,) = table.plans(plan)
        assert listed[plan] == (row.state, row.reason), story
        assert (row.action, row.state, row.reason[:7]) == ("compaction", "aborted", "reason "), story
    for plan in plans:
        done = table.cancel(plan)
        assert (done.state, done.action, done.reason[:7]) == ("aborted", "compaction", "reason "), story


def assert_archived(storage: MemoryStorage, clock: ManualClock, plans: tuple[str, ...], story: str = "") -> None:
    """All records are in one file of the history, and nothing of them is on the timeline."""
    assert timeline_of(storage).aborted == (), story
    assert [info.path for info in storage.list() if ".aborted" in info.name] == [], story
    assert len(storage.list(FOLDER)) == 1, story
    assert_recorded(storage, clock, plans, story)
