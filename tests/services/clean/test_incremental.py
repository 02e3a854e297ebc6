"""What a clean looks at: partitions in which a slice may have been superseded, and nothing under the lock.

By the end of each history a full clean by the same policy finds no file that the incremental ones left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lock.locks import LockProvider
from hudi_ops.config.requests import CleanRequest
from hudi_ops.errors import Conflict
from hudi_ops.services.base.publish import Draft, publish_plan
from hudi_ops.services.clean.earlier import HELD_BACK_KEY, decode_held_back
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import CleanResult, read_result
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.fault_plans import MoveBefore
from tests.protocol.cleaning import clean as hudi_clean
from tests.protocol.log_actors import session_of, timeline_of
from tests.services.clean.cleaned import Judged, data_files, judged
from tests.tables import (
    BY_HAND,
    DEFINITION,
    LOGGED_WITH_METADATA,
    MERGE_ON_READ,
    START_MS,
    TIMELINE,
    WITH_METADATA,
    by_key,
    made,
    rows,
    table_of,
)

HOUR_MS = 3_600_000


class WatchesLock:
    """A plan without faults that notes the operations under the table lock."""

    def __init__(self) -> None:
        self.locks: LockProvider | None = None
        self.under_lock: list[str] = []

    def fault_at(self, number: int, point: str) -> Fault | None:
        if self.locks is not None and self.locks.holder() is not None:
            self.under_lock.append(point)
        return None


def listed(history: Sequence[str]) -> list[str]:
    """Partitions that were listed."""
    return [
        one.removeprefix("list_folder:") for one in history if one.startswith("list_folder:") and ".hoodie" not in one
    ]


def leaves_nothing(table: Judged, **policy) -> None:
    counts = table.table.clean.explain(**policy).counts
    assert counts["planned"] == 0, counts


def test_only_partitions_that_writes_touched_are_listed() -> None:
    table = judged()
    batch = rows(*((f"k{n}", f"p{n}", 0, 0, None) for n in range(12)))
    table.table.ingest(batch)
    for _ in range(4):
        table.write(0, 1)
    assert table.table.clean.run(retain=2).deleted > 0
    for _ in range(3):
        table.write(0)
    faulty = FaultyStorage(table.storage)
    done = table_of(faulty, table.clock, "cleaner").clean.run(retain=2)
    assert done.deleted > 0
    # "" is the root, of which nothing below is listed.
    assert set(listed(faulty.history)) == {"part=p0", "part=p1"}, "p1 was written below the new earliest instant"
    leaves_nothing(table, retain=2)
    full = FaultyStorage(table.storage)
    table_of(full, table.clock, "cleaner").clean.plan(retain=2, full=True)
    assert len(set(listed(full.history))) > 12


@pytest.mark.parametrize(
    "partitions", [10, 100, pytest.param(1_000, marks=pytest.mark.full("moves gigabytes or thousands of files"))]
)
def test_calls_do_not_grow_with_the_partitions(partitions: int) -> None:
    """A clean of the same files costs the same calls, whatever else is in the table; none lists a partition under the lock."""
    clock = ManualClock(START_MS, tick_ms=1)
    many = pa.concat_tables([rows((f"k{n}", f"p{n}", 0, 0, None)) for n in range(partitions)])
    storage = made(replace(DEFINITION, buckets=1), many, clock=clock)
    table = table_of(storage, clock, "writer")
    for version in range(1, 5):
        table.ingest(rows(*((f"k{n}", f"p{n}", version, version, None) for n in range(4))))
    table.clean.run(retain=2)
    for version in range(5, 8):
        table.ingest(rows(*((f"k{n}", f"p{n}", version, version, None) for n in range(4))))
    watch = WatchesLock()
    faulty = FaultyStorage(storage, watch)
    cleaner = table_of(faulty, clock, "cleaner")
    watch.locks = cleaner._session.ctx.locks
    assert cleaner.clean.run(retain=2).deleted == 12
    assert set(listed(faulty.history)) == {f"part=p{n}" for n in range(4)}
    assert len(faulty.history) <= CALLS
    assert watch.under_lock
    assert not listed(watch.under_lock), "a partition was listed under the lock"


CALLS = 114
"""Storage calls of planning and executing a clean of 12 files in 4 partitions: 111, with 10 partitions or 1,000."""


def test_a_process_reads_the_metadata_table_once_unless_a_full_clean_is_asked_for() -> None:
    table = judged(WITH_METADATA, 4)
    faulty = FaultyStorage(table.storage)
    cleaner = table_of(faulty, table.clock, "cleaner")

    def explained(**policy: bool) -> tuple[dict[str, int], list[str]]:
        begun = len(faulty.history)
        counts = cleaner.clean.plan(retain=2, dry_run=True, **policy).counts
        calls = faulty.history[begun:]
        return counts, [*listed(calls), *(one for one in calls if ".hoodie/metadata" in one)]

    assert explained()[1]
    table.write(0, 1)
    counts, looks = explained()
    assert counts["planned"] > 0
    assert looks == []
    found, looks = explained(full=True)
    assert found == counts
    assert looks != []


def test_held_back_files_are_named_and_looked_at_again() -> None:
    table = judged(MERGE_ON_READ, 3)
    held = table.write(*range(4))
    table.table.savepoints.create(held)
    for _ in range(4):
        table.write(*range(4))
        table.compact()
    first = table.table.clean.run(retain=1)
    assert first.held_back > 0
    named = _held_back(table)
    assert sum(map(len, named.values())) == first.held_back
    # While the savepoint stays its partitions are not listed for its sake.
    for _ in range(3):
        table.write(0)
        table.compact()
    faulty = FaultyStorage(table.storage)
    second = table_of(faulty, table.clock, "cleaner").clean.run(retain=1)
    assert second.deleted > 0
    assert second.held_back == first.held_back
    assert _held_back(table) == named
    for _ in range(3):
        table.write(0)
        table.compact()
    faulty = FaultyStorage(table.storage)
    assert table_of(faulty, table.clock, "cleaner").clean.run(retain=1).deleted > 0
    assert "part=p1" not in listed(faulty.history)
    # Nothing touches the other partition any more: only the names lead there.
    table.table.savepoints.delete(held)
    table.write(0)
    assert table.table.clean.run(retain=1).deleted >= first.held_back
    assert not {name for names in named.values() for name in names} & {
        path.rpartition("/")[2] for path in table.files()
    }
    leaves_nothing(table, retain=1)


def _held_back(table: Judged) -> dict[str, tuple[str, ...]]:
    timeline = timeline_of(table.storage)
    clean = [one for one in timeline if one.kind == "clean" and one.is_completed][-1]
    result = read_result(table.storage, timeline, clean)
    assert isinstance(result, CleanResult)
    return decode_held_back(result.extra[HELD_BACK_KEY], "")


def test_a_clean_of_apache_hudi_in_between_loses_no_name() -> None:
    table = judged(DEFINITION, 3)
    held = table.write(*range(4))
    table.table.savepoints.create(held)
    for _ in range(4):
        table.write(*range(4))
    first = table.table.clean.run(retain=2)
    assert first.held_back > 0
    newest = [one.time for one in timeline_of(table.storage).completed_writes][-1]
    hudi_clean(table.storage, table.clock, [], earliest=newest)
    table.table.savepoints.delete(held)
    table.write(0)
    table.write(0)
    assert table.table.clean.run(retain=1).deleted >= first.held_back
    leaves_nothing(table, retain=1)


@pytest.mark.parametrize("definition", [DEFINITION, WITH_METADATA], ids=["plain", "metadata-behind"])
def test_a_file_that_apache_hudi_failed_to_delete_goes_with_the_next_clean(definition) -> None:
    """The view that the process keeps lacks the file, which the other clean names; storage has it."""
    table = judged(definition, 4)
    assert by_key(table.table) == table.rows, "the process keeps a view"
    old = min(table.files(), key=lambda path: path.rpartition("_")[2])
    body = table.storage.get(old)
    hudi_clean(table.storage, table.clock, [old], earliest=min(table.past), told="failed")
    table.storage.put(old, body)
    if definition.metadata:
        begun, done = (instant_of_ms(table.clock.now_ms()) for _ in range(2))
        write = CommitMetadata(operation="INSERT")
        table.storage.put(f"{TIMELINE}/{begun}_{done}.commit", write.to_bytes())
    chosen = table.table.clean.plan(retain=1, dry_run=True).verdicts
    assert old.rpartition("/")[2] in {one.file for one in chosen if one.reason == "planned"}


def test_a_writer_that_slept_below_the_earliest_is_found_by_its_completion() -> None:
    """Its instant lies below the last clean's earliest; it completed after that clean was planned."""
    table = judged(DEFINITION, 3)
    late = table.write(2)
    for _ in range(4):
        table.write(1)
    assert late < table.table.clean.run(retain=2).earliest_retained
    timeline = timeline_of(table.storage)
    found = timeline.find(late)
    assert found is not None
    # As if it had completed just now: its completed file gets a later completion time.
    path = timeline.path(found.file_name)
    now = str(int(max(timeline.known_times)) + 1)
    table.storage.put(path.replace(found.completion_time, now), table.storage.get(path))
    table.storage.delete(path)
    table.clock.advance_ms(10)
    table.write(1)
    faulty = FaultyStorage(table.storage)
    table_of(faulty, table.clock, "cleaner").clean.plan(retain=1)
    assert "part=p0" in listed(faulty.history)


def test_a_writer_that_slept_and_completes_while_files_are_chosen_refuses_the_plan() -> None:
    """Its instant lies below earliest, and its completion below the plan's instant: no later clean would look at it."""
    table = judged(DEFINITION, 3)
    cleaner = session_of(table.storage, table.clock, "cleaner")
    drafts: list[Draft] = []

    def others() -> None:
        for _ in range(6):
            table.write(0, 2)
        state = cleaner.loader.load()
        drafts.append(CLEAN.draft(cleaner, state, CLEAN.choose(cleaner, state, CleanRequest(retain=2))))

    late = table_of(FaultyStorage(table.storage, MoveBefore(".requested", others)), table.clock, "late")
    assert late.ingest(rows(("k1", "p1", 99, 99, None)), "insert_overwrite").replaced > 0
    with pytest.raises(Conflict, match="below its earliest retained instant"):
        publish_plan(cleaner, "clean", drafts[0])
    table.table.clean.run(retain=2)
    leaves_nothing(table, retain=2, full=True)


@pytest.mark.full("searches schedules for many seconds")
@pytest.mark.parametrize(
    "definition", [DEFINITION, MERGE_ON_READ, WITH_METADATA, LOGGED_WITH_METADATA], ids=lambda one: one.table_type
)
@pytest.mark.parametrize("seed", range(40 if SOAK else 2))
def test_random_histories_leave_what_a_full_clean_leaves(definition, seed: int) -> None:
    """Writes, compactions, savepoints, holds and cleans in any order, against the dict's past and against a full clean."""
    chance = random.Random(f"{definition}{seed}")
    table = judged(definition, 2)
    saved: set[str] = set()
    for _ in range(200 if SOAK else 30):
        step = chance.random()
        if step < 0.5:
            table.write(*chance.sample(range(6), chance.randint(1, 4)))
        elif step < 0.6 and definition.table_type == "MERGE_ON_READ":
            table.compact()
        elif step < 0.65 and len(saved) < 2:
            saved.add(table.table.savepoints.create().instant)
        elif step < 0.7 and saved:
            table.table.savepoints.delete(gone := saved.pop())
            assert gone in table.past
        elif step < 0.75:
            table.table.holds.take(list(table.past)[-1], seconds=3_600)
        elif step < 0.8:
            table.clock.advance_ms(26 * HOUR_MS)
        else:
            retain, limit = chance.randint(1, 4), chance.choice([None, None, 2])
            done = table.table.clean.run(retain=retain, max_files=limit)
            wanted = {one for one in table.past if done.earliest_retained and one >= done.earliest_retained} | saved
            wanted |= {hold.instant for hold in table.table.holds.list() if hold.until_ms > table.clock.now_ms()}
            assert wanted & set(table.past) <= set(table.readable())
    table.clock.advance_ms(26 * HOUR_MS)
    for instant in saved:
        table.table.savepoints.delete(instant)
    table.write(0)
    while table.table.clean.run(retain=2).deleted:
        pass
    leaves_nothing(table, retain=2)
    assert data_files(table.storage)


def test_without_a_clean_of_ours_on_the_timeline_every_partition_is_listed() -> None:
    """One that was archived may have held files back; a clean of Apache Hudi does not name them."""
    table = judged(DEFINITION, 3)
    newest = [one.time for one in timeline_of(table.storage).completed_writes][-1]
    hudi_clean(table.storage, table.clock, [], earliest=newest)
    for _ in range(3):
        table.write(0)
    faulty = FaultyStorage(table.storage)
    assert table_of(faulty, table.clock, "cleaner").clean.run(retain=2).deleted > 0
    assert "part=p1" in listed(faulty.history)
    leaves_nothing(table, retain=2)


def test_a_pending_clean_of_files_of_archived_writes_is_no_damage_of_the_metadata_table() -> None:
    """The clean deletes a file whose write was archived; until it completes the file is there, and listed."""
    storage, clock = made(WITH_METADATA), ManualClock(START_MS, tick_ms=1)

    def table(actor: str) -> Table:
        clock.advance_ms(1_000)
        return table_of(storage, clock, actor, upkeep=BY_HAND)

    table("writer").ingest(rows(("old", "p1", 0, 0, None)))
    for number in range(8):
        table("writer").ingest(rows(("new", "p0", number, number, None)))
    table("cleaner").clean.run(retain=5)
    assert table("archiver").archive.run(keep_min=6, keep_max=7).instants
    for number in (9, 10):
        table("writer").ingest(rows(("old", "p1", number, number, None)))
    planned = table("cleaner").clean.plan(retain=1)
    assert planned.counts["planned"] == 6
    assert verify_table(storage, index=True, clock=clock).errors == ()
    table("cleaner").clean.execute()
    assert verify_table(storage, index=True, clock=clock).findings == ()
