"""Record keys and partition paths: what Apache Hudi prints, and what must be refused before anything is written."""

import datetime as dt
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.kernels.keys.keys import KeySpec, PartitionSpec, partition_paths, record_keys
from tests.bounds import examples

VECTORS = json.loads((Path(__file__).parent / "bucket_vectors.json").read_text())
TYPES = {
    "int32": (pa.int32(), int),
    "int64": (pa.int64(), int),
    "bool": (pa.bool_(), lambda text: text == "true"),
    "date32": (pa.date32(), int),
    "timestamp_ms": (pa.timestamp("ms", "UTC"), int),
    "timestamp_us": (pa.timestamp("us", "UTC"), int),
    "decimal(20,7)": (pa.decimal128(20, 7), Decimal),
}


def paths(data: pa.Table, *fields: str, hive: bool = False, encode: bool = False) -> list[str]:
    encoded = partition_paths(data, PartitionSpec(fields, hive, encode))
    assert encoded.type == pa.dictionary(pa.int32(), pa.string())
    assert encoded.null_count == 0
    distinct = encoded.dictionary.to_pylist()
    assert distinct == sorted(set(distinct))
    return encoded.cast(pa.string()).to_pylist()


@pytest.mark.parametrize(("kind", "value", "printed", "_consistent"), VECTORS["texts"])
def test_values_print_as_in_apache_hudi(kind: str, value: str, printed: str, _consistent: str) -> None:
    arrow_type, parse = TYPES[kind]
    number = parse(value)
    column = pa.array([number], pa.int32()).cast(arrow_type) if kind == "date32" else pa.array([number], arrow_type)
    assert record_keys(pa.table({"f": column}), KeySpec(("f",), False)).to_pylist() == [printed]
    if pa.types.is_timestamp(arrow_type):
        with pytest.raises(Unsupported, match="cannot name partitions"):
            paths(pa.table({"f": column}), "f")
    else:
        assert paths(pa.table({"f": column}), "f") == [printed]


def test_names_are_encoded_in_declared_order() -> None:
    data = pa.table({"a": [1, 2], "b": ["x", ""], "d": [dt.date(2022, 1, 8), dt.date(1969, 12, 31)]})
    assert record_keys(data, KeySpec(("b", "a", "d"), True)).to_pylist() == [
        "b:x,a:1,d:2022-01-08",
        "b:__empty__,a:2,d:1969-12-31",
    ]
    assert record_keys(data, KeySpec(("a",), True)).to_pylist() == ["a:1", "a:2"]


def test_chunked_and_dictionary_columns() -> None:
    column = pa.chunked_array([["a"], ["b", "a"]]).dictionary_encode()
    data = pa.table({"k": column, "l": pa.chunked_array([["x", "y"], ["z"]], pa.large_string())})
    assert record_keys(data, KeySpec(("k", "l"), True)).to_pylist() == ["k:a,l:x", "k:b,l:y", "k:a,l:z"]
    assert paths(data, "k") == ["a", "b", "a"]


@pytest.mark.parametrize("encode_names", [False, True])
def test_null_and_empty_keys_name_field_and_row(encode_names: bool) -> None:
    for values in (["a", None, None], ["a", "", "b"]):
        with pytest.raises(InvalidRequest) as caught:
            record_keys(pa.table({"k": pa.array(values, pa.string())}), KeySpec(("k",), encode_names))
        assert (caught.value.details["row"], caught.value.details["field"]) == (1, "k")


def test_null_in_a_composite_key_and_a_wholly_empty_key() -> None:
    spec = KeySpec(("k", "l"), True)
    with pytest.raises(InvalidRequest) as caught:
        record_keys(pa.table({"k": ["a", "b"], "l": [1, None]}), spec)
    assert (caught.value.details["row"], caught.value.details["field"]) == (1, "l")
    with pytest.raises(InvalidRequest, match="is empty"):
        record_keys(pa.table({"k": ["a", ""], "l": ["", ""]}), spec)


def test_missing_columns_and_unsafe_types() -> None:
    data = pa.table({"x": [1.5], "y": [b"a"], "z": [[1]], "t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(InvalidRequest, match="no column 'k'") as caught:
        record_keys(data, KeySpec(("k",), False))
    assert "x, y, z, t" in str(caught.value)
    for field in data.column_names:
        with pytest.raises(Unsupported, match=f"'{field}'"):
            record_keys(data, KeySpec((field,), False))
        with pytest.raises(Unsupported, match=f"'{field}'"):
            paths(data, field)
    with pytest.raises(InvalidRequest, match="one field, or several"):
        record_keys(data, KeySpec(("x", "y"), False))
    far = pa.table({"d": pa.array([3_000_000], pa.int32()).cast(pa.date32())})
    with pytest.raises(Unsupported, match="years 1 to 9999"):
        record_keys(far, KeySpec(("d",), False))


def test_paths_of_several_levels() -> None:
    data = pa.table({"p": ["b", "a", None, "b", None], "m": [1, 2, 1, 1, None]})
    default = "__HIVE_DEFAULT_PARTITION__"
    assert paths(data, "p", "m") == ["b/1", "a/2", f"{default}/1", "b/1", f"{default}/{default}"]
    assert paths(data, "p", hive=True) == ["p=b", "p=a", f"p={default}", "p=b", f"p={default}"]
    assert paths(data) == [""] * 5
    assert paths(data.slice(0, 0), "p", "m") == paths(data.slice(0, 0)) == []


def test_many_distinct_pairs_take_the_sorting_way() -> None:
    data = pa.table({"a": range(3000), "b": range(3000)})
    assert paths(data, "a", "b") == [f"{i}/{i}" for i in range(3000)]


def test_url_encoding_equals_apache_hudis() -> None:
    escapes: dict[str, str] = dict(VECTORS["escapes"])
    assert len(escapes) >= 299
    found = {value: paths(pa.table({"p": [value]}), "p", hive=True, encode=True) for value in escapes}
    assert {value: one for value, one in found.items() if one != [f"p={escapes[value]}"]} == {}


@pytest.mark.parametrize("value", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_values_that_would_be_read_back_as_null_are_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match="read back as null") as caught:
        paths(pa.table({"p": ["x", value]}), "p", hive=True, encode=True)
    assert (caught.value.details["row"], caught.value.details["field"]) == (1, "p")


@pytest.mark.parametrize("value", ["a:b", "50%", "a/b", "/", ".", "..", "a\nb", "\x00", "\x7f", ".hoodie", ".hoodie_x"])
def test_values_that_are_no_folder_are_refused(value: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        paths(pa.table({"q": ["x", "x", "x"], "p": ["fine", "fine", value]}), "p", "q")
    assert (caught.value.details["row"], caught.value.details["field"]) == (2, "p")
    assert "hoodie.datasource.write.partitionpath.urlencode" in str(caught.value)


@pytest.mark.parametrize("value", [".", "..", "\x00", ".hoodie"])
def test_url_encoding_does_not_make_these_safe(value: str) -> None:
    with pytest.raises(InvalidRequest):
        paths(pa.table({"p": [value]}), "p", encode=True)


def test_dots_are_harmless_behind_a_field_name() -> None:
    assert paths(pa.table({"p": [".", ".."]}), "p", hive=True) == ["p=.", "p=.."]


@pytest.mark.parametrize(("value", "encode"), [("x" * 254, False), ("é" * 127, False), ("#" * 85, True)])
def test_folders_longer_than_a_disk_holds_are_refused(value: str, encode: bool) -> None:
    lengths = {False: len(value.encode()), True: 3 * len(value)}
    fits = value[: -3 if encode else -1]
    assert paths(pa.table({"p": [fits]}), "p", hive=True, encode=encode)
    with pytest.raises(InvalidRequest, match="too long") as caught:
        paths(pa.table({"q": ["x"] * 2, "p": ["fine", value]}), "q", "p", hive=True, encode=encode)
    assert (caught.value.details["row"], caught.value.details["field"]) == (1, "p")
    assert caught.value.found == f"{2 + lengths[encode]} bytes"


NAMES = st.lists(st.text("ab,:", min_size=1, max_size=4), min_size=2, max_size=3, unique=True)
PLAIN_NAMES = st.lists(st.text("ab_", min_size=1, max_size=3), min_size=2, max_size=3, unique=True)
Keys = tuple[list[str], list[tuple[str, ...]]]


@st.composite
def keyed_rows(draw: st.DrawFn) -> Keys:
    """Names of key fields, and different rows of values that are made of them."""
    names = draw(st.one_of(PLAIN_NAMES, NAMES))
    pieces = ["a", ",", ":", "__empty__", "__null__", *names, *(f",{name}:" for name in names)]
    values = st.lists(st.sampled_from(pieces), max_size=3).map("".join)
    return names, draw(st.lists(st.tuples(*[values] * len(names)), min_size=2, max_size=8, unique=True))


@given(keyed_rows())
@example((["k", "l", "m"], [("a,l:a", "a", "a"), ("a", "a,l:a", "a")]))
@example((["k", "l", "m"], [("a", "__empty__", "a"), ("a", "", "a")]))
@example((["a", "b:,b"], [("a,b:", "a"), ("a", ",b:a")]))
@settings(max_examples=examples(400, 5_000), deadline=None)
def test_keys_of_different_rows_differ_or_one_row_is_refused(drawn: Keys) -> None:
    names, rows = drawn
    data = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    try:
        keys = record_keys(data, KeySpec(tuple(names), True), refuse_ambiguous=True).to_pylist()
    except InvalidRequest as refused:
        field = refused.details["field"]
        if "row" in refused.details:
            value = data[field][refused.details["row"]].as_py()
            following = dict(pairwise(names)).get(field)
            assert value in {"", "__empty__", "__null__"} or f",{following}:" in value
        else:
            assert "," in field or ":" in field
    else:
        assert len(set(keys)) == len(rows)
