"""Columns of JSON lines are those that pyarrow finds in the whole file, however small the pieces are."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.json as pajson
from hypothesis import given, settings, strategies as st

from hudi_ops.sources import source_schema
from tests.bounds import examples

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-2, 2, allow_nan=False),
    st.sampled_from(["", "x", "2026-01-01", "2026-01-01T00:00:00", "a\nb"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("pq"), inner, max_size=2)),
    max_leaves=4,
)
# Two kinds for each column: with any kind in each row most files would have no schema.
ROWS = st.fixed_dictionaries({name: st.tuples(VALUES, VALUES) for name in "abc"}).flatmap(
    lambda columns: st.lists(
        st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in columns.items()}),
        min_size=1,
        max_size=6,
    )
)


def columns(body: bytes, piece_bytes: int) -> pa.Schema | None:
    """The columns; None: a column has values of two types."""
    with patch.object(source_schema, "_PIECE_BYTES", piece_bytes):
        try:
            return source_schema._json_schema(pa.BufferReader(body), pa.schema([]), 1 << 20)
        except pa.ArrowInvalid as error:
            assert "changed from" in str(error), error
            return None


@settings(max_examples=examples(200), deadline=None)
@given(rows=ROWS)
def test_columns_do_not_depend_on_pieces(rows: list[dict[str, Any]]) -> None:
    body = "".join(json.dumps(row) + "\n" for row in rows).encode()
    whole = columns(body, 1 << 20)
    try:
        judged = set(pajson.read_json(pa.BufferReader(body)).schema.names)
    except pa.ArrowInvalid:
        assert whole is None
    else:
        assert whole is not None
        assert set(whole.names) == judged
    assert columns(body, 16) == whole
