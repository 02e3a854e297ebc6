"""Overwrites among Apache Hudi's writers, which write no slots: theirs in the middle of ours, and pending ones that stay theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy, Conflict, HudiOpsError
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import DELETE_PARTITION, INSERT_OVERWRITE, TRUNCATE, UPSERT, WriteOperation
from hudi_ops.services.write.remove import remove
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.names import instant_of_ms
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import OF_P0, OLD, make_base, visible
from tests.protocol.foreign_table import clustering_plan, group_of
from tests.tables import NOW_MS, TIMELINE, rows, table_of

P1 = rows(("k1", "p1", 10, 5, None))
NEW_P1 = {**OF_P0, "k1": 10}


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    return make_base(tmp_path / "source", None)


def attempt(storage: MemoryStorage, operation: WriteOperation, point: str, move: object) -> HudiOpsError | None:
    """One attempt on partition p1 with a move in the middle; returns its error."""
    plan = MoveBefore(point, move)  # type: ignore[arg-type]
    table = table_of(FaultyStorage(storage, plan), ManualClock(NOW_MS), "writer")
    try:
        if operation.kernel is None:
            remove(table._session, operation, ["part=p1"], 0.0)
        else:
            ingest(table._session, Batch(operation, rows=P1), table.context.engine, "", 0.0)
    except HudiOpsError as error:
        return error
    finally:
        assert plan.moved
    return None


def completed_by_hudi(storage: MemoryStorage, action: str, metadata: CommitMetadata) -> None:
    time = instant_of_ms(NOW_MS + 500)
    for state in ("requested", "inflight") if action != "commit" else ("commit.requested", "inflight"):
        storage.put(f"{TIMELINE}/{time}.{state if action == 'commit' else f'{action}.{state}'}", b"")
    storage.put(f"{TIMELINE}/{time}_{instant_of_ms(NOW_MS + 600)}.{action}", metadata.to_bytes())


def upsert_of_a_new_group() -> CommitMetadata:
    # Bucket 0 of p1 has no file group yet: all its keys hash to bucket 1.
    stat = WriteStat(
        file_id="00000000-theirs-0", path="part=p1/00000000-theirs-0_0-1-1_1.parquet", partition_path="part=p1"
    )
    return CommitMetadata(operation="UPSERT", stats=(stat,))


@pytest.mark.parametrize("operation", [INSERT_OVERWRITE, DELETE_PARTITION, TRUNCATE], ids=lambda one: one.name)
def test_a_group_that_hudi_makes_meanwhile_is_not_left_behind(
    storage: MemoryStorage, operation: WriteOperation
) -> None:
    def move() -> None:
        completed_by_hudi(storage, "commit", upsert_of_a_new_group())

    error = attempt(storage, operation, "put_if_absent:.hoodie/.heartbeat", move)
    assert isinstance(error, Conflict)
    assert "p1" in error.what


@pytest.mark.parametrize("replaced", [{"part=p1": ("00000001-x",)}, {"part=p1": ()}, {}])
@pytest.mark.parametrize("name", ["INSERT_OVERWRITE_TABLE", "DELETE_PARTITION"])
def test_an_upsert_meets_hudis_overwrite_of_its_partition(
    storage: MemoryStorage, replaced: dict[str, tuple[str, ...]], name: str
) -> None:
    def move() -> None:
        completed_by_hudi(storage, "replacecommit", CommitMetadata(operation=name, replaced=replaced))

    error = attempt(storage, UPSERT, "put_if_absent:.hoodie/.heartbeat", move)
    touches = name == "INSERT_OVERWRITE_TABLE" or bool(replaced)
    assert isinstance(error, Conflict) if touches else error is None


def test_hudis_overwrite_elsewhere_does_not_hinder(storage: MemoryStorage) -> None:
    def move() -> None:
        said = CommitMetadata(operation="DELETE_PARTITION", replaced={"part=p0": (group_of(storage, "part=p0"),)})
        completed_by_hudi(storage, "replacecommit", said)

    assert attempt(storage, INSERT_OVERWRITE, "put_if_absent:.hoodie/.heartbeat", move) is None
    assert visible(storage, ManualClock(NOW_MS)) == {"k1": 10}


@pytest.mark.parametrize("operation", [INSERT_OVERWRITE, DELETE_PARTITION, TRUNCATE], ids=lambda one: one.name)
@pytest.mark.parametrize("group", ["00000000-not-yet-there-0", ""])
def test_a_clustering_anywhere_in_the_partition_is_waited_for(
    storage: MemoryStorage, operation: WriteOperation, group: str
) -> None:
    plan = clustering_plan("part=p1", group or group_of(storage, "part=p1"))
    name = f"{TIMELINE}/{instant_of_ms(NOW_MS - 1)}.clustering.requested"
    error = attempt(storage, operation, "put_if_absent:.hoodie/.heartbeat", lambda: storage.put(name, plan))
    assert isinstance(error, Busy)
    assert visible(storage, ManualClock(NOW_MS)) == OLD


@pytest.mark.parametrize("action", ["replacecommit", "clustering"])
@pytest.mark.parametrize("heartbeat", [True, False])
def test_a_pending_replacement_of_hudi_is_left_to_it(storage: MemoryStorage, action: str, heartbeat: bool) -> None:
    theirs = instant_of_ms(NOW_MS - 3 * EXPIRY_MS)
    plan = INSERT_OVERWRITE.requested() if action == "replacecommit" else clustering_plan("part=p0", "00000000-other")
    names = [f"{TIMELINE}/{theirs}.{action}.requested", f"{TIMELINE}/{theirs}.{action}.inflight"]
    storage.put(names[0], plan)
    storage.put(names[1], b"")
    if heartbeat:
        storage.put(f".hoodie/.heartbeat/{theirs}", b"")  # theirs are empty: nothing of ours is inside
    path = f"part=p1/00000001-theirs-0_0-1-1_{theirs}.parquet"
    storage.put(path, b"rows that they are writing")
    storage.put(f".hoodie/.temp/{theirs}/{path}.marker.CREATE", b"")
    context = simulated_context(storage, ManualClock(NOW_MS), "second")
    if not heartbeat and action == "replacecommit":
        with pytest.raises(Busy, match="without a heartbeat"):
            Table(context).ingest(P1, "insert_overwrite")
    Table(context, conflicts=ConflictSettings(foreign_without_heartbeat="pass")).ingest(P1, "insert_overwrite")
    assert visible(storage, ManualClock(NOW_MS)) == NEW_P1
    assert all(storage.head(name) is not None for name in (*names, path))
