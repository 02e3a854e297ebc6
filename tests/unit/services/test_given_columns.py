"""Columns of a new table from a text or a sample file; what cannot be read is refused with what is allowed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.errors import InvalidRequest
from hudi_ops.formats.arrow_types import column_text
from hudi_ops.sources.column_list import parse_columns


def test_every_type_of_the_text_is_one_of_the_table(tmp_path: Path) -> None:
    text = (
        "id string NOT NULL, a int, b bigint, c long, d float, e double, f decimal(12, 2), g date, h timestamp, "
        "j binary, k boolean, l array<int>, m map<string, double>, n struct<x: int, y: array<string>>, o decimal"
    )
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=text)
    utc, record = pa.timestamp("us", "UTC"), pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    expected = [
        *[pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(12, 2)],
        *[pa.date32(), utc, pa.binary(), pa.bool_(), pa.list_(pa.int32())],
        *[pa.map_(pa.string(), pa.float64()), record, pa.decimal128(10, 0)],
    ]
    assert parse_columns(text).types == expected
    assert parse_columns(", ".join(f"{one.name} {column_text(one)}" for one in parse_columns(text))) == parse_columns(
        text
    )
    assert table.schema.names == ["id", "a", "b", "c", "d", "e", "f", "g", "h", "j", "k", "l", "m", "n", "o"]
    assert not table.schema.field("id").nullable
    assert table.schema.field("a").nullable


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no column"),
        ("id", "found id"),
        ("id strng", "id strng"),  # codespell:ignore strng
        ("id string fare double", "id string fare double"),
        ("id string) ; drop table x --", "drop table"),
        ("id string) USING parquet --", "USING parquet"),
        ("id string DEFAULT 'x'", "DEFAULT"),
        ("primary key (id)", "PRIMARY KEY"),
        ("id tinyint", "TINYINT"),
        ("id timestamp_ntz", "TIMESTAMP_NTZ"),
        ("id varchar(10)", "VARCHAR"),
        ("id decimal(99, 2)", "DECIMAL"),
        ("id map<int, string>", "MAP"),
        ("id struct<a: nope>", "nope"),
        ("id decimal(p, s)", "DECIMAL"),
        ("id decimal(10, -2)", "decimal"),
        ("id decimal(10, 2, 1)", "DECIMAL"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_what_is_allowed(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Table.create(tmp_path / "t", name="t", record_key="id", schema=text)
    assert found in str(caught.value)
    assert "'id string, fare double'; types are string, boolean, int, bigint" in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_a_column_twice_and_another_kind_of_value_are_refused(tmp_path: Path) -> None:
    for wrong, said in (("id string, ID int", "name id twice"), (["id"], "schema cannot be")):
        schema: Any = wrong
        with pytest.raises(InvalidRequest, match=said):
            Table.create(tmp_path / "t", name="t", record_key="id", schema=schema)


ROWS = [
    {
        "id": "k1",
        "code": "007",
        "count": 1,
        "fare": 1.5,
        "day": "2024-02-29",
        "seen": "2024-02-29T10:00:00",
        "ok": True,
    },
    {"id": "k2", "code": "12", "count": None, "fare": 2, "day": "2024-03-01", "seen": None, "ok": False},
]


def test_a_csv_file_shows_its_types_and_its_rows_fit(tmp_path: Path) -> None:
    names = list(ROWS[0])
    values = [
        ",".join(
            "" if value is None else (str(value).lower() if isinstance(value, bool) else str(value))
            for value in row.values()
        )
        for row in ROWS
    ]
    file = tmp_path / "rows.csv.gz"
    file.write_bytes(gzip.compress("\n".join([",".join(names), *values]).encode()))
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=file)
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    assert types == {
        "id": pa.string(),
        "code": pa.string(),
        "count": pa.int64(),
        "fare": pa.float64(),
        "day": pa.date32(),
        "seen": pa.timestamp("us", "UTC"),
        "ok": pa.bool_(),
    }
    table.ingest_file(file)
    assert sorted(table.read()["code"].to_pylist()) == ["007", "12"]


def test_a_json_file_shows_its_types_and_its_rows_fit(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{**row, "tags": ["a"], "place": {"x": 1}} for row in ROWS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=str(file))
    assert table.schema.field("place").type == pa.struct([("x", pa.int64())])
    assert table.schema.field("tags").type == pa.list_(pa.string())
    assert table.schema.field("seen").type == pa.string()
    table.ingest_file(file)
    assert table.scan().count_rows() == 2


def test_a_parquet_file_gives_its_columns_without_meta_columns(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("price", pa.decimal128(9, 2)), ("at", pa.timestamp("ns"))])
    held = pa.schema([*((name, pa.string()) for name in META_COLUMNS), *schema])
    pq.write_table(held.empty_table(), tmp_path / "rows.parquet")
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=tmp_path / "rows.parquet")
    assert table.schema.names == schema.names
    assert table.schema.field("price").type == pa.decimal128(9, 2)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.csv", None, "there is no file or folder"),
        ("empty.jsonl", "", "is empty, so it shows no columns"),
        ("nulls.jsonl", '{"id": "a", "x": null}\n', "does not show the type of column x"),
        ("bad.parquet", "no parquet", "cannot be parsed"),
        ("bad.jsonl", "{", "line 1: the line is not JSON"),
    ],
)
def test_a_file_that_shows_no_columns_is_refused(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidRequest, match=said) as caught:
        Table.create(tmp_path / "t", name="t", record_key="id", schema=str(tmp_path / name))
    assert name in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_digits_that_a_number_would_not_keep_are_text(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text(
        "id,order,phone,small,fare\n"
        "1,12345678901234567890,+4930123456,1234567890123456,1.25\n"
        "2,22345678901234567891,+4930123457,2,1234567890.5\n"
    )
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=file)
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {"id": "int64", "order": "string", "phone": "string", "small": "int64", "fare": "double"}
    table.ingest_file(file)
    assert table.read()["order"].to_pylist() == ["12345678901234567890", "22345678901234567891"]


@pytest.mark.parametrize(("header", "said"), [("id,id", "names column id twice"), ("id,", "column number 2 of")])
def test_a_sample_names_each_column_once(tmp_path: Path, header: str, said: str) -> None:
    (tmp_path / "s.csv").write_text(f"{header}\n1,2\n")
    with pytest.raises(InvalidRequest, match=said):
        Table.create(tmp_path / "t", name="t", record_key="id", schema=tmp_path / "s.csv")
    assert not (tmp_path / "t").exists()


def test_a_parquet_sample_names_each_column_once(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2]], names=["id", "ID"]), tmp_path / "s.parquet")
    with pytest.raises(InvalidRequest, match="names column id twice"):
        Table.create(tmp_path / "t", name="t", record_key="id", schema=tmp_path / "s.parquet")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            "id string, n bigint, s struct<a: int, b: int>, tip double",
            [
                "column n was int when the table was created, is bigint in it now and bigint in this call",
                "column s was struct<a: int> when the table was created, is struct<a: int, b: int> in it now and",
                "column tip was absent when the table was created, is double in it now and double in this call",
            ],
        ),
        (
            "id string, n int, s struct<a: int>, tip string, other int",
            [
                "column tip was absent when the table was created, is double in it now and string in this call",
                "column other is absent in the table and int in this call",
            ],
        ),
        (
            "n int NOT NULL, id string, s struct<a: int>",
            [
                "column n was int when the table was created, is bigint in it now and int NOT NULL in this call",
                "the order of columns is id, n, s in the table and n, id, s in this call",
            ],
        ),
    ],
)
def test_columns_that_changed_after_the_creation_are_told_as_such(
    tmp_path: Path, columns: str, says: list[str]
) -> None:
    made = "id string, n int, s struct<a: int>"
    table = Table.create(tmp_path / "t", name="t", schema=made, record_key="id")
    row = {"id": ["a"], "n": pa.array([2**40]), "s": pa.array([{"a": 1, "b": 2}], pa.struct({"a": "i4", "b": "i4"}))}
    table.ingest(pa.table({**row, "tip": [0.5]}), evolve=True)
    with pytest.raises(InvalidRequest) as caught:
        Table.create(tmp_path / "t", name="t", schema=columns, record_key="id")
    message = " ".join(str(caught.value).split())
    assert [sentence for sentence in says if sentence not in message] == [], message
    assert message.count(" in this call") == len(says), message
    assert Table.create(tmp_path / "t", name="t", schema=made, record_key="id").schema.names[-1] == "tip"


@pytest.mark.parametrize("value", ["  0012", " +4712345678", "\t-0012", '" 007"', " 12345678901234567890 "])
def test_digits_behind_blanks_stay_text(tmp_path: Path, value: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"id,code\na,{value}\nb,1\n")
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=file)
    assert table.schema.field("code").type == pa.string()
    table.ingest_file(file)
    assert value.strip(' "\t') in {text.strip() for text in table.read()["code"].to_pylist()}


@pytest.mark.parametrize(
    ("values", "field", "digits"),
    [
        (["1234567890123456789012"], "v", "1234567890123456789012"),
        (["1.5", "9007199254740993"], "v", "9007199254740993"),
        (['{"a": [1, -12345678901234567890 ]}'], "v.a[]", "-12345678901234567890"),
    ],
)
def test_json_numbers_that_would_lose_digits_are_refused(
    tmp_path: Path, values: list[str], field: str, digits: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"id": "k{at}", "v": {value}}}\n' for at, value in enumerate(values)))
    with pytest.raises(InvalidRequest) as caught:
        Table.create(tmp_path / "t", name="t", record_key="id", schema=file)
    message = " ".join(str(caught.value).split())
    assert f"{field} of file://{file} holds a whole number" in message
    assert f"found {digits} " in message
    assert not (tmp_path / "t").exists()


def test_a_decimal_takes_the_long_numbers_of_json(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "a", "v": 1234567890123456789012}\n')
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema="id string, v decimal(38, 0)")
    table.ingest_file(file)
    assert str(table.read()["v"][0]) == "1234567890123456789012"


def test_long_identifiers_beside_large_doubles_are_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "a,9007199254740993,", "order": 9007199254740993, "mass": 1.5e30, "rate": 0.5}\n')
    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=file)
    assert table.schema.field("order").type == pa.int64()
    assert table.schema.field("mass").type == pa.float64()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Oslo"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_nanoseconds_become_microseconds_unless_digits_would_be_lost(
    tmp_path: Path, zone: str | None, is_nested: bool
) -> None:
    def written(nanoseconds: int) -> Path:
        times = pa.array([nanoseconds], pa.timestamp("ns", zone))
        column = pa.StructArray.from_arrays([times], ["at"]) if is_nested else times
        pq.write_table(pa.table({"id": ["a"], "at": column}), tmp_path / f"{nanoseconds}.parquet")
        return tmp_path / f"{nanoseconds}.parquet"

    table = Table.create(tmp_path / "t", name="t", record_key="id", schema=written(1_000))
    stored = pa.timestamp("us", "UTC")
    assert table.schema.field("at").type == (pa.struct([("at", stored)]) if is_nested else stored)
    table.ingest_file(written(1_000))
    before = table.read()
    with pytest.raises(InvalidRequest, match=r"column at(\.at)? does not fit the table: .* would lose data: 1001"):
        table.ingest_file(written(1_001))
    assert table.read() == before
