"""Verdicts, pictures and runs as values, and the whole content of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, select

from hudi_ops.health.verdict import CheckVerdict, HealthVerdict, said_time
from hudi_ops.registry.picture import Picture
from hudi_ops.registry.rows import Run, TableKey
from hudi_ops.registry.schema import METADATA, PICTURES, RUNS, STATES, TABLES, VERDICTS
from hudi_ops.registry.store import runs_of, table_named

NOW_MS = 1_700_000_000_000
"""A whole second, long ago: a later time is a mistake of a clock."""

SECOND_MS = 1000


def key(name: str = "trips", table_id: str | None = "one", location: str | None = None) -> TableKey:
    """A table; by default its location follows from its name."""
    return TableKey(name, f"s3://lake/{name}" if location is None else location, table_id)


def verdict(
    code: int = 0, at_ms: int = NOW_MS, since_ms: int | None = None, table: str = "trips", **changed: Any
) -> HealthVerdict:
    """A verdict with an exit code: 0 healthy, 4 one check missed, else the table cannot be judged."""
    since = said_time(at_ms if since_ms is None else since_ms)
    checks = (
        CheckVerdict(check="plans", status="missed" if code == 4 else "healthy", since=since if code == 4 else None),
        CheckVerdict(check="writers", status="off"),
    )
    error = (
        {"error": "Unavailable", "exit_code": code, "message": "no answer\n  Next: wait"}
        if code not in {0, 4}
        else None
    )
    said: dict[str, Any] = {
        "table": table,
        "path": f"s3://lake/{table}",
        "at": said_time(at_ms),
        "status": {0: "healthy", 4: "missed"}.get(code, "unknown"),
        "exit_code": code,
        "since": since if error is not None else None,
        "error": error,
        "checks": () if error is not None else checks,
    }
    return HealthVerdict(**said | changed)


def picture(at_ms: int = NOW_MS, **changed: Any) -> Picture:
    """A picture with little on it."""
    said = {
        "at": said_time(at_ms),
        "name": "trips",
        "path": "s3://lake/trips",
        "table_id": "one",
        "digest": "d",
        "head": 1,
    }
    return Picture(**{**said, "changes_with_time": False, "about": {"name": "trips"}, **changed})


def told_run(second: int = 0, **changed: Any) -> Run:
    """A run that the table tells, which began at a second."""
    instant = f"202611300000{second:02d}000"
    said = {"key": instant, "instant": instant, "service": "compaction", "state": "succeeded"}
    begun_ms = NOW_MS + second * SECOND_MS
    return Run(**{**said, "begun_ms": begun_ms, "ended_ms": begun_ms + 500, "rows": 3, "bytes": 30, **changed})


def runs(engine: Engine, name: str = "trips") -> list[Run]:
    """The runs of the table of a name, the newest first."""
    found = table_named(engine, name)
    return [] if found is None else [*runs_of(engine, found.row.id, 1000)]


def content(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """All rows of a registry, but their numbers."""
    with engine.connect() as connection:
        names = {row.id: (row.location, row.table_id) for row in connection.execute(select(TABLES))}
        found = {}
        for table in (TABLES, STATES, PICTURES, VERDICTS, RUNS):
            rows = [dict(row) for row in connection.execute(select(table)).mappings()]
            plain = [{**row, "of_table": names.get(row.get("of_table", row.get("id")))} for row in rows]
            found[table.name] = sorted(({k: v for k, v in row.items() if k != "id"} for row in plain), key=repr)
    assert set(found) == set(METADATA.tables)
    return found


def verdicts_of(engine: Engine, of_table: int) -> list[dict[str, Any]]:
    """The verdicts of a table that differ from the one before, the newest first."""
    asked = select(VERDICTS).where(VERDICTS.c.of_table == of_table).order_by(VERDICTS.c.at_ms.desc())
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(asked).mappings()]


def without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A row without some of its values."""
    return {name: value for name, value in row.items() if name not in names}
