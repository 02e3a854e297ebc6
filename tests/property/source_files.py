"""Random CSV, JSON lines and Parquet files, and what DuckDB and pyarrow read from them."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

UTC = dt.UTC
_NUMBER_LIKE = [
    "",
    "007",
    "+5",
    "-0",
    "0x1F",
    "0X00ff",
    " 0x1 ",
    "1e5",
    "1_000",
    "1.50",
    ".5",
    "nan",
    "inf",
    str(2**63),
]
_TIME_LIKE = [
    "12:30:00",
    "2024-01-01",
    "2024-02-30",
    "2024-01-01 10:00",
    "2024-01-01T10:00:00.123456789",
    "2024-01-01T00:00:00Z",
]
_ODD = [
    "NULL",
    "null",
    "true",
    "FALSE",
    " x ",
    "a,b",
    '"',
    '""',
    '5" pipe',
    "line\nbreak",
    "\r\n",
    "\t",
    "\\",
    "😀",
    "{}",
    "[]",
    "#",
]
TEXTS = st.one_of(
    st.sampled_from([*_NUMBER_LIKE, *_TIME_LIKE, *_ODD]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
)
WHOLE = st.one_of(
    st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
)
FLOATS = st.one_of(st.floats(-1e6, 1e6, width=32), st.floats(allow_nan=False, allow_infinity=False))
DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
TIMES = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_CSV_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "whole": WHOLE.map(str),
    "code": st.integers(0, 99).map(lambda number: f"{number:03d}"),
    "hexadecimal": st.integers(0, 2**32).map(lambda number: f"0x{number:04X}"),
    "float": FLOATS.map(repr),
    "decimal": st.decimals(-1000, 1000, places=2).map(str),
    "boolean": st.sampled_from(["true", "false", "TRUE", "False"]),
    "date": DATES.map(str),
    "time": st.builds(
        lambda time, form: time.isoformat(*form), TIMES, st.sampled_from([("T",), (" ",), (" ", "seconds")])
    ),
    "zoned": TIMES.map(lambda time: time.isoformat() + "Z"),
    "nanoseconds": TIMES.map(lambda time: f"{time.replace(microsecond=0).isoformat()}.123456789"),
    "number or empty": st.one_of(st.just(""), st.integers(0, 9).map(str)),
}


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Name and bytes of a CSV file, in the dialects that an ingest takes; `id` is its key."""
    kinds = draw(
        st.lists(st.sampled_from([*sorted(_CSV_KINDS), "hexadecimal", "number or empty"]), min_size=1, max_size=4)
    )
    count = draw(st.integers(1, 6))
    columns = [draw(_cells(_CSV_KINDS[kind], count)) for kind in kinds]
    quotes_all, quotes_nulls, end = draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n"]))

    def cell(value: str | None) -> str:
        if value is None:
            return '""' if quotes_nulls else ""
        needs_quotes = quotes_all or value == "" or any(one in value for one in ',"\r\n')
        return '"' + value.replace('"', '""') + '"' if needs_quotes else value

    rows = [["id", *(f"c{at}" for at in range(len(kinds)))]]
    rows += [[f"k{number}", *(column[number] for column in columns)] for number in range(count)]
    text = end.join(",".join(map(cell, row)) for row in rows) + draw(st.sampled_from(["", end]))
    body = (draw(st.sampled_from(["", "\ufeff"])) + text).encode()
    return ("a.csv.gz", gzip.compress(body)) if draw(st.booleans()) else ("a.csv", body)


def _cells(values: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(st.none(), values, values, values), min_size=count, max_size=count)


def texts_of_csv(path: Path) -> list[dict[str, str | None]]:
    """The values of a file as DuckDB splits them; unquoted and empty is null."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT * FROM read_csv(?, header = true, all_varchar = true, delim = ',', quote = '\"', escape = '\"', "
            "nullstr = '', allow_quoted_nulls = false, auto_detect = false, strict_mode = true, columns = ?)",
            [str(path), dict.fromkeys(_names(path), "VARCHAR")],
        )
        rows: list[dict[str, str | None]] = found.to_arrow_table().to_pylist()
    return rows


def _names(path: Path) -> list[str]:
    body = path.read_bytes()
    text = (gzip.decompress(body) if path.suffix == ".gz" else body).decode("utf-8-sig")
    return next(csv.reader(io.StringIO(text, newline="")))


def as_text_says(text: str | None, kind: pa.DataType) -> Any:
    """The value of a type that a text stands for, as DuckDB casts it; text stays what it is."""
    if text is None or pa.types.is_string(kind):
        return text
    names = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.date32(): "DATE"}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        name = names.get(kind, "TIMESTAMP")
        (value,) = connection.execute(f"SELECT CAST(trim(?, ' \t') AS {name})", [text]).fetchall()[0]
    return plain(value)


_JSON_TEXTS = st.one_of(TEXTS, DATES.map(str), TIMES.map(lambda time: time.isoformat()))
_JSON_KINDS: dict[str, tuple[st.SearchStrategy[Any], str]] = {
    "text": (_JSON_TEXTS, "VARCHAR"),
    "whole": (WHOLE, "BIGINT"),
    "float": (FLOATS.map(lambda value: value + 0.5 if value.is_integer() and abs(value) < 2**50 else value), "DOUBLE"),
    "boolean": (st.booleans(), "BOOLEAN"),
    "list": (st.lists(st.one_of(st.none(), WHOLE), max_size=3), "BIGINT[]"),
    "record": (
        st.fixed_dictionaries({"a": st.one_of(st.none(), WHOLE)}, optional={"b": TEXTS}),
        "STRUCT(a BIGINT, b VARCHAR)",
    ),
    "map": (st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=3), "MAP(VARCHAR, VARCHAR)"),
    "map of maps": (
        st.dictionaries(TEXTS, st.dictionaries(TEXTS, WHOLE, max_size=2), max_size=2),
        "MAP(VARCHAR, MAP(VARCHAR, BIGINT))",
    ),
}
_FULL: dict[str, Any] = {
    "list": [1],
    "record": {"a": 1, "b": "b"},
    "text": "text",
    "whole": 1,
    "float": 1.5,
    "boolean": True,
}
MAPS = {"map": pa.map_(pa.string(), pa.string()), "map of maps": pa.map_(pa.string(), pa.map_(pa.string(), pa.int64()))}


@st.composite
def json_files(draw: st.DrawFn) -> tuple[str, bytes, list[str], list[dict[str, Any]]]:
    """Name and bytes of a JSON lines file, the kinds of its columns `c0`…, and its rows; the first one shows all types."""
    kinds = draw(st.lists(st.sampled_from(sorted(_JSON_KINDS)), min_size=1, max_size=4))
    rows: list[dict[str, Any]] = [{"id": "k", **{f"c{at}": _FULL.get(kind, {}) for at, kind in enumerate(kinds)}}]
    for number in range(draw(st.integers(0, 5))):
        row: dict[str, Any] = {"id": f"k{number}"}
        for at, kind in enumerate(kinds):
            value = draw(st.one_of(st.none(), _JSON_KINDS[kind][0]))
            if value is not None or draw(st.booleans()):
                row[f"c{at}"] = value
        rows.append(row)
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]))
    as_ascii, end = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    lines = [json.dumps(row, separators=separators, ensure_ascii=as_ascii) for row in rows]
    return "a.jsonl", (end.join(lines) + draw(st.sampled_from(["", end]))).encode(), kinds, rows


def rows_of_json(path: Path, kinds: list[str]) -> list[dict[str, Any]]:
    """The rows of a file as DuckDB reads them in the types of these kinds."""
    columns = {"id": "VARCHAR", **{f"c{at}": _JSON_KINDS[kind][1] for at, kind in enumerate(kinds)}}
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT * FROM read_json(?, format = 'newline_delimited', columns = ?)", [str(path), columns]
        ).to_arrow_table()
    return [{name: plain(value) for name, value in row.items()} for row in found.to_pylist()]


def _numbers(kind: pa.DataType, bits: int, *, signed: bool = True) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return kind, st.one_of(st.sampled_from([low, high, 0]), st.integers(low, high))


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda number: Decimal(f"{number}E-{scale}"))


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_NANO_TIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
_PARQUET_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *(_numbers(kind, 8 * kind.byte_width) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(
        _numbers(kind, 8 * kind.byte_width, signed=False)
        for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    *((kind, _WORDS) for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))),
    (pa.binary(), st.binary(max_size=4)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), DATES),
    (pa.date64(), DATES),
    *((pa.timestamp(unit, zone), TIMES) for unit in ("ms", "us") for zone in (None, "UTC", "Asia/Tokyo")),
    (pa.timestamp("s"), TIMES),
    (pa.timestamp("ns"), _NANO_TIMES),
    (pa.decimal128(9, 2), _decimals(9, 2)),
    (pa.decimal128(38, 10), _decimals(38, 10)),
    (pa.uuid(), st.uuids().map(lambda one: one.bytes)),
    (pa.json_(), st.sampled_from(['{"a": 1}', "[]", '"x"'])),
    (pa.list_(pa.int16()), st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=3)),
    (pa.list_(pa.uuid()), st.lists(st.uuids().map(lambda one: one.bytes), max_size=2)),
    (
        pa.struct([("a", pa.uint64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.integers(0, 2**64 - 1), "b": _WORDS}),
    ),
    (
        pa.map_(pa.string(), pa.int32()),
        st.dictionaries(_WORDS, st.integers(-9, 9), max_size=2).map(lambda one: list(one.items())),
    ),
    (pa.struct([("a", pa.null()), ("b", pa.int32())]), st.fixed_dictionaries({"b": st.integers(0, 9)})),
    (pa.null(), st.none()),
]


@st.composite
def parquet_files(draw: st.DrawFn) -> tuple[pa.Table, dict[str, Any]]:
    """Rows, and how they are written."""
    kinds = draw(st.lists(st.sampled_from(_PARQUET_KINDS), min_size=1, max_size=4))
    count = draw(st.integers(1, 8))
    columns = {"id": pa.array([f"k{number}" for number in range(count)])}
    for at, (kind, values) in enumerate(kinds):
        columns[f"c{at}"] = _array(draw(_cells(values, count)), kind)
    has_far_times = any(pa.types.is_timestamp(column.type) for column in columns.values())
    options = {
        "compression": draw(st.sampled_from(["none", "snappy", "zstd", "gzip"])),
        "use_dictionary": draw(st.booleans()),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "version": draw(st.sampled_from(["1.0", "2.4", "2.6"])),
        "row_group_size": draw(st.integers(1, 8)),
        "store_schema": draw(st.booleans()),
    }
    if has_far_times and draw(st.booleans()):
        options["use_deprecated_int96_timestamps"] = True
    return pa.table(columns), options


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of a type; of what pyarrow makes of no Python value, by way of what it stores."""
    if pa.types.is_timestamp(kind):
        finest = pa.array(values, pa.timestamp("us"))
        return finest.cast(pa.timestamp(kind.unit), safe=False).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    if pa.types.is_list(kind) and kind.value_type == pa.uuid():
        plain_lists = pa.array(values, pa.list_(pa.binary(16)))
        inner = pa.ExtensionArray.from_storage(pa.uuid(), plain_lists.values)
        return pa.ListArray.from_arrays(plain_lists.offsets, inner, mask=plain_lists.is_null())
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def rows_of_parquet(path: Path) -> list[dict[str, Any]]:
    """The rows of a file as pyarrow reads them, times at microseconds."""
    found = pq.read_table(path, coerce_int96_timestamp_unit="us")
    for at, column in enumerate(found.columns):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            found = found.set_column(at, found.column_names[at], column.cast(pa.timestamp("us", column.type.tz)))
    return [{name: plain(value) for name, value in row.items()} for row in found.to_pylist()]


def duckdb_rows_of_parquet(path: Path) -> list[dict[str, Any]]:
    """The rows of a file as DuckDB reads them."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).to_arrow_table()
    return [{name: plain(value) for name, value in row.items()} for row in found.to_pylist()]


def plain(value: Any) -> Any:
    """A value in the one form in which engines are compared: times in UTC, numbers by value, NaN as text."""
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
