"""Rows with every column type that a table can hold, made from a number, a version and a time; and how sources deliver them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

Row = dict[str, Any]
DELETED = "_hoodie_is_deleted"

# Two folders that must be escaped, one beyond ASCII, and the default partition.
REGIONS = ("a/b", "10:30 50%", "München 日本", None)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)

_IDENTITY = [
    ("id", pa.string()),
    ("number", pa.int64()),
    ("day", pa.date32()),
    ("price", pa.decimal128(10, 2)),
    ("region", pa.string()),
    ("month", pa.int32()),
    ("week", pa.date32()),
]
# Columns to order by; all say the same.
_ORDERING = [
    ("seq", pa.int64()),
    ("at", pa.timestamp("us", "UTC")),
    ("level", pa.float64()),
    ("edition", pa.date32()),
    ("label", pa.string()),
]
_FLAT = [
    ("flag", pa.bool_()),
    ("small", pa.int32()),
    ("big", pa.int64()),
    ("single", pa.float32()),
    ("double", pa.float64()),
    ("text", pa.string()),
    ("raw", pa.binary()),
    ("born", pa.date32()),
    ("seen_ms", pa.timestamp("ms", "UTC")),
    ("seen_us", pa.timestamp("us", "UTC")),
    ("tiny", pa.decimal128(4, 2)),
    ("wide", pa.decimal128(38, 10)),
]
_NESTED = [
    ("tags", pa.list_(pa.string())),
    ("matrix", pa.list_(pa.list_(pa.int32()))),
    ("place", pa.struct([("name", pa.string()), ("pos", pa.struct([("lat", pa.float64()), ("since", pa.date32())]))])),
    ("visits", pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("paid", pa.decimal128(10, 2))]))),
]
_MAPS = [
    ("props", pa.map_(pa.string(), pa.int64())),
    ("deep", pa.map_(pa.string(), pa.struct([("words", pa.list_(pa.string()))]))),
]
_END = [(DELETED, pa.bool_())]

# What each kind of source can deliver: CSV has no nested values, and Arrow reads no maps from JSON.
SCHEMAS = {
    "memory": pa.schema(_IDENTITY + _ORDERING + _FLAT + _NESTED + _MAPS + _END),
    "parquet": pa.schema(_IDENTITY + _ORDERING + _FLAT + _NESTED + _MAPS + _END),
    "json": pa.schema(_IDENTITY + _ORDERING + _FLAT + _NESTED + _END),
    "csv": pa.schema(_IDENTITY + _ORDERING + _FLAT + _END),
}

_PLACE = {"name": "Åre", "pos": {"lat": -0.5, "since": date(2020, 2, 29)}}
_VISIT = {"at": EPOCH, "paid": Decimal("-1.50")}
_WIDEST = "9" * 28 + "." + "9" * 10
# Six values a column, so that each meets every other's neighbours as numbers and versions go on.
_VALUES: dict[str, Sequence[Any]] = {
    "flag": (True, False, None, True, False, None),
    "small": (0, -1, 2**31 - 1, -(2**31), None, 7),
    "big": (2**63 - 1, -(2**63), None, 0, 1, -1),
    "single": (0.5, -1.5, None, float("inf"), float("nan"), 2.0**100),
    "double": (None, 0.1, -1e308, float("-inf"), float("nan"), 5e-324),
    "text": ("", "plain", 'a "quoted", one', "two\nlines", "日本 🎌", None),
    "raw": (b"", b"abc", None, "é".encode(), b"x" * 40, b" "),
    "born": (date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31), date(9999, 12, 31), None, date(1900, 1, 1)),
    "seen_ms": (*(EPOCH + timedelta(milliseconds=ms) for ms in (0, 1, -1, -(10**12) * 2, 10**11)), None),
    "seen_us": (None, *(EPOCH + timedelta(microseconds=us) for us in (0, 1, -1, -(10**15) * 2, 10**15))),
    "tiny": (*map(Decimal, ("0.00", "-99.99", "99.99", "0.01", "-0.01")), None),
    "wide": (None, *map(Decimal, (_WIDEST, "-" + _WIDEST, "0.0000000001", "0", "-1"))),
    "tags": ([], ["a", "é"], None, [""], ["a"] * 3, ["x,y"]),
    "matrix": ([[1, 2], []], [], None, [[-1]], [[0], [1, 2, 3]], [[]]),
    "place": (_PLACE, None, {"name": None, "pos": None}, {"name": "", "pos": None}, _PLACE, _PLACE),
    "visits": ([], [_VISIT], None, [_VISIT, {"at": None, "paid": None}], [_VISIT] * 2, []),
    "props": ([("a", 1)], [], None, [("b", None), ("a", -1)], [("", 0)], [("é", 2**40)]),
    "deep": ([], [("k", {"words": ["w"]})], None, [("k", {"words": []})], [("k", {"words": None})], []),
}


def row(number: int, version: int, time: int, *, deleted: bool | None = None) -> Row:
    """One row. Key and partition follow from `number`, the ordering columns from `time`, the others from number and version."""
    identity = {
        "id": f"k{number:03d}" if number % 7 else f"日本:{number}",
        "number": number * 1_000_000_007 - 5_000_000_000,
        "day": date(2023, 12, 1) + timedelta(days=number),
        "price": Decimal(number - 10) + Decimal("0.05"),
        "region": REGIONS[number % len(REGIONS)],
        "month": 1 + number // len(REGIONS) % 2,
        "week": date(2024, 1, 1) + timedelta(weeks=number % 3),
    }
    ordering = {
        "seq": time,
        "at": EPOCH + timedelta(minutes=time),
        "level": time / 8,
        "edition": date(2024, 1, 1) + timedelta(days=time),
        "label": f"v{time:03d}",
    }
    payload = {
        name: values[(number + version * (1 + place)) % 6] for place, (name, values) in enumerate(_VALUES.items())
    }
    return {**identity, **ordering, **payload, DELETED: deleted}


def as_table(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """The rows in a source's columns."""
    return pa.Table.from_pylist([{name: one[name] for name in schema.names} for one in rows], schema=schema)


def deliver(data: pa.Table, folder: Path, name: str, kind: str) -> None:
    """Writes the rows, two at least, into two files of a source folder; those of the second come later in the order of paths."""
    folder.mkdir(exist_ok=True)
    half = data.num_rows // 2
    for part, rows in (("a", data.slice(0, half)), ("b", data.slice(half))):
        file = folder / f"{name}-{part}.{kind}"
        if kind == "parquet":
            pq.write_table(rows, file)
        elif kind == "csv":
            pacsv.write_csv(rows, file)
        else:
            file.write_text("".join(f"{json.dumps(_plain(one))}\n" for one in rows.to_pylist()), encoding="utf-8")


def _plain(value: Any) -> Any:
    """A value as JSON lines carry it: dates, times and decimals as text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
