"""Ranges of columns where footers do not tell all: NaN, long texts, types that became wider, fields within structs."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.files.statistics.collect import FileStatisticsTask, statistics_of_file
from hudi_ops.files.statistics.column_ranges import merged_range, ranges_of_base, ranges_of_rows
from hudi_ops.files.statistics.statistics import ColumnRange, StatisticsRequest
from hudi_ops.storage.local import LocalStorage


def parquet(rows: pa.Table, **settings: Any) -> pq.ParquetFile:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False, **settings)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


def told(one: ColumnRange) -> tuple[Any, ...]:
    return one.least[0].as_py(), one.greatest[0].as_py(), one.nulls, one.values


def range_in_file(values: pa.Array, kind: pa.DataType | None = None, **settings: Any) -> ColumnRange:
    schema = pa.schema([("c", kind or values.type)])
    (found,) = ranges_of_base(parquet(pa.table({"c": values}), **settings), schema, ["c"])
    assert found.least.type == found.greatest.type == schema.field("c").type
    return found


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_the_greatest_value_of_all(kind: pa.DataType) -> None:
    values = pa.array([1.0, math.nan, None, 7.0], kind)
    for found in (range_in_file(values), *ranges_of_rows([pa.table({"c": values})], pa.schema([("c", kind)]), ["c"])):
        least, greatest, nulls, count = told(found)
        assert (least, nulls, count) == (1.0, 1, 4)
        assert math.isnan(greatest)
    assert all(math.isnan(end) for end in told(range_in_file(pa.array([math.nan], kind)))[:2])


def test_nan_in_one_of_two_pieces_is_the_greatest_of_both() -> None:
    pieces = [pa.table({"c": pa.array(some, pa.float64())}) for some in ([9.0], [math.nan, 2.0])]
    (found,) = ranges_of_rows(pieces, pieces[0].schema, ["c"])
    assert repr(told(found)) == "(2.0, nan, 0, 3)"
    assert repr(told(merged_range([found, found]))) == "(2.0, nan, 0, 6)"


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0], [0.0], [-0.0]])
def test_a_zero_takes_in_the_other_one(values: list[float]) -> None:
    assert repr(told(range_in_file(pa.array(values)))) == f"(-0.0, 0.0, 0, {len(values)})"


def test_a_text_too_long_for_a_footer_is_read() -> None:
    values = pa.array(["b" * 5000, "a", None, "z" * 5000])
    found = range_in_file(values, row_group_size=2)
    assert told(found) == ("a", "z" * 5000, 1, 4)
    assert found.size > 0


def test_sizes_are_those_of_all_row_groups() -> None:
    file = parquet(pa.table({"c": list(range(90)), "d": ["x"] * 90}), row_group_size=40)
    (found,) = ranges_of_base(file, file.schema_arrow, ["c"])
    chunks = [file.metadata.row_group(number).column(0) for number in range(3)]
    assert found.size == sum(chunk.total_compressed_size for chunk in chunks)
    assert found.uncompressed_size == sum(chunk.total_uncompressed_size for chunk in chunks)
    assert told(found) == (0, 89, 0, 90)


def test_a_column_that_the_file_lacks_is_null_in_all_its_rows() -> None:
    schema = pa.schema([("c", pa.int64()), ("new", pa.string())])
    rows = pa.table({"c": [1, 2]})
    for found in (ranges_of_base(parquet(rows), schema, ["new"]), ranges_of_rows([rows], schema, ["new"])):
        assert [told(one) for one in found] == [(None, None, 2, 2)]


def test_what_the_table_lacks_or_nobody_compares_is_left_out() -> None:
    rows = pa.table({"list": [[1]], "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "at": [{"x": 1}]})
    columns = ["list", "list.list.element", "map", "at", "at.y", "nobody", "_hoodie_record_key"]
    assert ranges_of_base(parquet(rows), rows.schema, columns) == ()
    assert ranges_of_rows([rows], rows.schema, columns) == ()


def test_fields_within_structs_have_dotted_names() -> None:
    rows = pa.table({"at": [{"x": 4, "in": {"y": 0.5}}, None, {"x": 3, "in": None}]})
    for found in (
        ranges_of_base(parquet(rows), rows.schema, ["at.x", "at.in.y"]),
        ranges_of_rows([rows], rows.schema, ["at.x", "at.in.y"]),
    ):
        assert [one.column for one in found] == ["at.x", "at.in.y"]
        assert [told(one) for one in found] == [(3, 4, 1, 3), (0.5, 0.5, 2, 3)]


def test_older_files_are_told_in_the_type_of_now() -> None:
    assert told(range_in_file(pa.array([5, -2], pa.int32()), pa.int64())) == (-2, 5, 0, 2)
    assert told(range_in_file(pa.array([0.1], pa.float32()), pa.float64()))[:2] == (0.1, 0.1)
    price = range_in_file(pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.decimal128(9, 3))
    assert told(price)[:2] == (Decimal("1.500"), Decimal("1.500"))


def test_numbers_that_became_texts_are_ordered_as_texts() -> None:
    assert told(range_in_file(pa.array([9, 10]), pa.string())) == ("10", "9", 0, 2)


def test_times_beyond_those_of_python_are_told() -> None:
    values = pa.array([-(2**62), 2**62], pa.int64()).view(pa.timestamp("us", "UTC"))
    found = range_in_file(values)
    assert [end.view(pa.int64())[0].as_py() for end in (found.least, found.greatest)] == [-(2**62), 2**62]


def test_values_of_dictionaries_are_told() -> None:
    rows = pa.table({"c": pa.array(["b", "a", None]).dictionary_encode()})
    (found,) = ranges_of_rows([rows], pa.schema([("c", pa.string())]), ["c"])
    assert (told(found), found.least.type) == (("a", "b", 1, 3), pa.string())


def test_rows_are_not_looked_at_where_the_footer_tells_all() -> None:
    rows = pa.table({"n": [1, None], "s": ["a", "b"], "all": pa.nulls(2, pa.int32()), "d": [Decimal("1.5"), None]})

    def refuse(name: str) -> list[pa.Table]:
        raise AssertionError(name)

    assert len(ranges_of_base(parquet(rows), rows.schema, rows.column_names, refuse)) == 4


THEIRS = {
    # File of `v9_txns_simple_meta_mor`: what its metadata table says of columns, as values, nulls, sizes, then bounds.
    "3e93c8a9-fda0-4e8a-91dc-b4ade7dab76d-0_1-27-53_20260307162557587.parquet": {
        "amount": (3, 0, 64, 50, Decimal("89.99"), Decimal("5000.00")),
        "merchant_name": (3, 1, 67, 50, "Amazon", "Netflix"),
    },
    ".3e93c8a9-fda0-4e8a-91dc-b4ade7dab76d-0_20260307162604102.log.1_0-52-126": {
        "amount": (1, 0, 0, 0, Decimal("1250.00"), Decimal("1250.00")),
    },
    # It holds deletes only.
    ".3e93c8a9-fda0-4e8a-91dc-b4ade7dab76d-0_20260307162606034.log.1_0-78-180": {
        "currency": (0, 0, 0, 0, None, None),
        "amount": (0, 0, 0, 0, None, None),
    },
}


@pytest.mark.parametrize("name", THEIRS)
def test_counts_and_sizes_are_apache_hudis(name: str, hudi_fixtures) -> None:
    root: Path = hudi_fixtures("v9_txns_simple_meta_mor")
    (path,) = root.rglob(name)
    schema = pa.schema([("amount", pa.decimal128(15, 2)), ("merchant_name", pa.string()), ("currency", pa.string())])
    columns = THEIRS[name]
    task = FileStatisticsTask(
        LocalStorage(str(root)),
        str(path.relative_to(root)),
        path.stat().st_size,
        schema,
        StatisticsRequest(tuple(columns)),
    )
    found = {
        one.column: (one.values, one.nulls, one.size, one.uncompressed_size, *told(one)[:2])
        for one in statistics_of_file(task).ranges
    }
    assert found == columns
