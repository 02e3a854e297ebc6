"""What is told of a column's range holds of all its values, and is as narrow as can be.

Goal: ranges from footers, from rows in memory and from rows in pieces are what a loop over the values finds. Method: random columns
of each type with nulls, NaN, signed zeros, extremes, texts longer than footers hold, and none at all; random row groups and pieces.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings, strategies as st

from hudi_ops.files.statistics.column_ranges import ranges_of_base, ranges_of_rows
from hudi_ops.files.statistics.statistics import ColumnRange
from hudi_ops.formats.parquet.footer import NAN_COLUMNS_KEY
from hudi_ops.kernels.statistics import holds_nan
from tests.bounds import examples

FLOATS = st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, -1.5, 5e-324]) | st.floats(width=32)
TEXTS = st.sampled_from(["", "a", "é", "\U0010ffff", "\ud7ff", "a" * 4097, "z" * 4097]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), TIMES),
    (pa.float32(), FLOATS.map(lambda one: one if one != 5e-324 else 1e-45)),
    (pa.float64(), FLOATS | st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=4) | st.just(b"\xff" * 4097)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), TIMES),
    (pa.timestamp("ms"), TIMES),
    (pa.time64("us"), st.times()),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (pa.decimal128(38, 4), st.decimals(-(10**20), 10**20, places=4)),
]


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind, values = draw(st.sampled_from(KINDS))
    picks = draw(st.lists(st.none() | values, max_size=12)) if draw(st.booleans()) else [None] * draw(st.integers(0, 3))
    if pa.types.is_timestamp(kind):
        return pa.array(picks, pa.int64()).view(kind)
    return pa.array(picks, kind)


def rank(value: Any) -> Any:
    """Java's order of floats, which Apache Hudi uses and Spark as well; bytes of texts."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def plain(values: pa.Array) -> list[Any]:
    return (values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()


def expected(values: pa.Array) -> tuple[str, ...]:
    some = [one for one in plain(values) if one is not None]
    least, greatest = (min(some, key=rank), max(some, key=rank)) if some else (None, None)
    if isinstance(least, float):
        least, greatest = -0.0 if least == 0 else least, 0.0 if greatest == 0 else greatest
    return repr(least), repr(greatest), str(values.null_count), str(len(values))


def told(found: ColumnRange) -> tuple[str, ...]:
    return repr(plain(found.least)[0]), repr(plain(found.greatest)[0]), str(found.nulls), str(found.values)


@settings(max_examples=examples(300))
@given(values=columns(), group=st.integers(1, 5), cut=st.integers(0, 12))
def test_all_ways_tell_what_a_loop_finds(values: pa.Array, group: int, cut: int) -> None:
    rows = pa.table({"c": values})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False, row_group_size=group)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    pieces = [rows.slice(0, cut), rows.slice(cut)]
    named = ["c"] if pa.types.is_floating(values.type) and holds_nan(values) else []
    keyed = pa.BufferOutputStream()
    with pq.ParquetWriter(keyed, rows.schema, store_schema=False) as writer:
        writer.write_table(rows, row_group_size=group)
        writer.add_key_value_metadata({NAN_COLUMNS_KEY: json.dumps(named)})
    file_with_key = pq.ParquetFile(pa.BufferReader(keyed.getvalue()))

    def floats_refused(name: str) -> list[pa.Table]:
        assert len(values) == 0 or not pa.types.is_floating(values.type), "the footer tells all"
        return [rows]

    ways = {
        "footer": ranges_of_base(file, rows.schema, ["c"]),
        "footer, rows at hand": ranges_of_base(file, rows.schema, ["c"], lambda name: [rows]),
        "footer with our key": ranges_of_base(file_with_key, rows.schema, ["c"], floats_refused),
        "rows": ranges_of_rows([rows], rows.schema, ["c"]),
        "pieces": ranges_of_rows(pieces, rows.schema, ["c"]),
    }
    for way, (found,) in ways.items():
        assert told(found) == expected(values), way
        assert found.least.type == found.greatest.type == values.type
    assert ways["footer"][0].size == ways["footer, rows at hand"][0].size
    assert ways["rows"][0].size == ways["rows"][0].uncompressed_size == 0
