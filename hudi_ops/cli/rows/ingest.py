"""`hudi-ops ingest`: the new files of a folder, or one file, into a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, locate, open_table
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted, sized, write, write_json
from hudi_ops.cli.progress import watching
from hudi_ops.config.requests import IngestRequest
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.commit.ledger import Offer
    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.table.table import Table

INGEST_HELP = """Take the new files of a folder, or one file, into a table, each exactly once.

Files are CSV, JSON lines or Parquet. Names that begin with _ or . wait, and so do files younger than --min-age. All
files are taken in one commit, or none is. Running it again takes only what is new. --max-files and --max-bytes bound
what one commit takes, by path; the next run goes on. A file that changed after it was taken stops the run, until
--retake names it: then its rows are upserted again, before those of new files. Rows that it lacks now stay.

\b
hudi-ops ingest flights
hudi-ops ingest flights --source landing --operation upsert --min-age 30s
hudi-ops ingest flights --source landing/flights.csv
hudi-ops ingest flights --source landing --dry-run
hudi-ops ingest flights --source landing --retake 2024/01/flights.csv
"""


@with_options(IngestRequest)
def ingest(
    table: TableArgument,
    *,
    request: IngestRequest,
    drop_metadata_table: Annotated[
        bool, typer.Option("--drop-metadata-table", help="First drop the table's metadata table, as `adopt` does.")
    ] = False,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take the new files of a folder, or one file, into a table."""
    from hudi_ops.services.write.folder import refuse_bounds, refuse_retake
    from hudi_ops.services.write.operations import parse_operation

    # Before anything is read from the table, or dropped from it.
    refuse_bounds(parse_operation(request.operation), request.max_files, request.max_bytes)
    refuse_retake(parse_operation(request.operation), request.retake)
    location = locate(table)
    folder = request.source or _declared_source(location)
    with open_table(location, accept_future=accept_future_instants) as opened:
        if request.dry_run:
            _tell_offer(location, folder, _preview(opened, folder, request), as_json)
            return
        with watching(f"ingesting {folder} into {location.name}", as_json=as_json) as tell:
            if drop_metadata_table:
                opened.adopt(drop_metadata_table=True)
            result = opened.ingest_files(request.model_copy(update={"source": folder}), progress=tell)
    if as_json:
        write_json(result.as_dict())
    else:
        write(_ingest_text(result.as_dict()))


def _declared_source(location: TableLocation) -> str:
    if location.declaration is None or location.declaration.source is None:
        raise InvalidRequest(
            f"no source for table {location.name}", next_step="pass --source, or declare a source in tables.yaml"
        )
    return location.declaration.source


def _preview(table: Table, folder: str, request: IngestRequest) -> Offer:
    """Return what an ingest would take now; raise the errors that it would raise."""
    from hudi_ops.services.base.engine import choose_engine

    if request.engine != "spark":  # asking for Spark starts it
        choose_engine(request.engine, 0, table.context.engine)
    return table.preview_folder(
        folder,
        min_age_s=request.min_age_s,
        max_files=request.max_files,
        max_bytes=request.max_bytes,
        retake=request.retake,
    )


def _tell_offer(location: TableLocation, folder: str, offer: Offer, as_json: bool) -> None:
    size_bytes = sum(info.size_bytes for info in offer.files)
    if as_json:
        write_json({
            "table": location.name,
            "source": folder,
            "dry_run": True,
            "files": [
                {"path": info.path, "size_bytes": info.size_bytes, "retaken": info.path in offer.retaken}
                for info in offer.files
            ],
            "size_bytes": size_bytes,
            "left": [{"path": info.path, "size_bytes": info.size_bytes} for info in offer.left],
            "waiting": [{"path": path, "reason": reason} for path, reason in sorted(offer.waiting.items())],
        })
        return
    write(f"{counted(len(offer.files), 'file')} of {folder} would be taken into {location.name}, {sized(size_bytes)}")
    for info in offer.files:
        again = "  is taken again" if info.path in offer.retaken else ""
        write(f"  {info.path}  {sized(info.size_bytes)}{again}")
    for info in offer.left:
        write(f"  {info.path}  {sized(info.size_bytes)}  is left for the next run")
    for path, reason in sorted(offer.waiting.items()):
        write(f"  {path}  skipped: {reason}")


def _ingest_text(result: dict[str, Any]) -> str:
    if result["instant"] is None:
        return f"{result['table']}: {result['note']}"
    files = f" from {counted(result['files'], 'file')}" if result["files"] else ""
    counts = ", ".join(f"{result[what]:,} {what}" for what in ("inserted", "updated", "deleted", "ignored"))
    if result["logged"]:
        counts += f", {result['logged']:,} to log files"
    ended = [f"cancelled plan {instant}, which works on the same file groups" for instant in result["ended_plans"]]
    notes = [*result["schema_changes"], *([result["note"]] if result["note"] else []), *ended, *result["automatic"]]
    note = "".join(f"\n  {line}" for line in notes)
    replaced = f", {counted(result['replaced'], 'file group')} replaced" if result["replaced"] else ""
    return (
        f"{result['table']}: {result['operation']} {result['instant']} took {counted(result['rows_in'], 'row')}{files}\n"
        f"  {counts}{replaced}\n"
        f"  {counted(result['file_groups'], 'file group')} and {sized(result['bytes_written'])} written in "
        f"{result['seconds']:.1f} s, engine {result['engine']} ({result['engine_reason']}){note}"
    )
