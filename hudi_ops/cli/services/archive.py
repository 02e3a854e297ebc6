"""`hudi-ops archive`: move old instants into the history, or explain why they stay."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, locate, open_table
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted, write, write_json, write_table
from hudi_ops.cli.planned import tell_measures
from hudi_ops.cli.progress import working
from hudi_ops.config.requests import ArchiveRequest

if TYPE_CHECKING:
    from hudi_ops.services.archive.result import ArchiveResult

ARCHIVE_HELP = """Move old instants from the timeline into the history.

MODE run (the default) archives down to --keep-min completed writes, once there are more than --keep-max. explain says of each
instant why it stays. Reads give the same rows before and after; readers and writers list fewer files.

Instants stay while a pending write, a savepoint, a hold, the last clean, files that are not cleaned yet, or the metadata table
needs them. --dry-run shows what would leave.

\b
hudi-ops archive flights
hudi-ops archive flights --keep-min 5 --keep-max 10
hudi-ops archive flights --dry-run
hudi-ops archive flights explain
"""


class Mode(enum.StrEnum):
    """Modes of `hudi-ops archive`."""

    RUN = "run"
    EXPLAIN = "explain"


@with_options(ArchiveRequest)
def archive(
    table: TableArgument,
    mode: Annotated[Mode, typer.Argument(metavar="[MODE]", help="run or explain.")] = Mode.RUN,
    *,
    request: ArchiveRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move old instants into the history."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened, working(f"archiving {location.name}"):
        api = opened.archive
        done = api.explain(request) if mode is Mode.EXPLAIN else api.run(request)
    if as_json:
        write_json(done.as_dict())
        return
    write(_text(done))
    tell_measures(done)
    if mode is Mode.EXPLAIN:
        write_table(
            ["instant", "action", "why it stays"], [[one.instant, one.action, one.why] for one in done.verdicts]
        )


def _text(done: ArchiveResult) -> str:
    did = "would be archived" if done.dry_run else "archived"
    first = f"{counted(done.instants, 'instant')} {did}" + (f", up to {done.boundary}" if done.boundary else "")
    lines = [f"{done.table}: {first}" + (f": {done.note}" if done.note else "")]
    removed = [
        counted(number, what)
        for number, what in (
            (done.ledgers, "ledger"),
            (done.payloads, "payload"),
            (done.metadata_instants, "instant of the metadata table"),
        )
        if number
    ]
    if done.aborted:
        lines.append(f"  {counted(done.aborted, 'aborted plan')} {did}")
    if removed:
        lines.append(f"  removed: {', '.join(removed)}")
    if done.stopped_by:
        lines.append(f"  {counted(done.kept, 'instant')} left; the oldest: {done.stopped_by}")
    return "\n".join(lines)
