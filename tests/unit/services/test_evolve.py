"""Goal: an ingest that may change the columns does so with its rows or not at all, from any source; one that may not says how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.commit.decide.complete import complete_write
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import begin
from hudi_ops.errors import Conflict, InvalidRequest
from hudi_ops.services.write import attempt as attempt_module
from hudi_ops.services.write.attempt import begin_watched
from hudi_ops.table.table import Table

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("n", pa.int32()),
    ("place", pa.struct([("lat", pa.float64())])),
    ("note", pa.string()),
])
FIRST = {"id": "a", "n": 1, "place": {"lat": 0.5}, "note": "x"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA)
    made.ingest(pa.Table.from_pylist([FIRST], schema=SCHEMA))
    return made


def rows_of(table: Table) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in table.read(table.schema.names).to_pylist()}


def files_of(table: Table) -> list[tuple[str, int]]:
    return [(info.path, info.size_bytes) for info in table.context.storage.list()]


def test_new_columns_come_with_their_rows(table: Table) -> None:
    before = table.schema
    given = pa.table({"more": [[1]], "place": [{"lon": 2}], "id": ["b"], "n": pa.array([2**40])})
    result = table.ingest(given, evolve=True)
    assert result.schema_changes == (
        "widened n: int32 to int64",
        "added place.lon: int64",
        "added more: list<element: int64>",
    )
    assert rows_of(table) == {
        "a": {"id": "a", "n": 1, "place": {"lat": 0.5, "lon": None}, "note": "x", "more": None},
        "b": {"id": "b", "n": 2**40, "place": {"lat": None, "lon": 2}, "note": None, "more": [1]},
    }
    first = table.read(as_of=str(int(result.instant or "0") - 1))
    assert first.schema.names == before.names
    assert json.loads(table.config.create_schema)["fields"][1]["type"] == ["null", "int"]


def test_rows_need_not_be_there(table: Table) -> None:
    wanted = SCHEMA.append(pa.field("price", pa.decimal128(10, 2)))
    assert table.ingest(wanted.empty_table(), evolve=True).schema_changes == ("added price: decimal128(10, 2)",)
    assert table.schema == wanted
    again = table.ingest(wanted.empty_table(), evolve=True)
    assert (again.instant, again.schema_changes) == (None, ())


def test_without_evolve_a_new_column_is_refused_and_the_flag_named(table: Table, tmp_path: Path) -> None:
    before = files_of(table)
    with pytest.raises(InvalidRequest, match="more") as caught:
        table.ingest(pa.table({**{name: [FIRST[name]] for name in SCHEMA.names}, "more": [1]}))
    assert "evolve=True" in caught.value.next_step
    assert "--evolve" in caught.value.next_step
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": "b", "more": 1}\n', encoding="utf-8")
    with pytest.raises(InvalidRequest, match="line 1: the table has no column more") as caught:
        table.ingest_folder(str(tmp_path / "in"))
    assert "--evolve" in caught.value.next_step
    with pytest.raises(InvalidRequest, match="has no column note"):
        table.ingest(pa.table({"id": ["b"], "n": [1], "place": [{"lat": 1.0}]}))
    assert files_of(table) == before


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"id": ["b"], "n": ["many"]}, "column n is int32 in the table and cannot become string"),
        ({"id": [1]}, "column id is string in the table and cannot become int64"),
        ({"n": [1]}, "has no column id"),
        ({"id": ["b"], "text": ["renamed"]}, "text is new while note, of the same type, is missing"),
        (
            {"id": ["b"], "place": [{"lat": "north"}]},
            r"column place\.lat is double in the table and cannot become string",
        ),
    ],
)
def test_a_refused_change_leaves_the_table_as_it_was(table: Table, given: dict[str, Any], match: str) -> None:
    before = files_of(table)
    with pytest.raises(InvalidRequest, match=match) as caught:
        table.ingest(pa.table(given), evolve=True)
    assert caught.value.next_step
    with pytest.raises(InvalidRequest, match="a delete changes no columns"):
        table.ingest(pa.table({"id": ["a"]}), "delete", evolve=True)
    assert files_of(table) == before


def test_files_of_every_kind_bring_columns(table: Table, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("code,id,n,note\n007,b,2,y\n", encoding="utf-8")
    lines = (
        '{"id": "c", "seen": "2024-01-01", "rate": 1, "place": {"lat": 1, "name": "2024-01-01T00:00:00"}, "gone": null}',
        '{"id": "d", "rate": 1.5}',
    )
    (source / "b.json").write_text("\n".join(lines), encoding="utf-8")
    pq.write_table(pa.table({"id": ["e"], "rate": [2], "place": [None], "later": [None]}), source / "c.parquet")
    (source / "d.csv").touch()
    result = table.ingest_folder(str(source), evolve=True)
    assert result.schema_changes == (
        "added place.name: string",
        "added code: string",
        "added seen: string",
        "added rate: double",
    )
    empty = {**dict.fromkeys(SCHEMA.names), "code": None, "seen": None, "rate": None}
    assert rows_of(table) == {
        "a": {**empty, **FIRST, "place": {"lat": 0.5, "name": None}},
        "b": {**empty, "id": "b", "n": 2, "note": "y", "code": "007"},
        "c": {
            **empty,
            "id": "c",
            "seen": "2024-01-01",
            "rate": 1.0,
            "place": {"lat": 1.0, "name": "2024-01-01T00:00:00"},
        },
        "d": {**empty, "id": "d", "rate": 1.5},
        "e": {**empty, "id": "e", "rate": 2.0},
    }
    assert table.ingest_folder(str(source), evolve=True).instant is None


def test_columns_that_change_under_an_attempt_are_a_conflict(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer adds a column after the attempt began; the retry takes the table as it is then."""
    other = Table.open(str(table.context.storage.uri))
    began: list[str] = []

    def begin_then_change(*given: Any) -> Any:
        attempt, watch = begin_watched(*given)
        if not began:
            began.append(attempt.instant)
            monkeypatch.setattr(attempt_module, "begin_watched", begin_watched)
            other.ingest(SCHEMA.append(pa.field("theirs", pa.int32())).empty_table(), evolve=True)
        return attempt, watch

    monkeypatch.setattr(attempt_module, "begin_watched", begin_then_change)
    result = table.ingest(pa.table({"id": ["b"], "ours": [True]}), evolve=True)
    assert result.instant != began[0]
    assert table.schema.names == [*SCHEMA.names, "theirs", "ours"]
    assert rows_of(table)["b"] == {**dict.fromkeys(SCHEMA.names), "id": "b", "theirs": None, "ours": True}


def test_a_commit_upon_other_columns_is_refused(table: Table) -> None:
    session = table._session
    attempt = begin(session.ctx, session.loader, "commit")
    Table.open(str(table.context.storage.uri)).ingest(
        SCHEMA.append(pa.field("x", pa.int32())).empty_table(), evolve=True
    )
    with pytest.raises(Conflict, match="columns changed"):
        complete_write(session, attempt, Write("UPSERT", ()))


def test_what_arrow_does_not_know_of_a_schema_is_carried_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's enums, comments and defaults stay in the table's schema, word for word, until the columns change."""
    kind = {"type": "enum", "name": "Kind", "symbols": ["x", "y"], "doc": "two kinds"}
    columns = [
        {"name": "id", "type": "string", "doc": "key"},
        {"name": "kind", "type": ["null", kind], "default": None},
    ]
    avro = {"type": "record", "name": "theirs", "namespace": "their.space", "fields": columns}
    monkeypatch.setattr("hudi_ops.services.create.create.to_avro", lambda *_: avro)
    schema = pa.schema([pa.field("id", pa.string(), False), ("kind", pa.string())])
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=schema)
    table.ingest(pa.table({"id": ["a"], "kind": ["x"]}))
    session = table._session
    assert json.loads(session.newest_extra(session.loader.load())["schema"]) == avro
    table.ingest(pa.table({"id": ["b"], "kind": ["y"], "n": [1]}), evolve=True)
    assert json.loads(session.newest_extra(session.loader.load())["schema"]) != avro
    assert table.schema == schema.append(pa.field("n", pa.int64()))


@pytest.mark.parametrize("where", ["f = 0.1", "f <= 0.1", "f >= 0.1 AND f < 0.2", "n IS NULL AND d = 7", "d > 6.5"])
def test_filters_find_rows_of_older_files(tmp_path: Path, where: str) -> None:
    """Bounds in an older file's footer are of the older type: they are widened as the values are, or they would hide rows."""
    old = pa.schema([("id", pa.string()), ("p", pa.string()), ("f", pa.float32()), ("d", pa.int32())])
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], partition_by=["p"], schema=old)
    table.ingest(pa.table([["a"], ["x"], [0.1], [7]], schema=old))
    table.ingest(pa.table({"id": ["b"], "p": ["y"], "f": [9.5], "d": [0.5], "n": [1]}), evolve=True)
    assert table.read(["id"], where=where)["id"].to_pylist() == ["a"]
