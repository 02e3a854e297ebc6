"""Find the row of a table.

Tables are made again at their locations, renamed, and adopted. A table is known by its location and the id of its commit log.
Until the id is known, or without a commit log, the id is empty. That row becomes the row of the id if it certainly is the same
table: it was never read, or its newest instant is on the timeline of the table with the id. Of the tables of one location, and of
one name, the one that was read last is current.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from sqlalchemy import Connection, and_, case, exists, false, func, null, or_, select, true, update

from hudi_ops.clock import SystemClock
from hudi_ops.registry.database import insert_into, storable, storable_row
from hudi_ops.registry.rows import NAME_MAX, TableKey
from hudi_ops.registry.schema import PICTURES, RUNS, TABLES

AHEAD_MS = 5 * 60_000
"""Time by which a clock may be ahead. A later time that is kept is a mistake: it makes nothing that comes after it older."""


def table_row(
    connection: Connection, table: TableKey, at_ms: int, *, is_read: bool, instants: Collection[str] = ()
) -> int:
    """Return the number of the row of a table, which is made or brought up to date.

    It is locked until the end of the transaction.

    Args:
        connection: in a transaction.
        table: whose row it is.
        at_ms: time of what is known of it, in ms since 1970.
        is_read: whether the caller read the table just now, so that it is the one at its location.
        instants: of its timeline, as far as they are known.
    """
    name, location, table_id = kept_name(table.name), storable(table.location), table.table_id
    at_ms, horizon_ms = storable_row(TABLES, {"seen_ms": at_ms})["seen_ms"], latest_ms()
    if table_id is None:
        known = select(TABLES.c.table_id).where(TABLES.c.location == location, TABLES.c.is_current)
        table_id = connection.execute(known.order_by(TABLES.c.seen_ms.desc()).limit(1)).scalar() or ""
    elif table_id:
        table_id = storable_row(TABLES, {"table_id": table_id})["table_id"]
        _give_id(connection, location, table_id, instants)
    values = {"name": name, "seen_ms": at_ms}
    made = insert_into(connection)(TABLES).values(
        location=location, table_id=table_id, settings={}, first_ms=at_ms, is_current=False, **values
    )
    is_newer = or_(made.excluded.seen_ms >= TABLES.c.seen_ms, TABLES.c.seen_ms > horizon_ms)
    upserted = made.on_conflict_do_update(
        index_elements=["location", "table_id"],
        set_={
            "name": case((is_newer, made.excluded.name), else_=TABLES.c.name),
            "seen_ms": case((is_newer, made.excluded.seen_ms), else_=TABLES.c.seen_ms),
        },
    )
    row: int = connection.execute(upserted.returning(TABLES.c.id)).scalar_one()
    _settle(connection, row, location, name, at_ms, horizon_ms, is_read=is_read)
    return row


def latest_ms() -> int:
    """Return the latest time that can be right, in ms since 1970."""
    return SystemClock().now_ms() + AHEAD_MS


def _give_id(connection: Connection, location: str, table_id: str, instants: Collection[str]) -> None:
    """Let the row without an id be that of an id, if it certainly is the same table."""
    found = connection.execute(
        select(TABLES.c.id).where(TABLES.c.location == location, TABLES.c.table_id == "")
    ).scalar()
    if found is None:
        return
    was_read = select(PICTURES.c.of_table).where(
        PICTURES.c.of_table == found, or_(PICTURES.c.seen.is_not(null()), PICTURES.c.digest != "")
    )
    if connection.execute(was_read).scalar() is not None:
        newest = select(func.max(RUNS.c.instant)).where(RUNS.c.of_table == found, RUNS.c.run_key == RUNS.c.instant)
        if connection.execute(newest).scalar() not in instants:
            return
    has_row = exists(select(1).where(TABLES.c.location == location, TABLES.c.table_id == table_id).correlate(None))
    connection.execute(update(TABLES).where(TABLES.c.id == found, ~has_row).values(table_id=table_id))


def _settle(
    connection: Connection, row: int, location: str, name: str, at_ms: int, horizon_ms: int, *, is_read: bool
) -> None:
    """Let one table be the current one of a location, and of a name."""
    rivals = and_(TABLES.c.id != row, TABLES.c.is_current, or_(TABLES.c.location == location, TABLES.c.name == name))
    if is_read:
        is_older = or_(TABLES.c.seen_ms <= at_ms, TABLES.c.seen_ms > horizon_ms)
        connection.execute(update(TABLES).where(rivals, is_older).values(is_current=false()))
    rival = TABLES.alias()
    is_taken = exists(
        select(1).where(rival.c.id != row, rival.c.is_current, or_(rival.c.location == location, rival.c.name == name))
    )
    connection.execute(
        update(TABLES).where(TABLES.c.id == row, TABLES.c.is_current.is_(false()), ~is_taken).values(is_current=true())
    )


def kept_name(name: str) -> str:
    """Return the name of a table as it is kept: locations may be longer than names."""
    name = storable(name)
    if len(name) <= NAME_MAX:
        return name
    return f"{name[: NAME_MAX - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
