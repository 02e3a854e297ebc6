"""`create` and `ingest`: what is declared, what is given, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.cli.arguments import declared_names, parse_bytes, parse_seconds, split_names
from hudi_ops.errors import InvalidRequest


def like(home: Path, rows: Callable[..., pa.Table]) -> Path:
    pq.write_table(rows("a@Oslo"), home / "like.parquet")
    return home / "like.parquet"


def test_a_declared_table_is_made_as_declared(home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    made = call("create", "trips", "--like", like(home, rows), "--json").json
    assert (made["table"], made["created"], made["buckets"]) == ("trips", True, 2)
    assert (made["record_key"], made["partition_by"], made["ordering"]) == (["id"], ["city"], ["ts"])
    config = Table.open(str(home / "tables" / "trips")).config
    assert (config.record_key_fields, config.partition_fields, config.ordering_fields) == (("id",), ("city",), ("ts",))
    again = call("create", "trips", "--like", home / "like.parquet", "--json").json
    assert again == made | {"created": False}


def test_options_win_over_the_declaration(home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    options = ("--name=rides", "--key=id,city", "--partition-by=ts", "--ordering=fare", "--type=mor", "--buckets=7")
    made = call("create", "trips", *options, "--like", like(home, rows), "--url-encode", "--json").json
    assert made["path"] == str(home / "tables" / "trips")
    assert (made["table"], made["type"], made["buckets"]) == ("rides", "MERGE_ON_READ", 7)
    assert (made["record_key"], made["partition_by"], made["ordering"]) == (["id", "city"], ["ts"], ["fare"])
    assert Table.open(made["path"]).config.url_encode


def test_a_bare_name_is_a_folder_where_nothing_is_declared(
    home: Path, call: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    (home / "tables.yaml").unlink()
    made = call("create", "rides", "--key=id", "--like", like(home, rows), "--json").json
    assert (made["table"], made["path"]) == ("rides", str(home / "rides"))


def test_columns_are_given_as_text(home: Path, call: Callable[..., Any]) -> None:
    made = call("create", "riders", "--columns", "id string, fare double", "--json").json
    types = [(field["name"], field["type"]) for field in made["schema"]]
    assert types == [("id", "string"), ("fare", "double")]


def test_meta_columns_of_the_example_are_left_out(trips: Path, call: Callable[..., Any]) -> None:
    (base, *_) = trips.glob("city=Oslo/*.parquet")
    made = call("create", "riders", "--like", base, "--json").json
    assert made["schema"][0]["name"] == "id"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--like"),
        (("--like", "gone.parquet"), "gone.parquet"),
        (("--like", "tables.yaml"), "tables.yaml"),
        (("--like", "like.parquet", "--key", "nope"), "nope"),
        (("--like", "like.parquet", "--key", "id,,ts"), "--key"),
        (("--like", "like.parquet", "--partition-by", "ts,ts"), "ts"),
        (("--like", "like.parquet", "--type", "mar"), "mar"),
        (("--like", "like.parquet", "--buckets", "0"), "0 buckets"),
        (("--like", "like.parquet", "--name", "a/b"), "a/b"),
        (("--columns", "id strng"), "id strng"),  # codespell:ignore strng
        (("--columns", "id string", "--like", "like.parquet"), "two options"),
    ],
)
def test_a_definition_that_is_no_table_makes_nothing(
    home: Path, call: Callable[..., Any], rows: Callable[..., Any], arguments: tuple[str, ...], says: str
) -> None:
    like(home, rows)
    answer = call("create", "riders", *arguments, "--json")
    assert (answer.code, answer.json["error"]) == (2, "InvalidRequest")
    assert says in answer.json["message"]
    assert not (home / "tables").exists()


def test_another_definition_is_refused(
    trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(trips)
    answer = call("create", "trips", "--key=ts", "--like", home / "landing" / "first.parquet")
    assert answer.code == 2
    assert "already holds a table with another definition" in answer.err
    assert tree(trips) == before


def test_ingest_takes_each_file_once(
    trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    pq.write_table(rows("a@Oslo", "d@Rome", ts=2), home / "landing" / "second.parquet")
    result = call("ingest", "trips", "--json").json
    assert (result["files"], result["rows_in"], result["inserted"], result["updated"]) == (1, 2, 1, 1)
    again = call("ingest", "trips", "--json").json
    assert again["instant"] is None
    assert "nothing new" in again["note"]
    assert "nothing new" in call("ingest", "trips").out
    assert call("read", "trips", "--columns=id,ts", "--where=ts > 1", "--json").json["rows"] == [
        {"id": "a", "ts": 2},
        {"id": "d", "ts": 2},
    ]


def test_new_columns_need_the_flag(trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    more = rows("d@Rome", ts=2).append_column("tip", pa.array([0.5]))
    pq.write_table(more, home / "landing" / "second.parquet")
    refused = call("ingest", "trips")
    assert refused.code == 2
    assert "--evolve" in refused.err
    assert "added tip: double" in call("ingest", "trips", "--evolve").out
    assert call("read", "trips", "--columns=id,tip", "--where=tip > 0", "--json").json["rows"] == [
        {"id": "d", "tip": 0.5}
    ]


def test_a_dry_run_lists_and_changes_nothing(
    trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    pq.write_table(rows("d@Rome"), home / "landing" / "second.parquet")
    (home / "landing" / "_part.csv").touch()
    before = tree(home)
    offer = call("ingest", "trips", "--dry-run", "--json").json
    assert [file["path"] for file in offer["files"]] == ["second.parquet"]
    assert [file["path"] for file in offer["waiting"]] == ["_part.csv"]
    assert "second.parquet" in call("ingest", "trips", "--dry-run").out
    young = call("ingest", "trips", "--dry-run", "--min-age=1h", "--json").json
    assert young["files"] == []
    assert tree(home) == before


def test_a_commit_may_be_bounded(trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    for name in ("b", "c", "d"):
        pq.write_table(rows(f"{name}@Rome"), home / "landing" / f"{name}.parquet")
    offer = call("ingest", "trips", "--dry-run", "--max-files=2", "--json").json
    assert [[file["path"] for file in offer[kind]] for kind in ("files", "left")] == [
        ["b.parquet", "c.parquet"],
        ["d.parquet"],
    ]
    assert "d.parquet" in call("ingest", "trips", "--dry-run", "--max-files=2").out
    first = call("ingest", "trips", "--max-bytes=1kB", "--json").json
    assert (first["files"], first["note"].partition(",")[0]) == (1, "2 files are left for the next run")
    assert call("ingest", "trips", "--json").json["files"] == 2
    assert "--max-bytes" in call("ingest", "trips", "--max-bytes=much").err


def test_sizes_are_written_as_people_write_them() -> None:
    sizes = {"500": 500, "1.5GB": 1_500_000_000, "2 GiB": 1 << 31, "64k": 64_000, "3mib": 3 << 20}
    assert {text: parse_bytes(text, "--max-bytes") for text in sizes} == sizes
    for text in ("", "-1", "0", "GB", "1 PB", "1e9"):
        with pytest.raises(InvalidRequest, match="--max-bytes is not a size"):
            parse_bytes(text, "--max-bytes")


def test_a_source_may_be_given(trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    (home / "other").mkdir()
    pq.write_table(rows("a@Oslo"), home / "other" / "gone.parquet")
    result = call("ingest", "trips", "--source=other", "--operation=delete", "--engine=local", "--json").json
    assert (result["operation"], result["deleted"], result["engine_reason"]) == ("delete", 1, "asked for")


def test_a_table_without_a_source_asks_for_one(home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> None:
    assert call("create", "riders", "--like", like(home, rows)).code == 0
    answer = call("ingest", "riders")
    assert answer.code == 2
    assert "--source" in answer.err


def test_names_are_completed_from_the_declarations(home: Path) -> None:
    assert declared_names("") == ["riders", "trips"]
    assert declared_names("t") == ["trips"]
    (home / "tables.yaml").write_text("tables: [broken")
    assert declared_names("") == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5.0), ("2m", 120.0), ("1h", 3600.0), ("1d", 86400.0), ("7", 7.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--min-age") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-1s", "s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--min-age"):
        parse_seconds(text, "--min-age")


def test_lists_of_names() -> None:
    assert split_names(" a , b", "--key") == ("a", "b")
    assert split_names(None, "--key") is None
    for text in ("", "a,,b", "a,a"):
        with pytest.raises(InvalidRequest, match="--key"):
            split_names(text, "--key")


def test_the_kind_of_a_table_is_declared_or_given(
    home: Path, call: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    (home / "tables.yaml").write_text("""
tables:
  old:
    path: old
    record_key: [id]
    partition_by: [ts]
    version: 8
    key_generator: timestamp
    time: {input: UNIX_TIMESTAMP, output: yyyy/MM}
    hive_style: false
  bare:
    path: bare
    record_key: [id]
    version: 8
    meta_fields: false
""")
    made = call("create", "old", "--like", like(home, rows), "--json").json
    assert (made["version"], made["key_generator"], made["meta_fields"]) == (8, "TIMESTAMP", True)
    assert not Table.open(str(home / "old")).config.hive_style
    assert call("create", "bare", "--like", home / "like.parquet").code == 0
    shown = call("show", "bare", "--json").json
    assert (shown["version"], shown["key_generator"], shown["meta_fields"]) == (8, "NON_PARTITION", False)
    options = ("--key-generator=timestamp", "--time-input=epochmilliseconds", "--time-output=yyyyMM", "--meta-fields")
    other = ("--key=id", "--partition-by=ts", "--table-version=9", "--hive-style", "--no-url-encode")
    made = call("create", "./new", *options, *other, "--like", home / "like.parquet", "--json").json
    assert (made["version"], made["meta_fields"]) == (9, True)
    assert Table.open(str(home / "new")).config.raw["hoodie.keygen.timebased.output.dateformat"] == "yyyyMM"
    for wrong in ("--time-input=WEEKS", "--time-output=EEE", "--key-generator=hashed", "--table-version=7"):
        refused = call("create", "./no", *options, *other, wrong, "--like", home / "like.parquet", "--json")
        assert refused.code in {2, 3}, wrong
        assert wrong.split("=")[1] in refused.err + refused.out
    assert not (home / "no").exists()
