"""Changes of a schema, whatever the schemas: made twice, one changes nothing more; columns and values that are there stay what
they are; the order of sources does not matter; and a table that changes agrees with a model of dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings, strategies as st

from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.files.base.base_file import conform
from hudi_ops.formats.arrow_types import table_columns
from hudi_ops.formats.avro.schema import to_arrow, to_avro
from hudi_ops.sources.schema_change import merge_schemas, schema_changes
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.bounds import examples
from tests.definitions import Definition, create_table
from tests.tables import table_of

FLAT = st.sampled_from([
    pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(),
    pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.decimal128(9, 4), pa.decimal128(38, 0),
    pa.null(),
])  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])


def records(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(NAMES, kinds, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))


KINDS = st.recursive(
    FLAT,
    lambda inner: records(inner) | inner.map(pa.list_) | inner.map(lambda kind: pa.map_(pa.string(), kind)),
    max_leaves=4,
)
SOURCES = st.dictionaries(NAMES, KINDS, min_size=1, max_size=5).map(lambda columns: pa.schema(list(columns.items())))


@st.composite
def tables(draw: st.DrawFn) -> pa.Schema:
    try:
        return table_columns(draw(SOURCES))
    except HudiOpsError:
        assume(False)
        raise


def merged_or_none(table: pa.Schema, *sources: pa.Schema) -> pa.Schema | None:
    try:
        return merge_schemas(table, [(str(at), source) for at, source in enumerate(sources)])
    except HudiOpsError:
        return None


@settings(max_examples=examples(400))
@given(tables(), SOURCES)
def test_a_change_made_twice_is_made_once(table: pa.Schema, source: pa.Schema) -> None:
    assert merge_schemas(table, [("itself", table)]) == table
    merged = merged_or_none(table, source)
    if merged is None:
        return  # refused, as most pairs of schemas are that know nothing of each other
    assert merge_schemas(merged, [("again", source)]) == merged
    assert merge_schemas(merged, [("the table before", table)]) == merged
    assert merged.names[: len(table)] == table.names
    assert (schema_changes(table, merged) == ()) == (merged == table)
    assert table_columns(merged) == merged
    assert to_arrow(to_avro(merged, "t")) == merged


@given(tables(), SOURCES, SOURCES)
def test_the_order_of_sources_does_not_matter(table: pa.Schema, one: pa.Schema, two: pa.Schema) -> None:
    def shape(kind: pa.DataType) -> Any:
        """A type without the order of nested fields."""
        if pa.types.is_struct(kind):
            return {field.name: shape(field.type) for field in kind}
        inner = [shape(kind.field(at).type) for at in range(kind.num_fields)]
        return [str(kind).partition("<")[0], *inner] if inner else str(kind)

    first, second = merged_or_none(table, one, two), merged_or_none(table, two, one)
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert {field.name: shape(field.type) for field in first} == {field.name: shape(field.type) for field in second}


PAIRS = [
    (pa.int32(), pa.int64(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int32(), pa.float64(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float32(), pa.float64(), st.floats(width=32)),
    (pa.decimal128(5, 2), pa.decimal128(9, 4), st.decimals(-999, 999, places=2)),
]


@given(
    st.sampled_from(PAIRS).flatmap(lambda pair: st.tuples(st.just(pair[:2]), st.lists(pair[2] | st.none(), max_size=9)))
)
def test_stored_values_stay_what_they_are(drawn: tuple[tuple[pa.DataType, pa.DataType], list[Any]]) -> None:
    (before, after), values = drawn
    table, wide = pa.schema([("v", before)]), pa.schema([("v", after), ("new", pa.string())])
    assert merge_schemas(table, [("here", wide)]) == wide
    read = conform(pa.table([pa.array(values, before)], schema=table), wide, "old.parquet")
    assert read.schema == wide
    assert read.column("new").null_count == len(values)
    back = read.column("v").cast(before).to_pylist()
    assert [repr(value) for value in back] == [repr(value) for value in pa.array(values, before).to_pylist()]
    if pa.types.is_float32(before):
        # The double has the same decimal text as the number had: what people wrote.
        shown = [None if value is None else repr(float(str(np.float32(value)))) for value in values]
        assert [None if value is None else repr(value) for value in read.column("v").to_pylist()] == shown


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abc"), st.sampled_from(["int", "long", "double", "text"]), max_size=3),
        st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 9)), max_size=4),
    ),
    min_size=1,
    max_size=5,
)
TYPES = {"int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "text": pa.string()}


@settings(max_examples=examples(60), deadline=None)
@given(STEPS)
def test_a_table_that_changes_keeps_every_row(steps: list[tuple[dict[str, str], list[tuple[int, int | None]]]]) -> None:
    table = table_of(MemoryStorage(), ManualClock(1_800_000_000_000), "one")
    create_table(table._session, Definition("t", pa.schema([("id", pa.int32())]), ("id",), buckets=2))
    model: dict[int, dict[str, Any]] = {}
    for columns, rows in steps:
        schema = pa.schema([*((name, TYPES[kind]) for name, kind in columns.items()), ("id", pa.int32())])
        values = {
            number: {"id": number, **{n: _value(kind, value) for n, kind in columns.items()}} for number, value in rows
        }
        before = table.schema
        try:
            table.ingest(pa.Table.from_pylist(list(values.values()), schema=schema), evolve=True)
        except InvalidRequest:
            assert table.schema == before
            continue
        model |= values
        assert set(table.schema.names) == set(before.names) | set(columns)
    read = {row["id"]: row for row in table.read(table.schema.names).to_pylist()}
    assert read == {number: {name: row.get(name) for name in table.schema.names} for number, row in model.items()}


def _value(kind: str, value: int | None) -> Any:
    return None if value is None else str(value) if kind == "text" else value
