"""Kinds of tables: what a definition is refused for, what each kind's properties and files are, and log files of other writers."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.config.key_generators import TimePartition
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.files.base.base_file import BaseFileReader, stored_schema
from hudi_ops.services.inspect.summary import describe_table
from hudi_ops.verify import verify_table

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("n", pa.int64()),
    ("p", pa.string()),
    ("ts", pa.timestamp("ms", "UTC")),
    ("ms", pa.int64()),
    ("at", pa.timestamp("us", "UTC")),
])


def rows(numbers: range, version: int) -> pa.Table:
    content = [
        {"id": f"k{n}", "n": n, "p": "xyz"[n % 3], "ts": version, "ms": n * 86_400_000 + version, "at": n}
        for n in numbers
    ]
    return pa.Table.from_pylist(content, schema=SCHEMA)


def make(path: Path, **changes: Any) -> Table:
    wanted = {
        "name": "t",
        "record_key": ["id"],
        "schema": SCHEMA,
        "partition_by": ["p"],
        "ordering": "ts",
        "buckets": 2,
    }
    return Table.create(str(path / "t"), **(wanted | changes))


KINDS = [
    {"partition_by": ["p"]},
    {"partition_by": [], "record_key": ["id", "n"]},
    {"partition_by": ["p"], "key_generator": "complex", "record_key": ["n"]},
    {"partition_by": ["ms"], "key_generator": "timestamp", "time": TimePartition(output="yyyy/MM/dd")},
    {"partition_by": ["p", "n"], "record_key": ["ts", "id"], "ordering": None},
]


@pytest.mark.parametrize(
    ("kind", "version", "table_type", "meta_fields"),
    [
        one
        for one in product(KINDS, (8, 9), ("cow", "mor"), (True, False))
        if one[1:] != (8, "mor", False) and (one[3] or "time" not in one[0])
    ],
)
def test_every_kind_is_written_read_and_whole(
    kind: dict[str, Any], version: int, table_type: str, meta_fields: bool, tmp_path: Path
) -> None:
    table = make(tmp_path, **kind, version=version, table_type=table_type, meta_fields=meta_fields, hive_style=False)
    assert table.ingest(rows(range(12), 1)).inserted == 12
    keyed_by_time = "ts" in table.config.record_key_fields
    result = table.ingest(rows(range(8, 16), 2))
    if table_type == "mor":
        # What is new nobody looks up, but for the first rows of a file group.
        assert (result.inserted + result.logged, result.updated) == (8, 0)
    else:
        assert (result.inserted, result.updated) == ((8, 0) if keyed_by_time else (4, 4))
    result = table.ingest(rows(range(3), 2), "delete")
    assert result.deleted + result.logged == (0 if keyed_by_time else 3) or (keyed_by_time and table_type == "mor")
    with pytest.raises(InvalidRequest, match="twice"):
        table.ingest(rows(range(15, 17), 2), "insert")
    read = table.read(meta_columns=True)
    assert read.num_rows == (20 if keyed_by_time else 13)
    assert read.schema.names == stored_schema(SCHEMA, meta_fields).names
    assert verify_table(table.context.storage, deep=True).findings == ()
    summary = describe_table(table.context.storage)
    assert summary.writable, summary.why_not_writable
    assert (summary.version, summary.meta_fields, summary.hive_style) == (version, meta_fields, False)
    completed = "deltacommit" if table_type == "mor" else "commit"
    assert {instant.action for instant in summary.last_instants} == {completed}


def test_files_without_meta_columns_have_neither_filter_nor_range(tmp_path: Path) -> None:
    table = make(tmp_path, meta_fields=False)
    table.ingest(rows(range(10), 1))
    for file in Path(table.context.storage.uri.removeprefix("file://")).rglob("*.parquet"):
        assert set(META_COLUMNS).isdisjoint(pq.read_schema(file).names)
        footer = BaseFileReader(table.context.storage, str(file.relative_to(tmp_path / "t"))).footer
        assert (footer.bloom, footer.min_key, footer.max_key) == (None, None, None)


def test_version_8_says_how_rows_are_merged_as_apache_hudi_1_0_does(tmp_path: Path) -> None:
    """The same values that Apache Hudi 1.0.2 writes."""
    ordered = make(tmp_path, version=8).config.raw
    assert ordered["hoodie.table.precombine.field"] == "ts"
    assert ordered["hoodie.compaction.payload.class"].endswith(".DefaultHoodieRecordPayload")
    assert ordered["hoodie.record.merge.strategy.id"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    assert {"hoodie.table.ordering.fields", "hoodie.table.format"}.isdisjoint(ordered)
    plain = make(tmp_path / "b", version=8, ordering=None).config.raw
    assert plain["hoodie.compaction.payload.class"].endswith(".OverwriteWithLatestAvroPayload")
    assert plain["hoodie.record.merge.strategy.id"] == "ce9acb64-bde0-424c-9b91-f6ebba25356d"
    newest = make(tmp_path / "c").config.raw
    assert newest["hoodie.table.ordering.fields"] == "ts"
    assert not any("payload" in key or "strategy" in key or "precombine" in key for key in newest)


@pytest.mark.parametrize(("version", "key"), [(8, "k0"), (9, "id:k0")])
def test_one_complex_key_stands_bare_in_version_8(version: int, key: str, tmp_path: Path) -> None:
    table = make(tmp_path, version=version, key_generator="complex")
    table.ingest(rows(range(1), 1))
    assert table.read(["_hoodie_record_key"]).column(0).to_pylist() == [key]
    # An upgrade by another program must not change how keys are made.
    assert table._session.loader.load().log.properties.facts.encodes_key_names is (version == 9)
    file = Path(table.context.storage.uri.removeprefix("file://")) / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace(f"hoodie.table.version={version}", f"hoodie.table.version={17 - version}"))
    assert table.config.version == 17 - version
    assert table.read(["id"], where="id = 'k0'").num_rows == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": 6}, "version 6"),
        ({"key_generator": "custom"}, "custom"),
        ({"key_generator": "timestamp"}, "go together"),
        ({"time": TimePartition()}, "go together"),
        ({"key_generator": "timestamp", "time": TimePartition()}, "its type is string"),
        ({"key_generator": "timestamp", "partition_by": ["at"], "time": TimePartition()}, "timestamp"),
        ({"key_generator": "timestamp", "partition_by": ["ms"], "time": TimePartition(output="YYYY")}, "YYYY"),
        ({"key_generator": "non_partitioned"}, "no partition column"),
        ({"version": 8, "table_type": "mor", "meta_fields": False}, "meta columns"),
        (
            {"key_generator": "timestamp", "partition_by": ["ms"], "time": TimePartition(), "meta_fields": False},
            "meta columns",
        ),
    ],
)
def test_what_cannot_be_a_table(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(HudiOpsError, match=says):
        make(tmp_path, **changes)
    assert not list(tmp_path.rglob("*.properties"))
