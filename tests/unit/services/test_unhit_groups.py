"""A delete that hits nothing in a file group neither writes it anew nor reads its rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hudi_ops import Table

KEYS = [f"key-{row:04d}" for row in range(0, 2000, 2)]


def test_an_absent_key_is_told_by_the_footer_alone(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    table = Table.create(str(tmp_path), name="t", record_key=["id"], schema=schema)
    table.ingest(pa.table({"id": KEYS, "n": list(range(1000))}, schema=schema))
    (file,) = tmp_path.glob("*.parquet")
    body = bytearray(file.read_bytes())
    body[4:4000] = bytes(3996)  # rows that cannot be read; the footer at the end can
    file.write_bytes(body)
    result = table.ingest(pa.table({"id": ["key-0001", "a"]}), "delete")
    assert (result.deleted, result.file_groups) == (0, 0)
    assert list(tmp_path.glob("*.parquet")) == [file]
