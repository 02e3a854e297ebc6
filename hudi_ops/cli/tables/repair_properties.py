"""`hudi-ops repair-properties`: make `hoodie.properties` and the commit log agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, YesOption, locate, open_table
from hudi_ops.cli.consent import ask
from hudi_ops.cli.output import counted, write, write_json, write_table
from hudi_ops.cli.progress import working
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.config.logged_settings import SettingsSource
    from hudi_ops.services.recovery.properties import PropertiesRepair

REPAIR_PROPERTIES_HELP = """Choose between hoodie.properties and the commit log where they differ.

The log keeps the settings that say where a row lies and which of two rows wins: with other values, writers and readers stop.
--from-log puts the values of the log back into the file. --accept-file records those of the file, if they were changed on
purpose and the files were rewritten to match. Nothing else does either. The choice is recorded in the log.

\b
hudi-ops repair-properties flights --from-log --dry-run
hudi-ops repair-properties flights --from-log
hudi-ops repair-properties flights --accept-file --yes
"""


def repair_properties(
    table: TableArgument,
    from_log: Annotated[
        bool, typer.Option("--from-log", help="The log is right: write its values into the file.")
    ] = False,
    accept_file: Annotated[
        bool, typer.Option("--accept-file", help="The file is right: record its values in the log.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say where they differ; change nothing.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Choose between hoodie.properties and the commit log where they differ.

    Raises:
        InvalidRequest: the call names neither of the two, or both.
    """
    if (from_log and accept_file) or not (from_log or accept_file or dry_run):
        raise InvalidRequest(
            f"repair-properties of table {locate(table).name} needs --from-log or --accept-file",
            expected="one of --from-log and --accept-file",
            found="both" if from_log else "neither",
            next_step="look at the difference with --dry-run",
        )
    location = locate(table)
    source: SettingsSource | None = "file" if accept_file else "log" if from_log else None
    with open_table(location) as opened:
        result = opened.repair_properties(source, dry_run=True)
        if not dry_run:
            if result.differences:
                target = "the commit log" if accept_file else "hoodie.properties"
                ask(
                    "repair-properties",
                    f"{counted(len(result.differences), 'setting')} in {target}",
                    result.table,
                    yes=yes,
                    as_json=as_json,
                    show=lambda: _show(result),
                    verb="change",
                )
            with working(f"repairing properties of {location.name}"):
                result = opened.repair_properties(source)
    if as_json:
        write_json(result.as_dict())
        return
    _show(result)
    if result.slot is not None:
        done = (
            "hoodie.properties has the log's values again"
            if result.source == "log"
            else "the log has the values of hoodie.properties now"
        )
        write(f"{result.table}: {done}; slot {result.slot} records this")
    elif result.note:
        write(f"{result.table}: {result.note}")


def _show(result: PropertiesRepair) -> None:
    if result.differences:
        write_table(["property", "log", "file"], [[one.key, one.logged, one.found] for one in result.differences])
