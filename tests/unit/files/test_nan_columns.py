"""Footers of our base files name the float columns with NaN, so that statistics need no column chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.files.base import base_file, writer
from hudi_ops.files.base.base_file import WriterSettings, encode_base_file
from hudi_ops.files.base.writer import BaseFileWriter
from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_base, statistics_of_file
from hudi_ops.files.statistics.column_ranges import ranges_of_base, ranges_of_rows
from hudi_ops.files.statistics.statistics import ColumnRange, StatisticsRequest
from hudi_ops.formats.parquet import footer as parquet_footer
from hudi_ops.formats.parquet.footer import NAN_COLUMNS_KEY
from hudi_ops.storage.memory import MemoryStorage

PATH = "p/f-0_0-0-0_20300101000000001.parquet"
NAN, INF = math.nan, math.inf

COLUMNS: dict[str, tuple[list[float | None], tuple[Any, ...], bool]] = {
    # Values of four rows; least and greatest value, nulls, values; whether the footer names the column.
    "none": ([3.5, -1.0, 2.0, 7.25], (-1.0, 7.25, 0, 4), False),
    "some": ([3.5, NAN, 2.0, 7.25], (2.0, NAN, 0, 4), True),
    "all": ([NAN, NAN, NAN, NAN], (NAN, NAN, 0, 4), True),
    "only_null": ([None, None, None, None], (None, None, 4, 4), False),
    "null": ([None, 1.0, None, -2.5], (-2.5, 1.0, 2, 4), False),
    "null_and_nan": ([None, NAN, None, NAN], (NAN, NAN, 2, 4), True),
    "first_group": ([NAN, NAN, 1.0, 2.0], (1.0, NAN, 0, 4), True),
    "last_group": ([1.0, 2.0, None, NAN], (1.0, NAN, 1, 4), True),
    "infinite": ([-INF, INF, 0.0, 1.0], (-INF, INF, 0, 4), False),
    "zero": ([0.0, 0.0, 0.0, -0.0], (-0.0, 0.0, 0, 4), False),
}
NAMED = tuple(name for name, (_, _, is_named) in COLUMNS.items() if is_named)


def rows(kind: pa.DataType) -> pa.Table:
    return pa.table({"id": ["a", "b", "c", "d"]} | {name: pa.array(each[0], kind) for name, each in COLUMNS.items()})


def at_once(table: pa.Table) -> bytes:
    return encode_base_file(table, "t", WriterSettings()).to_pybytes()


def in_batches(table: pa.Table) -> bytes:
    with BaseFileWriter(table.schema, "t", WriterSettings(), keys=table.num_rows) as made:
        for first in range(table.num_rows):
            made.write(table.slice(first, 1))
        return made.finish().to_pybytes()


def with_keys(table: pa.Table, keys: dict[str, str]) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as made:
        made.write_table(table)
        made.add_key_value_metadata(keys)
    return bytes(sink.getvalue())


def parquet(body: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(body))


def named(body: bytes) -> tuple[str, ...] | None:
    return parquet_footer.nan_columns(parquet(body).metadata.metadata)


def refuse(name: str) -> Iterable[pa.Table]:
    raise AssertionError(f"the footer tells all of {name}")


def told(found: Iterable[ColumnRange]) -> dict[str, str]:
    return {
        each.column: repr((each.least[0].as_py(), each.greatest[0].as_py(), each.nulls, each.values)) for each in found
    }


@pytest.fixture(params=[2, 1_000_000], ids=["two row groups", "one row group"])
def group_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(base_file, "ROW_GROUP_ROWS", request.param)
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", request.param)
    return int(request.param)


@pytest.mark.parametrize("encode", [at_once, in_batches])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_the_footer_tells_ranges_with_nan(
    kind: pa.DataType, encode: Callable[[pa.Table], bytes], group_rows: int
) -> None:
    table = rows(kind)
    body = encode(table)
    assert body == encode(table)
    assert parquet(body).num_row_groups == (2 if group_rows == 2 else 1)
    assert named(body) == NAMED
    found = ranges_of_base(parquet(body), table.schema, list(COLUMNS), refuse)
    assert told(found) == {name: repr(expected) for name, (_, expected, _) in COLUMNS.items()}
    assert {each.least.type for each in found} == {each.greatest.type for each in found} == {kind}


def test_floats_of_an_older_type_are_told_in_the_present_one() -> None:
    table = pa.table({"c": pa.array([0.1, NAN], pa.float32()), "d": pa.array([0.1, None], pa.float32())})
    present = pa.schema([("c", pa.float64()), ("d", pa.float64())])
    found = ranges_of_base(parquet(at_once(table)), present, ["c", "d"], refuse)
    assert told(found) == {"c": repr((0.1, NAN, 0, 2)), "d": repr((0.1, 0.1, 1, 2))}
    assert {each.greatest.type for each in found} == {pa.float64()}


def test_values_that_only_a_dictionary_holds_do_not_count() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([1.5, NAN]))
    assert named(at_once(pa.table({"c": values}))) == ()
    assert named(at_once(pa.table({"c": values.take(pa.array([0]))}))) == ()
    used = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([1.5, NAN]))
    assert named(at_once(pa.table({"c": used}))) == ("c",)


def test_a_file_without_float_columns_has_no_key() -> None:
    table = pa.table({"id": ["a"], "n": [1], "at": [{"x": NAN}]})
    for encode in (at_once, in_batches):
        assert NAN_COLUMNS_KEY.encode() not in parquet(encode(table)).metadata.metadata


def test_a_file_without_rows_names_no_column() -> None:
    table = rows(pa.float64()).slice(0, 0)
    for encode in (at_once, in_batches):
        assert named(encode(table)) == ()
        found = ranges_of_base(parquet(encode(table)), table.schema, ["all"])
        assert told(found) == {"all": repr((None, None, 0, 0))}


def test_floats_within_structs_are_read() -> None:
    table = pa.table({"at": [{"x": NAN}, {"x": 2.0}], "c": [1.0, 2.0]})
    asked: list[str] = []

    def given(name: str) -> Iterable[pa.Table]:
        asked.append(name)
        return [table]

    found = ranges_of_base(parquet(at_once(table)), table.schema, ["at.x", "c"], given)
    assert told(found) == {"at.x": repr((2.0, NAN, 0, 2)), "c": repr((1.0, 2.0, 0, 2))}
    assert asked == ["at.x"]


@pytest.mark.parametrize("value", [None, "not json", "{}", "[1]", "7"], ids=repr)
def test_a_file_that_does_not_say_it_is_read(value: str | None) -> None:
    """Files of other programs, and damaged keys."""
    table = pa.table({"c": [1.0, NAN]})
    body = with_keys(table, {} if value is None else {NAN_COLUMNS_KEY: value})
    assert named(body) is None
    found = ranges_of_base(parquet(body), table.schema, ["c"])
    assert told(found) == {"c": repr((1.0, NAN, 0, 2))}


@pytest.mark.parametrize("creator", [b"parquet-mr version", b"another version 12"])
def test_a_key_that_another_program_copied_is_not_believed(creator: bytes) -> None:
    """Apache Hudi may copy row groups of several files, and keys of one of them, into a file of its own."""
    table = pa.table({"c": [1.0, NAN]})
    body = with_keys(table, {NAN_COLUMNS_KEY: "[]"})
    assert told(ranges_of_base(parquet(body), table.schema, ["c"], refuse)) == {"c": repr((1.0, 1.0, 0, 2))}
    foreign = body.replace(b"parquet-cpp-arrow version"[: len(creator)], creator)
    assert parquet(foreign).metadata.created_by.encode().startswith(creator)
    assert told(ranges_of_base(parquet(foreign), table.schema, ["c"])) == {"c": repr((1.0, NAN, 0, 2))}


class CountedReads(MemoryStorage):
    """Memory storage that adds up the bytes that are read of opened files."""

    read_bytes = 0

    def open_input(self, path: str) -> pa.NativeFile:
        storage, body = self, pa.BufferReader(self.get(path))

        class Source:
            closed = False

            def __getattr__(self, name: str) -> Any:
                return getattr(body, name)

            def read_buffer(self, size: int = -1) -> pa.Buffer:
                found = body.read_buffer(size)
                storage.read_bytes += found.size
                return found

            def read(self, size: int = -1) -> bytes:
                found: bytes = body.read(size)
                storage.read_bytes += len(found)
                return found

        return pa.PythonFile(Source(), mode="r")


def test_no_column_chunk_is_read() -> None:
    numbers = np.random.default_rng(7).random((3, 100_000))
    numbers[1, 5] = NAN
    numbers[2] = NAN
    table = pa.table(dict(zip("abc", numbers, strict=True)))
    body = at_once(table)
    storage = CountedReads()
    storage.put(PATH, body)
    wanted = StatisticsRequest(columns=("a", "b", "c"))
    task = FileStatisticsTask(storage, PATH, len(body), table.schema, wanted)
    found = statistics_of_file(task)
    assert 0 < storage.read_bytes <= 64 * 1024  # what Arrow reads of a file's end to find its footer
    assert told(found.ranges) == told(ranges_of_rows([table], table.schema, ["a", "b", "c"]))
    assert repr(found.ranges[2].greatest[0].as_py()) == "nan"
    # Columns of a file without the key are read.
    storage.put(PATH, body.replace(NAN_COLUMNS_KEY.encode(), b"hudi_ops.another_one"))
    storage.read_bytes = 0
    read = statistics_of_file(task)
    assert storage.read_bytes >= sum(each.size for each in found.ranges) > 1_000_000
    assert told(read.ranges) == told(found.ranges)


def test_a_writer_has_the_statistics_of_a_reader() -> None:
    table = rows(pa.float64())
    body = encode_base_file(table, "t", WriterSettings())
    wanted = StatisticsRequest(columns=tuple(COLUMNS))
    storage = MemoryStorage()
    storage.put(PATH, body)
    read = statistics_of_file(FileStatisticsTask(storage, PATH, len(body), table.schema, wanted))
    for given in (None, table):
        made = statistics_of_base(PATH, body, table.schema, wanted, rows=given)
        assert made is not None
        assert told(made.ranges) == told(read.ranges)
