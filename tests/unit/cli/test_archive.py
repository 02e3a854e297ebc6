"""`hudi-ops archive`: what it prints, as text and as JSON, and which calls are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops import Table

KEEPS = ("--keep-min", "1", "--keep-max", "1")


def test_a_dry_run_and_explain_change_nothing_and_the_run_archives(
    call: Callable[..., Any], trips: Path, rows: Callable[..., pa.Table]
) -> None:
    for _ in range(3):
        Table.open(str(trips)).ingest(rows("a@Oslo"))
    kept = call("archive", str(trips), *KEEPS)
    assert "the metadata table was never compacted" in kept.out
    Table.open(str(trips)).metadata.compact()
    files = sorted(path.name for path in (trips / ".hoodie/timeline").iterdir())
    dry = call("archive", str(trips), *KEEPS, "--dry-run")
    explained = call("archive", str(trips), "explain", *KEEPS)
    assert sorted(path.name for path in (trips / ".hoodie/timeline").iterdir()) == files
    assert "would be archived" in dry.out
    assert "why it stays" in explained.out
    done = call("archive", str(trips), *KEEPS, "--json")
    result = done.json
    assert (result["table"], result["dry_run"], result["batches"]) == ("trips", False, 1)
    assert f"{result['instants']} instants would be archived" in dry.out
    assert (trips / ".hoodie/timeline/history/_version_").read_text() == "1"


def test_numbers_that_contradict_each_other_are_a_wrong_call(call: Callable[..., Any], trips: Path) -> None:
    for options, says in (
        (("--keep-min", "0"), "--keep-min is below 1"),
        (("--keep-min", "9", "--keep-max", "5"), "keep_max is 5"),
    ):
        wrong = call("archive", str(trips), *options)
        assert wrong.code == 2
        assert says in wrong.err
