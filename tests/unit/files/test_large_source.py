"""Source files that are read bit by bit: the same rows however they are cut, rows counted from the file's start, changes seen."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources import refusal
from hudi_ops.sources.limits import refuse_large_values
from hudi_ops.sources.parquet_source import groups_of_part
from hudi_ops.sources.source import parts_of, read_runs
from hudi_ops.sources.text import large_texts, text_source
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import FileInfo
from tests.bounds import bound

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("x", pa.float32())])
COUNT = 30_000


def table(texts: Callable[[int], str | None] = lambda n: f"text of row {n}") -> pa.Table:
    return pa.table(
        {"id": range(COUNT), "text": [texts(n) for n in range(COUNT)], "x": [n / 2 for n in range(COUNT)]},
        schema=SCHEMA,
    )


def write(path: Path, rows: pa.Table) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=1_700)
        return
    lines = (
        "id,text,x\n" + "".join(f'{r["id"]},"{r["text"]}",{r["x"]}\n' for r in rows.to_pylist())
        if ".csv" in path.name
        else "".join(f'{{"id": {r["id"]}, "text": "{r["text"]}", "x": {r["x"]}}}\n' for r in rows.to_pylist())
    )
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())


def info_of(path: Path) -> tuple[LocalStorage, FileInfo]:
    storage = LocalStorage(path.parent)
    info = storage.head(path.name)
    assert info is not None
    return storage, info


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.csv.gz", "a.parquet"])
@pytest.mark.parametrize("whole_bytes", [0, 1 << 30])
def test_runs_hold_the_rows_of_the_file_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, whole_bytes: int
) -> None:
    monkeypatch.setattr(refusal, "_WHOLE_BYTES_MAX", whole_bytes)
    write(tmp_path / name, table())
    runs = list(read_runs(*info_of(tmp_path / name), SCHEMA, SCHEMA.names, run_bytes=100_000))
    assert len(runs) > 5
    assert all(rows.nbytes < 1_100_000 for _, rows in runs)
    assert pa.concat_tables([rows for _, rows in runs]).equals(table())
    assert [first for first, _ in runs] == [rows["id"][0].as_py() for _, rows in runs]


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_parts_of_a_parquet_file_hold_each_row_once_in_order(tmp_path: Path, parts: int) -> None:
    write(tmp_path / "a.parquet", table())
    storage, info = info_of(tmp_path / "a.parquet")
    runs = [run for n in range(parts) for run in read_runs(storage, info, SCHEMA, SCHEMA.names, (n, parts), 50_000)]
    assert pa.concat_tables([rows for _, rows in runs]).equals(table())
    assert [first for first, rows in runs if rows.num_rows] == [r["id"][0].as_py() for _, r in runs if r.num_rows]
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    found = [group for n in range(parts) for group in groups_of_part(metadata, (n, parts))[0]]
    assert found == list(range(metadata.num_row_groups))


def test_only_large_parquet_files_are_cut() -> None:
    assert [parts_of(FileInfo(name, size, 0)) for name, size in (("a.parquet", 0), ("a.parquet", 1 << 27))] == [1, 1]
    assert parts_of(FileInfo("a.parquet", (1 << 27) * 5 + 1, 0)) == 6
    assert parts_of(FileInfo("a.csv", 1 << 40, 0)) == 1


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_row_larger_than_a_block_far_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(text_source, "_BLOCKS_BYTES", (1 << 14, 1 << 17, 1 << 22))
    long = table(lambda n: "x" * {20_000: 40_000, 25_000: 900_000}.get(n, 3))
    write(tmp_path / f"a.{kind}", long)
    runs = list(read_runs(*info_of(tmp_path / f"a.{kind}"), SCHEMA, SCHEMA.names, run_bytes=50_000))
    assert pa.concat_tables([rows for _, rows in runs]).equals(long)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_numbers_too_large_are_told_from_infinity_in_words_in_late_runs(tmp_path: Path, kind: str) -> None:
    def file_with(value: str) -> list[pa.Table]:
        write(tmp_path / f"a.{kind}", table())
        text = (tmp_path / f"a.{kind}").read_text().replace("14500.0", value)
        (tmp_path / f"a.{kind}").write_text(text)
        runs = read_runs(*info_of(tmp_path / f"a.{kind}"), SCHEMA, SCHEMA.names, run_bytes=100_000)
        return [rows for _, rows in runs]

    assert (
        float("-inf") in pa.concat_tables(file_with(" -Infinity" if kind == "json" else "-Infinity"))["x"].to_pylist()
    )
    with pytest.raises(InvalidRequest, match="column x holds a number that is too large"):
        file_with("1e300")


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet"])
def test_rows_are_counted_from_the_start_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(text_source, "_BLOCKS_BYTES", (1 << 14, 1 << 20))
    write(tmp_path / name, table())
    if name == "a.parquet":
        # Uncompressed and plain, so that the text can be found.
        pq.write_table(table(), tmp_path / name, row_group_size=1_700, compression="none", use_dictionary=False)
    body = (tmp_path / name).read_bytes()
    assert body.count(b"text of row 28123") >= 1
    (tmp_path / name).write_bytes(body.replace(b"text of row 28123", b"text of row \xff8123"))
    # Of text files the line is told, which counts from 1; the first one of CSV has the names.
    places = {"a.csv": "line 28125", "a.json": "line 28124", "a.parquet": "row 28123"}
    says = f"{places[name]}: column text .* UTF-8"
    with pytest.raises(InvalidRequest, match=says):
        list(read_runs(*info_of(tmp_path / name), SCHEMA, SCHEMA.names, run_bytes=100_000))


def shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replaced(path: Path) -> None:
    write(path.with_name(f"new-{path.name}"), table(lambda n: f"other {n}"))
    path.with_name(f"new-{path.name}").replace(path)


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes()[-200:])


@pytest.mark.parametrize("change", [shorter, replaced, longer, Path.unlink])
@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.csv.gz", "a.parquet"])
@pytest.mark.parametrize("when", ["before it is opened", "after its first run"])
def test_a_file_that_changes_is_refused_whatever_could_be_read_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, when: str, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(refusal, "_WHOLE_BYTES_MAX", 0)
    write(tmp_path / name, table())
    storage, info = info_of(tmp_path / name)
    if when == "before it is opened":
        change(tmp_path / name)
    runs = read_runs(storage, info, SCHEMA, SCHEMA.names, run_bytes=100_000)
    if when == "after its first run":
        next(runs)
        change(tmp_path / name)
    with pytest.raises(InvalidRequest, match=f"{name} was (changed|deleted) while it was read") as caught:
        list(runs)
    assert caught.value.details["file"].endswith(name)


TEXTS = st.text('a"\\,:{}[]\n', max_size=9) | st.integers(0, 40).map(lambda n: "\\" * n + '"')
IN_CSV = st.from_regex(r'([a\\][a\\"]*)?', fullmatch=True) | TEXTS.map(lambda text: '"' + text.replace('"', '""') + '"')
CELLS = {"csv": IN_CSV, "json": TEXTS.map(json.dumps)}


@pytest.mark.parametrize("kind", ["csv", "json"])
@given(data=st.data())
@settings(max_examples=bound(50, 200, 3_000), deadline=None)
def test_the_first_large_value_of_a_text_is_found_however_it_is_cut(kind: str, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.tuples(CELLS[kind], CELLS[kind]), min_size=1, max_size=6))
    limit_bytes, block_bytes = data.draw(st.integers(4, 30)), data.draw(st.integers(1, 40))
    if kind == "csv":
        body = "a,b\n" + "".join(f"{one},{two}\n" for one, two in cells)
        assert [len(row) for row in csv.reader(io.StringIO(body, newline=""))] == [2] * (len(cells) + 1)
    else:
        body = "".join(f'{{"a":{one},"b":{two}}}\n' for one, two in cells)
    large = [
        (row, name)
        for row, pair in enumerate(cells)
        for name, cell in zip("ab", pair, strict=True)
        if len(cell) > limit_bytes
    ]
    found = None
    with mock.patch.object(large_texts, "_BLOCK_BYTES", block_bytes):
        try:
            large_texts.refuse_large_text(lambda: pa.BufferReader(body.encode()), kind, limit_bytes, "here")
        except InvalidRequest as error:
            found = (error.details["row"], error.details["field"])
    assert found == (large[0] if large else None)


def texts_of_every_type() -> list[pa.Array]:
    texts = [None, *("y" * n for n in range(3)), "z" * 1_000, "z" * 2_000]
    plain = [pa.array(texts, getattr(pa, name)()) for name in (
        "string", "binary", "large_string", "large_binary", "string_view", "binary_view",
    )]  # fmt: skip
    nested = [pa.array([[one, "y"] for one in texts], kind) for kind in (
        pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.string(), 2), pa.list_view(pa.string()),
    )]  # fmt: skip
    struct = pa.array([{"n": 1, "a": [one]} for one in texts])
    maps = [pa.array([[("k", one)] for one in texts], pa.map_(pa.string(), pa.string()))]
    maps.append(pa.array([[(one or "k", 1)] for one in texts], pa.map_(pa.string(), pa.int64())))
    return [*plain, *nested, *maps, struct, plain[0].dictionary_encode()]


@pytest.mark.parametrize("values", texts_of_every_type(), ids=lambda values: str(values.type))
def test_a_large_value_is_refused_in_every_type(values: pa.Array) -> None:
    for column in (pa.chunked_array([values]), pa.chunked_array([values[:1], values[1:3], values[3:]])):
        rows = pa.table({"n": range(len(values)), "a": column})
        refuse_large_values(rows, 2_000, "here")
        refuse_large_values(rows.slice(0, 4), 999, "here")
        for first in (0, 2):
            with pytest.raises(InvalidRequest, match="column a holds a value that is larger") as caught:
                refuse_large_values(rows.slice(first), 999, "here")
            assert caught.value.details["row"] == 4 - first
