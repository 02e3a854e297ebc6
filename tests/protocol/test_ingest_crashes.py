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

import contextlib
import itertools
import os
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.services.create.create import create_table
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.verify import verify_table
from tests.protocol.crash_table import (
    DEFINITION,
    FIRST,
    JOBS,
    LOCATED_JOBS,
    LOGGED_JOBS,
    METADATA_JOBS,
    OLD,
    START_MS,
    UPSERT,
    Job,
    make_base,
    unaccounted,
    visible,
)

CRASHES = [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
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


def disturbed(
    storage: MemoryStorage,
    source: Path,
    clock: ManualClock,
    actor: str,
    number: int,
    fault: Fault,
    job: Job,
    *,
    only_changes: bool,
) -> str:
    """Run the job with one fault; returns what fired, empty when the run was over before."""
    faulty = FaultyStorage(storage, FaultPlan.at(number, fault), only_mutations=only_changes)
    with contextlib.suppress(Crash):
        job.run(Table(simulated_context(faulty, clock, actor)), source)
    return faulty.fired[0] if faulty.fired else ""


def finish(storage: MemoryStorage, source: Path, clock: ManualClock, actor: str, story: str, job: Job) -> None:
    """Another process runs the job undisturbed, once every dead lease has expired."""
    seen = visible(storage.copy(), clock)
    assert seen in (OLD, job.new), f"{story}: a reader saw {seen}"
    clock.advance_ms(EXPIRY_MS + 1_000)
    done = job.run(Table(simulated_context(storage, clock, actor)), source)
    if job.rows is None and not done:
        # A call that finds nothing to remove may be refused before it looks for leftovers: any write clears them.
        Table(simulated_context(storage, clock, actor)).ingest_folder(str(source))
    assert visible(storage, clock) == job.new, story
    # What a reader saw stays: what had become visible is not done twice.
    assert seen == OLD or not done, f"{story}: done twice"
    assert unaccounted(storage) == [], story
    assert verify_table(storage, deep=True, clock=clock).findings == (), story


@pytest.mark.parametrize(("job", "fault"), sweeps(SWEPT), ids=str)
def test_crash_at_every_storage_operation(source: Path, fault: Fault, job: Job) -> None:
    base, writes = make_base(source, job.rows, job.table_type, job.index, metadata=job.metadata), 0
    for number in itertools.count(1):
        clock, storage = ManualClock(START_MS + 60_000), base.copy()
        story = disturbed(storage, source, clock, "writer", number, fault, job, only_changes=not is_whole(job))
        finish(storage, source, clock, "second", story, job)
        if not story:
            break
        point = story.split()[-1]
        writes += point.startswith(("put:", "put_if_absent:", "delete:"))
    print(f"crash points of one {job}, {fault.name}: {number - 1}, {writes} of them write")
    assert number > job.points or not is_whole(job)
    assert writes >= job.writes


@pytest.mark.parametrize(("job", "fault"), sweeps(TWICE), ids=str)
def test_crash_again_at_every_operation_of_the_recovery(source: Path, fault: Fault, job: Job) -> None:
    runs = 0
    base = make_base(source, job.rows, job.table_type)
    # A prime step visits different kinds of first crash points; the soak visits all of them.
    for first in itertools.count(2, 1 if SOAK else 11 if job is UPSERT else 23):
        clock, crashed = ManualClock(START_MS + 60_000), base.copy()
        story = disturbed(crashed, source, clock, "writer", first, fault, job, only_changes=False)
        if not story:
            break
        for second in itertools.count(1):
            clock, storage = ManualClock(START_MS + 60_000 + EXPIRY_MS + 1_000), crashed.copy()
            again = disturbed(storage, source, clock, "second", second, fault, job, only_changes=not SOAK)
            finish(storage, source, clock, "third", f"{story}, then {again}", job)
            runs += 1
            if not again:
                break
    print(f"crash points of a crashed {job}'s recovery, {fault.name}: {runs}")
    if SOAK:
        assert runs > (300 if job is UPSERT else 2 * job.points)
    else:
        assert runs > (100 if job is UPSERT else 3 * job.writes)


@pytest.mark.parametrize("fault", CRASHES)
def test_crash_at_every_operation_of_create(fault: Fault) -> None:
    for number in itertools.count(1):
        clock = ManualClock(START_MS)
        storage = MemoryStorage("create", clock)
        faulty = FaultyStorage(storage, FaultPlan.at(number, fault))
        with contextlib.suppress(Crash):
            create_table(Table(simulated_context(faulty, clock, "creator"))._session, DEFINITION)
        clock.advance_ms(EXPIRY_MS + 1_000)
        table = Table(simulated_context(storage, clock, "second"))
        create_table(table._session, DEFINITION)
        assert table.read().num_rows == 0
        table.ingest(FIRST)
        assert visible(storage, clock) == OLD
        assert unaccounted(storage) == [], faulty.fired
        if not faulty.fired:
            break
    print(f"crash points of create, {fault.name}: {number - 1}")
    assert number > 15
