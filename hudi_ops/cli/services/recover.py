"""`hudi-ops recover` and `hudi-ops rollback`: clean up after dead writers."""

from __future__ import annotations

from typing import Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, locate, open_table
from hudi_ops.cli.output import counted, write, write_json, write_table
from hudi_ops.cli.progress import working

RECOVER_HELP = """Finish what was decided, and clear away what dead writers left.

Each write does the same first, but for one point: recover alone deletes the files that a killed drop of the metadata table,
or of its indexes, left. Live writers are left alone, and so are pending writes without a heartbeat; each is named, with the
reason.

Apache Hudi finishes a rollback that it began. Where its writers fail over it, pass --abandoned once they have
surely ended: the rollback is finished, and their next write succeeds.

\b
hudi-ops recover flights
hudi-ops recover flights --abandoned
"""

ROLLBACK_HELP = """Undo one pending write whose writer is gone.

INSTANT is its request time, as `hudi-ops timeline` has it. A write whose heartbeat is young is refused, and so is a
completed one. A single writer of Apache Hudi makes no heartbeat: pass --abandoned once it has surely ended. If it has
begun a rollback of the write, that is finished. The plan of a table service is refused: `hudi-ops cancel` ends it, also while it
is executed. Only a clean that no process began is removed here.

\b
hudi-ops rollback flights 20261121101500123 --dry-run
hudi-ops rollback flights 20261121101500123
"""


def recover(
    table: TableArgument,
    abandoned: Annotated[
        bool,
        typer.Option(
            "--abandoned", help="Finish Apache Hudi's pending rollbacks, too: its programs have surely ended."
        ),
    ] = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Finish what was decided, and clear away what dead writers left."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened, working(f"recovering {location.name}"):
        result = opened.recover(abandoned=abandoned)
    if as_json:
        write_json(result.as_dict())
        return
    for one in result.rolled_back:
        write(f"{result.table}: rolled back {one.instant} {one.action} ({counted(len(one.files), 'file')})")
    for left in result.left:
        write(f"{result.table}: {left.instant} {left.action} ({left.state}) stays: {left.reason}")
    if result.metadata_files:
        write(f"{result.table}: deleted {counted(result.metadata_files, 'file')} of a dropped metadata table")
    if not result.rolled_back and not result.left and not result.metadata_files:
        write(f"{result.table}: nothing to recover")


def rollback(
    table: TableArgument,
    instant: Annotated[str, typer.Argument(metavar="INSTANT", help="Request time of the pending write, 17 digits.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted; change nothing.")] = False,
    abandoned: Annotated[
        bool, typer.Option("--abandoned", help="Its writer has surely ended, though no heartbeat tells.")
    ] = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Undo one pending write whose writer is gone."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened, working(f"rolling back {instant}"):
        result = opened.rollback(instant, abandoned=abandoned, dry_run=dry_run)
    if as_json:
        write_json(result.as_dict())
    elif result.note:
        write(f"{result.table}: {instant}: {result.note}")
    else:
        done = "would be rolled back" if dry_run else f"rolled back by {result.rollback}"
        write(
            f"{result.table}: {result.action} {instant} of {result.owner} {done}, {counted(len(result.files), 'file')}"
        )
        if dry_run and result.files:
            write_table(["file"], [[path] for path in result.files])
