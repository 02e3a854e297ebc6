"""`hudi-ops metadata`: the metadata table of a table, shown and compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import (
    AcceptFutureOption,
    JsonOption,
    TableArgument,
    as_help,
    locate,
    open_table,
    storage_of,
)
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.progress import working

if TYPE_CHECKING:
    from hudi_ops.services.metadata_table.compact import MetadataCompaction

SHOW_HELP = """Describe the metadata table: its partitions, file groups and sizes, and the deltas since its last compaction.

\b
hudi-ops metadata show flights
"""

COMPACT_HELP = """Merge the log files of the metadata table into new base files.

Writes do so by themselves after metadata_compact_after of its deltas (tables.yaml; 10).

\b
hudi-ops metadata compact flights
"""

app = typer.Typer(
    name="metadata",
    help="Show and compact the metadata table; `hudi-ops index` builds and drops its partitions.",
    no_args_is_help=True,
)

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")]


@app.command(help=as_help(SHOW_HELP))
def show(table: TableArgument, as_json: JsonOption = False) -> None:
    """Describe the metadata table."""
    from hudi_ops.metadata.records.partitions import rebuild_command
    from hudi_ops.services.metadata_table.describe import describe_metadata

    location = locate(table)
    with working(f"looking at the metadata table of {location.name}"):
        found = describe_metadata(storage_of(location))
    if as_json:
        write_json({**found.as_dict(), "table": location.name})
        return
    if not found.partitions:
        write(f"{location.name} has no metadata table")
        return
    write_table(
        ["partition", "state", "groups", "base files", "logs to merge", "log size", "size"],
        [
            [
                one.name,
                one.state if one.kept else f"{one.state}, not kept",
                one.file_groups,
                one.base_files,
                one.log_files,
                sized(one.log_bytes),
                sized(one.bytes),
            ]
            for one in found.partitions
        ],
    )
    since = f"compaction {found.last_compaction}" if found.last_compaction else "it began"
    write(f"{location.name}: {counted(found.deltas_since_compaction, 'delta')} since {since}, {sized(found.bytes)}")
    if found.pending:
        write(f"{counted(len(found.pending), 'pending instant')}, the oldest {found.pending[0].instant}")
    if found.behind:
        write(
            f"it lacks {counted(len(found.behind), 'completed write')}, the first {found.behind[0]}: run {rebuild_command()}"
        )


@app.command(help=as_help(COMPACT_HELP))
def compact(
    table: TableArgument,
    dry_run: DryRunOption = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge the log files of the metadata table."""
    location = locate(table)
    with (
        open_table(location, accept_future=accept_future_instants) as opened,
        working(f"compacting the metadata table of {location.name}"),
    ):
        done = opened.metadata.compact(dry_run=dry_run)
    write_json(done.as_dict()) if as_json else write(_compacted_text(done))


def _compacted_text(done: MetadataCompaction) -> str:
    if done.instant is None:
        return f"{done.table}: {done.note}"
    merged = f"{counted(done.log_files, 'log file')} of {counted(done.groups, 'file group')}, {sized(done.bytes_in)}"
    if done.dry_run:
        return f"{done.table}: would merge {merged}"
    cleaned = f"; {counted(done.cleaned, 'older file')} cleaned away" if done.cleaned else ""
    return (
        f"{done.table}: compaction {done.instant} merged {merged}, into {counted(done.records, 'record')}, "
        f"{sized(done.bytes_out)}{cleaned}"
    )
