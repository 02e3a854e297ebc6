"""One file is taken exactly once, alone or with its folder, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest

SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path / "t", name="t", record_key="id", schema=SCHEMA)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    for name, key in (("a.csv", "1"), ("b.csv", "2"), ("_c.csv", "3")):
        file = tmp_path / "landing" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"id,text\n{key},{name}\n")
    return tmp_path / "landing"


def ids(table: Table) -> list[str]:
    return sorted(table.read()["id"].to_pylist())


def test_a_file_is_taken_once_and_not_again_with_its_folder(table: Table, landing: Path) -> None:
    assert table.ingest_file(landing / "b.csv", "bulk_insert").files == 1
    again = table.ingest_file(str(landing / "b.csv"), "bulk_insert")
    assert (again.instant, again.note) == (None, "nothing new: b.csv was taken before")
    assert ids(table) == ["2"]
    assert table.ingest_folder(str(landing), "bulk_insert").files == 1
    assert table.ingest_file((landing / "a.csv").as_uri(), "bulk_insert").instant is None
    assert ids(table) == ["1", "2"]


def test_a_file_that_is_named_is_taken_whatever_its_name_begins_with(table: Table, landing: Path) -> None:
    table.ingest_file(landing / "_c.csv")
    assert ids(table) == ["3"]


def test_a_changed_file_is_taken_again_when_retake_names_it(table: Table, landing: Path) -> None:
    table.ingest_file(landing / "a.csv")
    (landing / "a.csv").write_text("id,text\n1,longer than before\n")
    with pytest.raises(InvalidRequest, match="changed after it was taken"):
        table.ingest_file(landing / "a.csv")
    table.ingest_file(landing / "a.csv", retake=["a.csv"])
    assert table.read()["text"].to_pylist() == ["longer than before"]


def test_a_linked_file_belongs_to_the_same_source(table: Table, landing: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(landing)
    table.ingest_file(tmp_path / "link" / "a.csv")
    assert table.ingest_file(landing / "a.csv").instant is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope.csv", "there is no file or folder .*nope.csv"),
        ("notes.txt", "notes.txt is not CSV, JSON lines or Parquet"),
        ("", "is a folder"),
        ("nowhere/a.csv", "there is no file or folder"),
    ],
)
def test_what_is_no_file_of_rows_is_refused(table: Table, landing: Path, name: str, said: str) -> None:
    (landing / "notes.txt").write_text("hello")
    with pytest.raises(InvalidRequest, match=said):
        table.ingest_file(landing / name)
    assert ids(table) == []


def test_a_preview_of_a_file_shows_it_alone(table: Table, landing: Path) -> None:
    offer = table.preview_folder(str(landing / "a.csv"))
    assert [info.path for info in offer.files] == ["a.csv"]
    assert not offer.waiting
