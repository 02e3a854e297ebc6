"""An archiver that goes wrong at any storage operation: another process goes on, and no instant and no row is lost."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial

import pytest

from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.archive import levels, run as service
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from tests.bounds import bound
from tests.definitions import Definition
from tests.fault_plans import DiesBefore
from tests.protocol.log_actors import timeline_of
from tests.protocol.sweep import CRASHES, CREATIONS, ERRORS, JudgedStates, Left, fault_sweep
from tests.services.archive.aborted_tables import assert_archived, assert_recorded, moved, passed_table
from tests.services.archive.archived_tables import archived, assert_whole, history_of, known_times, long_table
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, NOW_MS, WITH_METADATA, by_key, rows, table_of

FAULTS = [*CRASHES, *ERRORS]
CASES = [(definition, fault) for definition in (DEFINITION, LOGGED_WITH_METADATA) for fault in FAULTS]
JUDGED: defaultdict[Definition, JudgedStates] = defaultdict(JudgedStates)
"""What `assert_resumed` has judged after archiving, by table."""


@cache
def _base(definition: Definition) -> tuple[MemoryStorage, dict[str, int], tuple[str, ...]]:
    storage, clock = long_table(definition)
    return storage, by_key(table_of(storage, clock, "reader")), tuple(known_times(storage))


def run(storage: FaultyStorage, clock: ManualClock) -> None:
    """The run that goes wrong."""
    archived(storage, clock, "first")  # type: ignore[arg-type]


def assert_resumed(left: Left, model: dict[str, int], times: tuple[str, ...]) -> None:
    """Readers see all rows before and after the next run, which ends what was begun."""
    left.land()
    assert by_key(table_of(left.storage, left.clock, "between")) == model, left.story
    assert known_times(left.storage) == [*times], left.story
    left.resume()
    archived(left.storage, left.clock, "second")
    assert known_times(left.storage) == [*times], left.story
    found = [(one.time, one.action) for one in history_of(left.storage)]
    assert sorted(found) == sorted(set(found)), left.story
    assert len(timeline_of(left.storage).completed_writes) <= 5, left.story
    assert_whole(left.storage, left.clock, model, left.story)
    table_of(left.storage, left.clock, "writer").ingest(rows(("k9", "p1", 1000, 1000, None)))
    assert_whole(left.storage, left.clock, {**model, "k9": 1000}, left.story)


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(
    ("definition", "fault"),
    CASES,
    ids=lambda one: one.name if isinstance(one, Fault) else "mor-mdt" if one is LOGGED_WITH_METADATA else "cow",
)
def test_an_archiver_that_goes_wrong_anywhere_is_continued(definition: Definition, fault) -> None:
    base, model, times = _base(definition)
    judged = JUDGED[definition]
    for left in fault_sweep(base, run, fault, "archiving", points=30, writes=10, most=24, judged=judged):
        assert_resumed(left, model, times)


@pytest.mark.parametrize("fault", [one for one in FAULTS if one not in CREATIONS], ids=str)
def test_an_archiver_of_aborted_plans_that_goes_wrong_anywhere_is_continued(fault) -> None:
    """At each moment each plan is aborted, with its reason; at the end one file has all records."""
    base, _, plans = passed_table()
    start = partial(ManualClock, NOW_MS + 3_600_000)
    for left in fault_sweep(base, moved, fault, "archiving aborted plans", points=12, writes=6, runs=2, clock=start):
        left.land()
        assert_recorded(left.storage, left.clock, plans, left.story)
        left.resume()
        archived(left.storage, left.clock, "second")
        assert_archived(left.storage, left.clock, plans, left.story)
        assert_whole(left.storage, left.clock, {"k9": 21}, left.story)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", CRASHES, ids=lambda fault: fault.name)
def test_a_merge_of_levels_that_goes_wrong_anywhere_is_continued(monkeypatch, fault) -> None:
    monkeypatch.setattr(service, "BATCH_MAX", 2)
    monkeypatch.setattr(levels, "FILES_MERGED", 2)
    base, model, times = _base(DEFINITION)
    for left in fault_sweep(base, run, fault, "merging levels", points=60, writes=20, most=24):
        assert_resumed(left, model, times)


def test_the_second_archiver_dies_too() -> None:
    base, model, times = _base(DEFINITION)
    judged = JudgedStates()
    for left in fault_sweep(base, run, CRASHES[0], most=6, judged=JudgedStates(every=True)):
        left.resume()
        later = partial(ManualClock, left.clock.now_ms())
        for second in fault_sweep(left.storage, run, CRASHES[0], most=6, clock=later, judged=judged):
            assert_resumed(second, model, times)
    print(f"the second archiver: {judged.points} points, {len(judged.states)} states")
    assert judged.points >= bound(12, 60, 60)
    assert len(judged.states) >= bound(8, 25, 25)


@pytest.mark.parametrize("listing", ["storage", "metadata"])
def test_an_archiver_that_dies_before_its_slot_lets_no_reader_miss_a_clean(listing: str) -> None:
    """The history has the replace commit, and the timeline has what came before it."""
    storage, clock = long_table(WITH_METADATA)
    table = table_of(storage, clock, "writer", metadata_compact_after=1)
    old, past = known_times(storage)[-1], by_key(table)
    replaced = table.ingest(rows(("k0", "p0", 500, 500, None)), operation="insert_overwrite").instant
    for n in range(4):
        table.ingest(rows(("k8", "p2", n, n, None)))
    assert by_key(table, as_of=old, listing=listing) == past
    cleaned = table.clean.run(policy="commits", retain=1).instant
    assert cleaned is not None
    table.metadata.compact()
    dying = FaultyStorage(storage, DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    with pytest.raises(Crash):
        archived(dying, clock, "dead", ArchiveRequest(keep_min=1, keep_max=1))  # type: ignore[arg-type]
    assert replaced in {one.time for one in history_of(storage)}
    assert timeline_of(storage).find(old) is not None
    with pytest.raises(InvalidRequest, match=f"cannot be read as of {old}: clean {cleaned} removed"):
        by_key(table_of(storage, clock, "reader"), as_of=old, listing=listing)
