"""Ranges of every type of column beside those that Apache Hudi wrote of the same rows: 1.1.1 (version 9), 1.0.2 (version 8).

The fixture has keys and values of column_stats, of two base files and of two log files (one brings rows, one only a delete), of a
merge-on-read table partitioned by `p`. Row n is that of `_row(n)`: base files hold 0, 2, 4 (p0) and 1, 3, 5 (p1), the log has 12
and 13.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import Unsupported
from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.column_stats import column_stats_records, removed_stats
from hudi_ops.metadata.records.keys import column_stats_key
from hudi_ops.metadata.records.partition_stats import partition_stats_records
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.metadata.records.records import Records, empty
from hudi_ops.metadata.records.schema import record_schema
from hudi_ops.metadata.records.stat_values import widest
from hudi_ops.metadata.records.stored_ranges import StoredRanges

_FIXTURE = Path(__file__).parents[2] / "fixtures" / "apache-hudi-ranges.json"
_STATS = MetadataPartition.COLUMN_STATS
_TYPES = {
    "id": pa.string(),
    "p": pa.string(),
    "ts": pa.int64(),
    "b": pa.bool_(),
    "i8": pa.int32(),
    "i16": pa.int32(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "txt": pa.string(),
    "bin": pa.binary(),
    "dt": pa.date32(),
    "tsu": pa.timestamp("us", "UTC"),
    "ntz": pa.timestamp("us"),
    "d5": pa.decimal128(5, 2),
    "d18": pa.decimal128(18, 4),
    "d38": pa.decimal128(38, 10),
    "d30": pa.decimal128(30, 20),
}
_BY_FOOTER = {"fn", "dn", "nul"}
"""Two with NaN and one with nulls only, of which Apache Hudi says 0 for base files."""


def _row(number: int) -> dict[str, Any]:
    return {
        "id": f"k{number:02d}",
        "p": f"p{number % 2}",
        "ts": 1,
        "b": number % 2 == 0,
        "i8": number - 3,
        "i16": number * -100,
        "i32": number * 1000 - 5,
        "i64": number * 10**10,
        "f": number - 0.5,
        "d": number / 3 - 1,
        "txt": f"té{number}",
        "bin": bytes([number, 255 - number]),
        "dt": date(1960, 1, 1) + timedelta(days=number * 4000),
        "tsu": datetime(1950, 1, 1, 0, 0, 0, 123456, UTC) + timedelta(days=number * 4000),
        "ntz": datetime(2020, 1, 1, 0, 0, 0, 7) + timedelta(hours=number),
        "d5": Decimal("-1.25") * number,
        "d18": Decimal("12345678901234.5678") - number,
        "d38": Decimal("1234567890123456789012345678.0123456789") * (-1) ** number,
        "d30": Decimal("0.12345678901234567890") + number,
    }


_LOG_ROWS = [
    {**_row(12), "id": "k00", "p": "p0", "ts": 2},
    {**_row(13), "id": "k02", "p": "p0", "ts": 2},
]


def _stored(version: int) -> Records:
    pairs = [(key, base64.b64decode(value)) for key, value in json.loads(_FIXTURE.read_text())[str(version)]]
    keys, values = zip(*pairs, strict=True)
    none = pa.array([], pa.string())
    return Records(_STATS, pa.array(keys), pa.array(values, pa.binary()), none, record_schema(version))


def _rows_of(name: str, path: str) -> list[dict[str, Any]]:
    if name.startswith("."):
        return _LOG_ROWS if path == "p0" else []
    return [_row(number) for number in range(int(path[1]), 6, 2)]


def _paths(stored: StoredRanges) -> dict[str, str]:
    """Partition path of each file: that whose keys its records have."""
    found = {}
    for key, name, column in zip(
        stored.keys.to_pylist(), stored.names.to_pylist(), stored.columns.to_pylist(), strict=True
    ):
        found[name] = next(path for path in ("p0", "p1") if column_stats_key(column, path, name) == key)
    return found


@pytest.mark.parametrize("version", [8, 9])
def test_ranges_of_apache_hudi_are_read_in_the_tables_types(version: int) -> None:
    stored = StoredRanges.read(_stored(version), "the fixture")
    paths, columns = _paths(stored), set(stored.columns.to_pylist())
    assert len(paths) == 4
    for column in columns & _TYPES.keys():
        for row in stored.of_column(column, _TYPES[column]).to_pylist():
            held = [each[column] for each in _rows_of(row["name"], paths[row["name"]])]
            assert (row["least"], row["greatest"]) == ((min(held), max(held)) if held else (None, None)), column
            assert (row["values"], row["nulls"]) == (len(held), 0)
            assert row["is_known"] is (column not in "fd" or row["name"].startswith("."))
    assert columns & _TYPES.keys() == (_TYPES.keys() if version == 9 else _TYPES.keys() - {"ntz", "d38", "d30"})


@pytest.mark.parametrize("version", [8, 9])
def test_our_ranges_have_the_bytes_of_apache_hudis(version: int) -> None:
    records = _stored(version)
    stored = StoredRanges.read(records, "the fixture")
    paths = _paths(stored)
    facts = []
    for name, path in paths.items():
        rows = _rows_of(name, path)
        ranges = []
        for at in range(len(stored)):
            column = stored.columns[at].as_py()
            if stored.names[at].as_py() != name or column not in _TYPES:
                continue
            held = [row[column] for row in rows]
            ends = [pa.array([end], _TYPES[column]) for end in ((min(held), max(held)) if held else (None, None))]
            sizes = [int(each[at]) for each in stored.counts[2:]]
            ranges.append(ColumnRange(column, *ends, 0, len(held), *sizes))
        facts.append(FileStatistics(f"{path}/{name}", path, "x", 1, name.startswith("."), tuple(ranges)))
    made = column_stats_records(facts, version=version)
    expected = dict(zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True))
    ours = dict(zip(made.keys.to_pylist(), made.values.to_pylist(), strict=True))
    assert len(ours) == {8: 50, 9: 59}[version]
    assert ours == {key: expected[key] for key in ours}


@pytest.mark.parametrize("column", sorted(_BY_FOOTER))
def test_a_base_files_zero_is_not_taken_for_the_range_of_a_column_with_nan(column: str) -> None:
    stored = StoredRanges.read(_stored(9), "the fixture")
    kind = {"fn": pa.float32(), "dn": pa.float64(), "nul": pa.int32()}[column]
    rows = [row for row in stored.of_column(column, kind).to_pylist() if not row["name"].startswith(".")]
    assert {(row["least"], row["greatest"]) for row in rows} <= {(0, 0), (1.5, 1.5)}
    assert {row["is_known"] for row in rows} == {column == "nul"}


def test_nan_of_a_log_file_is_its_greatest_value() -> None:
    stored = StoredRanges.read(_stored(9), "the fixture")
    (row,) = (row for row in stored.of_column("dn", pa.float64()).to_pylist() if row["values"] == 2)
    assert (str(row["least"]), str(row["greatest"]), row["is_known"]) == ("-0.0", "nan", True)


def test_only_nulls_are_told_by_null_ends() -> None:
    made = _records([
        _range("n", pa.int64(), None, None, nulls=3, values=3),
        _range("t", pa.string(), None, None, 3, 3),
    ])
    stored = StoredRanges.read(made, "a test")
    (number,) = stored.of_column("n", pa.int64()).to_pylist()
    (text,) = stored.of_column("t", pa.string()).to_pylist()
    assert (number["least"], number["greatest"], number["is_known"]) == (None, None, True)
    assert text["is_known"] is False  # Apache Hudi says the same of a text that is too long for the footer


@pytest.mark.parametrize(
    ("old", "value", "new", "expected"),
    [
        (pa.int32(), 7, pa.int64(), 7),
        (pa.int32(), 7, pa.float64(), 7.0),
        (pa.int64(), 7, pa.decimal128(20, 2), Decimal("7.00")),
        (pa.decimal128(5, 2), Decimal("1.25"), pa.decimal128(9, 4), Decimal("1.2500")),
        (pa.string(), "x", pa.binary(), b"x"),
        (pa.float32(), 0.1, pa.float64(), 0.1),
    ],
)
def test_a_widened_column_reads_its_old_ranges(old: pa.DataType, value: Any, new: pa.DataType, expected: Any) -> None:
    stored = StoredRanges.read(_records([_range("c", old, value, value)]), "a test")
    (row,) = stored.of_column("c", new).to_pylist()
    assert row["least"] == row["greatest"] == expected


def test_ends_in_another_order_are_not_known() -> None:
    stored = StoredRanges.read(_records([_range("c", pa.int32(), 9, 10)]), "a test")
    (row,) = stored.of_column("c", pa.string()).to_pylist()
    assert (row["least"], row["greatest"], row["is_known"]) == (None, None, False)


def test_a_range_that_met_another_type_leaves_nothing_out() -> None:
    older = partition_stats_records([_file(_range("c", pa.int32(), 9, 10))], version=9, tight=True)
    newer = partition_stats_records([_file(_range("c", pa.string(), "a", "b"))], version=9, tight=False)
    (row,) = StoredRanges.read(merge(older, newer, version=9), "a test").of_column("c", pa.string()).to_pylist()
    assert [pa.array([row[name]]) for name in ("least", "greatest")] == list(widest(pa.string()))


def test_a_partition_with_an_unknown_range_is_never_passed_over() -> None:
    files = [_file(_range("c", pa.int32(), 9, 10)), _file()]
    made = partition_stats_records(files, version=9, tight=True, columns={"c": pa.int32()})
    (row,) = StoredRanges.read(made, "a test").of_column("c", pa.int32()).to_pylist()
    assert (row["least"], row["greatest"]) == (-(2**31), 2**31 - 1)


def test_records_of_version_8_become_those_of_version_9() -> None:
    older = column_stats_records([_file(_range("c", pa.date32(), date(2020, 1, 1), date(2020, 1, 2)))], version=8)
    moved = merge(older, empty(_STATS, record_schema(9)), version=9)
    assert moved.schema == record_schema(9)
    (row,) = StoredRanges.read(moved, "a test").of_column("c", pa.date32()).to_pylist()
    assert (row["least"], row["greatest"]) == (date(2020, 1, 1), date(2020, 1, 2))
    untyped = column_stats_records(
        [_file(_range("c", pa.date32(), date(2020, 1, 1), date(2020, 1, 2)))], version=9, index_version=1
    )
    assert moved.values.equals(untyped.values)


def test_removed_files_and_partitions_are_deleted_by_key() -> None:
    gone = removed_stats([("p", "f")], ["a", "b"], version=9)
    assert gone.deletes.to_pylist() == sorted(column_stats_key(name, "p", "f") for name in "ab")
    assert len(gone.keys) == 0


def test_a_type_without_bounds_is_refused() -> None:
    with pytest.raises(Unsupported, match="no statistics"):
        _records([_range("c", pa.list_(pa.int32()), None, None, 0, 1)])


def _range(column: str, kind: pa.DataType, least: Any, greatest: Any, nulls: int = 0, values: int = 2) -> ColumnRange:
    return ColumnRange(column, pa.array([least], kind), pa.array([greatest], kind), nulls, values)


def _file(*ranges: ColumnRange) -> FileStatistics:
    return FileStatistics("p/x_0-1-0_20200101000000000.parquet", "p", "x", 1, False, ranges)


def _records(ranges: list[ColumnRange]) -> Records:
    return column_stats_records([_file(*ranges)], version=9)
