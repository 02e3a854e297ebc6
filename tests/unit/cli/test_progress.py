"""Long work shows its progress: a bar on a terminal, lines in pipes and logs, none of them for short work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.cli.progress import watching
from hudi_ops.engine.progress import Progress, ProgressLines
from hudi_ops.verify import verify_table
from tests.unit.cli.terminal import at_terminal


@pytest.mark.full("asks at a terminal of its own")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("ingest", "trips"), ("source files 1 of 1", "file groups", "100%")),
        (("read", "trips", "--output", "rows.parquet"), ("file groups 3 of 3", "100%")),
        (("verify", "trips"), ("base files 3 of 3", "100%", "kB")),
        (("index", "trips", "run", "column_stats", "--rebuild"), ("files 3 of 3", "100%")),
    ],
)
def test_a_terminal_shows_what_is_done_of_the_total(
    trips: Path, home: Path, rows: Callable[..., Any], command: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    if command[0] == "ingest":
        pq.write_table(rows("d@Oslo"), home / "landing" / "second.parquet")
    code, seen = at_terminal(home, "", *command)
    assert code == 0, seen
    assert all(part in seen for part in shown), seen
    code, seen = at_terminal(home, "", *command, "--json")
    assert "%" not in seen


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pipe_gets_lines(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    with watching("compacting trips", as_json=as_json) as tell:
        lines = getattr(tell, "__self__", None)
        assert isinstance(lines, ProgressLines)
        tell(Progress("file slices", 1, 4))
        assert lines.line().startswith("compacting trips: file slices 1 of 4, ")
    assert capsys.readouterr() == ("", ""), "short work says nothing"


def test_short_work_shows_nothing_in_a_pipe(trips: Path, program: Callable[..., Any]) -> None:
    answer = program("read", "trips", "--output", "rows.parquet")
    assert (answer.code, answer.err) == (0, "")


def test_the_last_call_has_all_units_and_bytes(trips: Path, home: Path, rows: Callable[..., Any]) -> None:
    table, told = Table.open(trips), list[Progress]()
    for batch in table.scan().to_batches(told.append):
        assert batch.num_rows
    assert (told[-1].done, told[-1].bytes_done) == (told[-1].total, told[-1].bytes_in)
    told.clear()
    verify_table(table.context.storage, progress=told.append)
    assert [told[-1].what, told[-1].done] == ["base files", told[-1].total]
    live = [file.size_bytes for file in table.context.storage.list() if file.path.endswith(".parquet")]
    assert told[-1].bytes_done == told[-1].bytes_in == sum(live) > 0
