"""Key generators: which one is inferred, which go with which fields, and settings of the time-based one in both directions."""

from __future__ import annotations

import pytest

from hudi_ops.config.key_generators import (
    TimePartition,
    check_time_partition,
    directives_of,
    key_generator_type,
    time_partition_of,
)
from hudi_ops.errors import HudiOpsError, InvalidRequest, Unsupported


@pytest.mark.parametrize(
    ("choice", "keys", "partitions", "expected"),
    [
        ("auto", ("a",), (), "NON_PARTITION"),
        ("auto", ("a", "b"), (), "NON_PARTITION"),
        ("auto", ("a",), ("p",), "SIMPLE"),
        ("auto", ("a",), ("p", "q"), "COMPLEX"),
        ("auto", ("a", "b"), ("p",), "COMPLEX"),
        ("simple", ("a",), ("p",), "SIMPLE"),
        ("complex", ("a",), ("p",), "COMPLEX"),
        ("complex", ("a",), (), "COMPLEX"),
        ("timestamp", ("a",), ("p",), "TIMESTAMP"),
        ("non_partitioned", ("a", "b"), (), "NON_PARTITION"),
    ],
)
def test_the_type_of_a_choice(choice: str, keys: tuple[str, ...], partitions: tuple[str, ...], expected: str) -> None:
    assert key_generator_type(choice, keys, partitions) == expected


@pytest.mark.parametrize(
    ("choice", "keys", "partitions"),
    [
        ("simple", ("a", "b"), ("p",)),
        ("simple", ("a",), ("p", "q")),
        ("simple", ("a",), ()),
        ("timestamp", ("a",), ()),
        ("timestamp", ("a", "b"), ("p",)),
        ("non_partitioned", ("a",), ("p",)),
        ("custom", ("a",), ("p",)),
    ],
)
def test_a_choice_that_does_not_fit(choice: str, keys: tuple[str, ...], partitions: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match=choice):
        key_generator_type(choice, keys, partitions)


@pytest.mark.parametrize(
    "time",
    [
        TimePartition(),
        TimePartition(input="SCALAR", unit="HOURS", output="yyyy/MM"),
        TimePartition(input="DATE_STRING", input_format="yyyy-MM-dd'T'HH", output="yyyyMMddHH"),
    ],
)
def test_settings_come_back_from_properties(time: TimePartition) -> None:
    found = time_partition_of(time.properties(), "t")
    assert found.model_dump(exclude={"unit"}) == time.model_dump(exclude={"unit"})
    assert time.input != "SCALAR" or found.unit == time.unit


P = "hoodie.keygen.timebased."


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {P + "timestamp.type": "MIXED", P + "output.dateformat": "yyyy"},
        {P + "timestamp.type": "EPOCHMILLISECONDS"},
        {P + "timestamp.type": "EPOCHMILLISECONDS", P + "output.dateformat": "EEE"},
        {P + "timestamp.type": "EPOCHMILLISECONDS", P + "output.dateformat": "yyyy", P + "timezone": "GMT+8:00"},
        {P + "timestamp.type": "DATE_STRING", P + "output.dateformat": "yyyy"},
        {P + "timestamp.type": "SCALAR", P + "output.dateformat": "yyyy", P + "timestamp.scalar.time.unit": "weeks"},
    ],
)
def test_settings_that_cannot_be_followed(raw: dict[str, str]) -> None:
    with pytest.raises(HudiOpsError):
        time_partition_of(raw, "t")


def test_patterns() -> None:
    assert directives_of("yyyy-MM-dd'T'HH:mm:ss''") == "%Y-%m-%dT%H:%M:%S'"
    assert directives_of("yyyy%MM") == "%Y%%%m"
    for wrong in ("yy", "yyyyy", "M", "EEE", "hh", "yyyy'T", "yyyy-MM-ddZ"):
        with pytest.raises(Unsupported) as refused:
            directives_of(wrong)
        assert "yyyy, MM, dd, HH, mm and ss" in refused.value.expected


@pytest.mark.parametrize("output", ["/yyyy", "yyyy/", "yyyy//MM", "../yyyy", "yyyy/.", ""])
def test_an_output_with_an_empty_level(output: str) -> None:
    with pytest.raises(InvalidRequest):
        check_time_partition(TimePartition(output=output))
