"""`hudi-ops read`, `timeline`, `show` and `verify`: commands that change nothing."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import (
    JsonOption,
    MetaColumnsOption,
    TableArgument,
    locate,
    open_table,
    split_names,
    storage_of,
)
from hudi_ops.cli.output import (
    counted,
    is_terminal,
    plain_rows,
    sized,
    write,
    write_facts,
    write_json,
    write_json_with_rows,
    write_lines,
    write_table,
)
from hudi_ops.cli.progress import watching, working
from hudi_ops.cli.rows.row_files import check_output, write_checkpoint, write_parquet
from hudi_ops.errors import Corrupt, InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.config.tables_file import TableLocation

TERMINAL_ROWS = 20

_ABOUT_ROWS = (
    "--columns",
    "--where",
    "--as-of",
    "--limit",
    "--output",
    "--checkpoint-file",
    "--query",
    "--listing",
    "--meta-columns",
    "--explain",
)
_LESS_TELLING = ("completion_time", "bytes_written", "slot", "archived")

ColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="Columns to read, in this order, separated by commas. Default: all."),
]
WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="A condition, for example: origin = 'JFK' AND month IN (1, 2)")
]
AsOfOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="An instant or an ISO time: read the table as it was then.")
]
QueryOption = Annotated[
    str,
    typer.Option(
        metavar="QUERY",
        help="snapshot: all rows in their newest state; read_optimized: of base files alone, without what lies in log files.",
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option(metavar="FILE.parquet", help="Write the rows to this file instead of printing them.")
]


class ListingName(enum.StrEnum):
    """Source of the list of files."""

    AUTO = "auto"
    STORAGE = "storage"
    METADATA = "metadata"


ListingOption = Annotated[
    ListingName,
    typer.Option(
        help="Who says which files there are. metadata: the metadata table; storage: folders are listed, and no index is "
        "looked at; auto: the metadata table, where there is one that has every completed write.",
    ),
]
CheckListingOption = Annotated[
    bool,
    typer.Option(
        "--check-listing", help="Compare the metadata table's listing with that of storage, and read no rows."
    ),
]
CheckpointFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Once all rows are out, write where `hudi-ops changes` goes on to this file."),
]

READ_HELP = """Print rows of a table, or write them to a Parquet file. Rows are streamed: a table may be larger than memory.

On a terminal, the first 20 rows as a table. In a pipe, all rows as JSON lines. With --json, one object with columns
and rows, in which dates, times and decimals are text and bytes are base64. Hudi's meta columns come with --meta-columns, or
when --columns names them.

With --explain, what would be read is printed instead: partitions, file groups, files and row groups that --where leaves out, and
which index of the metadata table left them out.

With --check-listing, the files that readers see are listed by the metadata table and on storage, and compared; no row is read. Ends
with 20 when they differ.

\b
hudi-ops read flights --columns carrier,arr_delay --where "arr_delay > 60"
hudi-ops read flights --as-of 2026-11-21T10:15:00 --limit 5 --json
hudi-ops read flights --output flights.parquet
hudi-ops read flights --where "origin = 'JFK'" --explain
hudi-ops read flights --check-listing
"""

TIMELINE_HELP = """List the instants of a table, the newest last.

\b
hudi-ops timeline flights --limit 10
hudi-ops timeline /data/trips --archived --json
"""

SHOW_HELP = """Describe a table: its settings, columns, files and what waits on it.

\b
hudi-ops show flights
hudi-ops show /data/trips --json
"""

VERIFY_HELP = """Check that a table is whole. Ends with 20 when something is broken.

The timeline, the commit log, the files that completed instants name, their footers, and the keys of a sample of them are
looked at; with --deep, the keys of all of them. With --index, every partition of the metadata table is compared with the files:
with all that readers see, or with about --sample of them. Nothing is changed.

\b
hudi-ops verify flights
hudi-ops verify /data/trips --deep --json
hudi-ops verify flights --index --sample 100
"""


def read(
    table: TableArgument,
    columns: ColumnsOption = None,
    where: WhereOption = None,
    as_of: AsOfOption = None,
    query: QueryOption = "snapshot",
    limit: Annotated[int | None, typer.Option(help="Return at most this many rows. Default on a terminal: 20.")] = None,
    output: OutputOption = None,
    meta_columns: MetaColumnsOption = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print which files would be read and which are pruned, and no rows.")
    ] = False,
    listing: ListingOption = ListingName.AUTO,
    check_listing: CheckListingOption = False,
    checkpoint_file: CheckpointFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print rows of a table, or write them to a Parquet file.

    Raises:
        InvalidRequest: an unknown column, instant or query, a filter that does not parse, no such output, or options about rows
            beside --check-listing.
        Exit: with 20, if `--check-listing` finds differences.
    """
    location = locate(table)
    if check_listing:
        is_other = query != "snapshot", listing is not ListingName.AUTO, meta_columns, explain
        _refuse_beside_check(columns, where, as_of, limit, output, checkpoint_file, *is_other)
        _compare_listings(location, as_json)
        return
    wanted = split_names(columns, "--columns")
    if output is not None:
        check_output(output, location)
    is_shown = output is None and not as_json and not explain and checkpoint_file is None and is_terminal()
    most = TERMINAL_ROWS if limit is None and is_shown else limit
    with open_table(location) as opened:
        with watching(f"reading {location.name}", as_json=as_json) as tell:
            scan = opened.scan(wanted, where, as_of, most, query=query, listing=listing, meta_columns=meta_columns)
            # Taken before the rows are read, so that writes that complete during the read come after the checkpoint.
            checkpoint = scan.checkpoint if checkpoint_file is not None else None
            shown = scan.to_arrow() if is_shown else None
            more = 0
            if is_shown and most is not None:
                more = max(
                    0,
                    opened.scan(scan.schema.names[:1], where, as_of, query=query, listing=listing).count_rows() - most,
                )
            read = scan.explain() if explain else None
            written = write_parquet(scan, output, tell) if output is not None and read is None else 0
        names = scan.schema.names
        if read is not None:
            write_json({"table": location.name, **read.as_dict()}) if as_json else write(str(read))
        elif output is not None:
            _tell_written(location.name, output, names, written, as_json)
        elif as_json:
            write_json_with_rows({"table": location.name, "columns": names}, plain_rows(scan.to_batches()))
        elif shown is not None:
            tell_shown(names, plain_rows(shown.to_batches()), more)
        else:
            write_lines(plain_rows(scan.to_batches()))
        if checkpoint_file is not None and checkpoint is not None and not explain:
            write_checkpoint(checkpoint_file, checkpoint, output)


def _refuse_beside_check(*given: object) -> None:
    """Refuse options about rows beside `--check-listing`, which reads none.

    Args:
        given: for each of `_ABOUT_ROWS` its value, or whether it was given; None and False where not.

    Raises:
        InvalidRequest: one of them was given.
    """
    pairs = zip(_ABOUT_ROWS, given, strict=True)
    said = [option for option, value in pairs if value is not None and value is not False]
    if said:
        raise InvalidRequest(
            "--check-listing compares listings of the whole table as it is now, and reads no rows",
            expected="--check-listing alone, or with --json",
            found=f"--check-listing with {', '.join(said)}",
            next_step="use two calls, one for each",
        )


def _compare_listings(location: TableLocation, as_json: bool) -> None:
    """Compare both listings of a table, and print the result.

    Raises:
        Exit: with 20, if the listings differ.
    """
    from hudi_ops.verify.data.listing import check_listing

    with working(f"listing {location.name}"):
        found = check_listing(storage_of(location))
    write_json({"table": location.name, **found.as_dict()}) if as_json else write(f"{location.name}: {found}")
    if not found.is_same:
        raise typer.Exit(Corrupt.exit_code)


def _tell_written(table: str, output: Path, names: list[str], rows: int, as_json: bool) -> None:
    facts = {"table": table, "output": str(output), "columns": names, "row_count": rows}
    said = f"{counted(rows, 'row')} of {table} written to {output}, {sized(output.stat().st_size)}"
    write_json(facts) if as_json else write(said)


def tell_shown(names: list[str], rows: Iterable[Mapping[str, Any]], more: int) -> None:
    """Print rows as a table, and the number of those that are not shown."""
    write_table(names, [list(row.values()) for row in rows])
    if more > 0:
        write(f"… and {counted(more, 'more row')}; --limit shows more, --output writes all of them to a file")


def timeline(
    table: TableArgument,
    limit: Annotated[int | None, typer.Option(help="Only this many instants, the newest.", min=0)] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Also instants that were archived.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the instants of a table."""
    from hudi_ops.services.inspect.summary import describe_timeline

    location = locate(table)
    with working(f"reading the timeline of {location.name}"):
        rows = [row.as_dict() for row in describe_timeline(storage_of(location), archived=archived, limit=limit)]
    if as_json:
        write_json({"table": location.name, "instants": rows})
    elif rows:
        _write_rows(rows)
    else:
        write(f"{location.name} has no instants")


def show(table: TableArgument, as_json: JsonOption = False) -> None:
    """Describe a table."""
    from hudi_ops.config.definition import OpenOptions
    from hudi_ops.services.inspect.summary import describe_table

    location = locate(table)
    with working(f"looking at {location.name}"):
        options = OpenOptions(**location.options())
        facts = describe_table(storage_of(location), options.upkeep).as_dict()
    if as_json:
        write_json(facts)
        return
    lists = {name: facts.pop(name) for name in ("columns", "last_instants", "pending_instants")}
    write_facts(facts)
    for name, rows in lists.items():
        if rows:
            write(f"\n{name.replace('_', ' ')}")
            _write_rows(rows)


def verify(
    table: TableArgument,
    deep: Annotated[bool, typer.Option("--deep", help="Read the keys of all files, and compare them.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Compare the metadata table with the files.")] = False,
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="For --index: open about this many files. Default: all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a table is whole.

    Raises:
        InvalidRequest: --sample without --index.
        Exit: with 20, when it is not.
    """
    from hudi_ops.config.definition import OpenOptions
    from hudi_ops.verify import verify_table

    if sample is not None and not index:
        raise InvalidRequest("--sample is for --index", expected="--index --sample N", found="--sample alone")
    location = locate(table)
    with watching(f"verifying {location.name}", as_json=as_json) as tell:
        upkeep = OpenOptions(**location.options()).upkeep
        report = verify_table(storage_of(location), deep=deep, index=index, sample=sample, upkeep=upkeep, progress=tell)
    if as_json:
        write_json({"table": location.name, **report.as_dict()})
    else:
        for finding in report.findings:
            write(str(finding))
        write(f"{location.name}: {'whole' if report.ok else 'damaged'}, {counted(len(report.findings), 'finding')}")
    if not report.ok:
        raise typer.Exit(Corrupt.exit_code)


def _write_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table.

    Empty columns are left out; less important ones come last, since terminals cut lines off.
    """
    names = [name for name in rows[0] if any(row[name] not in (None, "", [], {}, (), False) for row in rows)]
    names.sort(key=lambda name: name in _LESS_TELLING)
    write_table(names, [[row[name] for name in names] for row in rows])
