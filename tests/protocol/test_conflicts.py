"""Writers that meet: who wins, who gives way, and what the loser is told. The interleavings of RFC-22 that are about conflicts.

Each is played on one storage with several processes; `MoveBefore` lets one of them move before one storage operation of another.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.commit.decide import complete as commit
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled, Conflict, HudiOpsError
from hudi_ops.services.write.operations import DELETE_PARTITION, INSERT_OVERWRITE, UPSERT, WriteOperation
from hudi_ops.services.write.remove import remove
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.log.commit_log import load_log, slot_path
from hudi_ops.timeline.log.entries import Plan, encode_entry
from hudi_ops.timeline.names import instant_of_ms
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import OLD, make_base, unaccounted
from tests.protocol.foreign_table import clustering_plan, group_of
from tests.protocol.one_attempt import AT_DATA, P0, P0_TOO, P1, cancels, now, once, paused, process
from tests.tables import NOW_MS, TIMELINE, rows


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    return make_base(tmp_path / "source", None)


def overtaken(
    storage: MemoryStorage, data: pa.Table, point: str, move: Callable[[], object], operation: str = "upsert"
) -> HudiOpsError | None:
    """One attempt of a writer, with a move in the middle; returns its error."""
    plan = MoveBefore(point, lambda: move() and None)
    try:
        once(process(FaultyStorage(storage, plan), "overtaken"), data, operation)
    except HudiOpsError as error:
        return error
    finally:
        assert plan.moved
    return None


# (1) ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [AT_DATA, "put:.hoodie/.commit_log/payload"])
def test_a_long_writer_that_began_first_and_ends_last_loses(storage: MemoryStorage, point: str) -> None:
    """By order of request it would pass unnoticed: the other one's instant is above its own."""
    error = overtaken(storage, P0, point, lambda: once(process(storage, "short", NOW_MS + 500), P0_TOO))
    assert isinstance(error, Conflict)
    assert now(storage) == {**OLD, "k0": 200}


def test_without_the_check_of_completions_the_update_would_be_lost(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "refuse_completed", lambda *_, **__: None)
    same_bucket = rows(("k2", "p0", 102, 5, None))
    error = overtaken(storage, same_bucket, AT_DATA, lambda: once(process(storage, "short", NOW_MS + 500), P0_TOO))
    assert error is None
    assert now(storage) != {**OLD, "k0": 200, "k2": 102}


def test_the_retry_starts_from_what_it_lost_to(storage: MemoryStorage) -> None:
    plan = MoveBefore(AT_DATA, lambda: once(process(storage, "short", NOW_MS + 500), P0_TOO) and None)
    process(FaultyStorage(storage, plan), "long").ingest(rows(("k2", "p0", 102, 5, None)))
    assert now(storage) == {**OLD, "k0": 200, "k2": 102}
    assert unaccounted(storage) == []


def test_a_write_that_cannot_be_told_conflicts_with_everything(storage: MemoryStorage) -> None:
    theirs = instant_of_ms(NOW_MS + 500)
    name = f"{TIMELINE}/{theirs}_{instant_of_ms(NOW_MS + 600)}.commit"

    def move() -> None:
        storage.put(name, b"")
        monkey.append(1)

    monkey: list[int] = []
    vanishing = FaultyStorage(storage, MoveBefore(AT_DATA, move))
    vanishing_get = vanishing.get

    def get(path: str) -> bytes:
        if path == name:
            storage.delete(name)  # archived between listing and reading
        return vanishing_get(path)

    vanishing.get = get  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="its write set is unknown"):
        once(process(vanishing, "writer"), P1)
    assert monkey


def test_what_a_foreign_archiver_took_away_may_have_completed(storage: MemoryStorage) -> None:
    theirs = instant_of_ms(NOW_MS - 5_000)
    storage.put(f"{TIMELINE}/{theirs}.commit.requested", b"")
    storage.put(f"{TIMELINE}/{theirs}.inflight", b"")
    storage.put(f".hoodie/.heartbeat/{theirs}", b"")

    def move() -> None:
        storage.delete(f".hoodie/.heartbeat/{theirs}")
        # It completes, and is archived with all that is older but for one write that completed after it.
        for info in storage.list(TIMELINE):
            if info.name[:17] <= theirs:
                storage.delete(info.path)
        newest = instant_of_ms(NOW_MS - 1_000)
        storage.put(f"{TIMELINE}/{newest}_{instant_of_ms(NOW_MS + 500)}.commit", b"")

    error = overtaken(storage, P1, AT_DATA, move)
    assert isinstance(error, Conflict)
    assert error.details["other"] == theirs


# (7) (8) -----------------------------------------------------------------------------------------------------------------------


def plan_of_ours(storage: MemoryStorage, partition: str, at_ms: int) -> str:
    """A clustering that a PLAN slot published, as the timeline shows it while it is executed."""
    log = load_log(storage, None)
    assert log is not None
    instant = instant_of_ms(at_ms)
    entry = Plan(
        table_id=log.table_id,
        decision_id=f"plan {instant}",
        owner="planner:1",
        at_ms=at_ms,
        properties_slot=log.properties_slot,
        archive_slot=log.archive_slot,
        instant=instant,
        action="clustering",
        payload="",
        footprint="",
        **CancelPolicy().entry_fields(),
    )
    storage.put_if_absent(slot_path(log.head + 1), encode_entry(entry))
    storage.put(f"{TIMELINE}/{instant}.clustering.requested", clustering_plan(partition, group_of(storage, partition)))
    storage.put(f"{TIMELINE}/{instant}.clustering.inflight", b"")
    return instant


def execute(table: Table, instant: str, storage: MemoryStorage, partition: str = "part=p0") -> None:
    """Complete a clustering that replaces its input by nothing, whenever its execution begins."""
    attempt = Attempt(instant, "clustering", table._session.loader.load())
    replaced = {partition: (group_of(storage, partition),)}
    complete_write(table._session, attempt, Write("CLUSTER", (), replaced=replaced), role="service")


def test_a_conflict_only_through_a_pending_plan_of_hudi(storage: MemoryStorage) -> None:
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS - 1)}.clustering.requested"
    plan = clustering_plan("part=p0", group_of(storage, "part=p0"))
    error = overtaken(storage, P0, AT_DATA, lambda: storage.put(name, plan))
    assert isinstance(error, Busy)
    assert error.details["other"] == instant_of_ms(NOW_MS - 1)
    assert error.details["file_groups"] == ["part=p0/00000000"]
    assert now(storage) == OLD


def test_a_plan_of_ours_that_was_overtaken_is_not_completed(storage: MemoryStorage) -> None:
    """Also when its execution begins after the overtaking write: its plan says what it saw, not when it began."""
    plan = plan_of_ours(storage, "part=p0", NOW_MS - 1_000)
    once(process(storage, "writer"), P0)
    with pytest.raises(Conflict) as caught:
        execute(process(storage, "executor", NOW_MS + 1_000), plan, storage)
    assert caught.value.details["other_owner"] == "simulated-writer:1"
    assert now(storage) == {**OLD, "k0": 100}


def test_a_plan_of_ours_elsewhere_is_completed(storage: MemoryStorage) -> None:
    plan = plan_of_ours(storage, "part=p0", NOW_MS - 1_000)
    once(process(storage, "writer"), P1)
    execute(process(storage, "executor", NOW_MS + 1_000), plan, storage)
    assert now(storage) == {key: value for key, value in OLD.items() if value % 2} | {"k1": 101}


def removed_once(table: Table) -> None:
    remove(table._session, DELETE_PARTITION, ["part=p0"], 0.0)


class Timid:
    """A strategy of a user: ingestion waits for every plan."""

    name = "timid"

    def looks_at_running(self, role: str) -> bool:
        return False

    def yields(self, mine: Contender, other: Contender) -> bool:
        return other.stage == "planned"


@pytest.mark.parametrize("strategy", [Timid(), f"{__name__}:Timid"], ids=["object", "import-path"])
def test_a_strategy_of_the_user_is_asked(storage: MemoryStorage, strategy: object) -> None:
    plan_of_ours(storage, "part=p0", NOW_MS - 1_000)
    with pytest.raises(Busy, match="planner:1"):
        once(process(storage, "writer", strategy=strategy), P0)
    once(process(storage, "writer", strategy=strategy), P1)


def test_an_insert_overwrite_waits_for_a_clustering_of_hudi_that_is_planned(storage: MemoryStorage) -> None:
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS - 1)}.clustering.requested"
    plan = clustering_plan("part=p0", "00000000-not-yet-there-0")
    error = overtaken(storage, P0, AT_DATA, lambda: storage.put(name, plan), "insert_overwrite")
    assert isinstance(error, Busy)


@pytest.mark.parametrize("operation", [INSERT_OVERWRITE, DELETE_PARTITION], ids=lambda one: one.name)
def test_an_overwrite_loses_to_a_clustering_that_completed_meanwhile(
    storage: MemoryStorage, operation: WriteOperation
) -> None:
    plan = plan_of_ours(storage, "part=p0", NOW_MS - 1_000)
    clusters = MoveBefore(
        "put:.hoodie/.commit_log/payload",
        lambda: execute(process(storage, "executor", strategy="first-committer"), plan, storage),
    )
    table = process(FaultyStorage(storage, clusters), "overwriter", NOW_MS + 500)
    with pytest.raises(Conflict) as caught:
        removed_once(table) if operation.kernel is None else once(table, P0, operation.name)
    assert "foreign writer" in str(caught.value) or caught.value.details["other"] == plan


# (9) and the strategies --------------------------------------------------------------------------------------------------------


def rewrite(table: Table, storage: MemoryStorage, partition: str = "part=p0") -> None:
    """A service's attempt from beginning to end: the stand-in for what rewrites rows that are there."""
    group = group_of(storage, partition)
    session = table._session
    attempt = begin(session.ctx, session.loader, "clustering", clustering_plan(partition, group))
    complete_write(session, attempt, Write("CLUSTER", (), replaced={partition: (group,)}), role="service")


def test_a_service_gives_way_to_ingestion_that_is_under_way(storage: MemoryStorage) -> None:
    live = paused(storage, P0)
    with pytest.raises(Conflict) as caught:
        rewrite(process(storage, "service", NOW_MS + 1_000), storage)
    error = caught.value
    assert (error.details["other"], error.details["other_owner"]) == (live, "simulated-paused:1")
    assert error.details["file_groups"] == ["part=p0/00000000"]
    assert error.details["setting"] == "conflicts.strategy"
    assert "first-committer" in error.next_step


def test_a_service_gives_way_to_ingestion_that_appears_while_it_waits_for_the_lock(storage: MemoryStorage) -> None:
    service = process(storage, "service", NOW_MS - 1_000)
    session = service._session
    group = group_of(storage, "part=p0")
    attempt = begin(session.ctx, session.loader, "clustering", clustering_plan("part=p0", group))
    decide = session.decide

    def late(prepare, purpose):
        paused(storage, P0)
        return decide(prepare, purpose)

    session.decide = late  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="gives way"):
        complete_write(session, attempt, Write("CLUSTER", (), replaced={"part=p0": (group,)}), role="service")


@pytest.mark.parametrize("data", [P1, P0], ids=["elsewhere", "dead"])
def test_a_service_passes_ingestion_elsewhere_and_dead_ingestion(storage: MemoryStorage, data: pa.Table) -> None:
    paused(storage, data)
    rewrite(process(storage, "service", NOW_MS + (1_000 if data is P1 else 2 * EXPIRY_MS)), storage)
    assert now(storage) == {key: value for key, value in OLD.items() if value % 2}


def test_under_first_committer_a_service_passes_live_ingestion(storage: MemoryStorage) -> None:
    paused(storage, P0)
    rewrite(process(storage, "service", NOW_MS + 1_000, strategy="first-committer"), storage)
    assert now(storage) == {key: value for key, value in OLD.items() if value % 2}


@pytest.mark.parametrize(
    "inflight",
    [None, b"", b"Obj\x01 torn", UPSERT.inflight(), UPSERT.inflight(Footprint(partitions=frozenset({"part=p0"})))],
    ids=["only-requested", "empty", "half-written", "silent", "coarse"],
)
@pytest.mark.parametrize("lease", ["live", "none", "dead"])
def test_ingestion_whose_write_set_is_unknown_may_touch_everything(
    storage: MemoryStorage, inflight: bytes | None, lease: str
) -> None:
    """A lease that is missing proves nothing; one that has expired does."""
    theirs = instant_of_ms(NOW_MS - 1_000)
    storage.put(f"{TIMELINE}/{theirs}.commit.requested", b"")
    if inflight is not None:
        storage.put(f"{TIMELINE}/{theirs}.inflight", inflight)
    late_ms = 0
    if lease != "none":
        storage.put(f".hoodie/.heartbeat/{theirs}", b"")
    if lease == "dead":
        late_ms = 100 * EXPIRY_MS
    service = process(storage, "service", NOW_MS + late_ms)
    if lease == "dead":
        rewrite(service, storage)
        return
    with pytest.raises(Conflict) as caught:
        rewrite(service, storage)
    assert caught.value.details["other"] == theirs
    # Ingestion does not care: the first to complete wins. Without a heartbeat it is asked first whether it may.
    once(process(storage, "writer", NOW_MS + 60_000, foreign_without_heartbeat="pass"), P1)


# (10) (11) ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("upsert", "upsert"),
        ("insert_overwrite", "upsert"),
        ("insert_overwrite", "insert_overwrite"),
        ("upsert", "delete"),
    ],
)
def test_writers_of_disjoint_partitions_never_meet(storage: MemoryStorage, one: str, two: str) -> None:
    """Wherever one comes between the other's steps, neither is refused, cancelled, or kept waiting."""
    number, points = 0, 0
    while points == number:
        number += 1
        state = storage.copy()
        inner = process(state, "inner", NOW_MS + 100)

        class Before:
            def fault_at(self, at: int, point: str, wanted: int = number, inner: Table = inner) -> Fault | None:
                nonlocal points
                if at == wanted:
                    points += 1
                    inner.ingest(P1, two)
                return None

        outer = process(FaultyStorage(state, Before()), "outer")
        outer.ingest(P0, one)
        assert cancels(state) == 0, f"operation {number}"
        for table in (inner, outer):
            assert table.context.clock.monotonic_s() < 1, f"operation {number}: somebody waited"
    assert points > 22


def test_two_inserts_into_one_new_bucket(storage: MemoryStorage) -> None:
    """Both create the bucket's first file group, under ids of their own: not the ids, the bucket is what they share."""
    mine, theirs = rows(("new0", "p7", 1, 1, None)), rows(("new2", "p7", 2, 1, None))
    error = overtaken(
        storage, mine, AT_DATA, lambda: once(process(storage, "other", NOW_MS + 500), theirs, "insert"), "insert"
    )
    assert isinstance(error, Conflict)
    assert [name.rpartition("/")[0] for name in error.details["file_groups"]] == ["part=p7"]
    assert now(storage) == {**OLD, "new2": 2}


# (17) --------------------------------------------------------------------------------------------------------------------------


def test_an_instant_is_completed_once(storage: MemoryStorage) -> None:
    table = process(storage, "writer")
    session = table._session
    attempt = begin(session.ctx, session.loader, "commit")
    complete_write(session, attempt, Write("UPSERT", ()))
    with pytest.raises(Conflict, match="completed already"):
        complete_write(session, attempt, Write("UPSERT", ()))


def test_an_instant_that_was_cancelled_is_never_completed(storage: MemoryStorage) -> None:
    table = process(storage, "writer")
    session = table._session
    attempt = begin(session.ctx, session.loader, "commit")
    assert cancel_write(process(storage, "other")._session, attempt.instant, "test")
    with pytest.raises(Cancelled):
        complete_write(session, attempt, Write("UPSERT", ()))
