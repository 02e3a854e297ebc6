"""Work on wide tables grows with the number of columns, not with its square; counted, not timed."""

from __future__ import annotations

import sys
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

TOLERANCE = 1.1
"""Factor by which twice the columns may exceed twice the work."""


def rows(columns: int, version: int) -> pa.Table:
    """Two rows, the first of which both versions have."""
    kinds = [pa.array([version, None]), pa.array([f"t{version}", "u"]), pa.array([0.5, 1.5]), pa.array([True, None])]
    values = {f"c{number}": kinds[number % len(kinds)] for number in range(columns)}
    return pa.table({"id": ["a", f"b{version}"], "ts": [version, version], **values})


class Counts:
    """Calls of functions, Arrow's among them, and schemas that were built from a Parquet file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = self.schemas = 0
        build = pq.ParquetFile.schema_arrow.fget

        def counted(file: pq.ParquetFile) -> pa.Schema:
            self.schemas += 1
            return build(file)

        monkeypatch.setattr(pq.ParquetFile, "schema_arrow", property(counted))

    def of(self, work: Any) -> tuple[int, int]:
        """Calls, and schemas built, while the work runs."""
        self.calls = self.schemas = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            self.calls += event in {"call", "c_call"}

        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self.calls, self.schemas


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_twice_the_columns_are_twice_the_work(table_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, list[tuple[int, int]]] = {}
    counts = Counts(monkeypatch)
    for columns in (200, 400):
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
            found.setdefault(name, []).append(counts.of(step))
        expected = pa.concat_tables([batches[1], batches[0].slice(1)])
        assert table.read().select(expected.column_names).sort_by("id").equals(expected.sort_by("id"))
        table.close()
    for name, ((calls, schemas), (twice_calls, twice_schemas)) in found.items():
        assert twice_calls <= 2 * calls * TOLERANCE, name
        assert twice_schemas == schemas, name


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
