"""`hudi-ops restore`: return a table to a savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, YesOption, locate, open_table
from hudi_ops.cli.consent import ask
from hudi_ops.cli.output import counted, sized, write, write_json
from hudi_ops.cli.progress import watching

if TYPE_CHECKING:
    from hudi_ops.services.restore.restore import RestoreResult

RESTORE_HELP = """Return a table to a savepoint: undo every write above it.

Rows, columns and the record of taken source files return to those of the savepoint, so an ingestion takes the files of undone
writes again. Plans above it are cancelled; the metadata table is built anew. Writers that are under way are not stopped: the
restore is refused until they have ended. A restore that was interrupted is finished by the same call.

\b
hudi-ops restore flights 20261121101500123 --dry-run
hudi-ops restore flights 20261121101500123 --yes
"""


def restore(
    table: TableArgument,
    savepoint: Annotated[
        str | None, typer.Argument(metavar="[SAVEPOINT]", help="Instant of a savepoint; default: the only one.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be undone; change nothing.")] = False,
    yes: YesOption = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Return a table to a savepoint."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened:
        preview = opened.savepoints.restore(savepoint, dry_run=True)
        if dry_run:
            write_json(preview.as_dict()) if as_json else _tell(preview)
            return
        amount = f"{counted(len(preview.undone), 'write')}, {counted(preview.files, 'file')}"
        ask("restore", amount, location.name, yes=yes, as_json=as_json, show=lambda: _tell(preview), verb="undo")
        with watching(f"restoring {location.name}", as_json=as_json) as tell:
            done = opened.savepoints.restore(savepoint, progress=tell)
    write_json(done.as_dict()) if as_json else _tell(done)


def _tell(result: RestoreResult) -> None:
    """Print what was, or would be, undone."""
    verb = "would undo" if result.dry_run else "undid"
    if not result.undone:
        write(f"{result.table} is at savepoint {result.savepoint}: {result.note or 'nothing to undo'}")
        return
    size = f"{counted(result.files, 'file')}, {sized(result.bytes)}"
    write(f"{result.table}, savepoint {result.savepoint}: {verb} {counted(len(result.undone), 'write')} ({size})")
    for instant in result.undone:
        write(f"  {instant}")
    if result.cancelled:
        write(f"  plans {'to cancel' if result.dry_run else 'cancelled'}: {', '.join(result.cancelled)}")
    if result.rebuilt:
        write(f"  metadata table {'to build anew' if result.dry_run else 'built anew'}: {', '.join(result.rebuilt)}")
    if result.note:
        write(f"  {result.note}")
