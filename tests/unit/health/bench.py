"""Judge a table by one check, and run the commands that it advises through the command line's own parser."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_ops.cli.main import main
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.check import TABLE, Check, Facts, Judgement, NotHere
from hudi_ops.health.look import Look
from hudi_ops.table.table import Table
from hudi_ops.testing.faults import FaultyStorage

UNCHANGED_CALLS = 6
"""Storage calls of a verdict on an unchanged table, at most."""


def made(path: Path, rounds: int = 1, **definition: Any) -> str:
    """The path of a new table with some commits."""
    given = {"record_key": ["id"], "schema": "id string, p string, v int64", "table_type": "mor", **definition}
    table = Table.create(path, name="t", **given)
    for version in range(rounds):
        table.ingest(pa.table({"id": ["a", "b", "c"], "p": ["x", "x", "y"], "v": [version] * 3}))
    return str(path)


def watched(path: str) -> tuple[Table, FaultyStorage]:
    """The table of a path in a process of its own, and its storage, which has the calls."""
    ctx = Table.open(path).context
    storage = FaultyStorage(ctx.storage)
    return Table(replace(ctx, storage=storage)), storage


def looked(path: str | os.PathLike[str], now_ms: int | None = None, **options: Any) -> Look:
    """One look at the table of a path, by a process that has not opened it before."""
    return Look.at(Table.open(path, **options)._session, now_ms=now_ms)


def facts_of(path: str | os.PathLike[str], check: Check, **options: Any) -> Facts:
    """The facts of a check that the table has."""
    found = check.measure(looked(path, **options))
    assert not isinstance(found, NotHere), found.why
    return found


def judged(
    path: str | os.PathLike[str],
    check: Check,
    targets: HealthTargets | None = None,
    now_ms: int | None = None,
    **options: Any,
) -> Judgement:
    """What a check says about the table of a path, by default now and by the default targets."""
    look = looked(path, now_ms, **options)
    found = check.measure(look)
    assert not isinstance(found, NotHere), found.why
    return check.judge(found, getattr(targets or HealthTargets(), check.name), look.now_ms)


def value_of(judgement: Judgement, name: str) -> float | None:
    """The value of a measure."""
    return next(one.value for one in judgement.measures if one.name == name)


def mend(path: str | os.PathLike[str], judgement: Judgement) -> None:
    """Run the advised commands on the table of a path; each succeeds."""
    assert judgement.commands, "no command is advised"
    for words in judgement.commands:
        code = main([str(path) if word == TABLE else word for word in words])
        assert code == 0, f"{' '.join(words)} ended with {code}"
