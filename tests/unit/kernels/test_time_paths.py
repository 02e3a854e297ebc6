"""Paths of time-based partitions: as Apache Hudi 1.1.1 and 1.0.2 printed the same values, and what is refused."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from hudi_ops.config.key_generators import TimePartition
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.kernels.keys.keys import PartitionSpec, partition_paths


def paths(column: pa.Array, time: TimePartition, *, hive: bool = False, encode: bool = False) -> list[str]:
    spec = PartitionSpec(("t",), hive, encode, time)
    return partition_paths(pa.table({"t": column}), spec).cast(pa.string()).to_pylist()


MS = pa.array([1704085200007, None, -1, -62135596800000, 253402300799999, -12219379200001], pa.int64())


def test_milliseconds_before_and_after_1970() -> None:
    # Tried with Apache Hudi: a null is 1970-01-01, and the calendar is the proleptic Gregorian one.
    expected = ["2024-01-01", "1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "1582-10-13"]
    assert paths(MS, TimePartition()) == expected
    assert paths(MS, TimePartition(output="yyyy/MM/dd"), hive=True)[0] == "t=2024/01/01"
    assert paths(MS, TimePartition(output="yyyy/MM/dd"), encode=True)[0] == "2024%2F01%2F01"
    assert paths(MS, TimePartition(output="yyyyMMdd-HHmmss"))[0] == "20240101-050000"


@pytest.mark.parametrize(
    ("values", "time", "expected"),
    [
        (pa.array([1704261600], pa.int32()), TimePartition(input="UNIX_TIMESTAMP", output="yyyyMMddHH"), "2024010306"),
        (pa.array([1704261600000001]), TimePartition(input="EPOCHMICROSECONDS", output="yyyy"), "2024"),
        (pa.array([19002]), TimePartition(input="SCALAR", unit="DAYS"), "2022-01-10"),
        (pa.array([-1]), TimePartition(input="SCALAR", unit="HOURS", output="yyyy-MM-dd HH"), "1969-12-31 23"),
        (pa.array([dt.date(2024, 1, 3)]), TimePartition(input="SCALAR", unit="DAYS", output="yyyy-MM"), "2024-01"),
        (
            pa.array(["2024-01-03T06:00:00"]),
            TimePartition(input="DATE_STRING", input_format="yyyy-MM-dd'T'HH:mm:ss", output="dd.MM.yyyy"),
            "03.01.2024",
        ),
    ],
)
def test_every_input(values: pa.Array, time: TimePartition, expected: str) -> None:
    assert paths(values, time) == [expected]
    assert paths(pa.concat_arrays([values, pa.nulls(1, values.type)]), time)[1].replace(".", "").find("1970") >= 0


@pytest.mark.parametrize(
    ("values", "time", "row"),
    [
        (["2024-01-01", "2024-02-30"], TimePartition(input="DATE_STRING", input_format="yyyy-MM-dd"), 1),
        (["2024-1-1"], TimePartition(input="DATE_STRING", input_format="yyyy-MM-dd"), 0),
        (["2024-01-01", ""], TimePartition(input="DATE_STRING", input_format="yyyy-MM-dd"), 1),
        ([0, 253402300800000], TimePartition(), 1),
        ([2**62], TimePartition(input="SCALAR", unit="DAYS"), 0),
        ([-(2**63)], TimePartition(input="SCALAR", unit="DAYS"), 0),
    ],
)
def test_a_value_that_is_no_time_is_named(values: list[object], time: TimePartition, row: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        paths(pa.array(values), time)
    assert (refused.value.details["row"], refused.value.details["field"]) == (row, "t")


@pytest.mark.parametrize(
    ("column", "time"),
    [
        (pa.array([1], pa.timestamp("us", "UTC")), TimePartition()),
        (pa.array([dt.date(2024, 1, 1)]), TimePartition()),
        (pa.array(["2024"]), TimePartition()),
        (pa.array([1]), TimePartition(input="DATE_STRING", input_format="yyyy")),
        (pa.array([True]), TimePartition()),
    ],
)
def test_a_column_that_cannot_be_read_so(column: pa.Array, time: TimePartition) -> None:
    with pytest.raises(Unsupported):
        paths(column, time)


def test_what_a_folder_must_not_hold_is_refused_in_patterns_too() -> None:
    with pytest.raises(InvalidRequest, match="folder"):
        paths(MS, TimePartition(output="HH:mm"))
    assert paths(MS, TimePartition(output="HH:mm"), encode=True)[0] == "05%3A00"
