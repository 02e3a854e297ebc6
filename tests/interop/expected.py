"""What a fixture promises: the rows of its `expected.json` as an Arrow table, and the instants that can be read."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import fastavro
import pyarrow as pa

STRIDE = 5
Point = TypeVar("Point")

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "apache-hudi-tables"
COPY_ON_WRITE = (
    "v8_all_types_metadata_cow",
    "v8_simplekeygen_nonhivestyle_cow",
    "v9_async_index",
    "v9_cow_clean_savepoint_rollback_archive",
    "v9_record_index_bloom_filters",
    "v9_txns_simple_meta_cow",
)
MERGE_ON_READ = (
    "v6_nonpartitioned_mor",
    "v6_trips_8i1u_mor",
    "v8_trips_8i3u1d_mor",
    "v9_all_types_metadata_mor",
    "v9_bucket_consistent_pending_resize",
    "v9_bucket_consistent_resized",
    "v9_bucket_simple",
    "v9_mor_parquet_log",
    "v9_mor_pending_compaction_clustering",
    "v9_txns_nonpart_nometa_mor",
    "v9_txns_simple_meta_mor",
)
CLEANED = frozenset({"v8_all_types_metadata_cow", "v9_all_types_metadata_mor"})
"""Their older slices are gone: the table as of then, and what changed then, cannot be read."""
_PLAIN = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date32[day]": pa.date32(),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[us]": pa.timestamp("us"),
    "binary": pa.binary(),
}


def load_expected(name: str) -> pa.Table:
    """Rows of a fixture's `expected.json`, with the meta columns it lists values for.

    Args:
        name: the fixture. Its JSON file has `schema` (list of `name: arrow type`) and `rows` (objects; values that JSON
            lacks as text).

    Returns:
        One Arrow table; `row_count` of the file is checked.
    """
    path = FIXTURES / f"{name}.expected.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = content["rows"]
    assert len(rows) == content["row_count"], f"{path}: row_count says {content['row_count']}, rows are {len(rows)}"
    named = set().union(*rows) if rows else set()
    fields = [parse_field(text) for text in content["schema"]]
    fields = [field for field in fields if field.name in named]  # sequence number and file name are not promised
    unknown = named - {field.name for field in fields}
    assert not unknown, f"{path}: rows have columns that the schema lacks: {sorted(unknown)}"
    columns = [pa.array([_value(row[field.name], field.type) for row in rows], field.type) for field in fields]
    return pa.table(columns, schema=pa.schema(fields))


def completed_instants(table: Path) -> list[str]:
    """Request times of the completed writes on the active timeline (layout 2), oldest first."""
    timeline = table / ".hoodie" / "timeline"
    files = [file for action in ("commit", "deltacommit", "replacecommit") for file in timeline.glob(f"*_*.{action}")]
    return sorted(file.name.split("_")[0] for file in files)


def some(found: Sequence[Point], number: int) -> Sequence[Point]:
    """Choose every fifth of the instants or intervals of a table to ask Apache Hudi for; all in a soak.

    Each question costs a second. The tables are many and alike: the next table is asked for the next fifth, so that no position is
    left out of all tables.

    Args:
        found: in an order of its own, not empty.
        number: of the table.
    """
    return found if SOAK else found[number % min(STRIDE, len(found)) :: STRIDE]


def readable_instants(table: Path) -> list[str]:
    """The completed instants that no clean has made unreadable, oldest first.

    Apache Hudi refuses an instant before the last clean's `earliestCommitToRetain`, a savepointed one too.
    """
    retained = ""
    for clean in (table / ".hoodie" / "timeline").glob("*_*.clean"):
        with open(clean, "rb") as content:
            retained = max([retained, *(record["earliestCommitToRetain"] for record in fastavro.reader(content))])
    return [instant for instant in completed_instants(table) if instant >= retained]


def parse_field(text: str) -> pa.Field:
    """`amount: decimal128(15, 2)` as an Arrow field."""
    name, _, kind = text.partition(": ")
    return pa.field(name, parse_type(kind))


def parse_type(text: str) -> pa.DataType:
    """The Arrow type that prints as `text`; nested ones too."""
    if text in _PLAIN:
        return _PLAIN[text]
    head, inner = text[: -len(")")].split("(", 1) if text.endswith(")") else text[: -len(">")].split("<", 1)
    parts = _split(inner)
    if head == "decimal128":
        return pa.decimal128(int(parts[0]), int(parts[1]))
    if head == "list":
        return pa.list_(parse_field(parts[0]).type)
    if head == "struct":
        return pa.struct([parse_field(part) for part in parts])
    assert head == "map", f"unknown Arrow type {text!r}: teach parse_type"
    return pa.map_(parse_type(parts[0]), parse_type(parts[1]))


def _split(text: str) -> list[str]:
    """Splits at the commas outside brackets: `a: map<string, int32>, b: string` has two parts."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char in "<([") - (char in ">)]")
        if char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


def _value(value: Any, kind: pa.DataType) -> Any:
    """The Python value of one JSON value: text forms of decimals, dates, timestamps and bytes undone."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    reader = next((convert for matches, convert in _FROM_TEXT if matches(kind)), None)
    return value if reader is None else reader(value)


_FROM_TEXT: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]]] = [
    (pa.types.is_decimal, Decimal),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_binary, ast.literal_eval),
]
