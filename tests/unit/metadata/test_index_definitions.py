"""Index definitions, and the columns that have statistics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import Corrupt
from hudi_ops.metadata.index_definitions import (
    column_stats_definition,
    decode_index_definitions,
    encode_index_definitions,
    record_index_definition,
    stats_index_version,
)
from hudi_ops.metadata.indexed_columns import indexed_columns
from tests.unit.metadata.fixture_metadata import TABLES

_META = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")


@pytest.mark.parametrize("name", TABLES)
def test_a_definition_is_written_as_apache_hudi_wrote_it(name: str, hudi_fixtures: Callable[[str], Path]) -> None:
    data = (hudi_fixtures(name) / ".hoodie" / ".index_defs" / "index.json").read_bytes()
    held = decode_index_definitions(data)
    assert encode_index_definitions(held) == data
    assert held["column_stats"] == column_stats_definition(held["column_stats"].source_fields, int(name[1]))
    assert held.get("record_index", record_index_definition()) == record_index_definition()
    assert stats_index_version(held, int(name[1])) == (2 if name.startswith("v9") else 1)


def test_an_upgraded_table_keeps_its_statistics_version() -> None:
    data = b'{"indexDefinitions": {"column_stats": {"indexName": "column_stats", "version": "V1", "later": [1]}}}'
    held = decode_index_definitions(data)
    assert stats_index_version(held, 9) == 1
    assert held["column_stats"].rest == {"later": [1]}
    assert decode_index_definitions(encode_index_definitions(held)) == held


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"indexDefinitions": {"a": 1}}', b'{"indexDefinitions": {"a": {"sourceFields": 1}}}']
)
def test_other_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(Corrupt, match="index definitions"):
        decode_index_definitions(data)


_SCHEMA = pa.schema([
    *((name, pa.string()) for name in META_COLUMNS),
    ("id", pa.string()),
    ("list", pa.list_(pa.int32())),
    ("map", pa.map_(pa.string(), pa.int32())),
    ("nested", pa.struct({"x": pa.int32(), "l": pa.list_(pa.int32())})),
    ("wide", pa.decimal128(38, 10)),
    ("bytes", pa.binary()),
    ("_hoodie_operation", pa.string()),
])


def test_columns_are_meta_columns_and_those_with_bounds() -> None:
    assert indexed_columns(_SCHEMA, index_version=2) == (*_META, "id", "wide", "bytes")
    assert indexed_columns(_SCHEMA, index_version=1) == (*_META, "id", "bytes")


def test_a_table_without_meta_columns_has_none_of_theirs() -> None:
    assert indexed_columns(_SCHEMA, index_version=2, has_meta_columns=False, source_fields=_META) == (
        "id",
        "wide",
        "bytes",
    )


def test_the_first_32_columns_count_and_those_of_the_definition() -> None:
    schema = pa.schema([("list", pa.list_(pa.int32())), *((f"c{at}", pa.int32()) for at in range(40))])
    expected = (*_META, *(f"c{at}" for at in range(32)))
    assert indexed_columns(schema, index_version=2) == expected
    assert indexed_columns(schema, index_version=2, source_fields=(*_META, "c39", "gone", "list")) == (
        *_META,
        "c39",
        *expected[3:],
    )


def test_a_field_below_a_struct_is_named_with_a_dot() -> None:
    fields = ("nested.x", "nested.l", "nested.y", "id.x")
    assert indexed_columns(_SCHEMA, index_version=2, source_fields=fields)[3] == "nested.x"
    assert len(indexed_columns(_SCHEMA, index_version=2, source_fields=fields)) == 7
