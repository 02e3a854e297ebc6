"""Columns of JSON lines are those that pyarrow finds in the whole file, however small the pieces are."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.json as pajson
from hypothesis import given, settings, strategies as st

from hudi_ops.sources import source_schema
from tests.bounds import examples

NUMBERS = st.sampled_from([1, -2, 0.5, -1.5, None])
TEXTS = st.sampled_from(["x", "a\nb", "2026-01-01", "2026-01-01T00:00:00", None])
SCALARS = st.one_of(NUMBERS, TEXTS, st.booleans())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("pq"), inner, max_size=2)),
    max_leaves=4,
)
# A column has few values, mostly of kinds that have a common type: else most files would have no schema.
COLUMNS = st.one_of(*(st.lists(values, min_size=1, max_size=5) for values in (NUMBERS, TEXTS, VALUES)))
ROWS = st.tuples(COLUMNS, COLUMNS).map(
    lambda columns: [
        {name: value for name, value in zip("ab", values, strict=True) if value != "absent"}
        for values in zip_longest(*columns, fillvalue="absent")
    ]
)


def columns(body: bytes, piece_bytes: int) -> pa.Schema | None:
    """The columns; None: a column has values of two types."""
    with patch.object(source_schema, "_PIECE_BYTES", piece_bytes):
        try:
            return source_schema._json_schema(pa.BufferReader(body), pa.schema([]), 1 << 20)
        except pa.ArrowInvalid as error:
            if "changed from" not in str(error):
                raise
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
