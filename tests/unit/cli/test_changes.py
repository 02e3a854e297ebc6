"""`hudi-ops changes`: rows to wherever, and a checkpoint file that moves on only once they are out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_ops.cli.rows import changes


def ids(answer: Any) -> list[str]:
    return [json.loads(line)["id"] for line in answer.out.splitlines()]


@pytest.fixture
def more(trips: Path, home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> Callable[..., None]:
    """Writes further rows."""

    def deliver(*names: str) -> None:
        number = len(list((home / "landing").iterdir()))
        pq.write_table(rows(*names, ts=2), home / "landing" / f"{number}.parquet")
        assert call("ingest", "trips").code == 0

    return deliver


def test_a_checkpoint_file_moves_on(
    trips: Path, home: Path, call: Callable[..., Any], more: Callable[..., None]
) -> None:
    def poll() -> list[str]:
        return ids(call("changes", "trips", "--columns=id", "--checkpoint-file=at"))

    assert [poll(), poll()] == [["a", "b", "c"], []]
    more("a@Oslo", "d@Rome")
    assert [poll(), poll()] == [["a", "d"], []]
    assert [path.name for path in home.glob("*at*")] == ["at"]
    assert (home / "at").read_text().count("\n") == 1


def test_a_read_begins_a_checkpoint_file(trips: Path, call: Callable[..., Any], more: Callable[..., None]) -> None:
    assert len(ids(call("read", "trips", "--checkpoint-file=at"))) == 3
    more("b@Oslo")
    assert ids(call("changes", "trips", "--checkpoint-file=at")) == ["b"]
    assert call("read", "trips", "--checkpoint-file=at", "--limit=1").code == 2
    assert ids(call("changes", "trips", "--checkpoint-file=at")) == []


def test_it_stays_when_the_rows_do_not_come_out(
    trips: Path, home: Path, call: Callable[..., Any], more: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    call("changes", "trips", "--checkpoint-file=at")
    more("d@Rome")
    before = (home / "at").read_text()
    with monkeypatch.context() as patched:
        patched.setattr(changes, "write_parquet", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        assert call("changes", "trips", "--checkpoint-file=at", "--output=new.parquet").code != 0
    assert (home / "at").read_text() == before
    answer = call("changes", "trips", "--checkpoint-file=at", "--output=new.parquet")
    assert (answer.out, pq.read_table(home / "new.parquet")["id"].to_pylist()) == (
        "1 row of 1 write to trips written to new.parquet\n",
        ["d"],
    )
    assert (home / "at").read_text() != before


def test_as_one_object(trips: Path, call: Callable[..., Any], more: Callable[..., None]) -> None:
    first = call("changes", "trips", "--json", "--columns=id").json
    assert ([row["id"] for row in first["rows"]], len(first["instants"])) == (["a", "b", "c"], 2)
    more("c@Rome")
    second = call("changes", "trips", "--json", f"--since={first['checkpoint']}", "--meta").json
    assert (second["since"], second["columns"][0]) == (first["instants"][-1]["completion_time"], "_hoodie_commit_time")
    assert [row["id"] for row in second["rows"]] == ["c"]
    (write,) = second["instants"]
    assert (write["updated"], write["operation"]) == (1, "UPSERT")
    bounded = call("changes", "trips", "--json", f"--until={first['checkpoint']}", "--fence", "--where=id > 'a'").json
    assert [row["id"] for row in bounded["rows"]] == ["b", "c"]
    written = call("changes", "trips", "--json", "--output=all.parquet").json
    assert (written["row_count"], written["output"], written["checkpoint"]) == (3, "all.parquet", second["checkpoint"])
    assert call("changes", "trips", "--json", "--limit=1").json["checkpoint"] is None


def test_on_a_terminal(trips: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "is_terminal", lambda: True)
    monkeypatch.setattr(changes, "TERMINAL_ROWS", 2)
    lines = call("changes", "trips", "--columns=id").out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["id", "a", "b"]
    assert lines[3].startswith("… and 1 more row; ")
    assert lines[4].startswith("from 2 writes; checkpoint hudi-ops-changes:")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--checkpoint-file=at", "--limit=1"), "--limit cuts rows off"),
        (("--checkpoint-file=at", "--since=2026-01-01"), "both say where to begin"),
        (("--checkpoint-file=gone/at",), "gone does not exist"),
        (("--checkpoint-file=landing",), "cannot be read"),
        (("--checkpoint-file=tables.yaml",), "is not an instant"),
        (("--since=yesterday",), "is not an instant"),
        (("--columns=nope",), "no column nope"),
    ],
)
def test_a_wrong_call_changes_nothing(
    trips: Path, home: Path, call: Callable[..., Any], options: tuple[str, ...], said: str
) -> None:
    call("changes", "trips", "--checkpoint-file=at")
    before = (home / "at").read_bytes()
    answer = call("changes", "trips", *options)
    assert (answer.code, said in answer.err, (home / "at").read_bytes()) == (2, True, before), answer.err
