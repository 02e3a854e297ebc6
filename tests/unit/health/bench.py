"""Judge a table by one check, and run the commands that it advises through the command line's own parser."""

from __future__ import annotations

import os
from typing import Any

from hudi_ops.cli.main import main
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.check import TABLE, Check, Facts, Judgement, NotHere
from hudi_ops.health.look import Look
from hudi_ops.table.table import Table


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
