"""`hudi-ops alter`: change recorded settings of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate, open_table
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import write, write_json
from hudi_ops.cli.progress import working
from hudi_ops.config.definition import Alteration

ALTER_HELP = """Change settings that the table records: limits of hash rings, cleans and archives after commits.

Settings that are not given stay. The change is one slot of the commit log; it rewrites no rows, and writers that run go on.

\b
hudi-ops alter flights --buckets-max 64 --dry-run
hudi-ops alter flights --buckets-max 64
hudi-ops alter flights --clean on --clean-policy hours --clean-retain 48
hudi-ops alter flights --archive off
"""


@with_options(Alteration)
def alter(
    table: TableArgument,
    *,
    request: Alteration,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Change recorded settings of a table."""
    location = locate(table)
    with open_table(location) as opened, working(f"altering {location.name}"):
        result = opened.alter(request, dry_run=dry_run)
    if as_json:
        write_json(result.as_dict())
        return
    for change in result.changes:
        write(str(change))
    if not result.changes:
        write(f"{result.table}: has these settings already; nothing changed")
    elif result.dry_run:
        write(f"{result.table}: dry run, nothing changed")
    else:
        write(f"{result.table}: altered; slot {result.slot} records this")
