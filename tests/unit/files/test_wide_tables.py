"""Schemas and lists of names are made once for a file, however many columns it has; the benchmark of shapes times the rest."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.engine.local import LocalEngine
from hudi_ops.files.base.base_file import conform


def rows(columns: int, version: int) -> pa.Table:
    """Two rows, the first of which both versions have."""
    kinds = [pa.array([version, None]), pa.array([f"t{version}", "u"]), pa.array([0.5, 1.5]), pa.array([True, None])]
    values = {f"c{number}": kinds[number % len(kinds)] for number in range(columns)}
    return pa.table({"id": ["a", f"b{version}"], "ts": [version, version], **values})


def built_schemas(monkeypatch: pytest.MonkeyPatch) -> list[pq.ParquetFile]:
    """Parquet files whose schema is built from now on, once for each time."""
    built, build = list[pq.ParquetFile](), pq.ParquetFile.schema_arrow.fget

    def counted(file: pq.ParquetFile) -> pa.Schema:
        built.append(file)
        return build(file)

    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(counted))
    return built


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_file_builds_its_schema_once_whatever_its_columns(
    table_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, list[int]] = {}
    counted = built_schemas(monkeypatch)
    for columns in (40, 80):
        batches = [rows(columns, version) for version in (0, 1)]
        table = Table.create(
            str(tmp_path / str(columns)),
            name="wide",
            record_key=["id"],
            schema=batches[0].schema,
            ordering="ts",
            table_type=table_type,
            buckets=1,
            metadata=True,
            engine=LocalEngine(threads=1),
        )
        steps: dict[str, Any] = {
            "first": partial(table.ingest, batches[0]),
            "second": partial(table.ingest, batches[1]),
            "read": table.read,
        }
        if table_type == "mor":
            steps["compaction"] = table.compaction.run
        for name, step in steps.items():
            counted.clear()
            step()
            found.setdefault(name, []).append(len(counted))
        expected = pa.concat_tables([batches[1], batches[0].slice(1)])
        assert table.read().select(expected.column_names).sort_by("id").equals(expected.sort_by("id"))
        table.close()
    assert {name: some for name, (some, twice) in found.items() if twice != some} == {}


class Counted:
    """A table that counts the looks at its names."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.looks = table, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.looks[name] += 1
        return getattr(self._table, name)


def test_conform_lists_the_names_once() -> None:
    table = rows(50, 0)
    counted: Any = Counted(table)
    assert conform(counted, table.schema, "a file").equals(table)
    assert counted.looks["column_names"] == 1
