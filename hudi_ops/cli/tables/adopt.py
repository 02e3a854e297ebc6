"""`hudi-ops adopt`: the command that makes a table of Apache Hudi one that both can write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate, open_table, split_names
from hudi_ops.cli.consent import can_ask
from hudi_ops.cli.output import counted, write, write_json
from hudi_ops.cli.progress import working

if TYPE_CHECKING:
    from hudi_ops.config.tables_file import TableLocation

ADOPT_HELP = """Begin the commit log of a table that Apache Hudi made.

The first write does the same, where it is told the index, or the number of buckets. Apache Hudi stores neither: the number is
checked against the keys in the table's files, and both are kept from then on. Without the number, those that fit are named. Nothing
else of the table changes, unless its metadata table is dropped. Doing it again changes nothing.

Instants of most tables are in the local time of their writers, and the settings do not say which zone that is. The change times of
files suggest one, which is shown and, at a terminal, asked about; elsewhere pass --timezone.

\b
hudi-ops adopt /data/trips --index simple
hudi-ops adopt /data/trips --buckets 16
hudi-ops adopt /data/trips --buckets 16 --timezone Europe/Berlin
hudi-ops adopt /data/trips --buckets 16 --drop-metadata-table --dry-run
hudi-ops adopt /data/trips --services-only      # a table with a global index of Apache Hudi
"""


def adopt(
    table: TableArgument,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="bucket|bloom|simple|record_index",
            help="The index of the table's other writers, hoodie.index.type; with Spark SIMPLE where they do not set it.",
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(help="Buckets of each partition: hoodie.bucket.index.num.buckets. Default: the declared number."),
    ] = None,
    bucket_engine: Annotated[
        str | None,
        typer.Option(
            metavar="simple|consistent|extendible",
            help="Engine of the bucket index, hoodie.index.bucket.engine. Default: consistent where the table has hash rings.",
        ),
    ] = None,
    buckets_min: Annotated[
        int | None,
        typer.Option(help="With hash rings, the fewest buckets: hoodie.bucket.index.min.num.buckets. Default: 1."),
    ] = None,
    buckets_max: Annotated[
        int | None,
        typer.Option(
            help="With hash rings, the most buckets: hoodie.bucket.index.max.num.buckets. Default: 32,768, or the number of "
            "buckets, also of a ring in the table, if that is more."
        ),
    ] = None,
    hash_fields: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Key fields whose values name the bucket. Default: all of the key."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="Area/City", help="For tables in local time: the zone of the machines whose programs write them."
        ),
    ] = None,
    drop_metadata_table: Annotated[
        bool,
        typer.Option(
            "--drop-metadata-table",
            help="Drop the table's metadata table. Writers of Apache Hudi need hoodie.metadata.enable=false, or they build "
            "it again.",
        ),
    ] = False,
    services_only: Annotated[
        bool,
        typer.Option(
            "--services-only",
            help="Its index is another one: Apache Hudi writes its rows, hudi-ops compacts it and removes partitions.",
        ),
    ] = False,
    count_keys: Annotated[
        bool,
        typer.Option(
            help="Read the keys of all files of a table without buckets, and count those in several file groups. Reads "
            "use the record index only after a count found no key in two file groups.",
        ),
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Begin the commit log of a table that Apache Hudi made."""
    location = locate(table)
    fields = split_names(hash_fields, "--hash-fields")
    timezone = timezone or _agreed_zone(location, as_json=as_json)
    with (
        open_table(
            location,
            index=index,
            buckets=buckets,
            bucket_engine=bucket_engine,
            buckets_min=buckets_min,
            buckets_max=buckets_max,
            hash_fields=fields,
            timezone=timezone,
            services_only=services_only,
        ) as opened,
        working(f"adopting {location.name}"),
    ):
        done = opened.adopt(drop_metadata_table=drop_metadata_table, dry_run=dry_run, count_keys=count_keys).as_dict()
    write_json(done) if as_json else write(_text(done))


def _agreed_zone(location: TableLocation, *, as_json: bool) -> str | None:
    """Ask for the missing time zone; None if none is missing or there is no terminal."""
    from hudi_ops.services.create.zone_evidence import missing_zone

    with open_table(location) as opened:
        evidence = missing_zone(opened.context.storage)
    if evidence is None or not can_ask(as_json=as_json):
        return None
    write(f"The instants of {location.name} are in the local time of its writers: {evidence}.")
    likely = evidence.candidates[0] if evidence.candidates else None
    answer: str = typer.prompt("Time zone of the machines that write it", default=likely, err=True)
    return answer


def _text(done: dict[str, Any]) -> str:
    would = "would be " if done["dry_run"] else ""
    what = f"{would}adopted" if done["adopted"] else "has a commit log already"
    checked = (
        f", checked against {counted(done['checked_keys'], 'key')} in {counted(done['checked_files'], 'file')}"
        if done["adopted"]
        else ""
    )
    index = f"index {done['index']}{checked}"
    if done["index"] == "simple_bucket":
        index = f"{counted(done['buckets'], 'bucket')} by {', '.join(done['hash_fields'])}{checked}"
    elif done["index"].endswith("_bucket"):
        kind = done["index"].removesuffix("_bucket")
        index = (
            f"{kind} hash rings by {', '.join(done['hash_fields'])}, from {counted(done['buckets'], 'bucket')}{checked}"
        )
    elif done["index"] == "other":
        index = "for services only, its rows are written by Apache Hudi"
    text = f"{done['table']} {what}: {index}; instants in {done['timezone']}"
    if done["doubled_keys"]:
        text += f"\n  {counted(done['doubled_keys'], 'record key')} in more than one file group: reads show all rows of each"
    text += "".join(f"\n  {sentence}" for sentence in done["advice"])
    if done["dropped"]:
        text += f"\n  metadata table ({', '.join(done['dropped'])}) {would}dropped"
    return text
