"""`hudi-ops savepoint` and `hudi-ops hold`: keep instants of a table readable."""

from __future__ import annotations

from typing import Annotated

import typer

from hudi_ops.cli.arguments import (
    AcceptFutureOption,
    JsonOption,
    TableArgument,
    as_help,
    locate,
    open_table,
    parse_seconds,
)
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.progress import working
from hudi_ops.clock import iso_of_ms

app = typer.Typer(
    name="savepoint",
    help="Protect a completed write: cleans keep its files, archiving keeps its instant.",
    no_args_is_help=True,
)
holds = typer.Typer(name="hold", help="Keep an instant readable for a consumer, until a time.", no_args_is_help=True)

CREATE_HELP = """Protect a completed write, by default the newest.

Cleans keep every file that a read as of INSTANT needs, archiving stops before it, and the table can be restored to it, until the
savepoint is deleted. Apache Hudi honours it, too. Refused if a clean removed or will remove one of the files.

\b
hudi-ops savepoint create flights
hudi-ops savepoint create flights 20261121101500123 --comment 'before the new feed'
"""

DELETE_HELP = """Delete a savepoint, also one that Apache Hudi made.

The write stays; later cleans may remove its old files.

\b
hudi-ops savepoint delete flights 20261121101500123
"""

HOLD_HELP = """Keep reads as of INSTANT, or later, possible for a time.

Cleans of hudi-ops keep the files meanwhile; Apache Hudi's cleaner does not know holds. Prints the id, with which the hold is
released. A savepoint has no end; use it where Apache Hudi cleans the table.

\b
hudi-ops hold create flights 20261121101500123 --for 2h --purpose 'nightly export'
"""

InstantArgument = Annotated[
    str, typer.Argument(metavar="INSTANT", help="Request time of a completed write, 17 digits.")
]


@app.command(name="create", help=as_help(CREATE_HELP))
def create_savepoint(
    table: TableArgument,
    instant: Annotated[
        str | None, typer.Argument(metavar="[INSTANT]", help="Request time of a completed write; default: the newest.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="Stored with the savepoint.")] = "",
    user: Annotated[str, typer.Option("--user", help="Who asks for it; stored with the savepoint.")] = "",
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Protect a completed write."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened, working(f"saving {location.name}"):
        made = opened.savepoints.create(instant, comments=comment, user=user)
    if as_json:
        write_json(made.as_dict())
        return
    size = f", {sized(made.bytes)}" if made.bytes is not None else ""
    write(f"{made.table}: savepoint {made.instant} {made.note}: {counted(made.files, 'file')}{size}")


@app.command(name="list")
def list_savepoints(table: TableArgument, as_json: JsonOption = False) -> None:
    """List the savepoints, those of Apache Hudi included."""
    with open_table(locate(table)) as opened:
        found = opened.savepoints.list()
    if as_json:
        write_json({"savepoints": [one.as_dict() for one in found]})
    elif not found:
        write("no savepoint")
    else:
        rows = [[one.instant, one.completion_time, one.files, one.user, one.comments] for one in found]
        write_table(["instant", "made", "files", "by", "comment"], rows)


@app.command(name="delete", help=as_help(DELETE_HELP))
def delete_savepoint(
    table: TableArgument,
    instant: InstantArgument,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a savepoint."""
    with open_table(locate(table), accept_future=accept_future_instants) as opened:
        gone = opened.savepoints.delete(instant)
    if as_json:
        write_json(gone.as_dict())
    else:
        write(
            f"{gone.table}: savepoint {gone.instant} deleted; later cleans may remove its {counted(gone.files, 'file')}"
        )


@holds.command(name="create", help=as_help(HOLD_HELP))
def create_hold(
    table: TableArgument,
    instant: InstantArgument,
    lasts: Annotated[str, typer.Option("--for", help="How long, for example 30m, 2h or 7d.")] = "1h",
    owner: Annotated[str, typer.Option("--owner", help="Who holds it; default: this process.")] = "",
    purpose: Annotated[str, typer.Option("--purpose", help="Shown wherever the hold keeps something.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Keep an instant readable for a time."""
    seconds = parse_seconds(lasts, "--for")
    with open_table(locate(table)) as opened:
        hold = opened.holds.take(instant, seconds=seconds, owner=owner, purpose=purpose)
    if as_json:
        write_json({"id": hold.id, "instant": hold.instant, "until": iso_of_ms(hold.until_ms), "owner": hold.owner})
    else:
        write(f"hold {hold.id} keeps {hold.instant} readable until {iso_of_ms(hold.until_ms)}")


@holds.command(name="list")
def list_holds(table: TableArgument, as_json: JsonOption = False) -> None:
    """List the holds, expired ones included."""
    with open_table(locate(table)) as opened:
        found = opened.holds.list()
    rows = [[one.id, one.instant, iso_of_ms(one.until_ms), one.owner, one.purpose] for one in found]
    if as_json:
        names = ("id", "instant", "until", "owner", "purpose")
        write_json({"holds": [dict(zip(names, row, strict=True)) for row in rows]})
    elif not rows:
        write("no hold")
    else:
        write_table(["id", "instant", "until", "owner", "purpose"], rows)


@holds.command(name="release")
def release(
    table: TableArgument,
    hold_id: Annotated[str, typer.Argument(metavar="ID", help="As `hudi-ops hold list` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Delete a hold."""
    with open_table(locate(table)) as opened:
        was_there = opened.holds.release(hold_id)
    if as_json:
        write_json({"id": hold_id, "released": was_there})
    else:
        write(f"hold {hold_id} released" if was_there else f"there was no hold {hold_id}")
