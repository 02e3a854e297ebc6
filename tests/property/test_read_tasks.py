"""Read tasks that are made when they are taken equal those that are made of each slice as an object.

Goal: no index, slice, filter or copy of the columns changes a task or its place. Method: random slices, in and without partitions,
with log files in any order; the expected tasks are built by a loop over the objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings, strategies as st

from hudi_ops.config.table import TableConfig
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name, data_path, log_file_name, parse_data_file
from hudi_ops.files.slice.file_scan import FileTask
from hudi_ops.files.slice.slice_scan import SliceTask
from hudi_ops.storage.local import LocalStorage
from hudi_ops.view.columns.read_tasks import ReadTask, ReadTasks
from hudi_ops.view.columns.slices import PART, SliceColumns
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice, merge_order
from tests.bounds import examples

SCHEMA = pa.schema([("id", pa.string())])
RULES = MergeRules.of(TableConfig(name="t", version=9, layout=2, raw={}), SCHEMA)
INSTANTS = BlockInstants("9")
STORAGE = LocalStorage(".")
CONSTANTS = {"p=a": (("p", "a"),), "p=b/q=1": (("p", "b"),)}
TIMES = st.integers(10, 99).map(str)
KINDS = st.tuples(st.one_of(st.none(), TIMES), st.lists(st.tuples(TIMES, st.integers(1, 12)), max_size=4, unique=True))


def file(partition: str, name: str, size_bytes: int) -> DataFile:
    parsed = parse_data_file(name)
    assert parsed is not None
    return DataFile(partition, data_path(partition, name), parsed.file_id, parsed.instant, size_bytes, parsed.is_log)


@st.composite
def drawn_slices(draw: st.DrawFn) -> list[Slice]:
    kinds = draw(st.lists(KINDS.filter(any), max_size=6))
    partitions = draw(st.sampled_from([[""], ["p=a"], ["p=a", "p=b/q=1", "p=c"]]))
    times = draw(st.sampled_from([1, 1, 1, PART]))
    slices = []
    for number, (base, logs) in enumerate(kinds * times):
        partition, file_id = partitions[number % len(partitions)], f"{number:08d}-0"
        slices.append(
            Slice(
                partition,
                file_id,
                file(partition, base_file_name(file_id, 0, 0, base), number) if base is not None else None,
                merge_order(
                    file(partition, log_file_name(file_id, time, version, "0-0-0"), 100 + version)
                    for time, version in logs
                ),
            )
        )
    return sorted(slices, key=lambda one: one.key)


def tasks_of(slices: Sequence[Slice]) -> list[ReadTask]:
    found: list[ReadTask] = []
    for one in slices:
        wanted = (SCHEMA, ("id",), None, None, CONSTANTS.get(one.partition_path, ()))
        path, size_bytes = (one.base.path, one.base.size_bytes) if one.base is not None else (None, 0)
        logs = tuple((log.path, log.size_bytes) for log in one.logs)
        if logs:
            found.append(SliceTask(STORAGE, path, size_bytes, logs, RULES, INSTANTS, *wanted))
        elif path is not None:
            found.append(FileTask(STORAGE, path, size_bytes, *wanted))
    return found


def lazily(slices: SliceColumns) -> ReadTasks:
    return ReadTasks(STORAGE, slices, RULES, INSTANTS, SCHEMA, ("id",), None, None, CONSTANTS)


@given(drawn_slices(), st.randoms(use_true_random=False), st.slices(8))
@settings(max_examples=examples(100))
def test_tasks_equal_those_of_the_objects(slices: list[Slice], chance, part: slice):
    columns, expected = SliceColumns.of_slices(slices), tasks_of(slices)
    assert list(columns) == columns.objects() == slices
    tasks = lazily(columns)
    assert (len(tasks), list(tasks)) == (len(expected), expected)
    assert tasks.size_bytes == sum(task.size_bytes for task in expected)
    assert tasks[part] == tuple(expected[part])
    assert [tasks[at] for at in (0, -1) if expected] == [expected[at] for at in (0, -1) if expected]
    kept = [chance.random() < 0.6 for _ in slices]
    left = [one for one, is_kept in zip(slices, kept, strict=True) if is_kept]
    assert list(lazily(columns.filter(np.array(kept, bool)))) == tasks_of(left)
    bases = [Slice(one.partition_path, one.file_id, one.base) for one in slices]
    assert list(lazily(columns.bases_alone())) == tasks_of(bases)
    groups = [one.key for one in left] + [("p=a", "none"), ("none", "none")]
    are_of, missing = columns.are_of(groups)
    assert (are_of.tolist(), sorted(missing)) == (kept, [("none", "none"), ("p=a", "none")])
    copied = pickle.loads(pickle.dumps(lazily(columns[:2])))
    assert isinstance(copied, tuple)
    assert [task.path for task in copied] == [task.path for task in expected[:2]]
