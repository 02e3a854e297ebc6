"""`hudi-ops registry`: the database of verdicts, pictures and runs of many tables."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import JsonOption, YesOption, as_help, asked_tables, parse_limit
from hudi_ops.cli.consent import ask
from hudi_ops.cli.output import counted, write, write_json, write_table
from hudi_ops.cli.progress import Tell, watching
from hudi_ops.errors import InvalidRequest, not_installed

if TYPE_CHECKING:
    from hudi_ops.health.verdict import HealthVerdict
    from hudi_ops.registry.rows import TablePage, TableRow

REGISTRY_HELP = """Keep verdicts, pictures and runs of many tables in a database, for the page in Airflow.

HUDI_OPS_REGISTRY names the database: sqlite:////path/registry.db, or postgresql+psycopg2://user:password@host/database. Without it,
the file registry.db beside tables.yaml counts. Tables never need it: what it has is read from them, and `rebuild` reads it again.
"""

MIGRATE_HELP = """Make the database, or bring it to the schema of this release. A second call changes nothing.

\b
hudi-ops registry migrate
HUDI_OPS_REGISTRY=sqlite:////var/lib/hudi-ops/registry.db hudi-ops registry migrate --json
"""

LIST_HELP = """List the tables of the registry as they were seen last, those in the gravest trouble first. Reads no table.

\b
hudi-ops registry list
hudi-ops registry list --search flights --sort run
hudi-ops registry list --page 2 --size 100 --json
"""

REFRESH_HELP = """Judge tables, and keep verdicts, pictures and runs.

A table that did not change since costs eight reads at most. The DAG `health` does the same on its schedule. Ends with 0 also if
targets are missed: `hudi-ops health` tells by its exit code.

\b
hudi-ops registry refresh --all
hudi-ops registry refresh flights trips --limit 30s
"""

REBUILD_HELP = """Read tables anew, and replace all that the registry has of them.

With --all, tables that tables.yaml does not declare are forgotten, too. What is known of a table that cannot be read stays. What
only processes knew is lost: docs/registry.md has the list. At a terminal you are asked first, elsewhere --yes is needed.

\b
hudi-ops registry rebuild --all --dry-run
hudi-ops registry rebuild --all --yes
hudi-ops registry rebuild flights
"""

FORGET_HELP = """Delete all that the registry has of tables, for example after they were deleted. No table is changed.

At a terminal you are asked first, elsewhere --yes is needed.

\b
hudi-ops registry forget flights --dry-run
hudi-ops registry forget flights --yes
"""

app = typer.Typer(name="registry", help=as_help(REGISTRY_HELP), no_args_is_help=True)

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TABLE", help="Names of tables.yaml, or folders.", show_default=False),
]
EveryOption = Annotated[bool, typer.Option("--all", help="All tables of tables.yaml.")]
LimitOption = Annotated[
    str, typer.Option(metavar="DURATION", help="After this time, such as 30s or 2m, a table counts as unreachable.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]


class SortName(enum.StrEnum):
    """Orders of the list."""

    WORST = "worst"
    NAME = "name"
    RUN = "run"
    SEEN = "seen"


@app.command(help=as_help(MIGRATE_HELP))
def migrate(as_json: JsonOption = False) -> None:
    """Make the database, or bring it to the schema of this release."""
    with _installed():
        from hudi_ops.registry.database import shown_url
        from hudi_ops.registry.migrate import migrate as migrated

        before, after = migrated()
    if as_json:
        write_json({"registry": shown_url(), "before": before or None, "after": after})
    elif before == after:
        write(f"{shown_url()} has migration {after} already")
    else:
        write(f"{shown_url()}: migrated from {before or 'nothing'} to {after}")


@app.command(name="list", help=as_help(LIST_HELP))
def list_(
    search: Annotated[str, typer.Option(metavar="TEXT", help="Only tables whose name or location has it.")] = "",
    sort: Annotated[SortName, typer.Option(help="worst: the gravest trouble first; run, seen: the newest first.")] = (
        SortName.WORST
    ),
    page: Annotated[int, typer.Option(min=1, help="Page of the list.")] = 1,
    size: Annotated[int, typer.Option(min=1, max=1000, help="Tables of a page.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List the tables of the registry as they were seen last."""
    with _installed():
        from hudi_ops.registry.database import shown_url
        from hudi_ops.registry.store import list_tables

        found = list_tables(_opened(), search=search, sort=sort.value, page=page, size=size)
    if as_json:
        facts = {"registry": shown_url(), "total": found.total, "counts": dict(found.counts)}
        tables = [asdict(one) for one in found.rows]
        write_json({**facts, "page": found.page, "size": found.size, "tables": tables})
        return
    _tell_page(found)


@app.command(help=as_help(REFRESH_HELP))
def refresh(
    tables: NamesArgument = None, every: EveryOption = False, limit: LimitOption = "120s", as_json: JsonOption = False
) -> None:
    """Judge tables, and keep verdicts, pictures and runs.

    Raises:
        InvalidRequest: neither tables nor --all, or both.
    """
    with _installed():
        from hudi_ops.registry import refresh as looks

        names, limit_s = asked_tables(tables or [], "registry refresh", every=every), parse_limit(limit)
        engine = _opened()
        with watching(f"looking at {counted(len(names), 'table')}", as_json=as_json) as tell:
            found = looks.refresh(names, engine=engine, limit_s=limit_s, tell=_teller(tell, len(names)))
        _tell_verdicts(found, _undeclared(engine) if every else [], as_json)


@app.command(help=as_help(REBUILD_HELP))
def rebuild(
    tables: NamesArgument = None,
    every: EveryOption = False,
    limit: LimitOption = "120s",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read tables anew, and replace all that the registry has of them.

    Raises:
        InvalidRequest: neither tables nor --all, or both; or there is no terminal to ask at.
    """
    with _installed():
        from hudi_ops.registry import refresh as looks
        from hudi_ops.registry.recording import forget

        names, limit_s = asked_tables(tables or [], "registry rebuild", every=every), parse_limit(limit)
        engine = _opened()
        others = _undeclared(engine) if every else []
        if dry_run:
            _tell_plan({"replaced": names, "forgotten": others}, as_json)
            return
        what = counted(len(names) + len(others), "table")
        ask("rebuild", f"what is known of {what}", "the registry", yes=yes, as_json=as_json, verb="replace")
        with watching(f"looking at {counted(len(names), 'table')}", as_json=as_json) as tell:
            found = looks.rebuild(names, engine=engine, limit_s=limit_s, tell=_teller(tell, len(names)))
        forget(engine, others)
        _tell_verdicts(found, [], as_json)


@app.command(name="forget", help=as_help(FORGET_HELP))
def forget_tables(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE", help="Names, as `list` shows them.")],
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete all that the registry has of tables.

    Raises:
        InvalidRequest: the registry has no table of a name; or there is no terminal to ask at.
    """
    with _installed():
        from hudi_ops.registry.recording import forget
        from hudi_ops.registry.store import table_named

        engine = _opened()
        for name in tables:
            if table_named(engine, name) is None:
                raise InvalidRequest(
                    f"the registry has no table {name!r}",
                    expected="a name as `hudi-ops registry list` shows it",
                    found=name,
                    next_step=f"find it: `hudi-ops registry list --search {name}`",
                )
        if dry_run:
            _tell_plan({"replaced": [], "forgotten": tables}, as_json)
            return
        ask("forget", f"what is known of {', '.join(tables)}", "the registry", yes=yes, as_json=as_json)
        count = forget(engine, tables)
    write_json({"forgotten": count}) if as_json else write(f"{counted(count, 'table')} forgotten")


@contextmanager
def _installed() -> Iterator[None]:
    """Name the extra to install if a package of the registry is missing.

    Raises:
        Unsupported: it is.
        ImportError: something else cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"sqlalchemy", "alembic"}:
            raise
        missing = not_installed("the registry", "registry", found=str(error))
        raise missing from None


def _opened() -> Any:
    from hudi_ops.registry.database import opened

    return opened()


def _undeclared(engine: Any) -> list[str]:
    """Return the names of tables in the registry that tables.yaml does not declare."""
    from hudi_ops.config.tables_file import load_tables
    from hudi_ops.registry.store import names_of

    declared = load_tables().tables
    return [name for name in names_of(engine) if name not in declared]


def _teller(tell: Tell, total: int) -> Any:
    from hudi_ops.engine.progress import Progress

    return lambda done, name: tell(Progress("tables", done, total, note=name))


def _tell_plan(plan: Mapping[str, Sequence[str]], as_json: bool) -> None:
    if as_json:
        write_json({"dry_run": True, **plan})
        return
    for what, names in plan.items():
        if names:
            write(f"would be {what}: {', '.join(names)}")
    write("a dry run: nothing was changed")


def _tell_verdicts(found: Sequence[HealthVerdict], undeclared: Sequence[str], as_json: bool) -> None:
    if as_json:
        tables = [{"table": one.table, "status": one.status, "summary": one.summary()} for one in found]
        write_json({"tables": tables, "undeclared": list(undeclared)})
        return
    for one in found:
        if one.status != "healthy":
            write(one.summary())
    healthy = sum(one.status == "healthy" for one in found)
    write(f"{counted(len(found), 'table')} in the registry: {healthy:,} healthy, {len(found) - healthy:,} not")
    if undeclared:
        write(f"not in tables.yaml: {', '.join(undeclared)}; `hudi-ops registry forget` deletes what is known of them")


def _tell_page(found: TablePage) -> None:
    if not found.total:
        write("no table; `hudi-ops registry refresh --all` looks at all tables of tables.yaml")
        return
    write_table(("table", "status", "since", "what", "last run", "judged"), [_cells(one) for one in found.rows])
    pages = -(-found.total // found.size)
    said = ", ".join(f"{count:,} {status or 'never judged'}" for status, count in sorted(found.counts.items()))
    write(f"{counted(found.total, 'table')}: {said}" + (f"; page {found.page} of {pages}" if pages > 1 else ""))


def _cells(row: TableRow) -> list[str]:
    from hudi_ops.health.verdict import said_time

    wrong = [one["check"] for one in row.checks if one["status"] in {"missed", "unknown"}]
    run = f"{row.run['service']} {row.run['state']}" if row.run is not None else "-"
    judged = said_time(row.at_ms) if row.at_ms is not None else "never"
    return [row.name, row.status or "-", row.since or "-", row.error or ", ".join(wrong) or "-", run, judged]
