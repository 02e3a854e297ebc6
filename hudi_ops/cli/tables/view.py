"""`hudi-ops view`: where the file-system view of a table is kept, and whether it is right."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate, storage_of
from hudi_ops.cli.output import counted, sized, write, write_facts, write_json, write_table
from hudi_ops.cli.progress import working
from hudi_ops.errors import Corrupt

if TYPE_CHECKING:
    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.services.inspect.stored_view import ViewState

VIEW_HELP = """Show, refresh, drop or check the file-system view of a table: the list of files with which reads and plans begin.

A view is continued from the commits that completed since. `view` in tables.yaml says where it is kept: store memory (of each
process), spill (a private file above memory_mb), or disk (a file that all processes of this machine share).

status tells the state of the table (digest), the stored files with their size, age and the instants that completed since, how often
processes opened one, and why the view was built of a listing. refresh builds it anew and stores it. drop removes the stored
files: the next process builds it. check compares it with a listing of storage, and ends with 20 when they differ.

\b
hudi-ops view flights
hudi-ops view flights check
hudi-ops view flights refresh --json
"""


class ViewAction(enum.StrEnum):
    """Action on a view."""

    STATUS = "status"
    REFRESH = "refresh"
    DROP = "drop"
    CHECK = "check"


def view(
    table: TableArgument,
    action: Annotated[ViewAction, typer.Argument(help="What to do.")] = ViewAction.STATUS,
    as_json: JsonOption = False,
) -> None:
    """Show, refresh, drop or check the view of a table."""
    {
        ViewAction.STATUS: _status,
        ViewAction.REFRESH: _refresh,
        ViewAction.DROP: _drop,
        ViewAction.CHECK: _check,
    }[action](locate(table), as_json)


def _status(location: TableLocation, as_json: bool) -> None:
    from hudi_ops.services.inspect.stored_view import describe_view

    with working(f"looking at the view of {location.name}"):
        found = describe_view(storage_of(location))
    if as_json:
        write_json(found.as_dict())
    else:
        _tell(found)


def _tell(found: ViewState) -> None:
    write_facts({
        "table": found.table,
        "store": found.store,
        "folder": found.folder,
        "digest": found.digest or "none: the table has no commit log, and its view is not stored",
        "hits": found.hits,
        "builds": found.builds,
    })
    if found.stored:
        write("\nstored views")
        head = ("digest", "files", "size", "age (s)", "instants since", "note")
        rows = [[one.digest[:16], one.files, sized(one.bytes), one.age_s, one.behind, one.note] for one in found.stored]
        write_table(head, rows)
    if found.latest_builds:
        write("\nlatest builds")
        write_table(("at", "why"), [[one["at"], one["why"]] for one in found.latest_builds])


def _refresh(location: TableLocation, as_json: bool) -> None:
    from hudi_ops.services.inspect.stored_view import describe_view, refresh_view

    storage = storage_of(location)
    with working(f"building the view of {location.name}"):
        files = refresh_view(storage)
    found = describe_view(storage)
    if as_json:
        write_json(found.as_dict())
    else:
        stored = found.stored[0].path if found.stored else "nothing"
        write(f"{location.name}: the view has {counted(files, 'file')}; stored as {stored}")


def _drop(location: TableLocation, as_json: bool) -> None:
    from hudi_ops.services.inspect.stored_view import drop_views

    dropped = drop_views(storage_of(location))
    if as_json:
        write_json({"table": location.name, "dropped": list(dropped)})
    else:
        write(f"{location.name}: {counted(len(dropped), 'stored view')} removed")


def _check(location: TableLocation, as_json: bool) -> None:
    """Compare the view with a listing, and print the result.

    Raises:
        Exit: with 20, if they differ.
    """
    from hudi_ops.verify.data.listing import check_view

    with working(f"listing {location.name}"):
        found = check_view(storage_of(location))
    write_json({"table": location.name, **found.as_dict()}) if as_json else write(f"{location.name}: {found}")
    if not found.is_same:
        raise typer.Exit(Corrupt.exit_code)
