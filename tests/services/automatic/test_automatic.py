"""Writers clean and archive a new table after their commits, and no table whose history they must not shorten."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lock.in_process import InProcessLock
from hudi_ops.config.requests import PolicyName
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.errors import Conflict
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.services.write import automatic
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.verify.invariants import verify_table
from tests.definitions import Definition, create_table
from tests.protocol.foreign_table import make_foreign
from tests.protocol.log_actors import timeline_of
from tests.tables import (
    BY_HAND,
    DEFINITION,
    LOGGED_WITH_METADATA,
    MERGE_ON_READ,
    NOW_MS,
    START_MS,
    WITH_METADATA,
    by_key,
    made,
    rows,
    table_of,
)

COMMITS = 50
ONLY_CLEAN = UpkeepSettings(archive=BY_HAND.archive)
ON = UpkeepSettings(CleanSettings(automatic=True), ArchiveSettings(automatic=True))


def row(number: int) -> pa.Table:
    return rows(("k", "p0", number, number, None))


def commit(table: Table, count: int = COMMITS, first: int = 1) -> list[str]:
    """Write one row again and again; return the instants."""
    instants = [table.ingest(row(number)).instant for number in range(first, first + count)]
    assert None not in instants
    return [str(instant) for instant in instants]


def data_files(storage: MemoryStorage) -> int:
    return sum(info.path.endswith(".parquet") and not info.path.startswith(".hoodie") for info in storage.list(""))


def writes(table: Table) -> int:
    return len(table._session.loader.load().timeline.completed_writes)


@pytest.mark.parametrize(
    "definition",
    [DEFINITION, pytest.param(WITH_METADATA, marks=pytest.mark.full("repeats what quick proves with a like case"))],
    ids=["without metadata table", "with metadata table"],
)
def test_a_new_table_stays_small_and_keeps_what_is_promised(definition: Definition) -> None:
    storage = made(definition, automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")

    instants = commit(table)

    assert data_files(storage) <= 2 * automatic.EVERY + 1
    assert writes(table) <= 30
    assert by_key(table) == {"k": COMMITS}
    for number, instant in list(enumerate(instants, 1))[-10:]:
        assert by_key(table, as_of=instant) == {"k": number}
    assert verify_table(storage, deep=True, index=True).ok


@pytest.mark.parametrize(
    "definition",
    [
        MERGE_ON_READ,
        pytest.param(LOGGED_WITH_METADATA, marks=pytest.mark.full("repeats what quick proves with a like case")),
    ],
    ids=["without metadata table", "with metadata table"],
)
def test_a_merge_on_read_table_that_is_never_compacted_is_archived(definition: Definition) -> None:
    """No slice is superseded, so that each clean deletes nothing; it moves its earliest instant all the same."""
    storage = made(definition, automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
    longest = 0
    for number in range(70):
        table.ingest(row(number))
        longest = max(longest, writes(table))
    assert longest <= 50
    assert by_key(table, listing="storage") == by_key(table) == {"k": 69}
    assert verify_table(storage, deep=True).findings == ()


def test_the_result_of_a_commit_says_what_was_done() -> None:
    storage = made(automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")

    said = [line for number in range(1, 40) for line in table.ingest(row(number)).automatic]

    assert any("old files deleted" in line for line in said)
    assert any("left the timeline" in line for line in said)


def test_processes_of_one_commit_each_keep_the_table_small() -> None:
    storage, clock = made(automatic=True), ManualClock(NOW_MS, tick_ms=1)
    for number in range(1, COMMITS + 1):
        table_of(storage, clock, f"process {number}").ingest(row(number))
    assert data_files(storage) <= 2 * automatic.EVERY + 1
    assert writes(table_of(storage, clock, "reader")) <= 30


def without_record(storage: MemoryStorage) -> MemoryStorage:
    """The table, with a slot 0 that names no automatic services."""
    entry = json.loads(storage.get(slot_path(0)))
    assert entry["automatic"].keys() == {"clean", "archive"}
    entry["automatic"] = {}
    storage.put(slot_path(0), json.dumps(entry).encode())
    return storage


def adopted(storage: MemoryStorage) -> MemoryStorage:
    """The table as Apache Hudi would have made it; the first write adopts it."""
    table_of(storage, ManualClock(NOW_MS, tick_ms=1), "first").ingest(row(0))
    return make_foreign(storage)


def beside_foreign_writer(storage: MemoryStorage) -> MemoryStorage:
    """The table, with a completed write that the commit log does not know."""
    table_of(storage, ManualClock(NOW_MS, tick_ms=1), "first").ingest(row(0))
    foreign = make_foreign(storage)
    for info in storage.list(".hoodie/timeline"):
        storage.put(info.path, foreign.get(info.path))
    return storage


def recorded_off(_: MemoryStorage) -> MemoryStorage:
    storage = MemoryStorage("crash", clock := ManualClock(START_MS, tick_ms=1))
    create_table(table_of(storage, clock, "creator", upkeep=BY_HAND)._session, DEFINITION)
    return storage


@pytest.mark.parametrize("kind", [without_record, adopted, beside_foreign_writer, recorded_off])
def test_other_tables_lose_nothing_in_fifty_commits(kind: Callable[[MemoryStorage], MemoryStorage]) -> None:
    storage = kind(made(automatic=True))
    table = table_of(storage, ManualClock(NOW_MS + 60_000, tick_ms=1), "writer", AdoptionOptions(buckets=2))
    before = data_files(storage)

    instants = commit(table)

    assert data_files(storage) == before + COMMITS
    assert writes(table) >= COMMITS
    for number, instant in list(enumerate(instants, 1))[::7]:
        assert by_key(table, as_of=instant) == {"k": number}


def test_settings_of_a_writer_win_over_the_record() -> None:
    kept, shortened = made(automatic=True), without_record(made(automatic=True))
    commit(table_of(kept, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=BY_HAND))
    commit(table_of(shortened, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=ON))
    assert data_files(kept) == COMMITS
    assert data_files(shortened) <= 2 * automatic.EVERY + 1


def test_the_settings_say_what_stays() -> None:
    storage = made(automatic=True)
    upkeep = UpkeepSettings(CleanSettings(policy="versions", retain=2), ArchiveSettings(keep_min=5, keep_max=6))
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=upkeep)
    commit(table)
    assert data_files(storage) <= 2 + automatic.EVERY
    assert writes(table) <= 6 + automatic.EVERY


@dataclass(frozen=True)
class AtPath:
    """Fails each operation on paths that end so."""

    ending: str

    def fault_at(self, number: int, point: str) -> Fault | None:
        return Fault.ERROR_BEFORE if point.startswith("put") and point.endswith(self.ending) else None


def test_an_error_of_a_clean_is_a_line_of_the_result_and_the_commits_stand() -> None:
    storage = made(automatic=True)
    faulty = FaultyStorage(storage, AtPath(".clean.inflight"))
    table = table_of(faulty, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=ONLY_CLEAN)

    said = [line for number in range(1, 15) for line in table.ingest(row(number)).automatic]

    assert faulty.fired
    assert said
    assert all(line.startswith("no automatic clean: ") for line in said)
    assert by_key(table_of(storage, ManualClock(NOW_MS, tick_ms=1), "reader")) == {"k": 14}
    # The next process that has the service finishes the plan that was left.
    commit(table_of(storage, ManualClock(NOW_MS + 600_000, tick_ms=1), "another"), 2 * automatic.EVERY, first=15)
    assert data_files(storage) <= 2 * automatic.EVERY + 1


@dataclass
class DiesAfterPlan:
    """The process ends at the first operation at a point after the plan of a clean is on the timeline."""

    point: str
    is_planned: bool = False

    def fault_at(self, number: int, point: str) -> Fault | None:
        if self.is_planned and self.point in point:
            return Fault.CRASH_BEFORE
        self.is_planned = self.is_planned or point.endswith(".clean.requested")
        return None


@dataclass
class WhereHeld:
    """Disturbs nothing; notes at each deletion of a data file whether the lock is held."""

    lock: InProcessLock
    held: list[bool] = field(default_factory=list)

    def fault_at(self, number: int, point: str) -> Fault | None:
        if point.startswith("delete:part=p0/"):
            self.held.append(self.lock.holder() is not None)
        return None


def test_files_go_while_the_lock_is_free() -> None:
    lock = InProcessLock("watched")
    watched = WhereHeld(lock)
    ctx = simulated_context(FaultyStorage(made(automatic=True), watched), ManualClock(NOW_MS, tick_ms=1), "writer")
    commit(Table(replace(ctx, locks=lock)))
    assert watched.held
    assert not any(watched.held)


def test_one_commit_pays_for_a_bounded_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = made(automatic=True)
    commit(table_of(storage, ManualClock(NOW_MS, tick_ms=1), "before", upkeep=BY_HAND), 30)
    monkeypatch.setattr(automatic, "FILES_MAX", 3)
    table = table_of(storage, ManualClock(NOW_MS + 60_000, tick_ms=1), "writer", upkeep=ONLY_CLEAN)
    table.ingest(row(31))
    assert data_files(storage) == 31 - 3
    # A clean that left files is followed by another after the next commit, in any process.
    table.ingest(row(32))
    assert data_files(storage) == 32 - 2 * 3
    table_of(storage, ManualClock(NOW_MS + 120_000, tick_ms=1), "next", upkeep=ONLY_CLEAN).ingest(row(33))
    assert data_files(storage) == 33 - 3 * 3


@pytest.mark.parametrize("anew", [False, True], ids=["one session", "a session each"])
@pytest.mark.parametrize(
    "upkeep",
    [
        UpkeepSettings(CleanSettings(retain=25)),
        UpkeepSettings(archive=ArchiveSettings(keep_min=3, keep_max=5)),
        UpkeepSettings(CleanSettings(policy="hours", retain=1)),
    ],
    ids=["clean retains more than archive keeps", "archive keeps less than clean retains", "hours"],
)
def test_an_archive_leaves_what_the_cleans_promise(upkeep: UpkeepSettings, anew: bool) -> None:
    storage, clock = made(automatic=True), ManualClock(NOW_MS, tick_ms=1)
    table, instants = table_of(storage, clock, "writer", upkeep=upkeep), []
    for number in range(1, 61):
        clock.advance_ms(150_000)
        if anew:
            table = table_of(storage, clock, f"writer {number}", upkeep=upkeep)
        instants.append(str(table.ingest(row(number)).instant))
    promised = 24 if upkeep.clean.policy == "hours" else upkeep.clean.retain or 10
    for number, instant in list(enumerate(instants, 1))[-promised:]:
        assert by_key(table, as_of=instant) == {"k": number}
    assert data_files(storage) <= promised + automatic.EVERY + 2
    assert writes(table) <= max(promised + 2 * automatic.EVERY, 30) + 1


def test_writers_without_settings_follow_what_the_creation_recorded() -> None:
    storage = MemoryStorage("crash", clock := ManualClock(START_MS, tick_ms=1))
    declared = UpkeepSettings(CleanSettings(policy="versions", retain=2), ArchiveSettings(keep_min=15, keep_max=18))
    create_table(table_of(storage, clock, "creator", upkeep=declared)._session, DEFINITION)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
    assert table.upkeep == {
        "clean": {"automatic": True, "policy": "versions", "retain": 2},
        "archive": {"automatic": True, "keep_min": 15, "keep_max": 18},
    }
    commit(table)
    assert data_files(storage) <= 2 + automatic.EVERY
    assert table.clean.plan(dry_run=True).counts.get("planned", 0) <= automatic.EVERY


def test_a_plan_that_a_person_left_waits_for_a_person() -> None:
    storage = made(automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=ONLY_CLEAN)
    commit(table, 9)
    planned = table.clean.plan(policy="versions", retain=1).instant
    said = [line for number in range(10, 31) for line in table.ingest(row(number)).automatic]
    assert data_files(storage) == 30
    assert said
    assert all(str(planned) in line and "clean TABLE execute" in line for line in said)


def test_an_error_of_any_kind_leaves_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise OSError("the disk is gone")

    monkeypatch.setitem(automatic._WORK, "clean", broken)
    storage = made(automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
    said = [line for number in range(1, 13) for line in table.ingest(row(number)).automatic]
    assert said == ["no automatic clean or archive: the disk is gone"]
    assert by_key(table) == {"k": 12}


def test_a_process_of_one_commit_pays_little_where_a_savepoint_keeps_the_timeline() -> None:
    storage, clock = made(automatic=True), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer", upkeep=ONLY_CLEAN)
    first = table.savepoints.create().instant
    commit(table, 35)
    upkeep = UpkeepSettings(CleanSettings(automatic=False), ArchiveSettings(automatic=True))
    told = []
    for number in range(36, 39):
        counted = FaultyStorage(storage)
        session = table_of(counted, clock, f"process {number}", upkeep=upkeep)._session
        session.loader.load()
        before = len(counted.history)
        told.append(automatic.keep_small(session))
        paid = counted.history[before:]
        assert len(paid) < 10, paid
    assert told == [(), (), ()]
    commit(table, 30, first=40)
    (line,) = automatic.keep_small(table_of(storage, clock, "last", upkeep=upkeep)._session)
    assert line.startswith(f"nothing can be archived: commit {first}: the savepoint of {first} keeps it")


@pytest.mark.parametrize("policy", ["commits", "versions"])
@pytest.mark.parametrize("point", ["/0000000000", ".clean.inflight"], ids=["planned", "taken over"])
def test_a_clean_of_a_writer_that_died_is_executed_by_the_next(policy: PolicyName, point: str) -> None:
    upkeep = UpkeepSettings(CleanSettings(policy=policy, retain=2))
    storage, clock = made(automatic=True), ManualClock(NOW_MS, tick_ms=1)
    commit(table_of(storage, clock, "before", upkeep=upkeep), 8)
    dying = FaultyStorage(storage, DiesAfterPlan(point))
    with pytest.raises(Crash):
        commit(table_of(dying, clock, "dies", upkeep=upkeep), 2, first=9)
    assert dying.fired
    assert [one.action for one in timeline_of(storage).pending] == ["clean"]
    clock.advance_ms(600_000)
    result = table_of(storage, clock, "next", upkeep=upkeep).ingest(row(11))
    assert any("old files deleted" in line for line in result.automatic), result.automatic
    assert timeline_of(storage).pending == ()


def test_a_plan_by_versions_that_retains_less_waits_for_a_person() -> None:
    upkeep = UpkeepSettings(CleanSettings(policy="versions", retain=3), BY_HAND.archive)
    storage = made(automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=upkeep)
    commit(table, 8)
    planned = table.clean.plan(policy="versions", retain=2).instant
    said = [line for number in range(9, 31) for line in table.ingest(row(number)).automatic]
    assert said
    assert all(str(planned) in line for line in said)
    assert data_files(storage) == 30


def test_a_table_made_anew_is_not_cleaned_by_the_record_of_the_one_before() -> None:
    storage, clock = made(automatic=True), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    commit(table, 15)
    for info in storage.list(""):
        storage.delete(info.path)
    clock.advance_ms(60_000)
    create_table(table_of(storage, clock, "maker", upkeep=BY_HAND)._session, DEFINITION)
    clock.advance_ms(60_000)
    with suppress(Conflict):
        table.ingest(row(0))
    commit(table)
    assert data_files(storage) >= COMMITS
    assert writes(table) >= COMMITS


def test_cleans_catch_up_where_a_write_makes_more_files_than_one_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "FILES_MAX", 3)
    storage = made(automatic=True)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
    for number in range(1, COMMITS + 1):
        table.ingest(rows(*((f"k{n}", f"p{n}", number, number, None) for n in range(6))))
    assert data_files(storage) <= 6 * (2 * automatic.EVERY + 1)
