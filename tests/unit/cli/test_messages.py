"""Errors and help in the words of a data engineer: the place, what is wrong, and nothing of the libraries below.

Goal: each message that a user misread once stays readable. Method: the call that brought it up, over a real table.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import typer
from typer.testing import CliRunner

from hudi_ops import Table
from hudi_ops.cli.main import app
from hudi_ops.errors import InvalidRequest

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("fare", pa.float64())])
HEAD = "id,city,fare\n"
INTERNALS = ("<class", "sqlglot", "kernel", "FieldRef", "CSV column #", "Traceback", "found nothing")


@pytest.fixture
def table(home: Path) -> Table:
    """A small table `rides` with one row."""
    made = Table.create(
        home / "rides", name="rides", schema=SCHEMA, record_key=["id"], partition_by=["city"], buckets=2
    )
    made.ingest(pa.table({"id": ["a"], "city": ["Oslo"], "fare": [1.5]}, schema=SCHEMA))
    return made


@pytest.fixture
def without_rights(home: Path) -> Callable[..., Any]:
    """Run `hudi-ops` as a user who is bound by the modes of files, which an administrator is not."""
    bound = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
        program = [*bound, str(Path(sys.executable).parent / "hudi-ops"), *map(str, arguments)]
        return subprocess.run(program, cwd=home, capture_output=True, text=True, timeout=120, check=False)

    ran.bound = bound  # type: ignore[attr-defined]
    return ran


def plain(message: str) -> str:
    """The message, once it is free of what libraries call their parts."""
    assert [word for word in INTERNALS if word in message] == [], message
    return message


def test_output_into_a_read_only_folder_names_the_folder_and_the_right(
    table: Table, home: Path, without_rights: Callable[..., Any]
) -> None:
    folder = home / "closed"
    folder.mkdir(mode=0o555)
    answer = without_rights("read", "rides", "--output", folder / "x.parquet")
    assert answer.returncode == 2, answer
    assert f"no right to create files in {folder}" in plain(answer.stderr)


def test_a_table_that_may_not_be_read_names_its_file_and_the_right_to_read(
    table: Table, home: Path, without_rights: Callable[..., Any]
) -> None:
    (base,) = (home / "rides").glob("*Oslo/*.parquet")
    base.chmod(0)
    answer = without_rights("read", "rides")
    assert answer.returncode == 2, answer
    assert str(base) in plain(answer.stderr)
    assert "the right to read" in answer.stderr
    assert "write" not in answer.stderr


def test_a_table_that_may_not_be_written_names_its_folder_and_stays_as_it_was(
    table: Table, home: Path, without_rights: Callable[..., Any], tree: Callable[[Path], dict[str, str]]
) -> None:
    (home / "landing" / "new.csv").write_text(HEAD + "b,Rome,2\n")
    folders = [home / "rides", *(path for path in (home / "rides").rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    before = tree(home / "rides")
    answer = without_rights("ingest", "rides", "--source", home / "landing")
    for folder in folders:
        folder.chmod(0o755)
    assert answer.returncode == 2, answer
    assert str(home / "rides") in plain(answer.stderr)
    assert "the right to create files" in answer.stderr
    assert tree(home / "rides") == before


def test_a_partition_without_rights_is_the_folder_to_grant_them_on(
    table: Table, home: Path, without_rights: Callable[..., Any]
) -> None:
    (home / "landing" / "new.csv").write_text(HEAD + "b,Oslo,2\n")
    (partition,) = (home / "rides").glob("*Oslo")
    partition.chmod(0o555)  # the temp folder of the table stays open
    answer = without_rights("ingest", "rides", "--source", home / "landing")
    partition.chmod(0o755)
    assert answer.returncode == 2, answer
    assert f"grant that right on {partition} to" in plain(answer.stderr)
    assert ".hudi_ops_tmp" not in answer.stderr


def test_an_output_may_have_the_longest_name_and_no_longer_one(
    table: Table, home: Path, call: Callable[..., Any]
) -> None:
    longest = home / f"{'x' * 247}.parquet"
    assert call("read", "rides", "--output", longest).code == 0
    output = home / f"x{longest.name}"
    answer = call("read", "rides", "--output", output)
    assert answer.code == 2, answer
    assert f"{output} cannot name a file here" in plain(answer.err)
    assert [file.name for file in home.glob("*.parquet")] == [longest.name]
    assert not list(home.glob(".hudi-ops-*"))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (HEAD + "a,Oslo,1\nb,Rome,oops\n", "line 3: column fare cannot take 'oops'"),
        (HEAD + '"a\nb",Oslo,1\n\nc,Rome,1.2.3\n', "line 5: column fare cannot take '1.2.3'"),
        (HEAD + "a,Oslo,1\nb,Rome\n", "line 3: the line has 2 values"),
        (HEAD + 'a,Oslo,\nb,Rome,""\n', "line 3: column fare cannot take ''"),
        (HEAD + 'a,Oslo,1\nb,Rome, "7"\n', "line 3: column fare cannot take '\"7\"'"),
        (HEAD + f"a,{'x' * 200_000},1\nb,Rome,oops\n", "line 3: column fare cannot take 'oops'"),
    ],
)
def test_a_csv_value_that_does_not_fit_has_a_file_a_line_and_a_column(
    table: Table, home: Path, call: Callable[..., Any], body: str, says: str
) -> None:
    (home / "landing" / "trips.csv").write_text(body)
    answer = call("ingest", "rides", "--source", "landing")
    assert answer.code == 2
    assert f"{home / 'landing' / 'trips.csv'}, {says}" in plain(answer.err)


def test_a_csv_decimal_that_does_not_fit_has_a_line(home: Path) -> None:
    table = Table.create(home / "d", name="d", schema="id string, fare decimal(5, 2)", record_key="id")
    for value in ("12345.678", "1.234", "abc"):
        (home / "d.csv").write_text(f"id,fare\n1,1.50\n2,{value}\n")
        with pytest.raises(InvalidRequest, match=f"line 3: column fare cannot take '{value}'"):
            table.ingest_file(home / "d.csv")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (HEAD.encode() + b"a,Oslo,1\nb,\xff\xfe,2\n", "line 3: column city holds bytes that are not UTF-8"),
        ((HEAD + "a,Oslo,1\n").encode("utf-16"), "line 1: the file is UTF-16"),
    ],
)
def test_a_csv_file_in_another_encoding_is_told(table: Table, home: Path, body: bytes, says: str) -> None:
    (home / "landing" / "trips.csv").write_bytes(body)
    with pytest.raises(InvalidRequest) as caught:
        table.ingest_file(home / "landing" / "trips.csv")
    assert says in plain(str(caught.value))


@pytest.mark.parametrize("below", ["", "trips.csv", "deep/trips.csv"])
def test_a_source_in_a_loop_of_links_is_told_by_its_path(
    table: Table, home: Path, call: Callable[..., Any], below: str
) -> None:
    (home / "ring").symlink_to("ring")
    source = home / "ring" / below if below else home / "ring"
    answer = call("ingest", "rides", "--source", source)
    assert answer.code == 2, answer
    assert f"{source} cannot be opened: its links form a loop" in plain(answer.err)


def test_a_sample_in_a_loop_of_links_is_told_by_its_path(home: Path) -> None:
    (home / "ring.csv").symlink_to("ring.csv")
    with pytest.raises(InvalidRequest, match=r"ring\.csv cannot be opened: its links form a loop"):
        Table.create(home / "t", name="t", schema=home / "ring.csv", record_key="id")
    assert not (home / "t").exists()


@pytest.mark.parametrize("closed", ["landing", "landing/deep", "above"])
@pytest.mark.parametrize("below", ["", "trips.csv"])
def test_a_source_that_may_not_be_entered_is_told_with_the_right(
    table: Table, home: Path, without_rights: Callable[..., Any], closed: str, below: str
) -> None:
    folder = home / closed
    source = folder / "in" if closed == "above" else home / "landing"
    for made in (folder, source):
        made.mkdir(exist_ok=True, parents=True)
    folder.chmod(0)
    if below and closed == "landing/deep":
        source = folder
    answer = without_rights("ingest", "rides", "--source", source / below if below else source)
    folder.chmod(0o755)
    assert answer.returncode == 2, answer
    assert str(folder) in plain(answer.stderr)
    assert "grant that right" in answer.stderr


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_working_folder_that_cannot_be_used_is_told_or_left_alone(
    table: Table, home: Path, is_gone: bool, without_rights: Callable[..., Any]
) -> None:
    work = home / "work"
    work.mkdir()
    close = f"rmdir {work}" if is_gone else f"chmod 000 {work}"
    program = shlex.join([
        *without_rights.bound,
        str(Path(sys.executable).parent / "hudi-ops"),
        "show",
        str(home / "rides"),
    ])
    answer = subprocess.run(
        ["bash", "-c", f"cd {work} && {close} && {program}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert answer.returncode == (2 if is_gone else 0), answer
    assert ("the working folder cannot be used" in answer.stderr) is is_gone


def test_a_checkpoint_file_in_a_read_only_folder_names_the_folder(
    table: Table, home: Path, without_rights: Callable[..., Any]
) -> None:
    (home / "closed").mkdir(mode=0o555)
    answer = without_rights("changes", home / "rides", "--checkpoint-file", home / "closed" / "seen")
    assert answer.returncode == 2, answer
    assert f"{home / 'closed' / 'seen'} could not be written" in plain(answer.stderr)
    assert f"grant that right on {home / 'closed'} to" in answer.stderr


def test_another_definition_is_told_setting_by_setting(table: Table, home: Path) -> None:
    other = SCHEMA.append(pa.field("tip", pa.float64()))
    with pytest.raises(InvalidRequest) as caught:
        Table.create(
            home / "rides", name="rides", schema=other, record_key=["id", "city"], partition_by=["city"], buckets=4
        )
    message = plain(str(caught.value))
    for difference in (
        "record key is id in the table and id,city in this call",
        "buckets is 2 in the table and 4 in this call",
        "column tip is absent in the table and double in this call",
    ):
        assert difference in message
    assert "partition columns" not in message


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            "id string, n int NOT NULL, s struct<a: int, b: array<string>>",
            "column n is int in the table and int NOT NULL in",
        ),
        (
            "id string, s struct<a: int, b: array<string>>, n int",
            "the order of columns is id, n, s in the table and id, s, n in",
        ),
        (
            "id string, n int, s struct<a: bigint>",
            "column s is struct<a: int, b: array<string>> in the table and struct<a: bigint> in this call",
        ),
    ],
)
def test_another_column_is_told_in_the_words_of_create(home: Path, columns: str, says: str) -> None:
    given = {"name": "t", "record_key": "id"}
    Table.create(home / "t", schema="id string, n int, s struct<a: int, b: array<string>>", **given)
    with pytest.raises(InvalidRequest) as caught:
        Table.create(home / "t", schema=columns, **given)
    assert says in plain(str(caught.value))
    assert "hoodie." not in str(caught.value)


def test_a_text_is_one_column_name(home: Path) -> None:
    made = Table.create(home / "one", name="one", schema=SCHEMA, record_key="id", partition_by="city", ordering="fare")
    assert (made.config.record_key_fields, made.config.partition_fields) == (("id",), ("city",))


def test_files_of_unknown_kind_are_named(table: Table, home: Path, call: Callable[..., Any]) -> None:
    (home / "landing" / "trips.csv").write_text(HEAD + "b,Rome,2\n")
    (home / "landing" / "notes.txt").write_text("hello")
    answer = call("ingest", "rides", "--source", "landing")
    assert "1 file skipped: notes.txt (not CSV, JSON lines or Parquet)" in answer.out


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("fare > 3 AND city =", "a value or a column missing after 'fare > 3 AND city ='"),
        ("(fare > 1", "no ) after '(fare > 1'"),
        ("city = 'Oslo", "a text without its closing quote"),
        ("fare = city", "column fare (double) and column city (string) cannot be compared or combined"),
        ("id > 3", "column id (string) and a value of type int cannot be compared or combined"),
        ("id = TIMESTAMP '2026-01-31'", "column id (string) and a value of type timestamp cannot be compared"),
        ("fare > TIMESTAMP 'soon'", "'soon' in the filter is not a timestamp\n"),
        ("fare > TIMESTAMPTZ 'soon'", "'soon' in the filter is not a timestamp\n"),
        (pc.field("nope") > 3, "the table has no column nope"),
    ],
)
def test_a_filter_that_fails_is_explained_in_its_own_words(table: Table, where: Any, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        table.read(where=where)
    assert says in plain(str(caught.value))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("s = 1", "column s (struct<a: int, b: array<string>>) and a value of type int cannot be compared"),
        ("m = 'k'", "column m (map<string, int>) and a value of type string cannot be compared"),
        ("l IN (true)", "column l (array<struct<a: int>>) and a value of type boolean cannot be compared"),
        ("s = m", "column s (struct<a: int, b: array<string>>) and column m (map<string, int>) cannot be compared"),
        ("d > at", "column d (decimal(5, 2)) and column at (timestamp) cannot be compared"),
    ],
)
def test_a_filter_over_nested_columns_is_explained_in_the_words_of_create(home: Path, where: str, says: str) -> None:
    columns = "id string, s struct<a: int, b: array<string>>, m map<string, int>, l array<struct<a: int>>"
    nested = Table.create(
        home / "n", name="n", schema=f"{columns}, d decimal(5, 2), at timestamp NOT NULL", record_key="id"
    )
    with pytest.raises(InvalidRequest) as caught:
        nested.read(where=where)
    message = plain(str(caught.value))
    assert says in message
    assert not re.search(r"int32|int8|decimal128|timestamp\[|list<", message)


def test_an_error_without_a_found_value_says_nothing_of_one(home: Path, call: Callable[..., Any]) -> None:
    answer = call("create", "riders", "--key", "id", "--buckets", "0")
    assert answer.code == 2
    assert "0 buckets" in plain(answer.err)


def test_a_missing_column_is_a_whole_sentence(table: Table) -> None:
    with pytest.raises(InvalidRequest, match=r"^the input has no column city"):
        table.ingest(pa.table({"id": ["q"]}))


def test_an_unknown_metadata_partition_is_called_unknown(table: Table, call: Callable[..., Any]) -> None:
    answer = call("index", "rides", "run", "foo")
    assert "Unknown metadata partition 'foo'" in plain(answer.err)
    assert "one of files, column_stats" in answer.err


def test_an_output_folder_that_is_missing_is_called_missing(table: Table, home: Path, call: Callable[..., Any]) -> None:
    answer = call("read", "rides", "--output", "nodir/x.parquet")
    assert answer.code == 2
    assert f"folder {home / 'nodir'} does not exist" in answer.err


def test_without_a_terminal_the_command_says_how_to_consent(table: Table, call: Callable[..., Any]) -> None:
    answer = call("truncate", "rides")
    assert answer.code == 2
    assert "Not running in a terminal, so it cannot ask" in answer.err
    assert "run it again with --yes" in answer.err


def test_no_help_text_shows_sections_of_a_docstring() -> None:
    def commands(command: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        inner = getattr(command, "commands", None)
        return (
            [path]
            if inner is None
            else [found for name, one in inner.items() for found in commands(one, (*path, name))]
        )

    paths = commands(typer.main.get_command(app), ())
    assert len(paths) > 20
    for path in paths:
        text = CliRunner().invoke(app, [*path, "--help"]).output
        assert [word for word in ("Raises:", "Args:", "Returns:", "Yields:") if word in text] == [], path
