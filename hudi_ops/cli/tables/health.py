"""`hudi-ops health`: which table is in trouble, why, and the command that mends it."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import JsonOption, asked_tables, parse_limit
from hudi_ops.cli.output import counted, write, write_json
from hudi_ops.cli.progress import watching
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.health.verdict import CheckVerdict, HealthVerdict, MeasureSaid

HEALTH_HELP = """Judge whether tables are well kept: what readers merge, small files, old files, plans, dead writers, indexes.

Each check compares what it measures with its target, and names the command that mends it. Targets are those of tables.yaml (key
targets, of all tables or of one) or the defaults. Nothing is changed. `hudi-ops verify` checks whether a table is whole.

Ends with 0 if all targets are met, 4 if one is missed, 13 if storage does not answer, 20 if a table is damaged; with several tables
the gravest counts. With --previous, the output of an earlier --json, an unchanged table is not measured anew, and `since` goes
on.

\b
hudi-ops health flights
hudi-ops health --all
hudi-ops health flights /data/trips --json
"""

WIDTH = 100
"""Columns of the text."""


def health(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Names of tables.yaml, or folders.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All tables of tables.yaml.")] = False,
    previous: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output of an earlier call with --json.", show_default=False)
    ] = None,
    limit: Annotated[
        str, typer.Option(metavar="DURATION", help="After this time, such as 30s or 2m, a table counts as unreachable.")
    ] = "120s",
    as_json: JsonOption = False,
) -> None:
    """Judge whether tables are well kept.

    Raises:
        InvalidRequest: neither tables nor --all, both, or a file that is no earlier output.
        Exit: with the gravest code of the tables, if it is not 0.
    """
    from hudi_ops.health.many import health_of_tables
    from hudi_ops.health.verdict import HealthReport, gravest

    names, limit_s = asked_tables(tables or [], "health", every=every), parse_limit(limit)
    earlier = _earlier(previous) if previous is not None else {}
    with watching(f"judging {counted(len(names), 'table')}", as_json=as_json):
        found = health_of_tables(names, previous=earlier, limit_s=limit_s)
    code = gravest(one.exit_code for one in found)
    if as_json:
        write_json(HealthReport(exit_code=code, tables=tuple(found)).model_dump(mode="json"))
    else:
        for line in _lines(found):
            write(line)
    if code:
        raise typer.Exit(code)


def _earlier(file: Path) -> Mapping[str, Any]:
    """Return the verdicts of an earlier output by the tables' names.

    Raises:
        InvalidRequest: the file cannot be read, or is no such output.
    """
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return {one["table"]: one for one in said["tables"]}
    except OSError as error:
        raise InvalidRequest(
            f"{file} cannot be read: {error.strerror}",
            expected="output of `hudi-ops health --json`",
            next_step="correct the path, or leave --previous out",
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidRequest(
            f"{file} is no output of `hudi-ops health --json`",
            expected="one JSON object with tables",
            found=f"{type(error).__name__}: {error}"[:100],
            next_step="leave --previous out",
        ) from None


def _lines(found: Sequence[HealthVerdict]) -> Iterator[str]:
    """Yield the text: of several tables only what is wrong, of one table all checks."""
    for verdict in found:
        yield from _of_table(verdict, every=len(found) == 1)
    if len(found) > 1:
        ill = sum(one.exit_code != 0 for one in found)
        yield f"{counted(len(found), 'table')}: {len(found) - ill:,} healthy, {ill:,} not"


def _of_table(verdict: HealthVerdict, *, every: bool) -> Iterator[str]:
    if verdict.error is not None:
        first, *rest = str(verdict.error.get("message", "")).splitlines()
        since = f" since {verdict.since}" if verdict.since not in {None, verdict.at} else ""
        yield from _wrapped(f"{verdict.table}: cannot be judged{since}: {first}", "  ")
        for line in rest:
            yield from _wrapped(f"  {line.strip()}", "    ")
        return
    wrong = [one for one in verdict.checks if one.status in {"missed", "unknown"}]
    judged = sum(one.status in {"healthy", "missed", "unknown"} for one in verdict.checks)
    said = f"{', '.join(one.check for one in wrong)} of {judged} checks" if wrong else f"{judged} checks"
    yield from _wrapped(f"{verdict.table}: {verdict.status}, {said}", "  ")
    if verdict.note:
        yield from _wrapped(f"  {verdict.note}", "    ")
    for one in verdict.checks:
        if every or one in wrong:
            yield from _of_check(one, verdict.at)


def _of_check(one: CheckVerdict, at: str) -> Iterator[str]:
    name = one.check.ljust(15)
    if one.status in {"off", "not_applicable"}:
        status = one.status.replace("_", " ")
        yield from _wrapped(f"  {name} {status}{': ' + one.note if one.note else ''}", " " * 18)
        return
    values = ", ".join(map(_of_measure, one.measures))
    # The first verdict that sees it knows of no earlier time.
    since = f", since {one.since}" if one.since not in {None, at} else ""
    yield from _wrapped(f"  {name} {one.status}{since}{': ' if values else ''}{values}", " " * 18)
    if one.status == "healthy":
        return
    details = [f"{said.kind} {said.name}{': ' + said.detail if said.detail else ''}" for said in one.evidence[:3]]
    more = [f"and {len(one.evidence) - 3} more, see --json"] if len(one.evidence) > 3 else []
    error = [str(one.error["message"])] if one.error is not None else []
    for text in [*error, *details, *more, *([one.note] if one.note else [])]:
        yield from _wrapped(f"{' ' * 18}{' '.join(text.split())}", " " * 20)
    for command, times in Counter(one.commands).items():
        yield from _command(command)
        if times > 1:
            yield f"{' ' * 20}(run it {times} times: each run executes one plan)"


def _of_measure(one: MeasureSaid) -> str:
    from hudi_ops.health.verdict import said_value

    if one.value is None:
        return f"{one.name} -"
    value, target = said_value(one.value, one.unit), one.target
    return f"{one.name} {value}" + (f" (target {said_value(target, one.unit)})" if target is not None else "")


def _wrapped(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _command(text: str) -> Iterator[str]:
    """Yield a command such that a shell takes the lines as they are: no word is split."""
    line = " " * 18
    for word in map(shlex.quote, shlex.split(text)):
        if line.strip() and len(line) + len(word) + 3 > WIDTH:
            yield f"{line.rstrip()} \\"
            line = " " * 20
        line += f"{word} "
    yield line.rstrip()
