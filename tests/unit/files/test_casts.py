"""Goal: a source's values become a table's, or are refused with field and reason; none is cut, invented or turned into null."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.casts import fit_column

MICROS, MILLIS, MONEY = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.decimal128(10, 2)
NEW_YEAR = datetime(2020, 1, 1, tzinfo=UTC)


def fit(values: pa.Array, kind: pa.DataType, *, nullable: bool = True) -> list[Any]:
    """The values as that type, whole and as a slice that begins inside its buffers."""
    field = pa.field("c", kind, nullable)
    whole = fit_column(pa.chunked_array([values]), field, "here")
    whole.validate(full=True)
    tail = fit_column(pa.chunked_array([values.slice(1)]), field, "here")
    if whole.type == pa.float32():
        return whole.to_pylist()  # NaN equals nothing
    assert tail.to_pylist() == whole.to_pylist()[1:]
    return whole.to_pylist()


def refusal(values: pa.Array, kind: pa.DataType, *, nullable: bool = True) -> InvalidRequest:
    with pytest.raises(InvalidRequest, match=r"^here(, row \d+)?: column c") as caught:
        fit_column(pa.chunked_array([values]), pa.field("c", kind, nullable), "here")
    assert caught.value.details["file"] == "here"
    return caught.value


@pytest.mark.parametrize(
    ("values", "kind", "fitted"),
    [
        (pa.array([1, None]), pa.int32(), [1, None]),
        (pa.array([7, None], pa.uint64()), pa.int32(), [7, None]),
        (pa.array([3, 2**53]), pa.float64(), [3.0, float(2**53)]),
        (pa.array([5, 12]), MONEY, [Decimal("5.00"), Decimal("12.00")]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(38, 18), [Decimal(2**64 - 1)]),
        (pa.array([0.5, inf, None]), pa.float32(), [0.5, inf, None]),
        (pa.array([0.1]), pa.float32(), [float(np.float32(0.1))]),
        (pa.array([3.0, None]), pa.int64(), [3, None]),
        (pa.array(np.array([1.5], np.float16)), MONEY, [Decimal("1.50")]),
        (pa.array([1.5, 0.1]), MONEY, [Decimal("1.50"), Decimal("0.10")]),
        (pa.array([Decimal("1.5")]), MONEY, [Decimal("1.50")]),
        (pa.array(["1.5", None]), MONEY, [Decimal("1.50"), None]),
        (pa.array(["2020-01-01", None]), pa.date32(), [date(2020, 1, 1), None]),
        (pa.array(["2020-01-01T00:00:00", "2020-01-01T01:00:00+01:00"]), MILLIS, [NEW_YEAR, NEW_YEAR]),
        (pa.array(["2020-01-01"], pa.string_view()), MICROS, [NEW_YEAR]),
        (pa.array([datetime(2020, 1, 1)]), MICROS, [NEW_YEAR]),
        (pa.array([0], pa.timestamp("s", "Asia/Tokyo")), MICROS, [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.array([date(2020, 1, 1)]), MICROS, [NEW_YEAR]),
        (pa.array([date(2020, 1, 1)], pa.date64()), pa.date32(), [date(2020, 1, 1)]),
        (pa.array([b"\xc3\xa9"], pa.binary(2)), pa.string(), ["é"]),
        (pa.array([b"\xff"], pa.binary_view()), pa.binary(), [b"\xff"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string(), ["a", None, "a"]),
        (pa.nulls(2), pa.map_(pa.string(), pa.int32()), [None, None]),
        *((pa.array([[1], None, [], [2, 3]], k(pa.int64())), pa.list_(pa.int32()), [[1], None, [], [2, 3]])
          for k in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), pa.list_(pa.int32()), [[1, 2], None]),
    ],
)  # fmt: skip
def test_what_is_listed_keeps_its_value(values: pa.Array, kind: pa.DataType, fitted: list[Any]) -> None:
    assert fit(values, kind) == fitted


def test_not_a_number_stays() -> None:
    assert isnan(fit(pa.array([nan]), pa.float32())[0])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([2**40]), pa.int32()),
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([123_456_789]), MONEY),
        (pa.array([1.5, None]), pa.int32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([0.125]), MONEY),
        (pa.array([nan]), MONEY),
        (pa.array([Decimal("1.555")]), MONEY),
        (pa.array(["1.555"]), MONEY),
        (pa.array(["2020-13-01"]), pa.date32()),
        (pa.array([1], pa.timestamp("ns", "UTC")), MICROS),
        (pa.array([86_400_001]).view(pa.date64()), pa.date32()),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([5]), pa.struct([("a", pa.int32())])),
    ],
)
def test_values_that_would_change_are_refused(values: pa.Array, kind: pa.DataType) -> None:
    refusal(values, kind)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (pa.array([1]), [MICROS, pa.date32(), pa.string(), pa.bool_(), pa.binary()]),
        (pa.array([1.0]), [pa.string(), MICROS, pa.bool_()]),
        (pa.array([True]), [pa.int32(), pa.float64(), pa.string()]),
        (pa.array([NEW_YEAR]), [pa.int64(), pa.date32(), pa.string(), pa.float64()]),
        (pa.array([date(2020, 1, 1)]), [pa.int32(), pa.int64(), pa.string()]),
        (pa.array([time(1)]), [pa.int64(), pa.date32(), MICROS, pa.string()]),
        (pa.array([timedelta(1)]), [pa.int64(), pa.float32(), pa.string()]),
        (pa.array(["1"]), [pa.int32(), pa.float64(), pa.bool_(), pa.binary()]),
        (pa.array([Decimal(1)]), [pa.int32(), pa.float64(), pa.string()]),
    ],
)
def test_other_types_are_refused_even_where_arrow_casts(values: pa.Array, kinds: list[pa.DataType]) -> None:
    for kind in kinds:
        error = refusal(values, kind)
        assert (error.expected, error.found) == (str(kind), str(values.type))
        refusal(values.slice(0, 0), kind)  # the type decides, not the rows


INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("wrap", "table_type", "lead"),
    [
        (lambda v: v, INNER, "c"),
        (lambda v: {"s": v}, pa.struct([("s", INNER)]), "c.s"),
        (lambda v: [v], pa.list_(INNER), "c[]"),
        (lambda v: [("k", v)], pa.map_(pa.string(), INNER), "c.value"),
    ],
)
def test_nested_fields_are_compared_by_name(wrap: Any, table_type: pa.DataType, lead: str) -> None:
    def given_as(*fields: tuple[str, pa.DataType]) -> pa.Array:
        kind = pa.struct(fields)
        place = {
            "c": kind,
            "c.s": pa.struct([("s", kind)]),
            "c[]": pa.list_(kind),
            "c.value": pa.map_(pa.string(), kind),
        }
        value = {name: 1 if inner == pa.int64() else "x" for name, inner in fields}
        return pa.array([None, wrap(value), wrap(value)], place[lead])

    a, b = ("a", pa.int64()), ("b", pa.string())
    expected = wrap({"a": 1, "b": "x"})
    assert fit(given_as(b, a), table_type) == [None, expected, expected]
    for fields, field in (((a,), "b"), ((a, b, ("z", pa.int64())), "z"), ((("q", pa.int64()), b), "q")):
        error = refusal(given_as(*fields), table_type)
        assert error.details["field"] == f"{lead}.{field}"


def test_nulls_where_none_may_be() -> None:
    strict = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    fine = pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())]))
    assert fit(fine, strict) == [{"a": 1}, None]
    holed = pa.array([{"a": None}], pa.struct([("a", pa.int64())]))
    assert refusal(holed, strict).details["field"] == "c.a"
    element = pa.list_(pa.field("element", pa.int32(), nullable=False))
    assert refusal(pa.array([[None]], pa.list_(pa.int64())), element).details["field"] == "c[]"
    assert "not null" in refusal(pa.nulls(1), pa.int32(), nullable=False).expected


def test_text_that_is_not_utf8_is_refused_at_any_depth() -> None:
    texts = pa.StringArray.from_buffers(
        4, pa.py_buffer(np.array([0, 1, 2, 4, 5], np.int32)), pa.py_buffer(b"aa\xff\xfeb")
    )
    for kind, row in ((pa.string(), 4), (pa.date32(), 0)):
        with pytest.raises(InvalidRequest, match=rf"row {row}: .*{'UTF-8' if row else 'is no date'}"):
            fit_column(pa.chunked_array([pa.array(["a", "b"]), texts]), pa.field("c", kind), "here")
    for array in (
        pa.ListArray.from_arrays([0, 2, 4], texts),
        pa.StructArray.from_arrays([texts], ["x"]),
        pa.DictionaryArray.from_arrays([0, 2], texts),
        pa.MapArray.from_arrays([0, 4], pa.array(["k"] * 4), texts),
    ):
        kind = pa.string() if pa.types.is_dictionary(array.type) else array.type
        assert "UTF-8" in refusal(array, kind).what


def test_a_decimal_beyond_its_type_is_refused_at_any_depth_and_other_rows_are_taken() -> None:
    """Arrow's readers and kernels may leave such a value, and files of it show another one."""
    wide = pa.array([Decimal("1234.50"), Decimal("1.50")], pa.decimal128(38, 2))
    decimals = pa.Array.from_buffers(pa.decimal128(5, 2), 2, wide.buffers())
    for array in (
        decimals,
        pa.ListArray.from_arrays([0, 1, 2], decimals),
        pa.StructArray.from_arrays([decimals], ["x"]),
        pa.MapArray.from_arrays([0, 1, 2], pa.array(["k"] * 2), decimals),
    ):
        error = refusal(array, array.type)
        assert ("more digits than its type" in error.what, error.details["row"]) == (True, 0)
        rest = pa.chunked_array([array.slice(1)])
        assert fit_column(rest, pa.field("c", array.type), "here").equals(rest)


def test_categories_of_polars_are_views() -> None:
    codes = pa.array([1, None, 0], pa.uint32())
    for kind, view in ((pa.string(), pa.string_view()), (pa.binary(), pa.binary_view())):
        values = pa.array(["a", "b" * 20], pa.string()).cast(kind)
        categories = pa.DictionaryArray.from_arrays(codes, values.cast(view))
        assert fit(categories, kind) == [values[1].as_py(), None, values[0].as_py()]


NESTED = st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3), max_size=6)


@given(NESTED, st.integers(0, 6))
def test_lists_and_maps_survive_any_slice(rows: list[Any], first: int) -> None:
    lists = pa.array(rows, pa.list_(pa.int64())).slice(first)
    assert fit_column(pa.chunked_array([lists]), pa.field("c", pa.list_(pa.int32())), "").to_pylist() == rows[first:]
    pairs = [row if row is None else [(str(at), item) for at, item in enumerate(row)] for row in rows]
    maps = pa.array(pairs, pa.map_(pa.string(), pa.int64())).slice(first)
    small = pa.field("c", pa.map_(pa.string(), pa.int32()))
    assert fit_column(pa.chunked_array([maps]), small, "").to_pylist() == pairs[first:]
