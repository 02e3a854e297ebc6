"""Tables with log files, through the API: queries, counts, plans, and what a read-optimized one leaves out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.config.write_settings import LogFormat
from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.files.slice.slice_scan import SliceTask
from tests.interop.compare import assert_same_rows

HudiFixtures = Callable[[str], Path]
LOGGED = "v9_mor_parquet_log"


@pytest.fixture
def table(hudi_fixtures: HudiFixtures) -> Table:
    return Table.open(str(hudi_fixtures(LOGGED)))


def test_read_optimized_gives_the_base_files(table: Table, hudi_fixtures: HudiFixtures) -> None:
    files = sorted(hudi_fixtures(LOGGED).rglob("[!.]*.parquet"))
    bases = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    found = table.read(query="read_optimized", meta_columns=True)
    assert_same_rows(found, bases, with_meta=True)
    assert found.num_rows != table.read().num_rows
    assert table.scan(query="read_optimized").count_rows() == bases.num_rows


def test_groups_without_base_file_are_not_read_optimized(hudi_fixtures: HudiFixtures) -> None:
    table = Table.open(str(hudi_fixtures("v9_bucket_consistent_pending_resize")))
    assert table.read(query="read_optimized").num_rows == 0
    assert table.scan().count_rows() == 205


def test_an_unknown_query_is_refused(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="no query type newest"):
        table.scan(query="newest")


def test_what_is_left_out_would_never_come_as_changes(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="has no checkpoint"):
        _ = table.scan(query="read_optimized").checkpoint
    assert table.changes(table.scan().checkpoint).count_rows() == 0


def test_changes_go_on_after_base_files_that_have_no_logs(hudi_fixtures: HudiFixtures) -> None:
    plain = Table.open(str(hudi_fixtures("v9_async_index")))
    assert plain.changes(plain.scan(query="read_optimized").checkpoint).count_rows() == 0


def test_explain_counts_logs(table: Table) -> None:
    told = table.scan().explain()
    tasks = table.scan().tasks
    assert all(isinstance(task, SliceTask) for task in tasks)
    logs = [log for task in tasks if isinstance(task, SliceTask) for log in task.logs]
    assert (told.files_read, told.log_files_read) == (2, len(logs)) == (2, 5)
    assert told.log_bytes_read == sum(size for _, size in logs)
    assert told.bytes_read == sum(task.size_bytes for task in tasks)
    assert told.rows_at_most >= table.scan().count_rows()
    assert "log files   5 read" in str(told)
    nothing = table.scan(where="p = 'nowhere'").explain()
    assert (nothing.log_files_read, nothing.rows_at_most) == (0, 0)


def test_conditions_are_of_merged_rows(table: Table) -> None:
    everything = table.read(meta_columns=True)
    names = everything.schema.names
    for column in ("id", "ts", "v"):
        for value in everything[column].unique().to_pylist():
            literal = f"'{value}'" if isinstance(value, str) else value
            found = table.scan(where=f"{column} = {literal}", meta_columns=True)
            wanted = everything.filter(pa.compute.field(column) == value)
            assert_same_rows(found.to_arrow(), wanted, with_meta=True)
            assert found.count_rows() == wanted.num_rows
    assert table.read(where="id = 'nobody'", meta_columns=True).schema.names == names


def test_a_limit_ends_the_reading(table: Table) -> None:
    assert table.read(limit=3).equals(table.read().slice(0, 3))


def test_as_of_every_delta_commit(table: Table) -> None:
    """Each read holds exactly the writes that were requested by then."""
    times = sorted(table.read(meta_columns=True)["_hoodie_commit_time"].unique().to_pylist())
    for time in times:
        seen = table.read(as_of=time, meta_columns=True)["_hoodie_commit_time"].unique().to_pylist()
        assert max(seen) == time


def test_a_block_whose_instant_is_damaged_is_told_and_not_passed_over(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("value", pa.int64())])
    table = Table.create(str(tmp_path / "t"), name="t", table_type="mor", record_key=["id"], schema=schema)
    table.ingest(pa.table({"id": ["a"], "value": [1]}))
    instant = table.ingest(pa.table({"id": ["a"], "value": [2]})).instant
    assert instant is not None
    (log,) = (tmp_path / "t").glob(".*.log.*")
    whole = log.read_bytes()
    log.write_bytes(whole.replace(instant.encode(), f"9{instant[1:]}".encode(), 1))
    with pytest.raises(Corrupt, match="another writer"):
        table.read()
    log.write_bytes(whole)
    assert table.read(["id", "value"]).to_pylist() == [{"id": "a", "value": 2}]


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_rows_count_where_only_a_column_is_asked_for_that_their_files_lack(
    tmp_path: Path, log_format: LogFormat
) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    path = str(tmp_path / "t")
    table = Table.create(
        path, name="t", record_key=["id"], schema=schema, ordering="ts", table_type="mor", log_format=log_format
    )
    table.ingest(pa.table({"id": ["a", "b", "c"], "ts": [1, 1, 1]}))
    table.ingest(pa.table({"id": ["a"], "ts": [2]}))
    table.ingest(pa.table({"id": ["d"], "ts": [2], "more": [5]}), evolve=True)
    assert sorted(table.read(["more"])["more"].to_pylist(), key=str) == [5, None, None, None]
    assert sum(batch.num_rows for batch in table.scan(["more"]).to_batches()) == 4
    assert table.read(["more"], "more is null").num_rows == 3
