"""`read`, `timeline`, `show` and `verify`, over our own table and over every table that Apache Hudi wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_ops.cli.output import plain, plain_rows, to_json
from tests.unit.metadata.made_metadata import say_index


def test_rows_as_one_object(trips: Path, call: Callable[..., Any]) -> None:
    answer = call("read", "trips", "--where=id = 'a'", "--json").json
    assert answer["columns"] == ["id", "city", "ts", "fare", "day", "paid", "token", "tags"]
    (row,) = answer["rows"]
    assert (row["day"], row["paid"], row["token"], row["tags"]) == ("1970-01-01", None, "AP8=", {"a": 1})


def test_rows_in_a_pipe_are_json_lines(trips: Path, call: Callable[..., Any]) -> None:
    lines = [json.loads(line) for line in call("read", "trips", "--columns=city,id").out.splitlines()]
    assert lines == [{"city": "Oslo", "id": "a"}, {"city": "Oslo", "id": "b"}, {"city": "Rome", "id": "c"}]
    assert len(call("read", "trips", "--limit=2").out.splitlines()) == 2
    assert call("read", "trips", "--limit=0").out == ""


def test_meta_columns_come_when_asked_for(trips: Path, call: Callable[..., Any]) -> None:
    assert "_hoodie_commit_time" not in call("read", "trips", "--json").json["columns"]
    assert call("read", "trips", "--meta", "--json").json["columns"][0] == "_hoodie_commit_time"
    assert call("read", "trips", "--columns=_hoodie_record_key", "--limit=1").out == '{"_hoodie_record_key": "a"}\n'


def test_the_past_is_read(trips: Path, call: Callable[..., Any]) -> None:
    first, second = (row["time"] for row in call("timeline", "trips", "--json").json["instants"])
    assert call("read", "trips", f"--as-of={first}", "--json").json["rows"] == []
    assert len(call("read", "trips", f"--as-of={second}", "--json").json["rows"]) == 3


def test_rows_go_to_a_file(trips: Path, home: Path, call: Callable[..., Any]) -> None:
    said = call("read", "trips", "--output=out.parquet", "--columns=id", "--json").json
    assert (said["row_count"], said["columns"]) == (3, ["id"])
    assert pq.read_table(home / "out.parquet").column("id").to_pylist() == ["a", "b", "c"]
    assert "3 rows of trips written to out.parquet" in call("read", "trips", "--output=out.parquet").out
    assert sorted(path.name for path in home.glob("*out*")) == ["out.parquet"]


@pytest.mark.parametrize(
    "output", ["out.csv", "gone/out.parquet", "tables/trips/out.parquet", "tables/trips/city=Oslo/x.parquet"]
)
def test_an_output_that_cannot_be_is_refused(
    trips: Path, call: Callable[..., Any], tree: Callable[..., Any], output: str
) -> None:
    before = tree(trips)
    answer = call("read", "trips", "--output", output)
    assert answer.code == 2
    assert output in answer.err
    assert tree(trips) == before


def test_what_would_be_read_is_explained(trips: Path, call: Callable[..., Any]) -> None:
    said = call("read", "trips", "--where=city = 'Rome'", "--explain", "--json").json
    assert (said["table"], said["partitions_read"], said["partitions_skipped"], said["rows_at_most"]) == (
        "trips",
        1,
        1,
        1,
    )
    assert "partitions  1 read, 1 skipped" in call("read", "trips", "--where=city = 'Rome'", "--explain").out


def test_an_error_amid_the_rows_stands_on_the_last_line(trips: Path, call: Callable[..., Any]) -> None:
    (base, *_) = trips.glob("city=Rome/*.parquet")
    base.write_bytes(b"PAR1 but nothing else PAR1")
    answer = call("read", "trips", "--json")
    assert answer.code == 20
    assert json.loads(answer.out.splitlines()[-1])["error"] == "Corrupt"
    assert call("read", "trips", "--output=out.parquet").code == 20
    assert list(trips.parent.parent.glob("*out*")) == []


def test_timeline_and_show_of_our_table(trips: Path, call: Callable[..., Any]) -> None:
    rows = call("timeline", "trips", "--limit=1", "--json").json["instants"]
    assert [(row["action"], row["state"], row["inserted"]) for row in rows] == [("commit", "completed", 3)]
    assert rows[0]["time"] in call("timeline", "trips").out
    facts = call("show", "trips", "--json").json
    assert (facts["name"], facts["rows"], facts["buckets"], facts["writable"]) == ("trips", 3, 2, True)
    assert "merge_mode" in call("show", "trips").out


def test_a_whole_table_is_verified(trips: Path, call: Callable[..., Any]) -> None:
    for deep in ((), ("--deep",)):
        answer = call("verify", "trips", *deep, "--json")
        assert (answer.code, answer.json["ok"]) == (0, True), answer
    assert "whole" in call("verify", "trips").out


def test_a_damaged_table_ends_with_20(trips: Path, call: Callable[..., Any]) -> None:
    (base, *_) = trips.glob("city=Oslo/*.parquet")
    base.unlink()
    answer = call("verify", "trips", "--json")
    assert (answer.code, answer.json["ok"]) == (20, False)
    assert base.name in answer.out
    told = call("verify", "trips")
    assert told.code == 20
    assert base.name in told.out


@pytest.mark.parametrize(
    "command", [("timeline",), ("timeline", "--archived"), ("show",), ("verify",), ("verify", "--deep")]
)
def test_every_table_of_apache_hudi_can_be_looked_at(
    call: Callable[..., Any],
    hudi_fixtures: Callable[[str], Path],
    hudi_fixture_names: list[str],
    tree: Callable[..., Any],
    command: tuple[str, ...],
) -> None:
    for name in hudi_fixture_names:
        table = hudi_fixtures(name)
        before = tree(table)
        answer = call(command[0], table, *command[1:], "--json")
        assert answer.code == 0, (name, answer)
        assert answer.json
        assert call(command[0], table, *command[1:]).code == 0
        assert tree(table) == before


def test_values_that_json_has_no_word_for() -> None:
    from datetime import UTC, date, datetime, time
    from decimal import Decimal

    assert plain(datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC)) == "2020-01-02T03:04:05.000006+00:00"
    assert plain([date(2020, 1, 2), time(3, 4), Decimal("1.50")]) == ["2020-01-02", "03:04:00", "1.50"]
    assert plain({"a": b"\x00\xff", "b": (float("nan"), float("inf"), -float("inf"))}) == {
        "a": "AP8=",
        "b": ["NaN", "Infinity", "-Infinity"],
    }
    assert to_json({"text": "ø\n"}) == '{"text": "\\u00f8\\n"}'


def test_times_beyond_the_years_of_python_are_shown() -> None:
    import pyarrow as pa

    days = pa.array([-719_163, 0, None, 2_932_897], pa.date32())
    times = pa.array([-62_135_596_800_000_001, 0, None, 253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    rows = list(plain_rows([pa.record_batch({"day": days, "at": times})]))
    assert [row["day"] for row in rows] == ["0000-12-31", "1970-01-01", None, "10000-01-01"]
    assert [row["at"] for row in rows] == [
        "0000-12-31T23:59:59.999999",
        "1970-01-01T00:00:00+00:00",
        None,
        "10000-01-01T00:00:00.000000",
    ]


def test_which_index_left_something_out_is_explained(
    hudi_fixtures: Callable[[str], Path], home: Path, call: Callable[..., Any]
) -> None:
    table = str(shutil.copytree(hudi_fixtures("v9_record_index_bloom_filters"), home / "indexed"))
    asked = ("read", table, "--where=id = 'nobody'", "--explain", "--listing=metadata")
    assert "not used    record_index: nothing says that all writers find keys by it" in call(*asked).out
    say_index(Path(table), "record_index")
    said = call(*asked, "--json").json
    assert (said["listing"], said["partitions_skipped_by_record_index"], said["files_read"]) == ("metadata", 2, 0)
    assert "partitions  0 read, 2 skipped (2 by record_index)" in call(*asked).out
    assert "listing     by the metadata table" in call(*asked).out
    said = call(*asked[:-1], "--listing=storage", "--json").json
    assert (said["listing"], said["partitions_read"], said["partitions_skipped"]) == ("storage", 2, 0)


def test_a_listing_that_is_not_there_is_refused(trips: Path, call: Callable[..., Any]) -> None:
    assert call("index", "trips", "drop", "--yes").code == 0
    assert (call("read", "trips", "--listing=folders").code, call("read", "trips", "--listing=metadata").code) == (2, 3)


@pytest.mark.parametrize(
    "option",
    [
        ["--where=id = 1"],
        ["--output=x.parquet"],
        ["--explain"],
        ["--limit=0"],
        ["--listing=storage"],
        ["--meta-columns"],
    ],
)
def test_a_comparison_of_listings_reads_no_rows(trips: Path, call: Callable[..., Any], option: list[str]) -> None:
    refused = call("read", "trips", "--check-listing", *option, "--json")
    assert refused.code == 2
    assert option[0].partition("=")[0] in refused.json["found"]


def test_listings_are_compared(hudi_fixtures: Callable[[str], Path], home: Path, call: Callable[..., Any]) -> None:
    shutil.copytree(hudi_fixtures("v9_record_index_bloom_filters"), home / "copied")
    same = call("read", "./copied", "--check-listing", "--json")
    assert (same.code, same.json["is_same"], same.json["files"]) == (0, True, 2)
    assert "2 files the same by the metadata table and on storage" in call("read", "./copied", "--check-listing").out
    newest = max((home / "copied").glob("p=b/*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    newest.unlink()
    other = call("read", "./copied", "--check-listing")
    assert other.code == 20
    assert f"not on storage: p=b/{newest.name}" in other.out
