"""`repair-properties`: a person sees both values, says which is right, and it is done once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HIVE = "hoodie.datasource.write.hive_style_partitioning"


@pytest.fixture
def edited(trips: Path) -> Path:
    """`trips`, whose file says another style of partitions than the log."""
    file = trips / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace(f"{HIVE}=true", f"{HIVE}=false"))
    return file


def test_both_values_are_shown_and_the_log_is_put_back(
    edited: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    refused = call("read", "trips", "--json")
    assert (refused.code, refused.json["error"]) == (20, "Corrupt")
    assert "hudi-ops repair-properties" in refused.json["message"]
    assert call("ingest", "trips", "--json").code == 20
    assert call("repair-properties", "trips", "--dry-run", "--json").json["source"] is None
    assert call("repair-properties", "trips", "--dry-run", "--accept-file", "--json").json["source"] == "file"
    told = call("repair-properties", "trips", "--dry-run")
    assert (told.code, told.err) == (0, "")
    assert [word for word in (HIVE, "true", "false") if word not in told.out] == []
    assert tree(home) == before
    done = call("repair-properties", "trips", "--from-log", "--yes", "--json").json
    assert done["differences"] == [{"key": HIVE, "logged": "true", "found": "false"}]
    assert done["slot"] is not None
    assert f"{HIVE}=true" in edited.read_text()
    assert call("read", "trips", "--json").code == 0
    assert "nothing to repair" in call("repair-properties", "trips", "--from-log", "--yes").out
    assert call("verify", "trips", "--deep").code == 0


def test_what_the_file_says_is_recorded(edited: Path, call: Callable[..., Any]) -> None:
    done = call("repair-properties", "trips", "--accept-file", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "the log has the values of hoodie.properties now; slot" in done.out
    assert f"{HIVE}=false" in edited.read_text()
    assert call("read", "trips", "--json").code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "repair-properties of table trips needs --from-log or --accept-file"),
        (("--from-log", "--accept-file"), "--from-log and --accept-file"),
        (("--from-log",), "--yes"),
    ],
)
def test_nothing_is_repaired_without_a_choice_and_consent(
    edited: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any], options: tuple[str, ...], says: str
) -> None:
    before = tree(home)
    answer = call("repair-properties", "trips", *options, "--json")
    assert (answer.code, answer.json["error"]) == (2, "InvalidRequest")
    assert says in answer.json["message"]
    assert tree(home) == before


def test_a_table_type_that_cannot_be_understood_is_repaired(trips: Path, call: Callable[..., Any]) -> None:
    file = trips / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("COPY_ON_WRITE", "COPY_ON_READ"))
    answer = call("read", "trips", "--json")
    assert (answer.code, answer.json["error"]) == (20, "Corrupt")
    assert "hudi-ops repair-properties" in answer.json["message"]
    assert call("repair-properties", "trips", "--from-log", "--yes").code == 0
    assert call("read", "trips", "--json").code == 0


def test_a_table_without_a_commit_log_has_nothing_to_hold_its_properties_against(
    hudi_fixtures: Callable[[str], Path], call: Callable[..., Any]
) -> None:
    answer = call("repair-properties", hudi_fixtures("v9_mor_parquet_log"), "--from-log", "--yes", "--json")
    assert (answer.code, answer.json["error"]) == (2, "InvalidRequest")
    assert "commit log" in answer.json["message"]
