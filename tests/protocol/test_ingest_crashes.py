"""Crash each write at every storage operation; every reader then sees the old or the new rows, and running it again completes it.

Method (as SQLite's): run once per operation and kind of crash upon a copy of the same table. After each crash a reader opens what
is left; then, once the dead writer's lease has expired, another process runs the same call, after which the rows are the new ones
and no file is left that no completed instant accounts for. In the second test that other process crashes too, at every one of its
own operations, and a third one finishes.

What a dead process leaves is what it had changed: after one change, before the next, and at every read between them it is the
same. So the plain run visits all operations with one job, with both kinds of crash, and the changes of every other job with one;
`--soak` visits everything with everything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from tests.bounds import SOAK
from tests.definitions import create_table
from tests.protocol.crash_table import (
    FIRST,
    JOBS,
    LOCATED_JOBS,
    LOGGED_JOBS,
    METADATA_JOBS,
    OLD,
    UPSERT,
    Job,
    assert_whole,
    make_base,
    unaccounted,
    visible,
)
from tests.protocol.sweep import CRASHES, JudgedStates, fault_sweep
from tests.tables import DEFINITION, NOW_MS, table_of

RECOVERED = {"upsert", "insert_overwrite", "truncate"}
"""One of each kind: commits, replace commits with files and without. The soak takes all operations."""
SWEPT = [*JOBS, *LOGGED_JOBS, *LOCATED_JOBS, *METADATA_JOBS]
TWICE = [*JOBS, *LOGGED_JOBS] if SOAK else [job for job in JOBS if job.operation in RECOVERED]


def is_whole(job: Job) -> bool:
    """Whether a sweep crashes at reads, too."""
    return SOAK or job is UPSERT


def sweeps(jobs: list[Job]) -> list[tuple[Job, Fault]]:
    """Each job with the kinds of crash that it is swept with."""
    return [(job, fault) for job in jobs for fault in CRASHES if is_whole(job) or fault is Fault.CRASH_AFTER]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


def first(job: Job, source: Path, actor: str = "writer") -> Callable[[FaultyStorage, ManualClock], bool]:
    """The process that goes wrong."""
    return lambda storage, clock: job.run(table_of(storage, clock, actor), source)


def finish(storage: MemoryStorage, source: Path, clock: ManualClock, actor: str, story: str, job: Job) -> None:
    """Another process runs the job undisturbed, once every dead lease has expired."""
    seen = visible(storage.copy(), clock)
    assert seen in (OLD, job.new), f"{story}: a reader saw {seen}"
    clock.advance_ms(EXPIRY_MS + 1_000)
    done = job.run(table_of(storage, clock, actor), source)
    if job.rows is None and not done:
        # A call that finds nothing to remove may be refused before it looks for leftovers: any write clears them.
        table_of(storage, clock, actor).ingest_folder(str(source))
    # What a reader saw stays: what had become visible is not done twice.
    assert seen == OLD or not done, f"{story}: done twice"
    assert_whole(storage, clock, job.new, story)


@pytest.mark.parametrize(("job", "fault"), sweeps(SWEPT), ids=str)
def test_crash_at_every_storage_operation(source: Path, fault: Fault, job: Job) -> None:
    base = make_base(source, job.rows, job.table_type, job.index, metadata=job.metadata)
    only_changes = not is_whole(job)
    points = job.writes if only_changes else job.points
    for left in fault_sweep(
        base, first(job, source), fault, str(job), points=points, writes=job.writes, step=1, only_changes=only_changes
    ):
        finish(left.storage, source, left.clock, "second", left.story, job)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize(("job", "fault"), sweeps(TWICE), ids=str)
def test_crash_again_at_every_operation_of_the_recovery(source: Path, fault: Fault, job: Job) -> None:
    every, judged = JudgedStates(every=True), JudgedStates()
    base = make_base(source, job.rows, job.table_type)
    # A prime step visits different kinds of first crash points; the soak visits all of them.
    step = 1 if SOAK else 11 if job is UPSERT else 23
    for left in fault_sweep(base, first(job, source), fault, str(job), points=1, step=step, first=2, judged=every):
        if not left.story:
            continue
        again = fault_sweep(
            left.storage,
            first(job, source, "second"),
            fault,
            step=1,
            runs=0,  # the floor below counts them all: a crash after the completed file leaves nothing to change
            only_changes=not SOAK,
            clock=lambda: ManualClock(NOW_MS + EXPIRY_MS + 1_000),
            judged=judged,
        )
        for twice in again:
            finish(twice.storage, source, twice.clock, "third", f"{left.story}, then {twice.story}", job)
    print(f"a crashed {job}'s recovery, {fault.name}: {judged.points} points, {len(judged.states)} states")
    if SOAK:
        assert judged.points > (300 if job is UPSERT else 2 * job.points)
    else:
        assert judged.points > (100 if job is UPSERT else 3 * job.writes)
    assert len(judged.states) > judged.points // 3


@pytest.mark.parametrize("fault", CRASHES)
def test_crash_at_every_operation_of_create(fault: Fault) -> None:
    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        create_table(table_of(storage, clock, "creator")._session, DEFINITION)

    for left in fault_sweep(lambda clock: MemoryStorage("create", clock), run, fault, "a creation", points=15, step=1):
        table = Table(left.resume())
        create_table(table._session, DEFINITION)
        assert table.read().num_rows == 0
        table.ingest(FIRST)
        assert visible(left.storage, left.clock) == OLD
        assert unaccounted(left.storage) == [], left.story
