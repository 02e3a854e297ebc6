"""What a scan leaves out never holds a wanted row.

Goal: `where` gives the rows that DuckDB takes of all rows, whatever is left out by partition path, key range, bloom filter or
statistics. Method: random tables with nulls, NaN, signed zeros, extremes and odd texts; random conditions; the pruned scan is
compared with the same condition, in DuckDB, over every row of an unpruned one. Files are rewritten into small row groups, so that
each statistics' edge is met.
"""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.kernels.condition import possible_units
from hudi_ops.kernels.keys.keys import PartitionSpec, partition_paths
from hudi_ops.read.where import parse_where
from hudi_ops.table.table import Table
from hudi_ops.view.partition_values import PartitionPaths
from tests.bounds import examples
from tests.interop.compare import assert_same_rows
from tests.property.conditions import COLUMNS, CONDITIONS, SCHEMA, Drawn, picked, rows_of


@pytest.fixture(scope="module", params=[True, False], ids=["partitioned", "one folder"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """160 rows in row groups of four, in the second form without a column that the table has."""
    path = tmp_path_factory.mktemp("pruned") / "t"
    fields = ["place", "month"] if request.param else []
    made = Table.create(str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=fields, buckets=2)
    made.ingest(rows_of(3, 160, COLUMNS))
    for file in path.rglob("*.parquet"):
        content = pq.ParquetFile(file)
        read, notes = content.read(), content.metadata.metadata
        if not request.param:
            read = read.drop_columns(["price"])  # as if the column had been added since
        with pq.ParquetWriter(file, read.schema, store_schema=False) as writer:
            writer.write_table(read, row_group_size=4)
            writer.add_key_value_metadata(notes)
    return made


@settings(max_examples=examples(25, 200))
@given(where=CONDITIONS)
def test_a_pruned_scan_gives_the_same_rows(table: Table, where: Drawn) -> None:
    try:
        wanted = picked(where, everything(table))
        scan = table.scan(where=where.text, meta_columns=True)
    except (duckdb.Error, InvalidRequest):  # too many digits for DuckDB, or for Arrow
        assume(False)
    assert_same_rows(scan.to_arrow(), wanted, with_meta=True)
    assert scan.count_rows() == wanted.num_rows


@cache
def everything(table: Table) -> pa.Table:
    return table.read(meta_columns=True)


def test_conditions_do_leave_something_out(table: Table) -> None:
    for where in (
        "id = 'k3'",
        "day = DATE '0001-01-01'",
        "whole > 9007199254740992",
        "single IS NULL",
        "text LIKE 'z%'",
    ):
        found = table.scan(where=where, meta_columns=True).explain()
        assert found.row_groups_skipped or found.groups_skipped_by_bucket, where


FIELDS = {name: COLUMNS[name] for name in ("place", "month", "born", "flag", "price")}


@settings(max_examples=examples(60))
@given(data=st.data(), where=CONDITIONS, hive_style=st.booleans(), url_encode=st.booleans(), seed=st.integers(0, 9))
def test_no_partition_of_a_wanted_row_is_left_out(
    data: st.DataObject, where: Drawn, hive_style: bool, url_encode: bool, seed: int
) -> None:
    fields = tuple(data.draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3, unique=True)))
    columns = COLUMNS if url_encode else {**COLUMNS, "place": (pa.string(), ["a", "b c", "7", "2024-01-01"])}
    rows = rows_of(seed, 60, columns)
    spec = PartitionSpec(fields, hive_style, url_encode)
    paths = partition_paths(rows, spec).cast(pa.string())
    try:
        condition = parse_where(where.text.replace("_hoodie_record_key", "id")).bind(rows.schema)
    except InvalidRequest:  # too many digits
        assume(False)
    wanted = set(rows.append_column("path", paths).filter(condition.rows)["path"].to_pylist())
    reader = PartitionPaths(spec, tuple(rows.schema.field(name).type for name in fields), (True,) * len(fields))
    distinct = sorted(set(paths.to_pylist()))
    # The folders above them too: whoever walks down asks of those first.
    folders = sorted({path.rsplit("/", cut)[0] for path in distinct for cut in range(path.count("/") + 1)})
    may_hold = possible_units(condition, reader.bounds(folders, condition.columns, rows.schema))
    kept = {path for path, may in zip(folders, may_hold, strict=True) if may}
    assert {path.rsplit("/", cut)[0] for path in wanted for cut in range(path.count("/") + 1)} <= kept
