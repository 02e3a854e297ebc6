"""What the indexes of a metadata table leave out never holds a wanted row.

Goal: a read that is listed by the metadata table, and pruned by all or some of its indexes, gives the rows that DuckDB takes of a read
that lists storage and has no condition. Method: tables of both types after upserts, deletes and a rewrite, with nulls, NaN, extremes and odd
texts; a metadata table put together of the facts of their files, part of it compacted; random conditions, moments and indexes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.read.plan import Opened
from hudi_ops.table.table import Table
from tests.bounds import examples
from tests.interop.compare import assert_same_rows
from tests.property.conditions import COLUMNS, CONDITIONS, SCHEMA, Columns, Drawn, picked, rows_of
from tests.unit.metadata.made_metadata import make_metadata, name_partitions, say_index

FILES = MetadataPartition.FILES
OTHERS = [one for one in MetadataPartition if one is not FILES]


@pytest.fixture(
    scope="module",
    params=[("cow", ["place"], 9), ("cow", [], 8), ("mor", ["place"], 9), ("mor", [], 8)],
    ids=["cow partitioned", "cow of version 8", "mor partitioned", "mor of version 8"],
)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Three writes of rows that move on through the values of each column, and a delete; two of them compacted."""
    kind, fields, version = request.param
    path = tmp_path_factory.mktemp("indexed") / "t"
    made = Table.create(
        str(path),
        name="t",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=fields,
        buckets=3,
        table_type=kind,
        version=version,
    )
    made.ingest(rows_of(3, 60, COLUMNS))
    made.ingest(changed(rows_of(5, 70, COLUMNS), fields).slice(20))
    made.ingest(rows_of(3, 60, COLUMNS).slice(0, 9), "delete")
    made.ingest(changed(rows_of(6, 40, COLUMNS), fields).slice(0, 12))
    make_metadata(path, compacted_after=3)
    say_index(path, "record_index")  # so that the record index is asked, which names the key of every row
    return made


def changed(rows: pa.Table, fields: list[str]) -> pa.Table:
    """Other values under the same keys; in partitions of their own they would be further rows of those keys."""
    first = rows_of(3, rows.num_rows, COLUMNS)
    for name in fields:
        rows = rows.set_column(rows.column_names.index(name), name, first[name])
    return rows


@settings(max_examples=examples(10, 100))
@given(
    where=CONDITIONS,
    named=st.sets(st.sampled_from(OTHERS)),
    query=st.sampled_from(["snapshot", "snapshot", "read_optimized"]),
    data=st.data(),
)
def test_indexes_leave_out_no_wanted_row(
    table: Table, where: Drawn, named: set[MetadataPartition], query: str, data: st.DataObject
) -> None:
    name_partitions(Path(table.context.storage.uri.removeprefix("file://")), [FILES, *named])
    times = [one.time for one in Opened.of(table.context.storage).timeline.completed_writes]
    as_of = data.draw(st.sampled_from([None, None, *times]))
    try:
        wanted = picked(where, everything(table, as_of, query))
        scan = table.scan(where=where.text, as_of=as_of, query=query, listing="metadata", meta_columns=True)
    except (duckdb.Error, InvalidRequest):  # too many digits for DuckDB, or for Arrow
        assume(False)
    assert_same_rows(scan.to_arrow(), wanted, with_meta=True)
    if as_of is not None:
        found = table.changes(as_of, where=where.text, meta_columns=True).to_arrow()
        assert_same_rows(found, picked(where, everything_since(table, as_of)), with_meta=True)


@cache
def everything(table: Table, as_of: str | None, query: str) -> pa.Table:
    return table.read(as_of=as_of, query=query, listing="storage", meta_columns=True)


@cache
def everything_since(table: Table, since: str) -> pa.Table:
    return table.changes(since, meta_columns=True).to_arrow()


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("small > 2147483647", MetadataPartition.COLUMN_STATS),
        ("day < DATE '0001-01-01'", MetadataPartition.COLUMN_STATS),
        ("price > CAST('9999999.99' AS DECIMAL(9, 2))", MetadataPartition.COLUMN_STATS),
        ("_hoodie_commit_time < '2'", MetadataPartition.COLUMN_STATS),
        ("id = 'k3'", MetadataPartition.RECORD_INDEX),
        ("id = 'nobody'", MetadataPartition.RECORD_INDEX),
        ("id = 'nobody'", MetadataPartition.BLOOM_FILTERS),
    ],
)
def test_conditions_do_leave_something_out(table: Table, where: str, named: MetadataPartition) -> None:
    name_partitions(Path(table.context.storage.uri.removeprefix("file://")), [FILES, named])
    told = table.scan(where=where, meta_columns=True).explain()
    skipped = {
        MetadataPartition.COLUMN_STATS: told.groups_skipped_by_statistics,
        MetadataPartition.RECORD_INDEX: told.groups_skipped_by_record_index + told.partitions_skipped_by_record_index,
        MetadataPartition.BLOOM_FILTERS: told.groups_skipped_by_bloom_filters,
    }
    # Of slices with log files there are no filters.
    assert skipped[named] > 0 or (named is MetadataPartition.BLOOM_FILTERS and told.log_files_read > 0)
