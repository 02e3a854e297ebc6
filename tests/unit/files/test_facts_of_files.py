"""Facts of files that others wrote: log files of several blocks, logs of changes, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.errors import Corrupt, Internal, NotFound
from hudi_ops.files.base.base_file import WriterSettings, encode_base_file, stored_avro_schema, with_meta
from hudi_ops.files.log.log_file import encode_log_file
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.slice.slice_keys import SliceKeysTask, keys_of_slice
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.merging.merge import Ordering
from hudi_ops.storage.memory import MemoryStorage

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int32())])
STORED = with_meta(SCHEMA)
LOG, BASE = "p/.f-0_20300101000000001.log.1_0-0-0", "p/f-0_0-0-0_20300101000000001.parquet"
KEYED = pa.schema([pa.field(RECORD_KEY, pa.string())])
RULES = MergeRules("t", Ordering.EVENT_TIME, SCHEMA.field("ts"), None, KEYED, pa.schema([]), None)
EVERYTHING = StatisticsRequest(columns=("ts",), bloom=True, keys=True)


def rows(ids: str, times: Sequence[int]) -> pa.Table:
    data = [{RECORD_KEY: one, "id": one, "ts": time} for one, time in zip(ids, times, strict=True)]
    return pa.Table.from_pylist(data, schema=STORED)


def block(data: pa.Table | None, *deletes: Deletes, data_format: Literal["avro", "parquet"] = "avro") -> bytes:
    schema = stored_avro_schema(SCHEMA, "t", meta_fields=True)
    body = encode_log_file(
        data,
        deletes,
        instant="20300101000000001",
        partition_path="p",
        avro_schema=schema,
        data_format=data_format,
        settings=WriterSettings(),
    )
    return bytes(body)


def facts(
    path: str, body: bytes, wanted: StatisticsRequest = EVERYTHING, rules: MergeRules | None = RULES
) -> FileStatistics:
    storage = MemoryStorage()
    storage.put(path, body)
    return statistics_of_file(FileStatisticsTask(storage, path, len(body), STORED, wanted, rules=rules))


def deletes(ids: str, ordering: pa.Array | None = None) -> Deletes:
    return Deletes(pa.array(list(ids)), ordering)


def test_of_several_blocks_the_last_word_counts() -> None:
    found = facts(LOG, block(rows("abc", [1, 2, 3]), deletes("bx")) + block(rows("xd", [9, 5]), deletes("d")))
    assert found.added is not None
    assert found.removed is not None
    assert (sorted(found.added.to_pylist()), sorted(found.removed.to_pylist())) == (["a", "c", "x"], ["b", "d"])
    (ts,) = found.ranges
    assert (ts.least.to_pylist(), ts.greatest.to_pylist(), ts.nulls, ts.values) == ([1], [9], 0, 5)


def test_a_delete_by_the_integer_0_is_sure_and_one_by_event_time_is_not() -> None:
    found = facts(LOG, block(None, deletes("abc", pa.array([0, 7, None], pa.int32()))))
    assert found.removed is not None
    assert sorted(found.removed.to_pylist()) == ["a", "c"]
    assert (found.partition_path, found.file_id, found.is_log) == ("p", "f-0", True)


def test_a_log_of_changes_holds_no_rows_of_the_table() -> None:
    found = facts(f"{LOG}.cdc", b"whatever")
    assert (found.is_log, found.ranges, found.added, found.removed) == (
        True,
        (),
        pa.array([], "str"),
        pa.array([], "str"),
    )


def test_a_base_file_says_nothing_of_what_was_there_before() -> None:
    body = encode_base_file(rows("aab", [1, 2, 3]), "t", WriterSettings())
    found = facts(BASE, bytes(body))
    assert (found.added, found.removed) == (pa.array(["a", "b"]), pa.array([], pa.string()))
    assert found.bloom_type == "SIMPLE"


@pytest.mark.parametrize("data_format", ["avro", "parquet"])
def test_values_that_do_not_fit_the_table_are_refused(data_format: Literal["avro", "parquet"]) -> None:
    body, wanted = block(rows("a", [1]), data_format=data_format), StatisticsRequest(columns=("id",))
    changed = pa.schema([("id", pa.int64())])
    for path, content in ((LOG, body), (BASE, bytes(encode_base_file(rows("a", [1]), "t", WriterSettings())))):
        storage = MemoryStorage()
        storage.put(path, content)
        with pytest.raises(Corrupt, match="p/"):
            statistics_of_file(FileStatisticsTask(storage, path, len(content), changed, wanted))


def test_a_parquet_block_is_told_by_its_footer() -> None:
    """Of columns that footers tell all of, no page is read."""
    body = bytearray(block(rows("ab", [1, 2]), data_format="parquet"))
    whole = facts(LOG, bytes(body), StatisticsRequest(columns=("ts",)))
    begin = body.index(b"PAR1") + 4
    body[begin : begin + 40] = bytes(40)
    assert facts(LOG, bytes(body), StatisticsRequest(columns=("ts",))).ranges == whole.ranges


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(Internal, match="without merge rules"):
        facts(LOG, block(rows("a", [1])), rules=None)
    with pytest.raises(Internal, match="holds no rows"):
        facts("p/.hoodie_partition_metadata", b"")
    with pytest.raises(Corrupt):
        facts(BASE, b"no Parquet")
    with pytest.raises(NotFound):
        statistics_of_file(FileStatisticsTask(MemoryStorage(), BASE, 1, STORED, EVERYTHING))
    with pytest.raises(Internal, match="without merge rules"):
        keys_of_slice(SliceKeysTask(MemoryStorage(), None, 0, STORED, logs=((LOG, 1),)))
