"""Options of `hudi-ops create` for the time-based key generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.config.key_generators import TimePartition

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
