"""Read tables, verdicts, pictures and runs from the registry.

Each call is one short transaction, and raises as `database.answering`. No storage of a table is read while one is open. What writes
is in `recording.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, and_, func, or_, select

from hudi_ops.clock import SystemClock
from hudi_ops.health.verdict import GRAVEST, said_time
from hudi_ops.registry.database import answering, storable
from hudi_ops.registry.picture import FORM
from hudi_ops.registry.rows import LOST_MS, Run, TableDetails, TablePage, TableRow
from hudi_ops.registry.schema import PICTURES, RUNS, STATES, TABLES, VERDICTS

Sort = Literal["worst", "name", "run", "seen"]

PAGE_MAX = 1000
"""Most rows of a page."""

EARLIER_MAX = 20
"""Most earlier tables of a location or name that are named."""

NEVER_JUDGED = len(GRAVEST)
"""Rank of a table without a verdict: after those that are healthy, since nothing is known to be wrong."""

_RUN = ("service", "state", "instant", "begun_ms", "ended_ms", "dag_run")


def list_tables(
    engine: Engine,
    *,
    search: str = "",
    sort: Sort = "worst",
    page: int = 1,
    size: int = 50,
    now_ms: int | None = None,
) -> TablePage:
    """Return a page of the tables that are at their locations now.

    Args:
        engine: the registry.
        search: text that name or location has, in capitals or not; empty: all.
        sort: `worst`: by the gravest exit code, then the oldest `since`; `run`: by the newest run; `seen`: by the newest verdict.
            Equal ones are sorted by name.
        page: from 1; beyond the end: the last one.
        size: most rows of a page.
        now_ms: tells which runs are lost; in ms since 1970; None: now.
    """
    size = min(max(size, 1), PAGE_MAX)
    wanted = and_(TABLES.c.is_current, _has(search)) if search else TABLES.c.is_current
    joined = TABLES.outerjoin(STATES, STATES.c.of_table == TABLES.c.id)
    status = func.coalesce(STATES.c.status, "")
    with answering(), engine.connect() as connection:
        counted = select(status, func.count()).select_from(joined).where(wanted).group_by(status)
        counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(counted)}
        total = sum(counts.values())
        page = min(max(page, 1), max(1, -(-total // size)))
        asked = select(TABLES, STATES).select_from(joined).where(wanted).order_by(*_order(sort))
        found = connection.execute(asked.limit(size).offset((page - 1) * size)).all()
        runs = _newest_runs(connection, [row.id for row in found], _now(now_ms))
    return TablePage([_table_row(row, runs.get(row.id)) for row in found], total, counts, page, size)


def table_named(engine: Engine, name: str, *, now_ms: int | None = None) -> TableDetails | None:
    """Return all that the registry has of the table of a name; None: nothing.

    Args:
        engine: the registry.
        name: that of tables.yaml. Of several tables of the name it is the one that has it now.
        now_ms: tells which runs are lost; in ms since 1970; None: now.
    """
    name = storable(name)
    joined = TABLES.outerjoin(STATES, STATES.c.of_table == TABLES.c.id)
    asked = select(TABLES, STATES).select_from(joined)
    newest = (TABLES.c.is_current.desc(), TABLES.c.seen_ms.desc(), TABLES.c.id.desc())
    with answering(), engine.connect() as connection:
        row = connection.execute(asked.where(TABLES.c.name == name).order_by(*newest).limit(1)).first()
        if row is None:
            return None
        others = and_(TABLES.c.id != row.id, or_(TABLES.c.name == name, TABLES.c.location == row.location))
        earlier = connection.execute(asked.where(others).order_by(*newest).limit(EARLIER_MAX)).all()
        verdict = connection.execute(newest_verdict(row.id)).first()
        kept = connection.execute(select(PICTURES).where(PICTURES.c.of_table == row.id)).first()
        runs = _newest_runs(connection, [row.id, *(one.id for one in earlier)], _now(now_ms))
    if kept is not None and (kept.picture or {}).get("form") != FORM:
        kept = None  # of another release
    return TableDetails(
        row=_table_row(row, runs.get(row.id)),
        verdict=verdict.verdict if verdict is not None else None,
        picture=kept.picture if kept is not None else None,
        picture_at_ms=kept.picture_at_ms if kept is not None else None,
        settings=row.settings or {},
        earlier=[_table_row(one, runs.get(one.id)) for one in earlier],
    )


def names_of(engine: Engine) -> Sequence[str]:
    """Return the names of all tables that the registry has, sorted."""
    with answering(), engine.connect() as connection:
        return connection.execute(select(TABLES.c.name).distinct().order_by(TABLES.c.name)).scalars().all()


def runs_of(engine: Engine, of_table: int, at_most: int = 50, *, now_ms: int | None = None) -> Sequence[Run]:
    """Return the newest runs of a table, the newest first.

    Args:
        engine: the registry.
        of_table: `TableRow.id`.
        at_most: number of runs.
        now_ms: tells which runs are lost; in ms since 1970; None: now.
    """
    asked = select(RUNS).where(RUNS.c.of_table == of_table)
    newest = asked.order_by(RUNS.c.begun_ms.desc(), RUNS.c.id.desc()).limit(max(0, at_most))
    with answering(), engine.connect() as connection:
        found = connection.execute(newest).all()
    return [_run(row, _now(now_ms)) for row in found]


def newest_verdict(of_table: int) -> Select[Any]:
    """Return the statement that selects the newest verdict of a table."""
    asked = select(VERDICTS).where(VERDICTS.c.of_table == of_table)
    return asked.order_by(VERDICTS.c.at_ms.desc(), VERDICTS.c.id.desc()).limit(1)


def _order(sort: Sort) -> list[ColumnElement[Any]]:
    rank = func.coalesce(STATES.c.rank, NEVER_JUDGED)
    match sort:
        case "name":
            return [TABLES.c.name, TABLES.c.id]
        case "seen":
            return [func.coalesce(STATES.c.at_ms, 0).desc(), TABLES.c.name, TABLES.c.id]
        case "run":
            of_table = and_(RUNS.c.of_table == TABLES.c.id, RUNS.c.service != "rollback")
            newest = select(func.max(RUNS.c.begun_ms)).where(of_table).scalar_subquery()
            return [func.coalesce(newest, 0).desc(), TABLES.c.name, TABLES.c.id]
    return [rank, func.coalesce(STATES.c.since_ms, 0), TABLES.c.name, TABLES.c.id]


def _has(search: str) -> ColumnElement[bool]:
    text = str(storable(search)).lower()
    return or_(*(func.lower(one).contains(text, autoescape=True) for one in (TABLES.c.name, TABLES.c.location)))


def _newest_runs(connection: Connection, tables: Sequence[int], now_ms: int) -> dict[int, dict[str, Any]]:
    """Return the newest run of each table, as the list shows it.

    A rollback is part of the run whose instant it rolled back, and is no run of its own here.
    """
    if not tables:
        return {}
    later = RUNS.alias()
    newest = (
        select(later.c.id)
        .where(later.c.of_table == TABLES.c.id, later.c.service != "rollback")
        .order_by(later.c.begun_ms.desc(), later.c.id.desc())
        .limit(1)
        .correlate(TABLES)
        .scalar_subquery()
    )
    asked = select(RUNS).select_from(TABLES).join(RUNS, RUNS.c.id == newest).where(TABLES.c.id.in_(tables))
    found = [(row.of_table, _run(row, now_ms)) for row in connection.execute(asked)]
    return {of_table: {name: getattr(run, name) for name in _RUN} for of_table, run in found}


def _run(row: Row[Any], now_ms: int) -> Run:
    values = {name: getattr(row, name) for name in Run.__dataclass_fields__ if name != "key"}
    if row.state == "running" and now_ms - row.begun_ms > LOST_MS:
        values["state"] = "lost"
    return Run(key=row.run_key, **values)


def _table_row(row: Row[Any], run: Mapping[str, Any] | None) -> TableRow:
    is_ill = row.status is not None and row.status != "healthy"
    return TableRow(
        id=row.id,
        name=row.name,
        location=row.location,
        table_id=row.table_id,
        seen_ms=row.seen_ms,
        at_ms=row.at_ms,
        status=row.status or "",
        exit_code=row.exit_code or 0,
        since=said_time(row.since_ms) if is_ill else "",
        checks=row.checks or (),
        error=row.error or "",
        run=run,
        is_current=row.is_current,
    )


def _now(now_ms: int | None) -> int:
    return SystemClock().now_ms() if now_ms is None else now_ms
