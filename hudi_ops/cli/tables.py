"""`hudi-ops create` and `hudi-ops ingest`: the commands that change a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import (
    JsonOption,
    TableArgument,
    locate,
    locate_new,
    open_table,
    parse_bytes,
    parse_seconds,
    split_names,
)
from hudi_ops.cli.output import counted, sized, working, write, write_json, write_table
from hudi_ops.cli.table_options import (
    HiveStyleOption,
    KeyGeneratorOption,
    MetaFieldsOption,
    TimeFormatOption,
    TimeInputOption,
    TimeOutputOption,
    TimeUnitOption,
    UrlEncodeOption,
    VersionOption,
    time_of,
)
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.services.ledger import Offer
    from hudi_ops.table import Table

CREATE_HELP = """Make an empty table.

What tables.yaml declares of the table need not be repeated; options given here win over it. The columns are those of
an example file, meta columns of Hudi left out. Making the same table again changes nothing, and says so.

\b
hudi-ops create flights --like landing/part-0.parquet
hudi-ops create /data/trips --key id --partition-by city --like trips.parquet
"""

INGEST_HELP = """Take the new files of a folder into a table, each exactly once.

Files are CSV, JSON lines or Parquet. Names that begin with _ or . wait, and so do files younger than --min-age. All
files are taken in one commit, or none is. Running it again takes only what is new. --max-files and --max-bytes bound
what one commit takes, by path; the next run goes on.

\b
hudi-ops ingest flights
hudi-ops ingest flights --source landing --operation upsert --min-age 30s
hudi-ops ingest flights --source landing --dry-run
"""


def _operations() -> list[str]:
    from hudi_ops.services.operations import INGESTING

    return list(INGESTING)


def create(
    table: TableArgument,
    name: Annotated[
        str | None, typer.Option(help="The table's name. Default: the declared one, or its folder's.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns that identify a row, parted by commas.")
    ] = None,
    partition_by: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns that name the folders of rows, parted by commas.")
    ] = None,
    ordering: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of two rows with one key, the larger value here wins.")
    ] = None,
    table_type: Annotated[
        str | None, typer.Option("--type", metavar="cow|mor", help="Copy-on-write or merge-on-read. Default: cow.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(help="File groups of each partition. Default: 1.")] = None,
    like: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="A Parquet file whose columns the table gets.")
    ] = None,
    table_version: VersionOption = None,
    key_generator: KeyGeneratorOption = None,
    time_input: TimeInputOption = None,
    time_output: TimeOutputOption = None,
    time_unit: TimeUnitOption = None,
    time_format: TimeFormatOption = None,
    hive_style: HiveStyleOption = None,
    url_encode: UrlEncodeOption = None,
    meta_fields: MetaFieldsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an empty table.

    Raises:
        InvalidRequest: the definition is no table, or another one lies there.
    """
    location = locate_new(table)
    definition = _definition(
        location,
        {
            "name": name,
            "record_key": split_names(key, "--key"),
            "partition_by": split_names(partition_by, "--partition-by"),
            "ordering": ordering,
            "table_type": table_type,
            "buckets": buckets,
            "version": table_version,
            "key_generator": key_generator,
            "time": time_of(input=time_input, output=time_output, unit=time_unit, input_format=time_format),
            "hive_style": hive_style,
            "url_encode": url_encode,
            "meta_fields": meta_fields,
        },
    )
    if like is None:
        raise InvalidRequest(
            "nothing says which columns the table has",
            table=location.name,
            next_step="pass --like with a Parquet file that has them",
        )
    schema = _schema_like(like)
    made = _make(location, definition, schema)
    if as_json:
        write_json(made)
        return
    write(
        f"{'created' if made['created'] else 'was there already, equally defined:'} {made['table']} at {made['path']}"
    )
    write_table(["column", "type"], [(field["name"], field["type"]) for field in made["schema"]])


def ingest(
    table: TableArgument,
    source: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder of files to take. Default: the one that tables.yaml declares."),
    ] = None,
    operation: Annotated[
        str,
        typer.Option(
            metavar="OPERATION",
            help="upsert replaces rows with the same key, insert refuses them, delete removes rows by key; bulk_insert adds rows "
            "without looking keys up; insert_overwrite replaces the partitions that the rows touch, insert_overwrite_table all.",
            autocompletion=_operations,
        ),
    ] = "upsert",
    engine: Annotated[
        str,
        typer.Option(
            metavar="auto|local|spark",
            help="Where the work runs. auto is this process; only applications submitted to Spark pick by bytes.",
            autocompletion=lambda: ["auto", "local", "spark"],
        ),
    ] = "auto",
    min_age: Annotated[
        str, typer.Option(metavar="DURATION", help="Files that changed more recently wait, for example 5s or 2m.")
    ] = "0s",
    evolve: Annotated[
        bool, typer.Option("--evolve", help="Let the table take new columns and wider types from the files.")
    ] = False,
    drop_metadata_table: Annotated[
        bool, typer.Option("--drop-metadata-table", help="First drop the table's metadata table, as `adopt` does.")
    ] = False,
    max_files: Annotated[
        int | None, typer.Option("--max-files", min=1, help="At most so many files in this commit. Default: all.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Files of so many bytes in this commit, one at least, for example 2GB."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files that would be taken; change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take the new files of a folder into a table."""
    from hudi_ops.services.operations import parse_operation

    min_age_s = parse_seconds(min_age, "--min-age")
    bounds = {"max_files": max_files, "max_bytes": parse_bytes(max_bytes, "--max-bytes") if max_bytes else None}
    parse_operation(operation)
    location = locate(table)
    folder = source or _declared_source(location)
    with open_table(location) as opened:
        if dry_run:
            _tell_offer(location, folder, _preview(opened, folder, engine, min_age_s, bounds), as_json)
            return
        with working(f"ingesting {folder} into {location.name}"):
            if drop_metadata_table:
                opened.adopt(drop_metadata_table=True)
            # The name is checked where engines are chosen, with the error that the library gives.
            result = opened.ingest_folder(
                folder,
                operation,
                engine=engine,  # type: ignore[arg-type]
                min_age_s=min_age_s,
                evolve=evolve,
                **bounds,
            )
    if as_json:
        write_json(result.as_dict())
    else:
        write(_ingest_text(result.as_dict()))


def _definition(location: TableLocation, given: dict[str, Any]) -> dict[str, Any]:
    """What options say, else what `tables.yaml` declares."""
    declared: dict[str, Any] = {"name": location.name, "table_type": "cow", "buckets": 1}
    if location.declaration is not None:
        one = location.declaration
        declared |= {
            "record_key": one.record_key,
            "partition_by": one.partition_by,
            "ordering": one.ordering,
            "table_type": one.type,
            "buckets": one.buckets,
            "version": one.version,
            "key_generator": one.key_generator,
            "time": one.time,
            "hive_style": one.hive_style,
            "url_encode": one.url_encode,
            "meta_fields": one.meta_fields,
        }
    definition = declared | {option: value for option, value in given.items() if value is not None}
    return {"record_key": (), "partition_by": (), "ordering": None, **definition}


def _make(location: TableLocation, definition: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    from hudi_ops.concurrency.open_lock import lock_of
    from hudi_ops.table import Table

    table = Table.create(location.path, schema=schema, locks=lock_of(location), **definition)
    try:
        return {
            "table": table.config.name,
            "path": location.path,
            "created": table.was_created,
            "type": table.config.table_type,
            "version": table.config.version,
            "key_generator": table.config.key_generator,
            "meta_fields": table.config.populate_meta_fields,
            "record_key": list(table.config.record_key_fields),
            "partition_by": list(table.config.partition_fields),
            "ordering": list(table.config.ordering_fields),
            "buckets": definition["buckets"],
            "schema": [
                {"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in table.schema
            ],
        }
    finally:
        table.close()


def _schema_like(file: Path) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hudi_ops.config.columns import META_COLUMNS

    try:
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise InvalidRequest(
            f"{file} cannot be read for its columns: {error}",
            expected="a Parquet file",
            found="no such file" if isinstance(error, FileNotFoundError) else "something else",
            next_step="pass --like with a Parquet file that has the table's columns",
            file=str(file),
        ) from error
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def _declared_source(location: TableLocation) -> str:
    if location.declaration is None or location.declaration.source is None:
        raise InvalidRequest(
            f"no source for table {location.name}", next_step="pass --source, or declare a source in tables.yaml"
        )
    return location.declaration.source


def _preview(table: Table, folder: str, engine: str, min_age_s: float, bounds: dict[str, int | None]) -> Offer:
    """What an ingest would take now, refused for the reasons for which it would be."""
    from hudi_ops.services.engine_choice import choose_engine

    if engine != "spark":  # asking for Spark starts it
        choose_engine(engine, 0, table.context.engine)
    return table.preview_folder(folder, min_age_s=min_age_s, **bounds)


def _tell_offer(location: TableLocation, folder: str, offer: Offer, as_json: bool) -> None:
    size_bytes = sum(info.size_bytes for info in offer.files)
    if as_json:
        write_json({
            "table": location.name,
            "source": folder,
            "dry_run": True,
            "files": [{"path": info.path, "size_bytes": info.size_bytes} for info in offer.files],
            "size_bytes": size_bytes,
            "left": [{"path": info.path, "size_bytes": info.size_bytes} for info in offer.left],
            "waiting": [{"path": path, "reason": reason} for path, reason in sorted(offer.waiting.items())],
        })
        return
    write(f"{counted(len(offer.files), 'file')} of {folder} would be taken into {location.name}, {sized(size_bytes)}")
    for info in offer.files:
        write(f"  {info.path}  {sized(info.size_bytes)}")
    for info in offer.left:
        write(f"  {info.path}  {sized(info.size_bytes)}  is left for the next run")
    for path, reason in sorted(offer.waiting.items()):
        write(f"  {path}  waits: {reason}")


def _ingest_text(result: dict[str, Any]) -> str:
    if result["instant"] is None:
        return f"{result['table']}: {result['note']}"
    files = f" from {counted(result['files'], 'file')}" if result["files"] else ""
    counts = ", ".join(f"{result[what]:,} {what}" for what in ("inserted", "updated", "deleted", "ignored"))
    notes = [*result["schema_changes"], *([result["note"]] if result["note"] else [])]
    note = "".join(f"\n  {line}" for line in notes)
    replaced = f", {counted(result['replaced'], 'file group')} replaced" if result["replaced"] else ""
    return (
        f"{result['table']}: {result['operation']} {result['instant']} took {counted(result['rows_in'], 'row')}{files}\n"
        f"  {counts}{replaced}\n"
        f"  {counted(result['file_groups'], 'file group')} and {sized(result['bytes_written'])} written in "
        f"{result['seconds']:.1f} s, engine {result['engine']} ({result['engine_reason']}){note}"
    )
