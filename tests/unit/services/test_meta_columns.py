"""Meta columns of Apache Hudi: an ingest ignores them in its input, a read gives them only when asked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.config.columns import META_COLUMNS

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])
ROWS = [{"id": f"k{number}", "part": f"p{number % 2}", "value": number} for number in range(6)]


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = Table.create(
        tmp_path / "t", name="t", record_key="id", schema=SCHEMA, partition_by="part", table_type=request.param
    )
    made.ingest(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    return made


def rows_of(table: Table) -> list[dict[str, object]]:
    return sorted(table.read().to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("meta_columns", [False, True])
@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite", "delete"])
@pytest.mark.parametrize("evolve", [False, True])
def test_what_was_read_can_be_ingested(table: Table, operation: str, meta_columns: bool, evolve: bool) -> None:
    if evolve and operation == "delete":
        return
    read = table.read(meta_columns=meta_columns)
    result = table.ingest(read, operation, evolve=evolve)
    assert (result.rows_in, result.schema_changes) == (6, ())
    assert rows_of(table) == ([] if operation == "delete" else ROWS)
    assert table.schema == SCHEMA


def test_reads_give_the_tables_columns_alone(table: Table) -> None:
    assert table.read().schema.names == table.scan().schema.names == table.changes().schema.names == SCHEMA.names
    whole = [*META_COLUMNS, *SCHEMA.names]
    for found in (
        table.read(meta_columns=True),
        table.scan(meta_columns=True).to_arrow(),
        table.changes(meta_columns=True).to_arrow(),
    ):
        assert found.schema.names == whole
        assert found.num_rows == len(ROWS)
    assert table.read(["value"], meta_columns=True).schema.names == [*META_COLUMNS, "value"]
    named = ["value", "_hoodie_record_key"]
    assert table.read(named).schema.names == named
    assert table.read(named, meta_columns=True).schema.names == [*META_COLUMNS, "value"]


def test_a_condition_may_name_a_meta_column(table: Table) -> None:
    assert table.read(where="_hoodie_record_key = 'k3'").to_pylist() == [ROWS[3]]


@pytest.mark.parametrize("evolve", [False, True])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_may_have_meta_columns(table: Table, tmp_path: Path, ending: str, evolve: bool) -> None:
    changed = [{**row, "value": 7} for row in ROWS]
    rows = [{**dict.fromkeys(META_COLUMNS, "x"), **row} for row in changed]
    file = tmp_path / "landing" / f"rows.{ending}"
    file.parent.mkdir()
    match ending:
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows), file)
        case "jsonl":
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case _:
            lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
            file.write_text("\n".join(lines))
    result = table.ingest_folder(str(file.parent), evolve=evolve)
    assert (result.rows_in, result.schema_changes) == (6, ())
    assert rows_of(table) == changed
