"""`hudi-ops changes`: rows that changed since a checkpoint, for jobs that resume."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import JsonOption, MetaColumnsOption, TableArgument, locate, open_table, split_names
from hudi_ops.cli.output import (
    counted,
    is_terminal,
    plain_rows,
    write,
    write_json,
    write_json_with_rows,
    write_lines,
)
from hudi_ops.cli.progress import watching
from hudi_ops.cli.rows.row_files import check_output, read_checkpoint, write_checkpoint, write_parquet
from hudi_ops.cli.tables.inspect import TERMINAL_ROWS, ColumnsOption, OutputOption, WhereOption, tell_shown
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.read.changes import Changes

CHANGES_HELP = """Print the rows that changed since a checkpoint, or write them to a Parquet file.

These are the rows of the writes that completed after --since, each in its newest state, by the time at which a write
completed: one that began early and finishes late is not passed over. Rows that a write only carried over do not come, and
neither do deleted rows; --json counts those.

With --checkpoint-file, the file says where to begin, and where the next call begins once all rows are out. When something
fails in between, the next call gives the same rows again: each change at least once. A file that does not exist yet means
the earliest; `hudi-ops read --checkpoint-file` writes one together with all rows.

With --fence, nothing comes from beyond the earliest write that may still complete, so that rows also come in the order in
which their writes began; it waits for the slowest writer.

\b
hudi-ops changes trips --since 2026-11-21T10:15:00 --columns id,fare
hudi-ops changes trips --checkpoint-file trips.checkpoint --output new.parquet
hudi-ops changes trips --since earliest --until 20261121101500123 --json
"""


def changes(
    table: TableArgument,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="A checkpoint, a completion time of 17 digits, an ISO time, or earliest."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The same, as the end, which counts. Default: all that completed."),
    ] = None,
    fence: Annotated[
        bool, typer.Option("--fence", help="Stop before the earliest write that may still complete.")
    ] = False,
    columns: ColumnsOption = None,
    where: WhereOption = None,
    limit: Annotated[
        int | None, typer.Option(help="Return at most this many rows; then there is no checkpoint.")
    ] = None,
    output: OutputOption = None,
    meta_columns: MetaColumnsOption = False,
    checkpoint_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Begin where this file says, and write the end to it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the rows that changed since a checkpoint, or write them to a Parquet file.

    Raises:
        InvalidRequest: a wrong column, filter, beginning, end or output, or options that exclude each other.
    """
    location = locate(table)
    wanted = split_names(columns, "--columns")
    if output is not None:
        check_output(output, location)
    begin = _beginning(since, limit, checkpoint_file)
    with open_table(location) as opened:
        with watching(f"reading changes of {location.name}", as_json=as_json) as tell:
            found = opened.changes(
                begin, until, columns=wanted, where=where, limit=limit, fence=fence, meta_columns=meta_columns
            )
            written = write_parquet(found, output, tell) if output is not None else 0
        facts = {
            "table": location.name,
            "columns": found.schema.names,
            "since": found.since,
            "checkpoint": found.checkpoint if limit is None else None,
            "instants": [one.as_dict() for one in found.instants],
        }
        if output is not None:
            said = f"{counted(written, 'row')} of {_writes(found)} to {location.name} written to {output}"
            write_json({**facts, "output": str(output), "row_count": written}) if as_json else write(said)
        elif as_json:
            write_json_with_rows(facts, plain_rows(found.to_batches()))
        elif is_terminal() and checkpoint_file is None and limit is None:
            _show(found)
        else:
            write_lines(plain_rows(found.to_batches()))
        if checkpoint_file is not None:
            write_checkpoint(checkpoint_file, found.checkpoint, output)


def _beginning(since: str | None, limit: int | None, checkpoint_file: Path | None) -> str | None:
    if checkpoint_file is None:
        return since
    if limit is not None:
        raise InvalidRequest(
            "--limit cuts rows off, and --checkpoint-file would go on after them",
            expected="one of the two",
            found="both",
            next_step="leave one out; --where and --columns reduce what is read",
        )
    kept = read_checkpoint(checkpoint_file)
    if since is not None and kept is not None:
        raise InvalidRequest(
            f"--since and {checkpoint_file} both say where to begin",
            expected="one of the two",
            found=f"{since} and {kept}",
            next_step="leave --since out, or name a new file",
        )
    return kept or since


def _show(found: Changes) -> None:
    shown = list(islice(plain_rows(found.to_batches()), TERMINAL_ROWS))
    tell_shown(found.schema.names, shown, found.count_rows() - len(shown))
    write(f"from {_writes(found)}; checkpoint {found.checkpoint}")


def _writes(found: Changes) -> str:
    return counted(len(found.instants), "write")
