"""A source file that was taken and corrected since: taken again only when it is named, with upsert only, and only once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.services.write.operations import INGESTING
from hudi_ops.table.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


def write(file: Path, rows: dict[str, str], changed_s: int = 1_700_000_000) -> None:
    lines = "id,text\n" + "".join(f'{key},"{text}"\n' for key, text in rows.items())
    file.write_text(lines, encoding="utf-8")
    os.utime(file, (changed_s, changed_s))


def rows_of(table: Table) -> dict[str, str]:
    return {row["id"]: row["text"] for row in table.read(["id", "text"]).to_pylist()}


def ledger_of(table: Table) -> dict[str, object]:
    paths = [info.path for info in table.context.storage.list(".hoodie/.ingest")]
    record: dict[str, object] = json.loads(table.context.storage.get(max(paths)))
    return record


def test_a_malformed_file_is_not_taken_and_its_correction_is(table: Table, landing: Path) -> None:
    write(landing / "a.csv", {"1": "a"})
    (landing / "b.csv").write_text('id,text\n2,"b\n3,c\n', encoding="utf-8")
    before = {info.path for info in table.context.storage.list()}
    with pytest.raises(InvalidRequest, match=r"b\.csv, line 2"):
        table.ingest_folder(str(landing))
    assert {info.path for info in table.context.storage.list()} == before
    write(landing / "b.csv", {"2": "b", "3": "c"})
    assert table.ingest_folder(str(landing)).files == 2
    assert rows_of(table) == {"1": "a", "2": "b", "3": "c"}


def test_a_corrected_file_is_taken_again_when_it_is_named(table: Table, landing: Path) -> None:
    write(landing / "a.csv", {"1": "wrong", "2": "right"})
    table.ingest_folder(str(landing))
    write(landing / "a.csv", {"1": "corrected", "3": "added"}, 1_700_000_100)
    write(landing / "b.csv", {"3": "newer"})
    with pytest.raises(InvalidRequest, match=r"a\.csv changed after it was taken") as refused:
        table.ingest_folder(str(landing))
    assert "--retake a.csv" in refused.value.next_step
    offer = table.preview_folder(str(landing), retake=["a.csv"])
    assert ([info.name for info in offer.files], offer.retaken) == (["a.csv", "b.csv"], {"a.csv"})
    result = table.ingest_folder(str(landing), retake=["a.csv"])
    assert (result.files, result.note) == (2, "1 file is taken again")
    # Rows that the correction lacks stay, and a new file comes after it.
    assert rows_of(table) == {"1": "corrected", "2": "right", "3": "newer"}
    first = [len('id,text\n1,"wrong"\n2,"right"\n'), 1_700_000_000_000]
    assert ledger_of(table)["retaken"] == {"a.csv": [first]}
    assert table.ingest_folder(str(landing)).instant is None, "the ledger holds the corrected file"


def test_the_same_call_again_takes_nothing(table: Table, landing: Path) -> None:
    for number, text in enumerate(("first", "second", "third")):
        write(landing / "a.csv", {"1": text}, 1_700_000_000 + number)
        again = ["a.csv"] if number else []
        assert table.ingest_folder(str(landing), retake=again).instant is not None
        assert table.ingest_folder(str(landing), retake=again).instant is None
    assert rows_of(table) == {"1": "third"}
    retaken = ledger_of(table)["retaken"]
    assert isinstance(retaken, dict)
    assert len(retaken["a.csv"]) == 2


def test_two_callers_take_it_once(table: Table, landing: Path, tmp_path: Path) -> None:
    write(landing / "a.csv", {"1": "first"})
    table.ingest_folder(str(landing))
    write(landing / "a.csv", {"1": "second"}, 1_700_000_100)
    other = Table.open(str(tmp_path / "t"))
    done = [one.ingest_folder(str(landing), retake=["a.csv"]).instant for one in (table, other)]
    assert [instant is None for instant in done] == [False, True]


def test_retaken_files_count_in_bounds_and_come_first(table: Table, landing: Path) -> None:
    write(landing / "b.csv", {"1": "first"})
    table.ingest_folder(str(landing))
    write(landing / "a.csv", {"2": "new"})
    write(landing / "b.csv", {"1": "second"}, 1_700_000_100)
    result = table.ingest_folder(str(landing), max_files=1, retake=["b.csv"])
    assert result.note.startswith("1 file is taken again; 1 file is left")
    assert rows_of(table) == {"1": "second"}


@pytest.mark.parametrize("operation", [name for name in INGESTING if name != "upsert"])
def test_only_upsert_takes_a_file_again(table: Table, landing: Path, operation: str) -> None:
    write(landing / "a.csv", {"1": "first"})
    table.ingest_folder(str(landing))
    write(landing / "a.csv", {"1": "second"}, 1_700_000_100)
    before = {info.path for info in table.context.storage.list()}
    with pytest.raises(InvalidRequest, match=f"{operation} cannot take a file again"):
        table.ingest_folder(str(landing), operation, retake=["a.csv"])
    assert {info.path for info in table.context.storage.list()} == before


@pytest.mark.parametrize(
    ("name", "says"), [("b.csv", "it was never taken"), ("c.csv", "no such file"), ("gone.csv", "no such file")]
)
def test_a_name_that_was_not_taken_is_refused(table: Table, landing: Path, name: str, says: str) -> None:
    for taken in ("a.csv", "gone.csv"):
        write(landing / taken, {"1": "first"})
    table.ingest_folder(str(landing))
    (landing / "gone.csv").unlink()
    write(landing / "b.csv", {"2": "new"})
    with pytest.raises(InvalidRequest, match=f"{name} cannot be taken again: .*{says}"):
        table.ingest_folder(str(landing), retake=[name])


def test_a_file_may_be_named_as_errors_name_it(table: Table, landing: Path) -> None:
    write(landing / "a.csv", {"1": "first"})
    table.ingest_folder(str(landing))
    write(landing / "a.csv", {"1": "second"}, 1_700_000_100)
    with pytest.raises(InvalidRequest, match="changed after it was taken") as refused:
        table.ingest_folder(str(landing))
    assert table.ingest_folder(str(landing), retake=refused.value.details["file"]).files == 1
