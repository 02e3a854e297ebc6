"""Goal: what a source may change of a table's columns, a case a rule; all else is refused with column, from, to and a way out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.sources.schema_change import merge_schemas, schema_changes

TABLE = pa.schema([
    ("id", pa.int32()),
    ("n", pa.int32()),
    ("big", pa.int64()),
    ("f", pa.float32()),
    ("text", pa.string()),
    ("born", pa.date32()),
    ("price", pa.decimal128(10, 2)),
    ("at", pa.timestamp("ms", "UTC")),
    ("place", pa.struct([("lat", pa.float32())])),
    ("tags", pa.list_(pa.field("element", pa.struct([("k", pa.string())])))),
    ("props", pa.map_(pa.string(), pa.int32())),
])
ROLES = {"id": "key"}


def merged(*columns: tuple[str, pa.DataType] | pa.Field) -> pa.Schema:
    """The table's columns after one source with these and all the table's other ones."""
    given = pa.schema(columns)
    rest = [field for field in TABLE if field.name not in given.names]
    return merge_schemas(TABLE, [("here", pa.schema([*given, *rest]))], ROLES)


@pytest.mark.parametrize(
    ("column", "given", "becomes"),
    [
        ("n", pa.int64(), pa.int64()),
        ("n", pa.float64(), pa.float64()),
        ("f", pa.float64(), pa.float64()),
        ("price", pa.decimal128(12, 2), pa.decimal128(12, 2)),
        ("price", pa.decimal128(12, 4), pa.decimal128(12, 4)),
        ("place", pa.struct([("lat", pa.float32()), ("n", pa.int8())]),
         pa.struct([("lat", pa.float32()), ("n", pa.int32())])),
        ("tags", pa.large_list(pa.struct([("v", pa.large_string()), ("k", pa.string())])),
         pa.list_(pa.field("element", pa.struct([("k", pa.string()), ("v", pa.string())])))),
    ],
)  # fmt: skip
def test_what_holds_every_value_is_taken(column: str, given: pa.DataType, becomes: pa.DataType) -> None:
    after = merged((column, given))
    assert after == TABLE.set(TABLE.get_field_index(column), TABLE.field(column).with_type(becomes))


@pytest.mark.parametrize(
    ("column", "given"),
    [
        ("n", pa.int8()),
        ("n", pa.float32()),  # does not hold every int32
        ("n", pa.uint64()),
        ("big", pa.float64()),  # does not hold every int64; pandas makes it of whole numbers with nulls
        ("big", pa.int32()),
        ("f", pa.float16()),
        ("price", pa.decimal128(5, 2)),
        ("price", pa.decimal128(11, 4)),  # fewer digits before the point
        ("price", pa.float64()),
        ("born", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("text", pa.binary()),
        ("place", pa.struct([("lat", pa.float64())])),  # nested: Apache Hudi could not read the old files
        ("props", pa.map_(pa.string(), pa.int64())),
        ("text", pa.null()),
        ("tags", pa.null()),
    ],
)
def test_where_the_type_does_not_become_wider_the_values_must_fit(column: str, given: pa.DataType) -> None:
    assert merged((column, given)) == TABLE


@pytest.mark.parametrize(
    ("column", "given", "words"),
    [
        ("n", pa.string(), ("n", "int32", "string")),
        ("text", pa.int32(), ("text", "string", "int32")),
        ("big", pa.bool_(), ("big", "int64", "bool")),
        ("born", pa.timestamp("us"), ("born", "date32", "timestamp")),
        ("place", pa.string(), ("place", "struct", "string")),
        ("place", pa.struct([("lat", pa.string())]), ("place.lat", "float", "string")),
        ("tags", pa.list_(pa.string()), ("tags[]", "struct", "string")),
        ("props", pa.map_(pa.string(), pa.bool_()), ("props.value", "int32", "bool")),
        ("id", pa.int64(), ("id", "key column", "int32", "int64")),
    ],
)
def test_other_types_are_refused_by_name(column: str, given: pa.DataType, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match=r"^here: column ") as caught:
        merged((column, given))
    assert all(word in str(caught.value) for word in words)
    assert caught.value.next_step
    assert caught.value.details["field"] == words[0]


def test_new_columns_go_to_the_end_wherever_they_stand() -> None:
    given = pa.schema([("extra", pa.large_string()), *reversed(list(TABLE)), ("last", pa.timestamp("ns"))])
    after = merge_schemas(TABLE, [("here", given)], ROLES)
    assert list(after)[: len(TABLE)] == list(TABLE)
    assert list(after)[len(TABLE) :] == [
        pa.field("extra", pa.string()),
        pa.field("last", pa.timestamp("us", "UTC")),
    ]


@pytest.mark.parametrize(
    "field",
    [
        pa.field("extra", pa.int32(), nullable=False),
        pa.field("place", pa.struct([pa.field("lat", pa.float32()), pa.field("extra", pa.int32(), nullable=False)])),
    ],
)
def test_what_is_added_may_be_null(field: pa.Field) -> None:
    with pytest.raises(InvalidRequest, match="extra is new and declared not null"):
        merged(field)


@pytest.mark.parametrize(
    ("field", "error", "match"),
    [
        (("Text", pa.string()), InvalidRequest, "differs from text only in case"),
        (("place", pa.struct([("lat", pa.float32()), ("LAT", pa.float32())])), InvalidRequest, "only in case"),
        (("_hoodie_record_key", pa.string()), InvalidRequest, "added by Hudi"),
        (("_hoodie_is_deleted", pa.string()), InvalidRequest, "must be boolean"),
        (("9lives", pa.string()), InvalidRequest, "9lives"),
        (("noon", pa.time32("s")), Unsupported, "noon"),
        (("empty", pa.list_(pa.null())), Unsupported, "empty"),
    ],
)
def test_new_columns_must_be_ones_that_a_table_can_have(field: Any, error: type[HudiOpsError], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        merged(field)
    assert "here" in str(caught.value) or "only in case" in str(caught.value)


def test_a_rename_is_not_taken_for_an_addition() -> None:
    given = pa.schema([("words", pa.string()), *(field for field in TABLE if field.name != "text")])
    with pytest.raises(InvalidRequest, match="words is new while text, of the same type, is missing"):
        merge_schemas(TABLE, [("here", given)], ROLES)
    # The missing column may be in another source, or hold nothing but nulls.
    assert "words" in merge_schemas(TABLE, [("here", given), ("there", TABLE)], ROLES).names
    assert "words" in merge_schemas(TABLE, [("here", given.append(pa.field("text", pa.null())))], ROLES).names


def test_sources_that_differ_are_taken_together() -> None:
    one = pa.schema([
        *TABLE.set(1, pa.field("n", pa.int64())),
        ("x", pa.int64()),
        ("s", pa.struct([("a", pa.int32())])),
    ])
    two = pa.schema([
        *TABLE.set(1, pa.field("n", pa.float64())),
        ("x", pa.float64()),
        ("s", pa.struct([("b", pa.bool_())])),
    ])
    after = merge_schemas(TABLE, [("one", one), ("two", two)], ROLES)
    assert after.field("n").type == after.field("x").type == pa.float64()
    assert after.field("s").type == pa.struct([("a", pa.int32()), ("b", pa.bool_())])
    with pytest.raises(InvalidRequest, match=r"^two: column x is int64 in one source and string in another"):
        merge_schemas(TABLE, [("one", one), ("two", pa.schema([*TABLE, ("x", pa.string())]))], ROLES)


def test_columns_of_another_program_stay_whatever_they_are() -> None:
    foreign = pa.schema([
        ("a", pa.int32()),
        ("A", pa.int32()),
        ("noon", pa.time32("ms")),
        ("plain", pa.timestamp("us")),
    ])
    assert merge_schemas(foreign, [("here", foreign)]) == foreign
    assert merge_schemas(foreign, [("here", foreign.append(pa.field("x", pa.bool_())))]).names[-1] == "x"


def test_changes_are_told_in_words() -> None:
    after = merged(
        ("n", pa.int64()),
        ("x", pa.bool_()),
        ("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.string())]))),
    )
    assert schema_changes(TABLE, after) == ("widened n: int32 to int64", "added tags[].v: string", "added x: bool")
    assert schema_changes(TABLE, TABLE) == ()
