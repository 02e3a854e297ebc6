"""The facts that writing tasks give: the same that are read back from storage, and which keys came and went."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.config.columns import IS_DELETED, META_COLUMNS, RECORD_KEY
from hudi_ops.files.base.base_file import BaseFileReader
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.slice_keys import SliceKeysTask, keys_of_slice
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import NO_FACTS, FileStatistics, StatisticsRequest
from hudi_ops.kernels.keys.keys import KeySpec
from hudi_ops.kernels.merging.merge import Operation, Ordering
from hudi_ops.services.compaction.tasks import CompactTask, compact_slice
from hudi_ops.services.write.tasks.append import write_bucket
from hudi_ops.services.write.tasks.merge import BucketResult, BucketTask
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.file_group import DataFile
from hudi_ops.view.slices import Slice

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("price", pa.float64()),
    ("city", pa.string()),
    ("at", pa.timestamp("us", "UTC")),
    ("where", pa.struct([("x", pa.float32()), ("note", pa.string())])),
    (IS_DELETED, pa.bool_()),
])
COLUMNS = (*META_COLUMNS[:1], RECORD_KEY, "ts", "price", "city", "at", "where.x", "where.note", IS_DELETED, "nobody")
EVERYTHING = StatisticsRequest(columns=COLUMNS, bloom=True, keys=True)
FILE_ID = "00000000-0000-0000-0000-000000000000-0"
KEYS = KeySpec(("id",), encode_names=False)
LONG = "long " * 2000


def rows(ids: str, time: int = 1, deleted: str = "") -> pa.Table:
    """One row for each letter; the letters in `deleted` are deletes."""
    data = [
        {
            "id": one,
            "ts": time,
            "price": math.nan if one == "c" else float(ord(one)) * time,
            "city": LONG if one == "b" else f"city {ord(one) % 2}",
            "at": ord(one),
            "where": None if one == "a" else {"x": 0.0, "note": one},
            IS_DELETED: one in deleted,
        }
        for one in ids
    ]
    made = pa.Table.from_pylist(data, schema=SCHEMA)
    return made.add_column(0, RECORD_KEY, made.column("id"))


class Group:
    """One file group that is written to, with the tasks of a service."""

    def __init__(
        self,
        log_format: Any = None,
        *,
        meta_fields: bool = True,
        mode: Ordering = Ordering.EVENT_TIME,
        storage: Storage | None = None,
    ) -> None:
        self.keys = None if meta_fields else KEYS
        key_columns = pa.schema([pa.field(RECORD_KEY, pa.string()) if meta_fields else SCHEMA.field("id")])
        by = SCHEMA.field("ts") if mode is Ordering.EVENT_TIME else None
        flags = pa.schema([SCHEMA.field(IS_DELETED)])
        self.rules = MergeRules("t", mode, by, self.keys, key_columns, flags, None)
        self.storage = storage or MemoryStorage()
        self.base: DataFile | None = None
        self.logs: tuple[DataFile, ...] = ()
        self.number = 0
        self.task = BucketTask(
            storage=self.storage,
            table_name="t",
            schema=SCHEMA,
            ordering="ts",
            mode=mode,
            operation=Operation.UPSERT,
            partition_path="p=1",
            bucket=0,
            file_id=FILE_ID,
            base=None,
            keys=self.keys,
            log_format=log_format,
            merging=(self.rules, BlockInstants("9" * 17)) if log_format else None,
            wanted=EVERYTHING,
        )

    def write(self, incoming: pa.Table, operation: Operation = Operation.UPSERT, **changes: Any) -> BucketResult:
        self.number += 1
        task = replace(self.task, operation=operation, instant=f"2030010100000{self.number:04d}", **changes)
        result = write_bucket(replace(task, base=self.base, logs=self.logs), [incoming])
        if result.stat is not None:
            path = result.stat.path
            is_log = ".log." in path
            file = DataFile("p=1", path, FILE_ID, task.instant, result.stat.file_size_in_bytes, is_log)
            if is_log:
                self.logs = (*self.logs, file)
            else:
                self.base, self.logs = file, ()
        return result

    def compact(self, *, streaming: bool) -> FileStatistics:
        self.number += 1
        task = CompactTask(
            storage=self.storage,
            table_name="t",
            partition_path="p=1",
            sources=(Slice("p=1", FILE_ID, self.base, self.logs),),
            merging=(self.rules, BlockInstants("9" * 17)),
            stored=self.task.stored,
            instant=f"2030010100000{self.number:04d}",
            epoch=0,
            number=0,
            memory_bytes=1 << 12 if streaming else 1 << 30,
            wanted=replace(EVERYTHING, keys=False),
        )
        done = compact_slice(task)
        assert done.streamed == streaming
        (facts,) = done.facts
        return facts

    def read_back(self, facts: FileStatistics, previous: DataFile | None = None) -> FileStatistics:
        return statistics_of_file(self.facts_task(facts, previous))

    def facts_task(self, facts: FileStatistics, previous: DataFile | None = None) -> FileStatisticsTask:
        wanted = EVERYTHING if facts.added is not None else replace(EVERYTHING, keys=False)
        info = self.storage.head(facts.path)
        assert info is not None
        return FileStatisticsTask(
            storage=self.storage,
            path=facts.path,
            size_bytes=info.size_bytes,
            schema=self.task.stored,
            wanted=wanted,
            keys=self.keys,
            rules=self.rules,
            previous=previous.path if previous is not None else None,
        )

    def keys_task(self) -> SliceKeysTask:
        return SliceKeysTask(
            storage=self.storage,
            base=self.base.path if self.base is not None else None,
            base_bytes=self.base.size_bytes if self.base is not None else 0,
            schema=self.task.stored,
            keys=self.keys,
            logs=tuple((file.path, file.size_bytes) for file in self.logs),
            merging=(self.rules, BlockInstants("9" * 17)) if self.logs else None,
        )


def told(facts: FileStatistics | None) -> tuple[Any, ...]:
    """All of it, as values that compare as they print: NaN is NaN."""
    assert facts is not None
    ranges = [
        (
            one.column,
            str(one.least.type),
            repr(one.least.to_pylist()),
            repr(one.greatest.to_pylist()),
            one.nulls,
            one.values,
            one.size,
            one.uncompressed_size,
        )
        for one in facts.ranges
    ]
    keys = [None if one is None else (str(one.type), sorted(one.to_pylist())) for one in (facts.added, facts.removed)]
    place = (facts.path, facts.partition_path, facts.file_id, facts.size_bytes, facts.is_log)
    return (*place, ranges, facts.bloom, facts.bloom_type, keys)


def keys_of(result: BucketResult) -> tuple[list[str], list[str]]:
    assert result.facts is not None
    assert result.facts.added is not None
    assert result.facts.removed is not None
    return result.facts.added.to_pylist(), result.facts.removed.to_pylist()


@pytest.mark.parametrize("meta_fields", [True, False])
def test_base_files_are_told_as_they_are_read_back(meta_fields: bool) -> None:
    group = Group(meta_fields=meta_fields)
    previous = None
    for incoming, operation in (
        (rows("abcde"), Operation.UPSERT),
        (rows("cdxy", 2, deleted="dy"), Operation.UPSERT),
        (rows("az"), Operation.DELETE),
        (rows("abcex"), Operation.DELETE),
        (rows("q"), Operation.INSERT),
    ):
        result = group.write(incoming, operation)
        assert result.facts is not None
        assert told(result.facts) == told(group.read_back(result.facts, previous))
        columns = {name for name in COLUMNS if name != "nobody" and (meta_fields or name not in META_COLUMNS)}
        assert {one.column for one in result.facts.ranges} == columns
        assert (result.facts.bloom is not None) == meta_fields
        previous = group.base


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
@pytest.mark.parametrize("mode", list(Ordering))
@pytest.mark.parametrize("meta_fields", [True, False])
def test_log_files_are_told_as_they_are_read_back(log_format: str, mode: Ordering, meta_fields: bool) -> None:
    group = Group(log_format, mode=mode, meta_fields=meta_fields)
    group.write(rows("abc"))
    for incoming, operation in (
        (rows("bcde", 2), Operation.UPSERT),
        (rows("bcx", 3, deleted="bx"), Operation.UPSERT),
        (rows("cd", 4, deleted="cd"), Operation.UPSERT),
        (rows("ae"), Operation.DELETE),
        (rows("fg", 5).drop_columns([IS_DELETED]), Operation.APPEND),
    ):
        result = group.write(incoming, operation)
        assert result.facts is not None
        assert (result.facts.is_log, result.facts.bloom) == (True, None)
        assert told(result.facts) == told(group.read_back(result.facts))
        assert all(one.size == one.uncompressed_size == 0 for one in result.facts.ranges)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("meta_fields", [True, False])
def test_compacted_files_are_told_as_they_are_read_back(streaming: bool, meta_fields: bool) -> None:
    group = Group("parquet", meta_fields=meta_fields)
    group.write(rows("abc"))
    group.write(rows("bcde", 2, deleted="b"))
    facts = group.compact(streaming=streaming)
    assert told(facts) == told(group.read_back(facts))
    assert (facts.added, facts.removed) == (None, None)
    assert len(facts.ranges) == len(COLUMNS) - 1 - (0 if meta_fields else 2)


def test_exactly_the_keys_that_came_and_went_are_told() -> None:
    group = Group()
    assert keys_of(group.write(rows("abcde"))) == (list("abcde"), [])
    # d goes, y was never there; c and x are written, x is new.
    assert keys_of(group.write(rows("cdxy", 2, deleted="dy"))) == (["x"], ["d"])
    # Too late: neither does b change, nor does x go.
    late = group.write(rows("bxf", 0, deleted="x"))
    assert keys_of(late) == (["f"], [])
    assert late.ignored == 2
    assert keys_of(group.write(rows("az"), Operation.DELETE)) == ([], ["a"])


def test_keys_that_are_only_added_are_told_once() -> None:
    group = Group()
    group.write(rows("ab"))
    result = group.write(rows("bccd"), Operation.APPEND)
    assert keys_of(result) == (["b", "c", "d"], [])


@pytest.mark.parametrize(
    ("mode", "removed"), [(Ordering.EVENT_TIME, []), (Ordering.COMMIT_TIME, ["b", "x"])], ids=["event", "commit"]
)
def test_a_delete_that_may_lose_removes_no_key(mode: Ordering, removed: list[str]) -> None:
    group = Group("parquet", mode=mode)
    group.write(rows("abc"))
    assert keys_of(group.write(rows("bcx", 3, deleted="bx"))) == (["c"], removed)
    assert keys_of(group.write(rows("bc"), Operation.DELETE)) == ([], ["b", "c"])


def test_a_delete_that_stays_a_row_adds_no_key() -> None:
    """Ordering values that readers would take for different things are not written into delete blocks."""
    group = Group("parquet")
    by = pa.field("ts", pa.decimal128(38, 20))
    schema = SCHEMA.set(1, by)
    group.task = replace(
        group.task, schema=schema, merging=(replace(group.rules, ordering=by), BlockInstants("9" * 17))
    )
    group.rules = replace(group.rules, ordering=by)

    def wide(some: pa.Table) -> pa.Table:
        return some.set_column(some.schema.get_field_index("ts"), by, pa.array([Decimal(1)] * some.num_rows, by.type))

    group.write(wide(rows("ab")))
    result = group.write(wide(rows("bc", deleted="b")))
    assert keys_of(result) == (["c"], [])
    assert told(result.facts) == told(group.read_back(result.facts))  # type: ignore[arg-type]


def test_tasks_and_facts_travel_to_executors_and_back(tmp_path: Path) -> None:
    group = Group("avro", storage=LocalStorage(str(tmp_path)))
    group.write(rows("abc"))
    facts = group.write(rows("bx", 2)).facts
    assert facts is not None
    task: FileStatisticsTask = pickle.loads(pickle.dumps(group.facts_task(facts)))
    assert told(pickle.loads(pickle.dumps(statistics_of_file(task)))) == told(facts)
    keys: SliceKeysTask = pickle.loads(pickle.dumps(group.keys_task()))
    assert sorted(keys_of_slice(keys).to_pylist()) == list("abcx")


def test_the_filter_is_told_as_the_footer_has_it() -> None:
    group = Group()
    facts = group.write(rows("abc")).facts
    assert facts is not None
    bloom = BaseFileReader(group.storage, facts.path).footer.bloom
    assert bloom is not None
    assert (facts.bloom_type, facts.bloom) == bloom.encode()


def test_nothing_is_told_that_nobody_wants() -> None:
    group = Group("avro")
    assert group.write(rows("ab"), wanted=NO_FACTS).facts is None
    assert group.write(rows("ab", 2), wanted=NO_FACTS).facts is None
    some = group.write(rows("ab", 3), wanted=StatisticsRequest(columns=("ts",))).facts
    assert some is not None
    assert ([one.column for one in some.ranges], some.added, some.removed) == (["ts"], None, None)


def test_a_delete_that_meets_nothing_tells_nothing() -> None:
    group = Group()
    group.write(rows("ab"))
    assert group.write(rows("z"), Operation.DELETE).facts is None


@pytest.mark.parametrize("meta_fields", [True, False])
def test_keys_of_a_slice_are_those_that_live(meta_fields: bool) -> None:
    group = Group("parquet", meta_fields=meta_fields)

    def live() -> list[str]:
        return sorted(keys_of_slice(group.keys_task()).to_pylist())

    assert live() == []
    group.write(rows("abcc"), Operation.APPEND)
    assert live() == ["a", "b", "c"]
    group.write(rows("bdx", 2, deleted="bx"))
    group.write(rows("d", 1, deleted="d"))  # too late
    assert live() == ["a", "c", "d"]
    group.base = None
    assert live() == ["d"]
