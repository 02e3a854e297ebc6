"""Goal: one definition of a table for Python, tables.yaml and the command line; a misspelt keyword names the nearest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.definition import OpenOptions, TableDefinition, WriterOptions
from hudi_ops.config.tables_file import TableDeclaration, locate_table
from hudi_ops.errors import InvalidRequest

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])


def test_keywords_and_a_definition_make_the_same_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    definition = TableDefinition(name="t", record_key=["id"], partition_by="city", ordering="ts", table_type="mor")
    made = Table.create(path, definition, schema=SCHEMA)
    again = Table.create(
        path, schema=SCHEMA, name="t", record_key=("id",), partition_by=["city"], ordering="ts", table_type="mor"
    )
    assert (made.was_created, again.was_created) == (True, False)
    with pytest.raises(InvalidRequest, match="another definition"):
        Table.create(path, definition, schema=SCHEMA, buckets=2)


@pytest.mark.parametrize(
    ("keyword", "nearest"),
    [("recordkey", "record_key"), ("metadata_compact_afer", "metadata_compact_after"), ("engin", "engine")],
)
def test_an_unknown_keyword_of_create_names_the_nearest(tmp_path: Path, keyword: str, nearest: str) -> None:
    with pytest.raises(InvalidRequest, match=f"unknown keyword '{keyword}'; did you mean '{nearest}'"):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, name="t", record_key=["id"], **{keyword: "id"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("settings", "wrong", "nearest"),
    [
        ({"clean": {"retian": 3}}, "clean.retian", "clean.retain"),
        ({"clean": {"automatik": True}}, "clean.automatik", "clean.automatic"),
        ({"archive": {"keepmax": 3}}, "archive.keepmax", "archive.keep_max"),
        ({"conflicts": {"retry": 3}}, "conflicts.retry", "conflicts.retries"),
    ],
)
def test_an_unknown_key_of_a_map_names_the_nearest_of_that_map(
    tmp_path: Path, settings: dict[str, Any], wrong: str, nearest: str
) -> None:
    says = f"unknown keyword '{wrong}'; did you mean '{nearest}'"
    with pytest.raises(InvalidRequest, match=says):
        Table.open(str(tmp_path), **settings)
    with pytest.raises(InvalidRequest, match=says):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, name="t", record_key=["id"], **settings)
    assert not (tmp_path / "t").exists()


def test_an_unknown_key_far_from_all_names_those_of_its_map(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"unknown keyword 'archive\.policy'") as raised:
        Table.open(str(tmp_path), archive={"policy": "commits"})
    assert raised.value.expected == "archive.automatic or archive.keep_max or archive.keep_min"


def test_an_unknown_keyword_of_open_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="unknown keyword 'bucket'; did you mean 'buckets'"):
        Table.open(str(tmp_path), bucket=4)
    with pytest.raises(InvalidRequest, match="unknown keyword 'index_name'"):
        WriterOptions(index_name="bloom")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "record_key is missing"),
        ({"record_key": ["id"]}, "name is missing"),
        ({"name": "t", "record_key": ["id"], "buckets": 0}, "0 buckets are not possible"),
        ({"name": "t", "record_key": ["id"], "buckets": 1_000_000}, "1000000 buckets are not possible"),
        ({"name": "t", "record_key": ["id"], "version": 7}, "tables of version 7 are not made"),
        ({"name": "t", "record_key": ["id"], "index": "btree"}, "unknown index 'btree'"),
        ({"name": "t", "record_key": ["id"], "table_type": "cwo"}, "unknown table type 'cwo'"),
        ({"name": "t", "record_key": ["id"], "hash_fields": ["id"]}, "unknown keyword 'hash_fields'"),
    ],
)
def test_a_wrong_definition_is_refused(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        Table.create(str(tmp_path / "t"), schema=SCHEMA, **given)


def test_a_location_opens_with_what_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables.yaml").write_text(
        "tables:\n  t: {path: t, record_key: [id], buckets: 2, metadata_compact_after: 3, log_format: avro,\n"
        "      conflicts: {retries: 7}}\n"
    )
    location = locate_table("t")
    assert location.declaration is not None
    Table.create(location.path, name="t", schema=SCHEMA, **location.declaration.definition)
    session = Table.at(location)._session
    assert (session.metadata_compact_after, session.log_format, session.conflicts.retries) == (3, "avro", 7)
    assert location.options()["buckets"] == 2
    assert "index" not in location.options()
    later = Table.at(location, accept_future=True, index=None)._session.conflicts
    assert (later.retries, later.accept_future_instants) == (7, True)
    bare = locate_table(f"{tmp_path}/elsewhere")
    assert bare.options() == {}
    assert bare.options(accept_future=True) == {"conflicts": ConflictSettings(accept_future_instants=True)}


def test_every_setting_of_a_definition_can_be_declared_and_is_described() -> None:
    shared = set(TableDefinition.model_fields) - {"name", "table_type"} | {
        "type",
        "path",
        "source",
        "schedules",
        "targets",
    }
    assert set(TableDeclaration.model_fields) == shared | set(WriterOptions.model_fields) - {"file_sizes"}
    for model in (TableDefinition, OpenOptions):
        assert all(field.title and field.description for field in model.model_fields.values())
