"""What `create` infers from a file, an ingest of that file takes, and a read gives what other engines read from it.

Random CSV files are compared with DuckDB, JSON lines with DuckDB, Parquet with pyarrow and DuckDB. Where the product differs on
purpose: digits with leading zeros or a plus sign, hexadecimal digits, whole numbers beyond 64 bits, times with nanoseconds, and
columns with a quoted empty value are text in a CSV file (DuckDB and pyarrow take numbers, times and nulls); texts of JSON are
text; UUIDs are text; Parquet columns and nested fields of type null are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, example, given, settings

from hudi_ops.sources.sample_schema import sample_schema
from hudi_ops.testing.clock import ManualClock
from tests.bounds import bound
from tests.definitions import Definition
from tests.property.source_files import (
    MAPS,
    as_text_says,
    csv_files,
    duckdb_rows_of_parquet,
    json_files,
    parquet_files,
    plain,
    rows_of_json,
    rows_of_parquet,
    texts_of_csv,
)
from tests.tables import BY_HAND, NOW_MS, made, table_of

FILES = settings(
    max_examples=bound(8, 30, 670),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def taken(path: Path, schema: pa.Schema) -> pa.Table:
    """The rows that a new table of these columns shows after an ingest of a file, by key."""
    storage = made(Definition("files", schema, ("id",)))
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=BY_HAND)
    table.ingest_file(path, "bulk_insert")
    return table.read().sort_by("id")


def shown(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows in the form in which engines are compared."""
    return [{name: plain(value) for name, value in row.items()} for row in rows.to_pylist()]


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an engine in the order of `taken`."""
    return sorted(rows, key=lambda row: str(row["id"]))


@FILES
@example(file=("ends_in_a_comma.csv", b'id,c0,c1\nk0,0,\nk1,"",'))
@given(file=csv_files())
def test_csv_files_are_read_as_duckdb_splits_them(tmp_path: Path, file: tuple[str, bytes]) -> None:
    path = tmp_path / file[0]
    path.write_bytes(file[1])
    rows = taken(path, sample_schema(str(path)))
    wanted = texts_of_csv(path)
    for field in rows.schema:
        texts = [row[field.name] for row in wanted]
        assert [plain(value) for value in rows[field.name].to_pylist()] == [
            as_text_says(text, field.type) for text in texts
        ]
        if pa.types.is_integer(field.type):
            assert [None if text is None else int(text) for text in texts] == rows[field.name].to_pylist()


@FILES
@given(file=json_files())
def test_json_files_are_read_as_duckdb_reads_them(
    tmp_path: Path, file: tuple[str, bytes, list[str], list[dict[str, Any]]]
) -> None:
    name, body, kinds, rows = file
    path = tmp_path / name
    path.write_bytes(body)
    maps = {f"c{at}": MAPS[kind] for at, kind in enumerate(kinds) if kind in MAPS}
    sample = tmp_path / "sample.jsonl"  # a file does not tell a map from a record: users name maps themselves
    shows = [{name: value for name, value in row.items() if name not in maps} for row in rows]
    sample.write_text("\n".join(map(json.dumps, shows)), encoding="utf-8")
    schema = pa.schema([*sample_schema(str(sample)), *maps.items()])
    assert shown(taken(path, schema)) == by_key(rows_of_json(path, kinds))


NULL_FIELD = pa.table({
    "id": ["k0", "k1"],
    "value": pa.StructArray.from_arrays([pa.nulls(2), pa.array([0, 0])], ["a", "b"], mask=pa.array([True, True])),
})
"""A cast of a slice of such a batch fails in pyarrow 26."""


@FILES
@given(file=parquet_files())
@example(file=(NULL_FIELD, {"row_group_size": 1, "store_schema": False}))
def test_parquet_files_are_read_as_pyarrow_and_duckdb_read_them(
    tmp_path: Path, file: tuple[pa.Table, dict[str, Any]]
) -> None:
    table, options = file
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, **options)
    rows = shown(taken(path, sample_schema(str(path))))
    for read in (rows_of_parquet, duckdb_rows_of_parquet):
        wanted = by_key(read(path))
        lost = {name for row in wanted for name in row.keys() - rows[0].keys() if row[name] is not None}
        assert not lost
        assert rows == [{name: row[name] for name in rows[0]} for row in wanted]
