"""The TABLE argument, how a table is opened from it, and parsers of columns and durations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.clock import DURATION_MAX_S
from hudi_ops.errors import HudiOpsError, InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.storage.protocol import Storage
    from hudi_ops.table.table import Table

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d|)")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def declared_names(incomplete: str) -> list[str]:
    """Return the names in `tables.yaml` that begin so; none if the file is absent or broken."""
    from hudi_ops.config.tables_file import load_tables

    try:
        return sorted(name for name in load_tables().tables if name.startswith(incomplete))
    except HudiOpsError:
        return []  # completion runs at every key press; the command itself reports the error


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A table that tables.yaml declares, by its name; or the folder of any table.",
        autocompletion=declared_names,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON object, as the last line of the output.")
]
AcceptFutureOption = Annotated[
    bool,
    typer.Option(
        "--accept-future-instants",
        help="Go on behind an instant that a wrong clock put into the future. The cost: new instants lie in the future, too, a "
        "millisecond apart, until the clocks have caught up. Refused where writers of Apache Hudi share the table.",
    ),
]
MetaColumnsOption = Annotated[
    bool,
    typer.Option(
        "--meta-columns", "--meta", help="With the columns that Apache Hudi adds to each row, before all others."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def locate(table: str) -> TableLocation:
    """Return the location of the table that a TABLE argument names.

    Raises:
        InvalidRequest: neither a declared name nor a path; says which name was probably meant.
    """
    from hudi_ops.config.tables_file import locate_table

    return locate_table(table)


def locate_new(table: str) -> TableLocation:
    """Return the location of a table that may not exist yet.

    Without a `tables.yaml`, a bare name is a folder.

    Raises:
        InvalidRequest: there is a `tables.yaml`, and it does not declare the name.
    """
    from hudi_ops.config.tables_file import find_tables_file

    return locate(table if "/" in table or find_tables_file() else f"./{table}")


@contextmanager
def open_table(location: TableLocation, *, accept_future: bool = False, **options: Any) -> Iterator[Table]:
    """Open the table at a location with its lock, and release both at the end.

    Args:
        accept_future: let new instants follow one in the future, even against `tables.yaml`.
        options: as in `Table.open`; None: what `tables.yaml` says.

    Raises:
        InvalidRequest: no table lies there.
        Unsupported: a table version that cannot be opened.
    """
    from hudi_ops.table.table import Table

    table = Table.at(location, accept_future=accept_future, **options)
    try:
        yield table
    finally:
        table.close()


def storage_of(location: TableLocation) -> Storage:
    """Open the storage of the table at a location, for commands that need no lock."""
    from hudi_ops.read.current_view import storage_at

    return storage_at(location)


def as_help(text: str) -> str:
    """Return a help text with one line a paragraph, which the terminal wraps.

    Paragraphs that are marked as examples keep their lines.
    """
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(one if one.startswith("\b") else " ".join(one.splitlines()) for one in paragraphs)


def split_names(text: str | None, option: str) -> tuple[str, ...] | None:
    """Names of a list with commas; None stays None.

    Args:
        text: for example `origin, month`.

    Raises:
        InvalidRequest: an empty or a repeated name.
    """
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    twice = sorted({name for name in names if names.count(name) > 1})
    if "" in names or twice:
        raise InvalidRequest(
            f"{option} names {'a column twice: ' + twice[0] if twice and twice[0] else 'an empty column'}",
            expected="names separated by single commas",
            found=repr(text),
        )
    return names


def parse_seconds(text: str, option: str) -> float:
    """Parse a duration: `500ms`, `5s`, `2m`, `1h`; a bare number is seconds.

    Raises:
        InvalidRequest: not a duration, or one of more than ten years.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidRequest(
            f"{option} is not a duration", expected="for example 500ms, 5s, 2m or 1h", found=repr(text)
        )
    seconds = float(match["number"]) * _SECONDS[match["unit"]]
    if seconds > DURATION_MAX_S:
        raise InvalidRequest(
            f"{option} is too long", expected=f"at most {DURATION_MAX_S // 86_400:,} days", found=repr(text[:100])
        )
    return seconds


def parse_limit(text: str) -> float:
    """Return the seconds of `--limit`, after which a table counts as unreachable.

    Raises:
        InvalidRequest: it is no duration, or below a second.
    """
    limit_s = parse_seconds(text, "--limit")
    if limit_s < 1:
        raise InvalidRequest("--limit is too short", expected="at least 1s", found=repr(text))
    return limit_s


def parse_bytes(text: str, option: str, least: int = 1) -> int:
    """Parse a number of bytes: `500MB`, `1.5GB`, `2GiB`; a bare number is bytes.

    Raises:
        InvalidRequest: not a size, or below the least one.
    """
    match = _SIZE.fullmatch(text.strip())
    size = (
        float(match["number"]) * (1024 if match["binary"] else 1000) ** _POWERS[match["unit"].lower()] if match else -1
    )
    if size < least:
        raise InvalidRequest(f"{option} is not a size", expected="for example 500MB, 1.5GB or 2GiB", found=repr(text))
    return int(size)


def asked_tables(given: Sequence[str], command: str, *, every: bool) -> list[str]:
    """Return the tables that a command of many tables is asked for, each once.

    Args:
        given: names and folders on the command line.
        command: its words, such as `health`.
        every: whether `--all` was given, which stands for all tables of tables.yaml.

    Raises:
        InvalidRequest: neither tables nor --all, both, or no table is declared.
    """
    if bool(given) == every:
        raise InvalidRequest(
            "name tables, or pass --all" if not given else "--all stands for all tables of tables.yaml",
            expected=f"`hudi-ops {command} TABLE …`, or `hudi-ops {command} --all`",
            found="neither" if not given else f"{' '.join(given)} and --all",
        )
    if not every:
        return list(dict.fromkeys(given))
    from hudi_ops.config.tables_file import load_tables

    declared = load_tables()
    if not declared.tables:
        raise InvalidRequest(f"{declared.file} declares no table", next_step="declare one, or name a folder")
    return list(declared.tables)
