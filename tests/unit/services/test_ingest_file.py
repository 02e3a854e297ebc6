"""One file is taken exactly once, alone or with its folder, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.write import folder

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


@pytest.fixture
def nested(landing: Path) -> Path:
    """A folder with a space below the landing folder, with two files."""
    place = landing / "day 1" / "eu"
    place.mkdir(parents=True)
    (place / "d.csv").write_text("id,text\n4,d\n")
    (place / "e.csv").write_text("id,text\n5,e\n")
    return place


def test_a_file_of_a_subfolder_is_not_taken_again_with_a_folder_above(
    table: Table, landing: Path, nested: Path
) -> None:
    table.ingest_file(nested / "d.csv", "bulk_insert")
    table.ingest_folder(str(nested.parent), "bulk_insert")
    assert ids(table) == ["4", "5"]
    taken = table.ingest_folder(str(landing), "bulk_insert")
    assert taken.files == 2
    assert ids(table) == ["1", "2", "4", "5"]
    again = table.ingest_folder(str(landing), "bulk_insert")
    assert (again.instant, again.note.split(";")[0]) == (None, "nothing new: 4 files were taken before")


def test_what_a_folder_above_took_is_not_taken_from_a_subfolder(table: Table, landing: Path, nested: Path) -> None:
    table.ingest_folder(str(landing), "bulk_insert")
    assert table.ingest_file(nested / "d.csv", "bulk_insert").instant is None
    assert table.ingest_folder(str(nested), "bulk_insert").instant is None
    assert ids(table) == ["1", "2", "4", "5"]


def test_a_file_that_changed_is_retaken_from_either_folder(table: Table, landing: Path, nested: Path) -> None:
    table.ingest_file(nested / "d.csv")
    (nested / "d.csv").write_text("id,text\n4,second\n")
    with pytest.raises(InvalidRequest, match="changed after it was taken"):
        table.ingest_folder(str(landing))
    table.ingest_folder(str(landing), retake=["day 1/eu/d.csv"])
    assert table.ingest_file(nested / "d.csv").instant is None
    (nested / "d.csv").write_text("id,text\n4,the third\n")
    table.ingest_file(nested / "d.csv", retake=["d.csv"])
    assert table.ingest_folder(str(landing)).instant is None
    assert "the third" in table.read()["text"].to_pylist()


@pytest.mark.parametrize("above_first", [True, False])
def test_runs_of_a_folder_and_one_below_it_do_not_both_take_a_file(
    table: Table,
    landing: Path,
    nested: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    above_first: bool,
) -> None:
    """The other run takes the files between this one's look at the ledgers and its commit."""
    other = Table.open(tmp_path / "t")
    mine, theirs = (landing, nested) if above_first else (nested, landing)
    ran: list[bool] = []
    real = folder.ingest

    def late(*given: object) -> object:
        if not ran:
            ran.append(True)
            other.ingest_folder(str(theirs), "bulk_insert")
        return real(*given)

    monkeypatch.setattr(folder, "ingest", late)
    table.ingest_folder(str(mine), "bulk_insert")
    assert ran
    assert ids(table) == ["1", "2", "4", "5"]


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
