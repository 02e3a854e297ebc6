"""Writes of Apache Hudi that lack new partitions, beside executors that sleep, and beside writes that carry some of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from hudi_ops.commit.decide.takeover import take_over
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, drop_lease
from hudi_ops.errors import Cancelled, Conflict
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.records.file_lists import FileChanges, files_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.record_index import location_values
from hudi_ops.metadata.records.records import sorted_records
from hudi_ops.metadata.records.values import repeated
from hudi_ops.metadata.writer.commit import apply_delta
from hudi_ops.metadata.writer.delta import make_delta
from hudi_ops.services.indexing.filling.reserve import take_above
from hudi_ops.services.indexing.service import INDEXING
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from hudi_ops.timeline.settings.properties_file import load_config
from tests.bounds import bound
from tests.protocol.scenarios.actors import Writes
from tests.protocol.scenarios.between import clock_of, context
from tests.protocol.scenarios.builds import AbortsBuild, ExecutesBuild, PlansBuild, planned_listed
from tests.protocol.scenarios.indexed_hudi import FilesWriter, HudiWritesLate
from tests.protocol.scenarios.worlds import ALSO_A, UPSERT_A, Job, at
from tests.services.indexing.built import Moves, announced_at, index_faults, strays
from tests.tables import NOW_MS

STEP = bound(6, 2, 1)
NEW = Job("upsert", (("a9", 9),))
FLOOR = instant_of_ms(NOW_MS)


class HalfWriter(FilesWriter):
    """A process of Apache Hudi whose options name the record index, and no bloom filters."""

    def _index(self, time: str, changes: Mapping[str, FileChanges]) -> None:
        version = self._config.version
        ((partition, change),) = changes.items()
        (name,) = (parse_data_file(one) for one in change.added)
        assert name is not None
        values = location_values([(partition, name.file_id, ms_of_instant(time))], version=version)
        none = pa.array([], pa.string())
        index = sorted_records(
            MetadataPartition.RECORD_INDEX, pa.array(["a9"]), repeated(values, [1]), none, version=version
        )
        groups = {MetadataPartition.FILES: 1, MetadataPartition.RECORD_INDEX: 10}
        records = [files_records(changes, version=version), index]
        apply_delta(
            self._storage,
            make_delta(records, groups, instant=time, version=version, token="7-1-0"),
            self._next_time(),
        )


def played(
    moves: Mapping[int, Callable[[MemoryStorage], object]], storage: MemoryStorage | None = None, actor: str = "two"
) -> tuple[MemoryStorage, list[str]]:
    """Execute the planned build, with moves before operations of given numbers; return its operations."""
    storage = storage if storage is not None else at(planned_listed(), NOW_MS)
    bound_moves = {number: lambda move=move: move(storage) for number, move in moves.items()}
    faulty = FaultyStorage(storage, Moves(bound_moves))
    with contextlib.suppress(Cancelled, Conflict):
        ExecutesBuild()(simulated_context(faulty, clock_of(storage), actor))
    return storage, list(faulty.history)


def test_a_key_that_a_write_with_some_of_the_partitions_inserted_and_another_deleted_leaves_the_index() -> None:
    def meanwhile(storage: MemoryStorage) -> None:
        Writes(UPSERT_A)(context(storage, "one"))
        half = HalfWriter(context(storage, "half"), "half")
        half.finish(NEW, half.begin())
        silent = FilesWriter(context(storage, "silent"), "silent")
        silent.finish(Job("delete", (("a9", 0),)), silent.begin())

    storage, _ = played({announced_at(played({})[1]) + 2: meanwhile})
    assert index_faults(storage) == []


@pytest.mark.parametrize("ends", ["taken over", "cancelled"])
def test_an_executor_that_slept_in_catch_up_leaves_the_delta_of_its_successor(ends: str) -> None:
    """It sleeps before each operation from the announcement to its COMPLETE; its successor adds a write of Apache Hudi.

    Once the plan is cancelled, the successor has a plan of its own, and the same epoch. Writes complete in its own gap.
    """

    def meanwhile(storage: MemoryStorage) -> None:
        Writes(UPSERT_A)(context(storage, "one"))
        assert HudiWritesLate("theirs", NEW)(context(storage, "theirs")) is not None

    def more(storage: MemoryStorage) -> None:
        Writes(ALSO_A)(context(storage, "other"))
        silent = FilesWriter(context(storage, "silent"), "silent")
        silent.finish(Job("delete", (("a9", 0),)), silent.begin())

    def successor(storage: MemoryStorage) -> None:
        clock_of(storage).advance_ms(EXPIRY_MS + 60_000)
        if ends == "taken over":
            ExecutesBuild()(context(storage, "second"))
        else:
            AbortsBuild()(context(storage, "user"))
            PlansBuild()(context(storage, "planner"))
            trial = played({}, at(storage, clock_of(storage).now_ms()), "trial")[1]
            played({announced_at(trial) + 2: more}, storage, "second")
        assert index_faults(storage) == []

    gap = announced_at(played({})[1]) + 2
    whole, history = played({gap: meanwhile})
    assert index_faults(whole) == []
    complete = [number for number, one in enumerate(history, 1) if "put_if_absent:.hoodie/.commit_log/0" in one][2]
    for number in range(gap + 1, complete, STEP):
        storage, _ = played({gap: meanwhile, number: successor})
        story = f"slept before operation {number}, {history[number - 1]}"
        assert index_faults(storage) == [], story
        assert strays(storage) == [], story


def test_executors_of_two_plans_take_different_instants_of_catch_up() -> None:
    """Each plan's first executor has epoch 1; the plan of the first one was cancelled while it slept."""
    storage, found = at(planned_listed(), NOW_MS), []
    for number in range(2):
        ctx = context(storage, f"executor {number}")
        (plan,) = [one.time for one in load_timeline(storage, load_config(storage)).pending]
        attempt = take_over(Session(ctx), plan, INDEXING.action)
        assert attempt is not None
        found.append((attempt.epoch, take_above(ctx, FLOOR, (), attempt.takeover)))
        drop_lease(ctx, found[-1][1])
        clock_of(storage).advance_ms(EXPIRY_MS + 60_000)
        AbortsBuild()(context(storage, "user"))
        PlansBuild()(context(storage, "planner"))
    (first, second) = found
    assert first[0] == second[0] == 1
    assert first[1] != second[1]
