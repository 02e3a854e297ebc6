"""Source files: what their text means, and what is refused."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.source import fit_rows, read_runs, source_format
from hudi_ops.storage.open import open_storage
from hudi_ops.storage.protocol import FileInfo, Storage

MICROS, MILLIS = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")
TIMES = {
    "2024-01-02T03:04:05": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    "2024-01-02 03:04:05.123456": datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
    "2024-01-02T03:04:05Z": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    "2024-01-02T03:04:05+02:00": datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC),
    "2024-01-02 03:04:05-0130": datetime(2024, 1, 2, 4, 34, 5, tzinfo=UTC),
    "2024-01-02": datetime(2024, 1, 2, tzinfo=UTC),
}


def read_source(storage: Storage, file: FileInfo, schema: pa.Schema, required: list[str]) -> pa.Table:
    return pa.concat_tables([rows for _, rows in read_runs(storage, file, schema, required)])


def values(folder: Path, kind: str, column: pa.DataType, texts: list[Any]) -> list[Any]:
    """One column of a file that holds these values, read for a table column of that type."""
    csv_lines = "x,y\n" + "".join(f"{text},1\n" for text in texts)
    json_lines = "".join(f"{json.dumps({'x': text, 'y': 1})}\n" for text in texts)
    (folder / f"a.{kind}").write_text(csv_lines if kind == "csv" else json_lines, encoding="utf-8")
    storage = open_storage(str(folder))
    schema = pa.schema([("x", column), ("y", pa.int32())])
    rows = read_source(storage, storage.list()[0], schema, schema.names)
    assert rows.schema == schema
    return rows.column("x").to_pylist()


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_time_without_a_zone_is_utc_beside_times_with_one(tmp_path: Path, kind: str) -> None:
    assert values(tmp_path, kind, MICROS, list(TIMES)) == list(TIMES.values())


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_milliseconds_take_zeros_after_them_and_no_other_digits(tmp_path: Path, kind: str) -> None:
    assert values(tmp_path, kind, MILLIS, ["2024-01-02T03:04:05.001000Z"]) == [
        datetime(2024, 1, 2, 3, 4, 5, 1000, tzinfo=UTC)
    ]
    with pytest.raises(InvalidRequest, match="lose data"):
        values(tmp_path, kind, MILLIS, ["2024-01-02T03:04:05.001500Z"])


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_dates_are_iso_text(tmp_path: Path, kind: str) -> None:
    assert values(tmp_path, kind, pa.date32(), ["2024-02-29"]) == [date(2024, 2, 29)]
    with pytest.raises(InvalidRequest):
        values(tmp_path, kind, pa.date32(), ["2024-02-30"])


def test_json_dates_may_lie_deep(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("born", pa.date32())]))
    rows = [[{"born": "2024-02-29"}, {"born": None}]]
    assert values(tmp_path, "json", kind, rows) == [[{"born": date(2024, 2, 29)}, {"born": None}]]


def test_quoted_line_breaks_survive_in_files_of_many_blocks(tmp_path: Path) -> None:
    count = 100_000
    texts = values(tmp_path, "csv", pa.string(), [f'"line {n}\nand, more"' for n in range(count)])
    assert texts == [f"line {n}\nand, more" for n in range(count)]


@pytest.mark.parametrize("name", ["part-0.csv", "part-0.json"])
def test_an_empty_part_file_has_no_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    storage = open_storage(str(tmp_path))
    info = storage.head(name)
    assert info is not None
    assert read_source(storage, info, pa.schema([("a", pa.int64())]), ["a"]).num_rows == 0


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_row_larger_than_a_block_is_read(tmp_path: Path, kind: str) -> None:
    texts = ["x" * 3_000_000, "y", "z" * 5_000_000]
    assert values(tmp_path, kind, pa.string(), texts) == texts


@pytest.mark.parametrize("name", ["a.csv.GZ", "a.JSON.Gz", "a.CSV"])
def test_endings_may_be_in_capitals(tmp_path: Path, name: str) -> None:
    body = b"x\n1\n" if "csv" in name.lower() else b'{"x":1}\n'
    (tmp_path / name).write_bytes(gzip.compress(body) if "gz" in name.lower() else body)
    storage = open_storage(str(tmp_path))
    schema = pa.schema([("x", pa.int64())])
    assert source_format(name) is not None
    assert read_source(storage, storage.list()[0], schema, ["x"]).to_pylist() == [{"x": 1}]


@pytest.mark.parametrize(("kind", "column"), [("csv", pa.float32()), ("csv", pa.float64()), ("json", pa.float32())])
def test_numbers_that_are_too_large_do_not_become_infinity(tmp_path: Path, kind: str, column: pa.DataType) -> None:
    large = "1e999" if column == pa.float64() else 1e300
    assert values(tmp_path, kind, column, [0.5]) == [0.5]
    with pytest.raises(InvalidRequest, match="column x holds a number that is too large"):
        values(tmp_path, kind, column, [0.5, large])


def test_infinity_in_words_is_infinity(tmp_path: Path) -> None:
    assert values(tmp_path, "csv", pa.float32(), ["inf", "-Infinity", 1]) == [float("inf"), float("-inf"), 1.0]


def test_json_numbers_that_are_too_large_are_found_deep(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("f", pa.float32())]))
    with pytest.raises(InvalidRequest, match=r"x\[\]\.f"):
        values(tmp_path, "json", kind, [[{"f": 1.5}, {"f": 1e300}]])


def test_json_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"x":"fine"}\n{"x":"a\xff"}\n')
    storage = open_storage(str(tmp_path))
    with pytest.raises(InvalidRequest, match=r"a\.json, line 2: column x .*UTF-8") as caught:
        read_source(storage, storage.list()[0], pa.schema([("x", pa.string())]), ["x"])
    assert caught.value.details["field"] == "x"


def test_infinity_in_words_is_no_overflow_in_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1.5}\n{"a": -Infinity}\n')
    storage = open_storage(str(tmp_path))
    info = storage.head("a.json")
    assert info is not None
    rows = read_source(storage, info, pa.schema([("a", pa.float32())]), ["a"])
    assert rows["a"].to_pylist() == [1.5, float("-inf")]


@pytest.mark.parametrize("fill", [False, True])
def test_a_column_twice_is_refused(fill: bool) -> None:
    rows = pa.table([[1], ["a"], ["b"]], names=["id", "s", "s"])
    with pytest.raises(InvalidRequest, match="twice"):
        fit_rows(rows, pa.schema([("id", pa.int64()), ("s", pa.string())]), ["id"], "here", fill=fill)
