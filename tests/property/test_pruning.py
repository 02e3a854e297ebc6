"""What a scan leaves out never holds a wanted row.

Goal: `where` gives the rows that it gives over all rows, whatever is left out by partition path, key range, bloom filter or
statistics. Method: random tables with nulls, NaN, signed zeros, extremes and odd texts; random conditions; the pruned scan is
compared with the same condition over every row of an unpruned one. Files are rewritten into small row groups, so that each
statistics' edge is met.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hudi_ops.kernels.condition import possible_units
from hudi_ops.kernels.keys.keys import PartitionSpec, partition_paths
from hudi_ops.read.where import parse_where
from hudi_ops.table.table import Table
from hudi_ops.view.partition_values import PartitionPaths
from tests.bounds import examples
from tests.interop.compare import assert_same_rows

DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]
TEXTS = ["", "a", "ab", "b", "é", "日本", "\U0010ffff", "a\U0010ffff", "z" * 90, "z" * 90 + "a", "%", "it's", "default"]
PLACES = ["a", "a/b", "a=b", "10:30 50%", "München", "default", "7", "%2F", None]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1e308]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "small": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "double": (pa.float64(), FLOATS),
    "single": (pa.float32(), FLOATS[:7]),
    "text": (pa.string(), TEXTS),
    "price": (pa.decimal128(9, 2), [Decimal(one) for one in ("-1.25", "0.00", "0.01", "9999999.99")]),
    "wide": (pa.decimal128(38, 4), [Decimal(one) for one in ("-1.25", "0", "9" * 30 + ".0001")]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "at_ms": (pa.timestamp("ms", "UTC"), [*TIMES[1:2], dt.datetime(2024, 1, 1, 0, 0, 0, 1000)]),
    "flag": (pa.bool_(), [True, False]),
    "place": (pa.string(), PLACES[:-1]),
    "month": (pa.int32(), [-1, 0, 7, 12]),
    "born": (pa.date32(), DAYS[1:3]),
}
SCHEMA = pa.schema([("id", pa.string()), *((name, kind) for name, (kind, _) in COLUMNS.items())])


def literal(kind: pa.DataType, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(38, 4))"
    if isinstance(value, float):
        return repr(value)
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def is_spoken(value: Any) -> bool:
    """SQL has no literals for the others, and the smallest integer is a negated number too large."""
    return not (isinstance(value, float) and not math.isfinite(value)) and value != -(2**63)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    kind, values = COLUMNS[name]
    one = st.sampled_from([literal(kind, value) for value in values if is_spoken(value)])
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    shapes = [
        f"{name} {operator} {draw(one)}",
        f"{draw(one)} {operator} {name}",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
    ]
    shapes += [f"{name} BETWEEN {draw(one)} AND {draw(one)}", f"{name} IN ({draw(one)}, {draw(one)})"]
    shapes += [f"{name} NOT IN ({draw(one)}, {draw(one)})"]
    if pa.types.is_string(kind):
        shapes += [f"{name} LIKE {draw(one)[:-1]}%'", f"{name} LIKE {draw(one)}"]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        shapes += [f"{name} {operator} 0.5", f"{name} {operator} 1", f"{name} + 1 {operator} 1.5"]
    if name == "flag":
        shapes += ["flag"]
    return draw(st.sampled_from(shapes))


KEYS = st.sampled_from(["id = 'k3'", "id IN ('k1', 'nobody')", "_hoodie_record_key = 'k2'", "id <> 'k3'", "id > 'k3'"])
CONDITIONS = st.recursive(
    st.one_of(comparisons(), comparisons(), KEYS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=4,
)


def rows_of(seed: int, count: int, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """Rows that run through the values of each column in steps of its own, so that row groups differ."""
    data: dict[str, pa.Array] = {"id": pa.array([f"k{number}" for number in range(count)])}
    for place, (name, (kind, values)) in enumerate(columns.items()):
        # Some stretches hold one value only, some nulls only, some everything.
        picks = [
            None
            if (stretch := (number // 4 + seed + place) % 7) == 0
            else values[(number * (stretch > 3) + stretch) % len(values)]
            for number in range(count)
        ]
        data[name] = pa.array(picks, kind)
    return pa.table(data)


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
def test_a_pruned_scan_gives_the_same_rows(table: Table, where: str) -> None:
    try:
        wanted = everything(table).filter(parse_where(where).rows)
    except pa.ArrowInvalid:  # 2**63 - 1 plus 1, or a literal too long for the column's decimals
        assume(False)
    scan = table.scan(where=where)
    assert_same_rows(scan.to_arrow(), wanted, with_meta=True)
    assert scan.count_rows() == wanted.num_rows


@cache
def everything(table: Table) -> pa.Table:
    return table.read()


def test_conditions_do_leave_something_out(table: Table) -> None:
    for where in (
        "id = 'k3'",
        "day = DATE '0001-01-01'",
        "whole > 9007199254740992",
        "single IS NULL",
        "text LIKE 'z%'",
    ):
        found = table.scan(where=where).explain()
        assert found.row_groups_skipped > 0, where


FIELDS = {name: COLUMNS[name] for name in ("place", "month", "born", "flag", "price")}


@settings(max_examples=examples(60))
@given(data=st.data(), where=CONDITIONS, hive_style=st.booleans(), url_encode=st.booleans(), seed=st.integers(0, 9))
def test_no_partition_of_a_wanted_row_is_left_out(
    data: st.DataObject, where: str, hive_style: bool, url_encode: bool, seed: int
) -> None:
    fields = tuple(data.draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3, unique=True)))
    columns = COLUMNS if url_encode else {**COLUMNS, "place": (pa.string(), ["a", "b c", "7", "2024-01-01"])}
    rows = rows_of(seed, 60, columns)
    spec = PartitionSpec(fields, hive_style, url_encode)
    paths = partition_paths(rows, spec).cast(pa.string())
    condition = parse_where(where.replace("_hoodie_record_key", "id"))
    try:
        wanted = set(rows.append_column("path", paths).filter(condition.rows)["path"].to_pylist())
    except pa.ArrowInvalid:
        assume(False)
    reader = PartitionPaths(spec, tuple(rows.schema.field(name).type for name in fields), (True,) * len(fields))
    distinct = sorted(set(paths.to_pylist()))
    # The folders above them too: whoever walks down asks of those first.
    folders = sorted({path.rsplit("/", cut)[0] for path in distinct for cut in range(path.count("/") + 1)})
    may_hold = possible_units(condition, reader.bounds(folders, condition.columns, rows.schema))
    kept = {path for path, may in zip(folders, may_hold, strict=True) if may}
    assert {path.rsplit("/", cut)[0] for path in wanted for cut in range(path.count("/") + 1)} <= kept
