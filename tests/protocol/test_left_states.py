"""A session that writes again sets out from what its last write left. Whatever others did since, it is as if it had read the table.

Goal: what a session remembers spares calls and decides nothing: no row is lost by it, nothing is refused for its sake, nobody is
misled about a table that is gone. Method: two open tables by turns, and the simulator with actors that have written before
(`Resumes`), under every schedule of one preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from hudi_ops.commit.recover.recover import RECOVER_EVERY_S
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.markers import put_marker
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, InvalidRequest, Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.testing.simulation import explore
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.names import completed_name, instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from tests.definitions import create_table
from tests.protocol.scenarios.actors import Landed, Recovers, Writes
from tests.protocol.scenarios.between import clock_of, context, die_at, disturbed, outcome_of
from tests.protocol.scenarios.cases import BESIDE_HUDI, Case, mixed_table
from tests.protocol.scenarios.check import Oracle, rows_read
from tests.protocol.scenarios.hudi import WRITER_KEY, Hudi
from tests.protocol.scenarios.listing_reader import listed_rows
from tests.protocol.scenarios.resumed import Resumes, written_table
from tests.protocol.scenarios.services import Archives, Executes, Plans
from tests.protocol.scenarios.worlds import (
    ALSO_A,
    DEFINITION,
    DROP_A,
    HELD,
    OVERWRITE_A,
    REWRITE_A,
    UPSERT_A,
    UPSERT_B,
    Job,
    at,
    small_table,
)
from tests.tables import NOW_MS, TIMELINE

ALSO_WIDER = UPSERT_B.rows.append_column("extra", pa.array([7], pa.int64()))
UNAPPLIED = r"put_if_absent:.hoodie/timeline/\d+_"


class Room:
    """A table that two processes hold open; the first one has written."""

    def __init__(self) -> None:
        self.storage = small_table()
        self.one, self.two = (Table(context(self.storage, name)) for name in ("one", "two"))
        self.instant = self.one.ingest(UPSERT_A.rows).instant or ""
        self.passes(1)

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        clock = clock_of(self.storage)
        assert isinstance(clock, ManualClock)
        clock.advance_ms(round(1000 * seconds))

    def drop(self) -> None:
        """Somebody deletes the table's folder."""
        for info in list(self.storage.list()):
            self.storage.delete(info.path)


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_column_that_another_process_added_is_known(room: Room) -> None:
    room.two.ingest(ALSO_WIDER, evolve=True)
    room.passes(1)
    assert room.one.ingest(ALSO_WIDER).updated == 1
    assert "extra" in room.one.schema.names


def test_a_stream_in_a_column_that_another_process_added_is_taken(room: Room) -> None:
    room.two.ingest(ALSO_WIDER, evolve=True)
    room.passes(1)
    batches: Iterator[pa.RecordBatch] = iter(ALSO_WIDER.to_batches())
    assert room.one.ingest(pa.RecordBatchReader.from_batches(ALSO_WIDER.schema, batches)).updated == 1


def test_rows_that_fit_neither_before_nor_now_are_refused_once_and_for_all(room: Room) -> None:
    before = {info.path for info in room.storage.list()}
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="extra"):
            room.one.ingest(ALSO_WIDER)
    assert {info.path for info in room.storage.list()} == before


def test_a_key_that_another_process_deleted_can_be_inserted(room: Room) -> None:
    room.two.ingest(UPSERT_A.rows, "delete")
    room.passes(1)
    assert room.one.ingest(UPSERT_A.rows, "insert").inserted == 2


def test_a_table_that_was_dropped_is_not_written_to(room: Room) -> None:
    room.drop()
    room.passes(RECOVER_EVERY_S)
    with pytest.raises(InvalidRequest, match="not a Hudi table"):
        room.one.ingest(ALSO_A.rows)
    # What it left would be older than the start of the next table there, and its files rows of it.
    assert room.storage.list() == []


@pytest.mark.parametrize("commits", [0, 5])
def test_a_table_that_was_made_anew_takes_the_rows(room: Room, commits: int) -> None:
    room.drop()
    create_table(room.two._session, DEFINITION)
    for _ in range(commits):
        room.passes(1)
        room.two.ingest(UPSERT_B.rows)
    room.passes(1)
    room.one.ingest(ALSO_A.rows)
    wanted = {**dict(ALSO_A.values), **(dict(UPSERT_B.values) if commits else {})}
    assert rows_read(room.storage) == listed_rows(room.storage) == wanted


def test_who_failed_reads_the_table_before_it_writes_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    put = room.storage.put

    def refused(path: str, body: bytes) -> None:
        if path.startswith("part="):
            raise Unavailable("a test")
        put(path, body)

    monkeypatch.setattr(room.storage, "put", refused)
    with pytest.raises(Unavailable):
        room.one.ingest(ALSO_A.rows)
    assert not room.one._session.memory.is_clean


def test_sweeping_what_others_left_says_nothing_of_ones_own_write(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process that died right after its write had completed.
    Table(context(room.storage, "dead")).ingest(UPSERT_B.rows)
    dead = simulated_context(room.storage, clock_of(room.storage), "dead")
    completed = max(info.name for info in room.storage.list_folder(TIMELINE).files)[:17]
    room.storage.put(f".hoodie/.heartbeat/{completed}", b"{}")
    assert dead.owner.pid
    room.passes(EXPIRY_MS / 1000 + 1)
    test_who_failed_reads_the_table_before_it_writes_again(room, monkeypatch)
    assert room.storage.head(f".hoodie/.heartbeat/{completed}") is None


def test_a_savepoint_is_not_taken_for_the_write_that_it_protects(room: Room) -> None:
    # Its writer died between its completed file and the end of its clearing away.
    put_marker(room.storage, room.instant, f"part=a/x_7-1-0_{room.instant}.parquet", replaces=True)
    room.storage.put(f"{TIMELINE}/{room.instant}.savepoint.inflight", b"")
    completion = instant_of_ms(clock_of(room.storage).now_ms())
    room.storage.put(f"{TIMELINE}/{room.instant}_{completion}.savepoint", b"Obj\x01 no commit metadata")
    room.passes(RECOVER_EVERY_S)
    room.two.ingest(UPSERT_B.rows)
    assert room.storage.list(f".hoodie/.temp/{room.instant}") == []


def test_what_a_later_version_says_of_a_slot_is_passed_over() -> None:
    pointer = Pointer("id", 3, 0, -1, stranger="", may_double=None, shared=False)
    text = pointer.encode().replace("{", '{"more": 1, ')
    assert Pointer.decode({POINTER_KEY: text}) == pointer


def test_a_millisecond_that_apache_hudi_took_too_is_not_completed_twice() -> None:
    storage = small_table()
    name = f"{instant_of_ms(NOW_MS)}_{instant_of_ms(NOW_MS + 5)}.commit"
    theirs = CommitMetadata(operation="UPSERT").to_bytes()
    outcome, _ = disturbed(
        storage, "one", Writes(UPSERT_A), "put:.hoodie/.temp", lambda: storage.put(f"{TIMELINE}/{name}", theirs)
    )
    assert isinstance(outcome.result, Landed)
    assert outcome.result.instant > instant_of_ms(NOW_MS)
    assert rows_read(storage) == listed_rows(storage) == UPSERT_A.applied(HELD)


def test_a_plan_that_was_refused_leaves_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = small_table()
    ctx = context(storage, "planner")
    with ctx.locks.acquire(1.0, "to learn its type") as held:  # type: ignore[attr-defined]
        monkeypatch.setattr(type(held), "still_mine", lambda self: False)
    assert isinstance(outcome_of(lambda: Plans(REWRITE_A)(ctx)).error, Busy)
    left = {info.path.split("/")[-2] for info in storage.list(".hoodie/.commit_log/payload")}
    assert left <= {info.name[:17] for info in storage.list_folder(TIMELINE).files}


def test_a_cancelled_write_of_apache_hudi_that_completes_before_its_rollback_keeps_its_rows() -> None:
    """Its heartbeat had stopped for two minutes; Apache Hudi knows no CANCEL, and holds the lock when it completes."""
    storage = mixed_table()
    die_at(storage, "theirs", Hudi("theirs", ALSO_A), r"put:.hoodie/timeline/\d+_")
    (pending,) = load_timeline(storage, load_config(storage)).pending
    clock = clock_of(storage)
    assert isinstance(clock, ManualClock)
    clock.advance_ms(EXPIRY_MS + 60_000)

    def completes() -> None:
        name = next(info.path for info in storage.list("part=a") if pending.time in info.path)
        stat = WriteStat(file_id="", path=name, partition_path="part=a")
        done = CommitMetadata(operation="UPSERT", stats=(stat,), extra={WRITER_KEY: "theirs"})
        time = instant_of_ms(clock.now_ms())
        storage.put(f"{TIMELINE}/{completed_name(pending.time, 'commit', time)}", done.to_bytes())

    disturbed(storage, "ours", Recovers(), "put:.hoodie/.commit_log/cancelled", completes)
    assert rows_read(storage) == listed_rows(storage) == ALSO_A.applied(HELD)
    found = load_timeline(storage, load_config(storage)).find(pending.time)
    assert found is not None
    assert found.is_completed


def dead_table(job: Job, where: str) -> Callable[[], MemoryStorage]:
    def made() -> MemoryStorage:
        storage = written_table()
        die_at(storage, "dead", Resumes(job), where)
        return storage

    return made


def hudi_table() -> MemoryStorage:
    """Apache Hudi wrote to it for the first time half a minute after the session did."""
    storage = at(written_table(), NOW_MS - 30_000)
    Hudi("creator", Job("upsert", (("b2", 2),)))(context(storage, "creator"))
    return at(storage, NOW_MS)


def pair(one: Job, two: Job) -> Case:
    runs = {"one": Resumes(one), "two": Resumes(two)}
    return Case(f"{one} and {two}", runs, Oracle({"one": one, "two": two}), base=written_table)


def beside(job: Job) -> Case:
    runs: dict[str, Callable[[TableContext], object]] = {
        "ours": Resumes(UPSERT_A, idle_s=30),
        "theirs": Hudi("theirs", job),
    }
    oracle = Oracle({"ours": UPSERT_A}, {"theirs": job})
    return Case(f"{UPSERT_A} and Apache Hudi's {job}", runs, oracle, base=hudi_table, troubles=BESIDE_HUDI)


def among_dead(name: str, where: str) -> Case:
    return Case(
        name,
        {"one": Resumes(UPSERT_A), "helper": Recovers()},
        Oracle({"one": UPSERT_A, "dead": ALSO_A}),
        base=dead_table(ALSO_A, where),
        start_ms=NOW_MS + EXPIRY_MS + 10_000,
    )


CASES = [
    (pair(UPSERT_A, ALSO_A), 30),
    (pair(UPSERT_A, UPSERT_B), 20),
    (pair(UPSERT_A, OVERWRITE_A), 30),
    (pair(UPSERT_A, DROP_A), 40),
    (beside(ALSO_A), 20),
    (beside(UPSERT_B), 20),
    (among_dead("a dead one that was not decided", "put:part=a"), 40),
    (among_dead("a dead one that was decided", UNAPPLIED), 30),
    (
        Case(
            "an archiver",
            {"one": Resumes(UPSERT_A), "two": Resumes(UPSERT_B), "archiver": Archives()},
            Oracle({"one": UPSERT_A, "two": UPSERT_B}),
            base=written_table,
            after={"archiver": "two"},
        ),
        50,
    ),
    (
        Case(
            "a planner",
            {"one": Resumes(UPSERT_A), "planner": Plans(REWRITE_A)},
            Oracle({"one": UPSERT_A, "finisher": REWRITE_A}, finish=(Executes(REWRITE_A),)),
            base=written_table,
        ),
        15,
    ),
]
"""Each case, and how many runs one preemption takes, at least: a search that makes fewer has gone blind."""


@pytest.mark.parametrize(("case", "floor"), CASES, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_no_schedule_of_sessions_that_go_on_loses_a_row(case: Case, floor: int) -> None:
    found = explore(case.scenario, case.check, preemptions=1, faults=0, limit=None)
    print(f"{case}: {found}")
    assert found.schedules + found.pruned >= floor
