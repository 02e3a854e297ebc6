"""Nulls of nested columns: a null struct is a value, a null in a field that may not be null is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest

POINT = pa.struct([pa.field("x", pa.int32(), nullable=False)])
DECLARED = "id string, s struct<x: int not null>, l array<struct<x: int not null>>"


def points(values: list[int | None], *, gone: bool) -> pa.StructArray:
    """Structs of the declared type, whose values pyarrow does not check."""
    mask = pa.array([gone] * len(values))
    return pa.StructArray.from_arrays([pa.array(values, pa.int32())], fields=list(POINT), mask=mask)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_null_struct_may_have_fields_that_are_not_null(tmp_path: Path, table_type: str, is_declared: bool) -> None:
    table = Table.create(tmp_path / "t", name="t", schema=DECLARED, record_key="id", table_type=table_type)
    s, elements = points([None], gone=True), points([None, None], gone=True)
    if not is_declared:
        loose = pa.struct([("x", pa.int32())])
        s, elements = pa.array([None], loose), pa.array([None, None], loose)
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), elements)
    for _ in range(2):
        table.ingest(pa.table({"id": ["a"], "s": s, "l": lists}))
    assert table.read().to_pylist() == [{"id": "a", "s": None, "l": [None, None]}]


def test_a_null_in_a_nested_not_null_field_is_told_whatever_its_declared_type(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", name="t", schema=DECLARED, record_key="id")
    rows = pa.table({"id": ["a"], "s": points([None], gone=False), "l": pa.array([[]], pa.list_(POINT))})
    with pytest.raises(InvalidRequest, match=r"column s\.x does not fit the table: it holds a null"):
        table.ingest(rows)
    assert table.read().num_rows == 0
