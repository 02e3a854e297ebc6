"""Scans: streams in order and in pieces, for every taker; what is left out is counted; a dropped stream ends its threads."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.errors import Corrupt, InvalidRequest, Unavailable
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from tests.interop.compare import assert_same_rows
from tests.protocol.cleaning import clean

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64())])


def rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "part": [f"p{i % 4}" for i in ids], "value": [i / 2 for i in ids]}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], buckets=2
    )
    made.ingest(rows(0, 400))
    return made


def base_files(table: Table) -> list[Path]:
    return sorted(Path(table.context.storage.uri.removeprefix("file://")).rglob("*.parquet"))


def threads_of_streams() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "hudi-ops-stream"]


def test_a_stream_holds_the_rows_of_read_in_the_same_order(table: Table) -> None:
    scan = table.scan(["id", "part"])
    assert scan.schema == pa.schema([("id", pa.int64()), ("part", pa.string())])
    batches = list(scan.to_batches())
    assert len(batches) > 1
    assert pa.Table.from_batches(batches, scan.schema).equals(table.read(["id", "part"]))
    assert pa.table(scan).equals(table.read(["id", "part"]))
    assert scan.count_rows() == 400


def test_others_take_it(table: Table) -> None:
    scan = table.scan(["id", "value"], where="id < 100")
    wanted = table.read(["id", "value"], where="id < 100").sort_by("id")
    assert scan.to_polars().sort("id").to_arrow().cast(wanted.schema).equals(wanted)
    assert polars.DataFrame(scan).height == 100
    assert scan.to_pandas().sort_values("id")["value"].tolist() == wanted["value"].to_pylist()
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        for _ in range(2):  # each query reads anew
            assert relation.aggregate("count(*), sum(id)").fetchall() == [(100, 4950)]
    assert scan.to_duckdb().count("*").fetchall() == [(100,)]


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA)
    scan = table.scan()
    assert (list(scan.to_batches()), scan.count_rows(), pa.table(scan).schema) == ([], 0, scan.schema)
    assert scan.to_polars().columns == scan.schema.names


def test_a_scan_stays_with_its_moment(table: Table) -> None:
    scan = table.scan(["id"])
    table.ingest(rows(400, 50))
    assert (scan.count_rows(), table.scan().count_rows()) == (400, 450)


@pytest.mark.parametrize("limit", [0, 1, 7, 399, 400, 1000])
def test_a_limit_cuts_the_stream(table: Table, limit: int) -> None:
    assert table.scan(["id"], limit=limit).to_arrow().equals(table.read(["id"]).slice(0, limit))
    assert table.scan(limit=limit).count_rows() == min(limit, 400)


def test_a_dropped_stream_ends_its_threads(table: Table) -> None:
    batches = table.scan().to_batches()
    next(batches)
    batches.close()
    assert threads_of_streams() == []


@pytest.mark.parametrize(("module", "use"), [("polars", "to_polars"), ("duckdb", "to_duckdb")])
def test_what_is_not_installed_is_said(table: Table, monkeypatch: pytest.MonkeyPatch, module: str, use: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidRequest, match=f"{module} is not installed"):
        getattr(table.scan(), use)()


def test_what_is_left_out_is_counted(table: Table) -> None:
    everything = table.scan().explain()
    assert (everything.partitions_read, everything.files_read, everything.rows_at_most) == (4, 8, 400)
    assert (everything.partitions_skipped, everything.files_skipped, everything.row_groups_skipped) == (0, 0, 0)
    found = table.scan(where="part IN ('p1', 'p2') AND id = 5").explain()
    assert (found.partitions_read, found.partitions_skipped) == (2, 2)
    assert (found.files_read, found.files_skipped) == (1, 3)
    assert "partitions  2 read, 2 skipped" in str(found)
    assert table.scan(where="_hoodie_record_key = '5'").explain().files_read == 1
    assert table.scan(where="id = 4000").explain().files_read == 0


def test_left_out_files_are_not_opened(table: Table) -> None:
    for file in base_files(table):
        if "part=p1" not in str(file):
            file.write_bytes(b"no Parquet at all")
    assert table.read(where="part = 'p1'").num_rows == 100
    with pytest.raises(Corrupt):
        table.read()


def test_an_expression_filters_by_columns_that_are_not_asked_for(table: Table) -> None:
    assert sorted(table.read(["id"], where=pc.field("value") < 1)["id"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("where", ["id = 'text'", "value = 'a'", "part > 5", "nope = 1"])
def test_a_filter_that_does_not_fit_is_refused_even_where_no_file_is_read(table: Table, where: str) -> None:
    for condition in (where, f"part = 'nowhere' AND {where}"):
        with pytest.raises(InvalidRequest):
            table.scan(where=condition)


def test_errors_of_files_come_through_the_stream(table: Table) -> None:
    scan, files = table.scan(), base_files(table)
    lost = files[5].read_bytes()
    files[5].unlink()
    for use in (lambda: list(scan.to_batches()), scan.to_arrow):
        with pytest.raises(Corrupt, match="is missing"):
            use()
    files[5].write_bytes(lost)
    clean(table.context.storage, ManualClock(SystemClock().now_ms()), [f"{files[5].parent.name}/{files[5].name}"])
    for use in (lambda: list(scan.to_batches()), scan.to_arrow):
        with pytest.raises(Unavailable, match="vanished"):
            use()
    assert threads_of_streams() == []


def test_old_files_without_a_column_and_with_a_narrower_one(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA)
    table.ingest(rows(0, 10))
    (file,) = base_files(table)
    content = pq.read_table(file)
    pq.write_table(content.drop_columns(["value"]).set_column(5, "id", content["id"].cast(pa.int32())), file)
    assert table.read(where="value IS NULL").num_rows == 10
    assert table.scan(where="value IS NOT NULL").explain().files_read == 0
    assert table.read(["id"], where="id >= 5").equals(pa.table({"id": [5, 6, 7, 8, 9]}))
    assert table.scan(where="id > 9").explain().files_read == 0
    assert table.read(["value"])["value"].null_count == 10


def test_a_table_whose_files_need_not_hold_its_partition_columns(table: Table) -> None:
    before = table.read(["id", "part"])
    root = Path(table.context.storage.uri.removeprefix("file://"))
    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("drop.partition.columns=false", "drop.partition.columns=true"))
    table.repair_properties("file")
    assert_same_rows(table.read(["id", "part"]), before)
