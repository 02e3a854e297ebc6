"""Options of `hudi-ops create` that say what kind of table it is: version, key generator, folders, meta columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.config.key_generators import TimePartition

IndexOption = Annotated[
    str | None,
    typer.Option(
        metavar="bucket|bloom|simple|record_index",
        help="How a key's file group is found: by a hash of it, in the base files, or in the metadata table. Default: bucket.",
    ),
]
VersionOption = Annotated[
    int | None, typer.Option(metavar="8|9", help="8 for Apache Hudi 1.0 and Trino, which cannot open 9. Default: 9.")
]
KeyGeneratorOption = Annotated[
    str | None,
    typer.Option(
        metavar="auto|simple|complex|timestamp|non_partitioned",
        help="How keys and folders are made. Default: auto, by the numbers of key and partition columns.",
    ),
]
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
HiveStyleOption = Annotated[
    bool | None, typer.Option("--hive-style/--no-hive-style", help="Folders read column=value, or the value alone.")
]
UrlEncodeOption = Annotated[
    bool | None,
    typer.Option(
        "--url-encode/--no-url-encode",
        help="Escape characters of partition values that a path must not hold, or refuse such values.",
    ),
]
MetaFieldsOption = Annotated[
    bool | None, typer.Option("--meta-fields/--no-meta-fields", help="With or without Hudi's five meta columns.")
]
MetadataOption = Annotated[
    bool | None,
    typer.Option(
        "--metadata/--no-metadata",
        help="With or without a metadata table: a listing of files, and statistics of columns and partitions. Default: with.",
    ),
]


def time_of(**settings: str | None) -> TimePartition | None:
    """Settings of the time-based key generator, from those options that were given; None without any.

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
