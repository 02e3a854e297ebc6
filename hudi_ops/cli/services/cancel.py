"""`hudi-ops plans` and `hudi-ops cancel`: see the plans of table services, and end them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, locate, open_table, parse_seconds
from hudi_ops.cli.output import counted, write, write_json, write_table
from hudi_ops.cli.progress import working

if TYPE_CHECKING:
    from hudi_ops.services.cancel.plans import PlanRow

PLANS_HELP = """List the pending plans of table services.

Each with its age, who executes it, whether it may be cancelled, and what happens next. --aborted adds the plans that were cancelled
and removed, with the reason.

\b
hudi-ops plans flights
hudi-ops plans flights 20261121101500123
hudi-ops plans flights --aborted --json
"""

CANCEL_HELP = """End a pending plan for good, whether or not a process executes it.

Once the cancel is requested the plan never completes. Its executor stops by itself, and this command waits for it, then removes the
plan and its files. Running it again changes nothing. A plan that is not cancellable, or of another program, needs --force.
A write is undone by `hudi-ops rollback`.

\b
hudi-ops cancel flights 20261121101500123 --dry-run
hudi-ops cancel flights 20261121101500123 --reason 'the cluster is needed elsewhere'
hudi-ops cancel flights 20261121101500123 --request-only
"""

PlanArgument = Annotated[str, typer.Argument(metavar="INSTANT", help="Request time of the plan, 17 digits.")]


def plans(
    table: TableArgument,
    instant: Annotated[
        str | None, typer.Argument(metavar="[INSTANT]", help="Only this plan, in any state.", show_default=False)
    ] = None,
    aborted: Annotated[bool, typer.Option("--aborted", help="Also plans that were cancelled and removed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the pending plans of table services."""
    location = locate(table)
    with open_table(location) as opened:
        found = opened.plans(instant, aborted=aborted)
    if as_json:
        write_json({"table": location.name, "plans": [row.as_dict() for row in found]})
    elif not found:
        write(f"{location.name}: no pending plan")
    else:
        head = ["instant", "action", "state", "age", "groups", "cancel", "executor", "why", "next"]
        write_table(head, list(map(_row, found)))


def _row(row: PlanRow) -> list[object]:
    executor = f"{row.executor} (epoch {row.epoch})" if row.executor else ""
    why = f"{row.reason} ({row.cancelled_by})" if row.cancelled_by else ""
    groups = row.groups if row.groups is not None else ""
    return [row.instant, row.action, row.state, _age(row.age_s), groups, row.policy, executor, why, row.next]


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def cancel(
    table: TableArgument,
    instant: PlanArgument,
    reason: Annotated[str, typer.Option("--reason", help="One sentence; shown to the executor and in the list.")] = (
        "requested by a user"
    ),
    request_only: Annotated[
        bool, typer.Option("--request-only", help="Decide the cancel; leave the removal to others.")
    ] = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="Wait so long for a living executor to stop.")
    ] = "30s",
    force: Annotated[
        bool, typer.Option("--force", help="Also a plan that was not made as cancellable, or by another program.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the call; change nothing.")] = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """End a pending plan for good."""
    wait_s = parse_seconds(wait, "--wait")
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened, working(f"cancelling {instant}"):
        done = opened.cancel(instant, reason, force=force, request_only=request_only, dry_run=dry_run, wait_s=wait_s)
    if as_json:
        write_json(done.as_dict())
        return
    said = {"aborted": "is cancelled and removed", "cancelled": "is cancelled", "cancellable": "would be cancelled"}
    files = f", {counted(done.files, 'file')} deleted" if done.files else ""
    note = f"; {done.note}" if done.note else ""
    write(f"{done.table}: {done.action or 'plan'} {done.instant} {said[done.state]}{files}{note}")
