"""`delete-partition` and `truncate`: what they would remove, whom they ask, and what they say."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops import Table
from tests.unit.cli.terminal import at_terminal

BOTH = [("truncate", "trips"), ("delete-partition", "trips", "city=Oslo")]


def cities(trips: Path) -> list[str]:
    return sorted(Table.open(str(trips)).read(["city"])["city"].to_pylist())


def test_a_dry_run_says_what_would_go_and_changes_nothing(
    trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    told = call("delete-partition", "trips", "city=*", "--dry-run")
    assert (told.code, told.err) == (0, "")
    assert "3 rows in 3 file groups of 2 partitions" in told.out
    lines = [line.split()[:3] for line in told.out.splitlines() if line.startswith("city=")]
    assert [(path, int(rows)) for path, _, rows in lines] == [("city=Oslo", 2), ("city=Rome", 1)]
    plain = call("truncate", "trips", "--dry-run", "--json").json
    assert (plain["operation"], plain["dry_run"], plain["instant"], plain["rows"]) == ("truncate", True, None, 3)
    assert [(one["path"], one["rows"]) for one in plain["partitions"]] == [("city=Oslo", 2), ("city=Rome", 1)]
    assert plain["file_groups"] == sum(one["file_groups"] for one in plain["partitions"])
    assert tree(home) == before


def test_a_partition_is_deleted(trips: Path, call: Callable[..., Any]) -> None:
    done = call("delete-partition", "trips", "city=Oslo", "--yes", "--json").json
    assert (done["operation"], done["rows"], done["dry_run"]) == ("delete_partition", 2, False)
    assert len(done["instant"]) == 17
    assert cities(trips) == ["Rome"]
    told = call("delete-partition", "trips", "city=R*", "-y")
    assert "delete_partition" in told.out
    assert "removed 1 row in 1 file group of 1 partition" in told.out
    assert cities(trips) == []
    last = call("timeline", "trips", "--json").json["instants"][-1]
    assert (last["action"], last["operation"]) == ("replacecommit", "DELETE_PARTITION")


def test_a_table_is_truncated_and_its_files_stay_taken(trips: Path, call: Callable[..., Any]) -> None:
    assert call("truncate", "trips", "--yes").code == 0
    assert cities(trips) == []
    assert call("truncate", "trips", "--yes").out == "trips: nothing to remove\n"
    assert call("ingest", "trips", "--json").json["instant"] is None


def test_operations_of_ingest_replace(
    trips: Path, call: Callable[..., Any], rows: Callable[..., Any], home: Path
) -> None:
    import pyarrow.parquet as pq

    pq.write_table(rows("n@Oslo"), home / "landing" / "second.parquet")
    told = call("ingest", "trips", "--operation=insert_overwrite")
    assert told.code == 0
    assert "file groups replaced" in told.out or "file group replaced" in told.out
    assert cities(trips) == ["Oslo", "Rome"]


@pytest.mark.parametrize("words", BOTH)
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_where_nobody_can_be_asked_yes_is_needed(
    trips: Path,
    home: Path,
    call: Callable[..., Any],
    tree: Callable[..., Any],
    words: tuple[str, ...],
    as_json: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    before = tree(home)
    answer = call(*words, *as_json)
    assert answer.code == 2
    assert "--yes" in answer.out + answer.err
    assert tree(home) == before


@pytest.mark.full("asks at a terminal of its own")
@pytest.mark.parametrize("words", BOTH)
@pytest.mark.parametrize(("says", "code"), [("y", 0), ("n", 12), ("", 12)])
def test_people_at_a_terminal_are_asked(
    trips: Path, home: Path, tree: Callable[..., Any], words: tuple[str, ...], says: str, code: int
) -> None:
    before = tree(home)
    ended, seen = at_terminal(home, f"{says}\n", *words)
    assert ended == code, seen
    assert "city=Oslo" in seen, "what would go is shown before the question"
    assert "[y/N]" in seen
    assert (tree(home) == before) == (code == 12)
    assert ("Oslo" in cities(trips)) == (code == 12)


@pytest.mark.parametrize("words", [("trips", "city=Bonn"), ("trips", "Oslo"), ("riders", "x"), ("trips",)])
def test_wrong_partitions(
    trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any], words: tuple[str, ...]
) -> None:
    before = tree(home)
    answer = call("delete-partition", *words, "--yes", "--json")
    assert (answer.code, answer.json["error"]) == (2, "InvalidRequest")
    if words[0] == "trips" and len(words) > 1:
        assert "city=Oslo, city=Rome" in answer.json["message"]
    assert tree(home) == before


def test_a_caller_that_closed_its_input_is_told_to_pass_yes(
    trips: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    told = call("truncate", "trips")
    assert (told.code, "--yes" in told.err) == (2, True)
    assert cities(trips) == ["Oslo", "Oslo", "Rome"]
