"""`hudi-ops repair`: do what `verify` advises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, YesOption, locate, open_table
from hudi_ops.cli.consent import ask
from hudi_ops.cli.output import counted, write, write_json
from hudi_ops.cli.progress import working

if TYPE_CHECKING:
    from hudi_ops.services.repair.repair import RepairResult

REPAIR_HELP = """Do what `hudi-ops verify` advises, and tell what stays.

FINDING is the name of a finding, such as rollback-orphan; without one, everything that can be repaired is. An instant is cancelled
before a file of it is deleted. What a live process works on stays. A program of Apache Hudi without a heartbeat may be alive:
pass --abandoned once it has surely ended. Exit code 20 if an error stays.

\b
hudi-ops repair flights --dry-run
hudi-ops repair flights rollback-orphan leftover-visible --yes
"""


def repair(
    table: TableArgument,
    findings: Annotated[
        list[str] | None, typer.Argument(metavar="[FINDING]...", help="Names of findings. Default: all.")
    ] = None,
    abandoned: Annotated[
        bool, typer.Option("--abandoned", help="Programs of Apache Hudi without a heartbeat have surely ended.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")] = False,
    yes: YesOption = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Do what `hudi-ops verify` advises, and tell what stays.

    Raises:
        Exit: with 20 if an error stays.
    """
    location, names = locate(table), findings or []
    with open_table(location, accept_future=accept_future_instants) as opened, working(f"repairing {location.name}"):
        preview = opened.repair(*names, abandoned=abandoned, dry_run=True)
    if not dry_run and preview.repairs:
        amount = counted(len(preview.repairs), "finding")
        ask("repair", amount, location.name, yes=yes, as_json=as_json, show=lambda: _tell(preview), verb="repair")
        with (
            open_table(location, accept_future=accept_future_instants) as opened,
            working(f"repairing {location.name}"),
        ):
            preview = opened.repair(*names, abandoned=abandoned)
    write_json(preview.as_dict()) if as_json else _tell(preview)
    if not dry_run and preview.left:
        raise typer.Exit(20)


def _tell(result: RepairResult) -> None:
    if result.note:
        write(f"{result.table}: {result.note}")
    for one in result.repairs:
        state = "repaired" if one.is_done else ("would be repaired" if result.dry_run else "stays")
        write(f"{one.finding} {state}: {one.where}")
        write(f"  {one.note}")
