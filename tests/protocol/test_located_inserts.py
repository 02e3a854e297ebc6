"""Writers of new keys where a key's file group is anybody's choice: they touch no group in common, and a key must not lie twice.

Apache Hudi does not tell two such writers of one key apart; ours conflict, and who tries again finds the key.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.context import TableContext
from hudi_ops.errors import Conflict, HudiOpsError, InvalidRequest
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import parse_operation
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.testing.marks import refuse_unreached
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.testing.simulation import RunRecord, Simulation, explore
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import LOOKED_KEY
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import OLD, make_base, visible
from tests.tables import NOW_MS, START_MS, TIMELINE, rows

NEW_GROUPS = FileSizes(small_bytes=0)
AT_DATA = "put:part="
K9 = rows(("k9", "p0", 9, 5, None))
K9_TOO = rows(("k9", "p0", 99, 6, None))
N8 = rows(("n8", "p0", 8, 5, None))
N8_ELSEWHERE = rows(("n8", "p1", 8, 5, None))
OLD_ONE = rows(("k0", "p0", 100, 5, None))
GONE = rows(("nobody", "p0", 0, 5, True))


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> MemoryStorage:
    return make_base(tmp_path / "source", None, request.param, "bloom")


def process(ctx: TableContext) -> Table:
    return Table(ctx, conflicts=ConflictSettings(), file_sizes=NEW_GROUPS)


def once(storage: Storage, actor: str, at_ms: int, data: pa.Table, operation: str = "upsert") -> str | None:
    """One attempt; returns its instant."""
    table = process(simulated_context(storage, ManualClock(at_ms, tick_ms=1), actor))
    batch = Batch(parse_operation(operation), rows=data)
    return ingest(table._session, batch, table.context.engine, "", 0.0).instant


def overtaken(
    storage: MemoryStorage, mine: tuple[pa.Table, str], move: Callable[[], object], point: str = AT_DATA
) -> HudiOpsError | None:
    """One attempt, with a move in the middle; returns its error."""
    plan = MoveBefore(point, lambda: move() and None)
    try:
        once(FaultyStorage(storage, plan), "overtaken", NOW_MS, *mine)
    except HudiOpsError as error:
        return error
    finally:
        assert plan.moved
    return None


def now(storage: MemoryStorage) -> dict[str, int]:
    return visible(storage, ManualClock(NOW_MS + 60_000))


@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_who_adds_keys_to_a_partition_conflicts_with_who_added_some_meanwhile(
    storage: MemoryStorage, operation: str
) -> None:
    error = overtaken(storage, (K9, operation), lambda: once(storage, "other", NOW_MS + 500, K9_TOO, operation))
    assert isinstance(error, Conflict)
    assert "new keys in partition part=p0" in str(error)
    assert error.details["partitions"] == ["part=p0"]
    assert now(storage) == {**OLD, "k9": 99}


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ((K9, "upsert"), (N8_ELSEWHERE, "upsert")),
        ((K9, "upsert"), (OLD_ONE, "upsert")),
        ((OLD_ONE, "upsert"), (K9, "upsert")),
        ((K9, "upsert"), (OLD_ONE, "delete")),
        ((N8, "bulk_insert"), (K9, "upsert")),
        ((N8, "bulk_insert"), (K9, "bulk_insert")),
    ],
    ids=["elsewhere", "adds, updates", "updates, adds", "adds, deletes", "bulk, adds", "bulk, bulk"],
)
def test_others_do_not_meet(storage: MemoryStorage, mine: tuple[pa.Table, str], theirs: tuple[pa.Table, str]) -> None:
    assert overtaken(storage, mine, lambda: once(storage, "other", NOW_MS + 500, *theirs)) is None
    held = dict(OLD)
    for data, operation in (theirs, mine):
        for row in data.to_pylist():
            held[row["id"]] = row["value"]
            if operation == "delete":
                del held[row["id"]]
    assert now(storage) == held


def test_who_adds_keys_conflicts_with_a_bulk_insert_that_completed_meanwhile(storage: MemoryStorage) -> None:
    error = overtaken(storage, (K9, "upsert"), lambda: once(storage, "other", NOW_MS + 500, K9_TOO, "bulk_insert"))
    assert isinstance(error, Conflict)


def test_deletes_of_keys_that_are_nowhere_add_nothing(storage: MemoryStorage) -> None:
    assert once(storage, "writer", NOW_MS, GONE) is not None
    newest = max(info.path for info in storage.list(TIMELINE) if "commit" in info.name and "_" in info.name)
    assert CommitMetadata.from_bytes(storage.get(newest)).stats == ()


def test_keys_that_a_writer_without_slots_added_meanwhile_are_a_conflict_and_then_found(storage: MemoryStorage) -> None:
    twin = storage.copy()
    before = {info.path for info in twin.list()}
    instant = once(twin, "stranger", NOW_MS + 500, K9_TOO)
    assert instant is not None

    def move() -> None:
        """As Apache Hudi leaves it: data and timeline, no slot."""
        for info in twin.list():
            if info.path in before or info.path.startswith((
                ".hoodie/.commit_log",
                ".hoodie/.heartbeat",
                ".hoodie/.temp",
            )):
                continue
            body = twin.get(info.path)
            if "commit" in info.name and "_" in info.name and info.path.startswith(TIMELINE):
                metadata = CommitMetadata.from_bytes(body)
                assert LOOKED_KEY in metadata.extra
                body = replace(metadata, extra={"schema": metadata.extra["schema"]}).to_bytes()
            storage.put(info.path, body)

    error = overtaken(storage, (K9, "upsert"), move)
    assert isinstance(error, Conflict)
    assert "new keys in partition part=p0" in str(error)
    assert now(storage) == {**OLD, "k9": 99}
    with pytest.raises(InvalidRequest, match="would write key k9 twice"):
        once(storage, "writer", NOW_MS + 5_000, K9, "insert")
    once(storage, "writer", NOW_MS + 5_000, rows(("k9", "p0", 7, 7, None)))
    assert now(storage) == {**OLD, "k9": 7}


def test_two_inserters_of_one_key_interrupted_once_leave_it_once(storage: MemoryStorage) -> None:
    def scenario() -> Simulation:
        simulation = Simulation(storage, START_MS + 60_000, None)
        batches = {
            "a": rows(("k9", "p0", 100, 5, None)),
            "b": rows(("k9", "p0", 200, 6, None), ("n7", "p1", 7, 5, None)),
        }
        for (name, batch), skew_ms in zip(batches.items(), itertools.count(0, 7), strict=False):
            simulation.actor(name, lambda ctx, batch=batch: process(ctx).ingest(batch).instant, skew_ms=skew_ms)
        return simulation

    def check(history: RunRecord) -> None:
        assert all(outcome.succeeded for outcome in history.outcomes.values())
        assert [one for one in verify_table(history.storage, deep=True).findings if one.severity != "info"] == []
        assert visible(history.storage, ManualClock(history.now_ms)) == {**OLD, "k9": 200, "n7": 7}

    explored = explore(scenario, check, preemptions=1, faults=0, limit=None)
    print(f"two inserters, one preemption: {explored}")
    refuse_unreached(["outcome ok"], explored.marks)
    assert explored.schedules + explored.pruned >= 40
