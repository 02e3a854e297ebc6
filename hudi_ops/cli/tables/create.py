"""`hudi-ops create`: make an empty table from tables.yaml, options and an example file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate_new, split_names
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import write, write_json, write_table
from hudi_ops.config.definition import TableDefinition, WriterOptions
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_ops.config.key_generators import TimePartition
    from hudi_ops.config.tables_file import TableLocation

TimeInputOption = Annotated[
    str | None,
    typer.Option(
        metavar="EPOCHMILLISECONDS|EPOCHMICROSECONDS|UNIX_TIMESTAMP|SCALAR|DATE_STRING",
        help="For --key-generator timestamp: what the partition column holds.",
    ),
]
TimeOutputOption = Annotated[
    str | None, typer.Option(metavar="PATTERN", help="Its folders as a Java date pattern. Default: yyyy-MM-dd.")
]
TimeUnitOption = Annotated[str | None, typer.Option(metavar="UNIT", help="Unit of a SCALAR. Default: DAYS.")]
TimeFormatOption = Annotated[str | None, typer.Option(metavar="PATTERN", help="Java date pattern of a DATE_STRING.")]


def time_of(**settings: str | None) -> TimePartition | None:
    """Return the settings of the time-based key generator; None if no option sets any.

    Raises:
        InvalidRequest: a value that is not allowed.
    """
    from pydantic import ValidationError

    from hudi_ops.config.key_generators import TimePartition

    given = {name: value.upper() if name in {"input", "unit"} else value for name, value in settings.items() if value}
    try:
        return TimePartition.model_validate(given) if given else None
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequest(
            f"--time-{first['loc'][0]} cannot be {first['input']!r}",
            expected=first["msg"].removeprefix("Input should be "),
            found=repr(first["input"]),
        ) from error


CREATE_HELP = """Make an empty table.

What tables.yaml declares of the table need not be repeated; options given here win over it. The columns are those of
an example file, meta columns of Hudi left out, or those of --columns. Making the same table again changes nothing, and says so.

\b
hudi-ops create flights --like landing/part-0.parquet
hudi-ops create /data/trips --key id --partition-by city --like trips.csv
hudi-ops create /data/trips --key id --columns "id string, fare double, tags array<string>"
"""


def _columns(values: dict[str, Any], text: str, option: str) -> tuple[str, ...] | None:
    return split_names(text, option)


@with_options(TableDefinition, "time", make=dict, record_key=_columns, partition_by=_columns)
def create(
    table: TableArgument,
    *,
    request: dict[str, Any],
    like: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A CSV, JSON lines or Parquet file whose columns the table gets."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help='The columns as text, in types of Spark SQL: "id string, fare double".'),
    ] = None,
    time_input: TimeInputOption = None,
    time_output: TimeOutputOption = None,
    time_unit: TimeUnitOption = None,
    time_format: TimeFormatOption = None,
    no_automatic: Annotated[
        bool,
        typer.Option(
            "--no-automatic",
            help="Record that writers clean and archive the table only where their settings say so.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make an empty table.

    Raises:
        InvalidRequest: the definition is no table, or another one lies there.
    """
    location = locate_new(table)
    time = time_of(input=time_input, output=time_output, unit=time_unit, input_format=time_format)
    definition = _definition(location, request if time is None else {**request, "time": time})
    schema = _schema(location.name, like, columns)
    made = _make(location, definition, schema, no_automatic)
    if as_json:
        write_json(made)
        return
    write(
        f"{'created' if made['created'] else 'was there already, equally defined:'} {made['table']} at {made['path']}"
    )
    if made["note"]:
        write(made["note"])
    write(_upkeep_text(made))
    write_table(["column", "type"], [(field["name"], field["type"]) for field in made["schema"]])


def _definition(location: TableLocation, given: dict[str, Any]) -> TableDefinition:
    """Return the value of an option, or else of `tables.yaml`."""
    declared = location.declaration.definition if location.declaration is not None else {"record_key": ()}
    return TableDefinition(**{"name": location.name, **declared, **given})


def _upkeep_text(made: dict[str, Any]) -> str:
    clean, archive = made["clean"], made["archive"]
    texts = [
        f"writers clean after commits, {clean['retain']} {clean['policy']} retained"
        if clean["automatic"]
        else "writers do not clean",
        f"they archive down to {archive['keep_min']} commits, above {archive['keep_max']}"
        if archive["automatic"]
        else "they do not archive",
    ]
    return "; ".join(texts)


def _make(
    location: TableLocation, definition: TableDefinition, schema: pa.Schema, no_automatic: bool
) -> dict[str, Any]:
    from hudi_ops.concurrency.lock.open_lock import lock_of
    from hudi_ops.table.table import Table

    options = _options(location, no_automatic)
    table = Table.create(location.path, definition, schema=schema, options=options, locks=lock_of(location))
    try:
        return {
            "table": table.config.name,
            "path": location.path,
            "created": table.was_created,
            "note": table.note,
            "type": table.config.table_type,
            "version": table.config.version,
            "key_generator": table.config.key_generator,
            "meta_fields": table.config.populate_meta_fields,
            "metadata_partitions": list(table.config.metadata_partitions),
            "record_key": list(table.config.record_key_fields),
            "partition_by": list(table.config.partition_fields),
            "ordering": list(table.config.ordering_fields),
            "index": definition.index,
            "buckets": definition.buckets if definition.index == "bucket" else None,
            "bucket_engine": definition.bucket_engine if definition.index == "bucket" else None,
            **table.upkeep,
            "schema": [
                {"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in table.schema
            ],
        }
    finally:
        table.close()


def _options(location: TableLocation, no_automatic: bool) -> WriterOptions:
    """Return the declared settings of cleans and archives.

    Schedules are ignored: a schedule may end, while the table keeps what `create` records.
    """
    declared = location.declaration
    said = {"clean": declared.clean, "archive": declared.archive} if declared is not None else {}
    if no_automatic:
        off = {"automatic": False}
        said = {
            "clean": said.get("clean", CleanSettings()).model_copy(update=off),
            "archive": said.get("archive", ArchiveSettings()).model_copy(update=off),
        }
    return WriterOptions(**said)


def _schema(table: str, like: Path | None, columns: str | None) -> pa.Schema:
    """Return the columns that the options give.

    Raises:
        InvalidRequest: neither of them is given, or both are; or they cannot be read.
    """
    if (like is None) == (columns is None):
        raise InvalidRequest(
            "nothing says which columns the table has"
            if like is None
            else "two options say which columns the table has",
            table=table,
            expected="--like or --columns",
            found="neither" if like is None else "both",
            next_step='pass --like with a CSV, JSON lines or Parquet file that has them, or --columns "id string, fare double"',
        )
    from hudi_ops.sources.column_list import parse_columns
    from hudi_ops.sources.sample_schema import sample_schema

    return sample_schema(str(like)) if like is not None else parse_columns(columns or "")
