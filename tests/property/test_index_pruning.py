"""What the indexes of a metadata table leave out never holds a wanted row.

Goal: a read that is listed by the metadata table or by folders, and pruned by all, some or none of the indexes, as the estimate
says or against it, gives the rows that DuckDB takes of a read that lists storage and has no condition. Method: tables of both
types after upserts, deletes and a rewrite, with nulls, NaN, extremes and odd texts; a metadata table put together of the facts of
their files, part of it compacted; random conditions, moments, decisions and indexes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.metadata.prune.sought import Decision
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.read.changes import ChangesRequest, plan_changes
from hudi_ops.read.plan import Opened, ReadRequest, plan_read, request_of
from hudi_ops.read.scan import Scan
from hudi_ops.table.table import Table
from tests.bounds import examples
from tests.interop.compare import assert_same_rows
from tests.property.conditions import COLUMNS, CONDITIONS, SCHEMA, Columns, Drawn, conditions, picked, rows_of
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
    listing=st.sampled_from(["auto", "metadata"]),
    data=st.data(),
)
def test_no_decision_on_indexes_leaves_out_a_wanted_row(
    table: Table, where: Drawn, named: set[MetadataPartition], query: str, listing: str, data: st.DataObject
) -> None:
    name_partitions(Path(table.context.storage.uri.removeprefix("file://")), [FILES, *named])
    times = [one.time for one in Opened.of(table.context.storage).timeline.completed_writes]
    as_of = data.draw(st.sampled_from([None, None, *times]))
    try:
        wanted = picked(where, everything(table, as_of, query))
        changed_rows = picked(where, everything_since(table, as_of)) if as_of is not None else None
        request = request_of(None, where.text, as_of, None, query, listing, meta_columns=True)
        scans = [decided(table, request, indexes) for indexes in get_args(Decision)]
    except (duckdb.Error, InvalidRequest):  # too many digits for DuckDB, or for Arrow
        assume(False)
    for scan in scans:
        assert_same_rows(scan.to_arrow(), wanted, with_meta=True)
    if changed_rows is not None:
        asked = replace(request_of(None, where.text, None, None, meta_columns=True), indexes="always")
        since = ChangesRequest(asked, since=as_of)
        found = Scan(plan_changes(table.context.storage, since, table.context.clock).read).to_arrow()
        assert_same_rows(found, changed_rows, with_meta=True)


def decided(table: Table, request: ReadRequest, indexes: Decision) -> Scan:
    """A read with a decision on all indexes."""
    return Scan(plan_read(table.context.storage, replace(request, indexes=indexes), clock=table.context.clock))


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
    told = table.scan(where=where, listing="metadata", meta_columns=True).explain()
    skipped = {
        MetadataPartition.COLUMN_STATS: told.groups_skipped_by_statistics,
        MetadataPartition.RECORD_INDEX: told.groups_skipped_by_record_index + told.partitions_skipped_by_record_index,
        MetadataPartition.BLOOM_FILTERS: told.groups_skipped_by_bloom_filters,
    }
    # Of slices with log files there are no filters.
    assert skipped[named] > 0 or (named is MetadataPartition.BLOOM_FILTERS and told.log_files_read > 0)


KEYED: Columns = {
    "number": (pa.int64(), [-(2**63), -1, 0, 1, 2, 7, 39]),
    **{name: COLUMNS[name] for name in ("text", "whole", "price", "double")},
}


@pytest.fixture(scope="module", params=["cow", "mor"])
def keyed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table whose keys are whole numbers, with a record index and a secondary index of texts and of numbers."""
    schema = pa.schema([(name, kind) for name, (kind, _) in KEYED.items()])
    path = tmp_path_factory.mktemp("keyed") / "t"
    made = Table.create(
        str(path), name="t", record_key=["number"], schema=schema, table_type=request.param, index="record_index"
    )
    made.ingest(numbered(3, 40))
    made.indexing.run(
        partitions=("record_index", "column_stats", *(f"secondary_index_{one}={one}" for one in BY_VALUE))
    )
    made.ingest(numbered(5, 20))
    return made


BY_VALUE = ("text", "whole")


def numbered(seed: int, count: int) -> pa.Table:
    rows = rows_of(seed, count, {name: KEYED[name] for name in KEYED if name != "number"})
    numbers = pa.array([-(2**63), *range(1, count)], pa.int64())
    return rows.drop_columns(["id"]).append_column("number", numbers)


@settings(max_examples=examples(40, 400))
@given(where=conditions(KEYED))
@example(where=Drawn("number = 7.0 OR number = 1.5", "(number = 7) OR (number = 1.5)"))
@example(where=Drawn("number IN (1, 2.5, 39)", "number IN (1, 39)"))
@example(where=Drawn("whole = 1e0 AND text NOT LIKE 'a%'", "whole = 1 AND text NOT LIKE 'a%'"))
def test_lookups_of_keys_and_values_find_every_wanted_row(keyed: Table, where: Drawn) -> None:
    try:
        wanted = picked(where, everything(keyed, None, "snapshot"))
        scan = keyed.scan(where=where.text, listing="metadata", meta_columns=True)
    except (duckdb.Error, InvalidRequest):  # too many digits for DuckDB, or for Arrow
        assume(False)
    assert_same_rows(scan.to_arrow(), wanted, with_meta=True)


def test_a_fraction_that_is_whole_is_looked_up(keyed: Table) -> None:
    told = [
        keyed.scan(where=where, listing="metadata").explain()
        for where in ("number = 7.0", "whole = 1.0", "text IN ('ab')")
    ]
    assert [one.located_by for one in told] == ["", "secondary_index_whole", "secondary_index_text"]
    assert [one.record_index_unused for one in told] == ["", "", ""]
