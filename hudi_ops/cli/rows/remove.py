"""`hudi-ops delete-partition` and `hudi-ops truncate`: remove all rows of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, YesOption, locate, open_table
from hudi_ops.cli.consent import ask
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.progress import working

if TYPE_CHECKING:
    from hudi_ops.services.write.remove import RemovalResult
    from hudi_ops.table.table import Table

DELETE_PARTITION_HELP = """Remove the rows of whole partitions, in one commit.

A PARTITION is a path below the table's root, as `hudi-ops show` and the table's folders have it, or a pattern of such
paths in quotes. Earlier instants still show the rows, and their files stay until they are cleaned. At a terminal you
are asked first; elsewhere --yes is needed.

\b
hudi-ops delete-partition flights origin=JFK/month=1
hudi-ops delete-partition flights 'origin=J*' --dry-run
hudi-ops delete-partition flights origin=JFK origin=LGA --yes
"""

TRUNCATE_HELP = """Remove all rows of a table, in one commit.

The table stays, with its settings, its history, and the record of the source files it has taken: they are not taken
again. Earlier instants still show the rows. At a terminal you are asked first; elsewhere --yes is needed.

\b
hudi-ops truncate flights --dry-run
hudi-ops truncate flights --yes
"""

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say which partitions, file groups and rows would go; change nothing.")
]


def delete_partition(
    table: TableArgument,
    partitions: Annotated[
        list[str], typer.Argument(metavar="PARTITION...", help="Paths such as origin=JFK, or patterns with * and ?.")
    ],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the rows of whole partitions."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened:
        planned = opened.delete_partition(partitions, dry_run=True)
        if not dry_run:
            _ask(planned, yes, as_json)
            # Remove the partitions that the user agreed to; a pattern may match others by now.
            with working(f"removing partitions of {location.name}"):
                planned = opened.delete_partition([one.path for one in planned.partitions])
    _tell(planned, as_json)


def truncate(
    table: TableArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove all rows of a table."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened:
        planned = opened.truncate(dry_run=True)
        if not dry_run:
            _ask(planned, yes, as_json)
            planned = _truncated(opened, location.name)
    _tell(planned, as_json)


def _truncated(table: Table, name: str) -> RemovalResult:
    with working(f"truncating {name}"):
        return table.truncate()


def _ask(planned: RemovalResult, yes: bool, as_json: bool) -> None:
    if not planned.partitions:
        return
    ask(
        planned.operation,
        _amount(planned),
        planned.table,
        yes=yes,
        as_json=as_json,
        show=lambda: _show(planned),
    )


def _tell(result: RemovalResult, as_json: bool) -> None:
    if as_json:
        write_json(result.as_dict())
    elif result.dry_run:
        write(f"{result.table}: {_amount(result)} would be removed")
        _show(result)
    elif result.instant is None:
        write(f"{result.table}: {result.note}")
    else:
        write(
            f"{result.table}: {result.operation} {result.instant} removed {_amount(result)} in {result.seconds:.1f} s"
        )
        for line in result.automatic:
            write(f"  {line}")


def _show(result: RemovalResult) -> None:
    rows: Sequence[Sequence[object]] = [
        (one.path or ".", one.file_groups, "unknown" if one.rows is None else one.rows, sized(one.size_bytes))
        for one in result.partitions
    ]
    write_table(["partition", "file groups", "rows", "size"], rows)


def _amount(result: RemovalResult) -> str:
    rows = "rows that log files hold" if result.rows is None else counted(result.rows, "row")
    where = f"{counted(result.file_groups, 'file group')} of {counted(len(result.partitions), 'partition')}"
    return f"{rows} in {where}, {sized(result.size_bytes)}"
