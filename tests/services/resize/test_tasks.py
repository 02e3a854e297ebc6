"""Tasks of a resize: bounded memory gives the same rows, and rows that do not belong to their group stop it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.files.base.base_file import BaseFileReader, WriterSettings
from hudi_ops.index.resizes import holders_of, span_of
from hudi_ops.index.ring import HASHES, TOP, initial_ring
from hudi_ops.services.base.service import Run
from hudi_ops.services.resize.service import RESIZE
from hudi_ops.services.resize.tasks import ResizeTask, resize_group
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.content.plans import read_plan
from tests.bounds import bound
from tests.services.resize.hand_plans import P0, Wanted, plan_of_nodes
from tests.services.resize.ringed_tables import BY_COMMIT_TIME, CONSISTENT, hashes_of, opened
from tests.tables import NOW_MS, made, rows

KEYS = range(0, 4_000, 2)


def tasks_of(storage: MemoryStorage, *wanted: Wanted, memory_bytes: int = 1 << 30) -> list[ResizeTask]:
    """The tasks of a plan, as an executor makes them; nothing is executed."""
    table = opened(storage, clock=ManualClock(NOW_MS, tick_ms=1))
    instant = plan_of_nodes(table, *wanted)
    session = table._session
    state = session.loader.load()
    found = state.timeline.find(instant, "clustering")
    plan = read_plan(storage, state.timeline, found)
    attempt = Attempt(instant, "clustering", state, 1)
    inputs = RESIZE.inputs(session, attempt, plan)
    run: Any = Run(session, attempt, plan, inputs, session.ctx.local_engine, "", memory_bytes, 0)
    return RESIZE.tasks(run)


def logged(definition: Any = CONSISTENT) -> MemoryStorage:
    """Base files, and log files with updates, new keys, deletes and late rows."""
    first = rows(*((f"k{n}", "p0", n, 5, None) for n in KEYS))
    second = rows(*((f"k{n}", "p0", -n, 6 if n % 3 else 4, (n % 5 == 0) or None) for n in range(0, 6_000, 4)))
    return made(definition, first, second)


def content(storage: MemoryStorage, task: ResizeTask) -> list[pa.Table]:
    return [BaseFileReader(storage, task.output(place).path).read() for place in range(len(task.children))]


@pytest.mark.parametrize("wanted", [Wanted((0,)), Wanted((3, 0, 1))], ids=["split", "merge"])
@pytest.mark.parametrize("definition", [CONSISTENT, BY_COMMIT_TIME], ids=["event time", "commit time"])
def test_a_group_larger_than_memory_gives_the_same_rows(definition: Any, wanted: Wanted) -> None:
    storage = logged(definition)
    (task,) = tasks_of(storage, wanted)
    held = resize_group(task)
    whole = content(storage, task)
    small = replace(task, memory_bytes=1_000)
    streamed = resize_group(small)
    assert (held.streamed, streamed.streamed) == (False, True)
    assert [part.equals(other) for part, other in zip(whole, content(storage, small), strict=True)] == [True] * len(
        whole
    )
    assert (held.rows, held.counts) == (streamed.rows, streamed.counts)
    assert held.counts.deleted > 0
    assert [stat.num_writes for stat in held.stats] == [stat.num_writes for stat in streamed.stats]
    assert min(stat.num_writes for stat in held.stats) > 0


def test_a_limit_below_what_a_filter_takes_is_refused_with_the_smallest() -> None:
    (task,) = tasks_of(logged(), Wanted((0,)))
    large_filter = replace(task, settings=WriterSettings(bloom_fpp=1e-150), memory_bytes=1_000)
    with pytest.raises(InvalidRequest, match="memory_bytes") as caught:
        resize_group(large_filter)
    least = caught.value.details["minimum"]
    with pytest.raises(InvalidRequest, match=str(least)):
        resize_group(replace(large_filter, memory_bytes=least - 1))
    assert resize_group(replace(large_filter, memory_bytes=least)).rows == resize_group(task).rows


def test_a_second_run_of_a_task_writes_the_same_bytes() -> None:
    storage = logged()
    for task in tasks_of(storage, Wanted((0,)), Wanted((1, 2))):
        for one in (task, replace(task, memory_bytes=bound(10_000, 1_000, 1_000))):
            assert resize_group(one) == resize_group(one)
            paths = [one.output(place).path for place in range(len(one.children))]
            bodies = [bytes(storage.get(path)) for path in paths]
            resize_group(one)
            assert [bytes(storage.get(path)) for path in paths] == bodies


def test_each_row_goes_to_the_child_of_its_hash() -> None:
    storage = logged()
    (task,) = tasks_of(storage, Wanted((0,), point=12_345_678))
    resize_group(task)
    for child, part in zip(task.children, content(storage, task), strict=True):
        width = (child.value - child.before) % HASHES
        assert all((int(one) - child.before - 1) % HASHES < width for one in hashes_of(part["id"].to_pylist()))
        assert {name.split("_")[0] for name in part["_hoodie_file_name"].to_pylist()} <= {child.file_id}


@pytest.mark.parametrize("memory_bytes", [1 << 30, 1_000])
def test_a_row_of_another_node_stops_the_task_and_names_hash_ring_and_group(memory_bytes: int) -> None:
    storage = logged()
    (task,) = tasks_of(storage, Wanted((0,)))
    narrow = tuple(replace(child, before=(child.value - 5) % HASHES) for child in task.children)
    with pytest.raises(Corrupt, match="do not belong to this file group") as found:
        resize_group(replace(task, children=narrow, memory_bytes=memory_bytes))
    text = str(found.value)
    assert initial_ring(P0, 4).file_id(0) in text
    assert "as ring 00000000000000 says" in text
    assert "hudi-ops verify" in text
    assert [info.path for info in storage.list(P0) if task.instant in info.path] == []


@pytest.mark.parametrize(
    ("ranges", "span"),
    [
        ([(1, 5)], (1, 5)),
        ([(5, 9), (1, 5)], (1, 9)),
        ([(9, 1), (5, 9)], (5, 1)),
        ([(1, 5), (6, 9)], None),
        ([(7, 7)], (-1, -1)),
        ([(7, 9), (9, 7)], (-1, -1)),
        ([], None),
    ],
)
def test_adjacent_ranges_make_one(ranges: list[tuple[int, int]], span: tuple[int, int] | None) -> None:
    assert span_of(ranges) == span


def test_ranges_hold_their_hashes_around_the_end_of_the_ring() -> None:
    hashes = np.array([0, 1, 5, 6, 100, TOP - 1, TOP], np.int32)
    assert holders_of(hashes, [(TOP - 1, 5), (5, 99)]).tolist() == [0, 0, 0, 1, -1, -1, 0]
    assert holders_of(hashes, [(7, 7)]).tolist() == [0] * 7
    assert holders_of(hashes[:0], []).tolist() == []
