"""`hudi-ops metadata`: the metadata table of a table, shown, built, dropped and compacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import (
    AcceptFutureOption,
    JsonOption,
    TableArgument,
    YesOption,
    as_help,
    locate,
    open_table,
    storage_of,
)
from hudi_ops.cli.consent import ask
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted, sized, working, write, write_json, write_table
from hudi_ops.cli.progress import watching
from hudi_ops.config.requests import IndexRequest

if TYPE_CHECKING:
    from hudi_ops.services.indexing.drop import DropResult
    from hudi_ops.services.indexing.result import IndexResult
    from hudi_ops.services.indexing.run import BuildResult
    from hudi_ops.services.metadata_table.compact import MetadataCompaction
    from hudi_ops.table.table import Table

SHOW_HELP = """Describe the metadata table: its partitions, file groups and sizes, and the deltas since its last compaction.

\b
hudi-ops metadata show flights
"""

BUILD_HELP = """Build partitions of the metadata table. Others may write all the while.

PARTITIONS are files, column_stats, partition_stats, bloom_filters and record_index; none: the first three, as Apache Hudi's
tables have by default. Existing partitions stay as they are. Running it again after a failure builds the missing ones.

With --rebuild, existing partitions are dropped and built anew, because they are damaged or behind; without names, all. Until the
build has ended, readers do without them, and a table whose index is the record index takes no rows.

\b
hudi-ops metadata build flights
hudi-ops metadata build flights record_index bloom_filters
hudi-ops metadata build flights record_index --rebuild
hudi-ops metadata build /data/trips --dry-run --json
"""

DROP_HELP = """Drop the metadata table, or the named partitions of it; readers do without them from then on.

Expression indexes, which are not kept, are dropped by their names, so that the table can be written. Apache Hudi's default
writers build files, column_stats and partition_stats again. At a terminal you are asked first; elsewhere --yes is needed.

\b
hudi-ops metadata drop flights --yes
hudi-ops metadata drop flights secondary_index_rider --dry-run
"""

COMPACT_HELP = """Merge the log files of the metadata table into new base files.

Writes do so by themselves after metadata_compact_after of its deltas (tables.yaml; 10).

\b
hudi-ops metadata compact flights
"""

app = typer.Typer(
    name="metadata",
    help="Show, build, drop and compact the metadata table: a listing of files, statistics, bloom filters, record index.",
    no_args_is_help=True,
)

NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="PARTITIONS", help="Names of its partitions.", show_default=False)
]
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
    if found.behind:
        write(
            f"it lacks {counted(len(found.behind), 'completed write')}, the first {found.behind[0]}: run {rebuild_command()}"
        )


@app.command(help=as_help(BUILD_HELP))
@with_options(IndexRequest, "partitions", "instant", "abandoned", "resume")
def build(
    table: TableArgument,
    partitions: NamesArgument = None,
    *,
    request: IndexRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build partitions of the metadata table."""
    location = locate(table)
    with (
        open_table(location, accept_future=accept_future_instants) as opened,
        watching(f"building the metadata table of {location.name}", as_json=as_json) as tell,
    ):
        done = opened.metadata.build(request, partitions=partitions or None, progress=tell)
    write_json(done.as_dict()) if as_json else write(built_text(done))


@app.command(help=as_help(DROP_HELP))
def drop(
    table: TableArgument,
    partitions: NamesArgument = None,
    dry_run: DryRunOption = False,
    accept_future_instants: AcceptFutureOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Drop the metadata table, or partitions of it."""
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened:
        drop_partitions(opened, location.name, partitions or None, dry_run=dry_run, yes=yes, as_json=as_json)


def drop_partitions(
    opened: Table, name: str, partitions: Sequence[str] | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Drop partitions of the metadata table, after asking, and print the result."""
    done = opened.indexing.drop(partitions, dry_run=True)
    if not dry_run:
        if done.dropped or done.files:
            ask("metadata drop", _dropped_amount(done), done.table, yes=yes, as_json=as_json)
        with working(f"dropping from the metadata table of {name}"):
            done = opened.indexing.drop(partitions)
    write_json(done.as_dict()) if as_json else write(_dropped_text(done))


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


def built_text(done: BuildResult) -> str:
    """Return the text of a build."""
    if not done.partitions:
        return f"{done.table}: {done.note}"
    said = "would be built" if done.dry_run else f"built at {done.instant}"
    lines = [
        f"{done.table}: {', '.join(done.partitions)} {said}, of {counted(done.files, 'file')}, {sized(done.bytes_in)}"
    ]
    if done.again:
        lines.append(f"  dropped {'before' if done.dry_run else 'first'}, to be built anew: {', '.join(done.again)}")
    if not done.dry_run:
        lines += [
            f"  {name}: {counted(done.records[name], 'record')} in {counted(groups, 'file group')}"
            for name, groups in done.groups.items()
        ]
        if done.doubled_keys:
            doubled = counted(done.doubled_keys, "record key")
            lines.append(f"  {doubled} in more than one file group: reads do not ask the index where a key lies")
        beside = f", {counted(done.rounds, 'round')} for what completed meanwhile" if done.rounds else ""
        lines.append(f"  {done.seconds:.1f} s, engine {done.engine} ({done.engine_reason}){beside}")
        lines += pace_lines(done)
    return "\n".join(lines)


def pace_lines(done: BuildResult | IndexResult) -> list[str]:
    """Return what catch-up did, how fast, and what it waited for."""
    from hudi_ops.timeline.builds.checkpoint import pace_words  # loads Arrow, which `--help` does not need

    said = [f"{count} {verdict}" for verdict, count in sorted(done.verdicts.items())]
    if said or done.waited_for:
        said += pace_words(done.catch_up_per_s, done.ingest_per_s, None)
    lines = [f"  since the announcement: {', '.join(said)}"] if said else []
    return lines + [f"  {note}" for note in done.waited_for]


def _dropped_text(done: DropResult) -> str:
    if done.note:
        return f"{done.table}: {done.note}"
    said = "would be dropped" if done.dry_run else "dropped"
    left = f"; {', '.join(done.left)} stays" if done.left else ""
    ended = f"; the build {', '.join(done.ended_builds)} was cancelled" if done.ended_builds else ""
    return f"{done.table}: {_dropped_amount(done)} {said}{ended}{left}"


def _dropped_amount(done: DropResult) -> str:
    names = ", ".join(done.dropped) or "what an earlier call left"
    return f"{names} ({counted(done.files, 'file')}, {sized(done.bytes)})"


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
