"""Tables whose index is the record index of their own metadata table, made and written by us."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest
from hudi_ops.verify import verify_table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])


def rows(*values: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in values], schema=SCHEMA)


def made(path: Path, kind: Literal["cow", "mor"]) -> Table:
    table = Table.create(
        str(path),
        name="t",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        table_type=kind,
        index="record_index",
    )
    table.ingest(rows(*[(f"k{n}", f"p{n % 2}", n) for n in range(10)]))
    return table


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_key_is_one_row_whatever_partition_it_comes_in(tmp_path: Path, kind: Literal["cow", "mor"]) -> None:
    table = made(tmp_path / "t", kind)
    table.ingest(rows(("k1", "p0", 100), ("k2", "p0", 200), ("new", "p2", 1)))
    table.ingest(rows(("k3", "p1", 0)), "delete")
    table.ingest(rows(("k4", "p0", 400)), "insert_overwrite")
    found = table.read(["id", "value"])
    held = dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert len(held) == found.num_rows
    assert held == {"k1": 100, "k5": 5, "k7": 7, "k9": 9, "new": 1, "k4": 400}
    assert verify_table(table.context.storage, deep=True, index=True).findings == ()


def test_its_record_index_cannot_be_dropped(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "cow")
    for names in (["record_index"], None):
        with pytest.raises(InvalidRequest, match="is this table's index"):
            table.drop_metadata(names)
    table.ingest(rows(("k1", "p1", 7)))
    assert table.read().num_rows == 10
