"""Write tables, verdicts, pictures and runs to the registry.

Each call is one short transaction, and raises as `database.answering`. No storage of a table is read while one is open.

The first change of each is that of the table's row, which locks it: calls for one table follow each other, also those of other
processes. An older verdict, picture or run never replaces a newer one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, and_, case, delete, func, insert, or_, select, update
from sqlalchemy.exc import DBAPIError

from hudi_ops.health.verdict import GRAVEST, ms_of
from hudi_ops.registry.database import (
    WRITES,
    answering,
    insert_into,
    is_worth_a_retry,
    storable,
    storable_row,
    upsert,
)
from hudi_ops.registry.identity import kept_name, latest_ms, table_row
from hudi_ops.registry.rows import Found, Run, TableKey, TimelineRuns
from hudi_ops.registry.schema import PICTURES, RUNS, STATES, TABLES, VERDICTS
from hudi_ops.registry.store import newest_verdict

if TYPE_CHECKING:
    from hudi_ops.health.verdict import HealthVerdict
    from hudi_ops.registry.picture import Picture

TRIES_MAX = 5
"""Tries of a transaction that lost a race to another one."""

VERDICTS_MAX, RUNS_MAX = 100, 2_000
"""Most verdicts and runs of a table that are kept, the newest."""

REWRITES = ("ingestion", "compaction", "clustering", "resizing")
"""Services whose instants vanish only when they are rolled back, undone by a restore, or archived."""

UNDONE = "undone: the table no longer has this instant"
"""Note of a run whose instant vanished."""

GHOST = "its process ended without completing it"
"""Note of a run whose process was killed."""

END_OF_SECOND_MS = 999
"""Verdicts have whole seconds. A read counts as made at the end of its second, so that a run that ended in it is older."""

T = TypeVar("T")


def record_verdict(
    engine: Engine, table: TableKey, verdict: HealthVerdict, settings: Mapping[str, Any] | None = None
) -> bool:
    """Keep a verdict; return whether it says something else than the one before.

    One that says the same replaces the one before, since its values are newer. An older one is not kept.

    Args:
        engine: the registry.
        table: its id None: it is the table that was at the location last.
        verdict: with `seen`, the facts for the next verdict.
        settings: of tables.yaml; None: those that are kept stay.
    """
    return _written(engine, lambda connection: _verdict(connection, table, verdict, settings, ()))


def record_picture(engine: Engine, table: TableKey, picture: Picture) -> None:
    """Keep the newest picture of a table."""
    _written(engine, lambda connection: _picture(connection, table, picture))


def record_run(engine: Engine, table: TableKey, run: Run) -> None:
    """Keep a run, see `record_runs`."""
    record_runs(engine, table, [run])


def record_runs(
    engine: Engine,
    table: TableKey,
    runs: Sequence[Run],
    *,
    ends: str = "",
    is_read: bool = False,
    instants: Collection[str] = (),
) -> None:
    """Keep runs; a later record of a key replaces the earlier one.

    What only a process knows (processor time, error, run of Airflow, requester, a later begin) stays if the later record lacks it.
    A run that ended does not run again. An earlier try of a task of Airflow that still runs by what is known has failed.

    Args:
        engine: the registry.
        table: of the runs.
        runs: of this table.
        ends: key of a run that these replace, whichever table it was kept for; empty: none.
        is_read: whether the caller read the table just now.
        instants: of its timeline, as far as they are known.
    """

    def work(connection: Connection) -> None:
        row = _runs(connection, table, runs, ends, is_read=is_read, instants=instants)
        for run in runs:
            if run.state == "running" and run.dag_run and not run.is_from_timeline:
                _end_earlier_tries(connection, row, run)

    _written(engine, work)


def record_look(engine: Engine, found: Found, *, anew: bool = False) -> None:
    """Keep all that one look at a table found, in one transaction.

    Args:
        engine: the registry.
        found: by the look.
        anew: forget first what is known of the tables of this name and location, if the look read all of it.
    """
    instants = found.runs.instants if found.runs is not None else ()

    def work(connection: Connection) -> None:
        if anew and found.verdict.error is None and found.runs is not None:
            same = or_(TABLES.c.name == kept_name(found.key.name), TABLES.c.location == storable(found.key.location))
            connection.execute(delete(TABLES).where(same))
        _verdict(connection, found.key, found.verdict, found.settings, instants)
        if found.picture is not None:
            _picture(connection, found.key, found.picture)
        if found.runs is not None:
            row = _runs(connection, found.key, found.runs.runs, is_read=True)
            _undo(connection, row, found.runs)
            _end_ghosts(connection, row, found.runs.dead)

    _written(engine, work)


def record_table(engine: Engine, table: TableKey, settings: Mapping[str, Any], now_ms: int) -> None:
    """Keep name and settings of a table, those of tables.yaml."""

    def work(connection: Connection) -> None:
        row = table_row(connection, table, now_ms, is_read=False)
        connection.execute(update(TABLES).where(TABLES.c.id == row).values(settings=storable(settings)))

    _written(engine, work)


def forget(engine: Engine, names: Sequence[str]) -> int:
    """Delete all that the registry has of tables of some names; return their number.

    No table on storage is changed.
    """
    asked = delete(TABLES).where(TABLES.c.name.in_([kept_name(name) for name in names]))
    return _written(engine, lambda connection: connection.execute(asked).rowcount)


def digest_of(verdict: Mapping[str, Any]) -> str:
    """Return a digest of statuses, errors and commands of a verdict.

    Measured values are left out: they always change.
    """
    said = {
        "status": verdict["status"],
        "error": (verdict.get("error") or {}).get("error"),
        "checks": [
            (one["check"], one["status"], one["since"], one["commands"], (one.get("error") or {}).get("error"))
            for one in verdict["checks"]
        ],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def state_of(verdict: Mapping[str, Any], at_ms: int) -> dict[str, Any]:
    """Return the state of a table by its newest verdict, as the list shows and orders it."""
    checks = [{name: one[name] for name in ("check", "status", "since")} for one in verdict["checks"]]
    said = [verdict["since"], *(one["since"] for one in checks if one["status"] in {"missed", "unknown"})]
    times = [time_ms for time in said if time and (time_ms := ms_of(time)) is not None]
    # Healthy tables are equal in time, so that the list has them by name.
    without_time_ms = 0 if verdict["status"] == "healthy" else at_ms
    code = verdict["exit_code"]
    return {
        "at_ms": at_ms,
        "status": verdict["status"],
        "exit_code": code,
        "rank": GRAVEST.index(code) if code in GRAVEST else 1,
        "since_ms": min(times, default=without_time_ms),
        "error": str((verdict["error"] or {}).get("message", "")).partition("\n")[0],
        "checks": checks,
    }


def _written(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Do work in one transaction; begin anew if it lost a race to another one.

    Raises:
        DBAPIError: never, see `answering`.
    """
    writing, tried = engine.execution_options(**WRITES), 0
    with answering():
        while True:
            tried += 1
            try:
                with writing.begin() as connection:
                    return work(connection)
            except DBAPIError as error:
                if tried == TRIES_MAX or not is_worth_a_retry(error):
                    raise


def _verdict(
    connection: Connection,
    table: TableKey,
    verdict: HealthVerdict,
    settings: Mapping[str, Any] | None,
    instants: Collection[str],
) -> bool:
    said = storable(verdict.model_dump(mode="json", exclude={"seen"}))
    seen = storable(verdict.seen.model_dump(mode="json")) if verdict.seen is not None else None
    digest, at_ms = digest_of(said), ms_of(verdict.at) or 0
    is_read, horizon_ms = table.table_id is not None, latest_ms()
    row = table_row(connection, table, at_ms + END_OF_SECOND_MS, is_read=is_read, instants=instants)
    if settings is not None:
        connection.execute(update(TABLES).where(TABLES.c.id == row).values(settings=storable(settings)))
    last = connection.execute(newest_verdict(row)).first()
    if last is not None and last.seen_ms > horizon_ms:
        # A clock was ahead: its verdicts would stay the newest until that time.
        wrong = and_(VERDICTS.c.of_table == row, VERDICTS.c.seen_ms > horizon_ms)
        connection.execute(delete(VERDICTS).where(wrong))
        last = connection.execute(newest_verdict(row)).first()
    if last is not None and last.seen_ms > at_ms:
        return False
    is_new = last is None or last.digest != digest
    values = {"seen_ms": at_ms, "verdict": said}
    if is_new:
        brief = {"digest": digest, "status": verdict.status, "exit_code": verdict.exit_code}
        connection.execute(insert(VERDICTS).values(of_table=row, at_ms=at_ms, **brief, **values))
        _drop_oldest(connection, row, VERDICTS, VERDICTS.c.at_ms, VERDICTS_MAX)
    elif last is not None:
        connection.execute(update(VERDICTS).where(VERDICTS.c.id == last.id).values(values))
    upsert(connection, STATES, {"of_table": row}, state_of(said, at_ms))
    upsert(connection, PICTURES, {"of_table": row}, {"seen": seen}, {"digest": "", "changes_with_time": False})
    return is_new


def _picture(connection: Connection, table: TableKey, picture: Picture) -> None:
    at_ms = ms_of(picture.at) or 0
    row = table_row(connection, table, at_ms + END_OF_SECOND_MS, is_read=True)
    kept = connection.execute(select(PICTURES.c.picture_at_ms).where(PICTURES.c.of_table == row)).scalar() or 0
    if kept <= at_ms or kept > latest_ms():
        values = {
            "digest": picture.digest,
            "changes_with_time": picture.changes_with_time,
            "picture_at_ms": at_ms,
            "picture": picture.model_dump(mode="json"),
        }
        upsert(connection, PICTURES, {"of_table": row}, values)


def _runs(
    connection: Connection,
    table: TableKey,
    runs: Sequence[Run],
    ends: str = "",
    *,
    is_read: bool,
    instants: Collection[str] = (),
) -> int:
    at_ms = max((run.ended_ms or run.begun_ms for run in runs), default=0)
    row = table_row(connection, table, at_ms, is_read=is_read, instants=instants)
    if ends:
        # By its key alone: the table may have been made again since the run began.
        connection.execute(delete(RUNS).where(RUNS.c.run_key == ends))
    if runs:
        _keep(connection, row, runs)
        _drop_oldest(connection, row, RUNS, RUNS.c.begun_ms, RUNS_MAX)
    return row


def _keep(connection: Connection, row: int, runs: Sequence[Run]) -> None:
    names = [name for name in Run.__dataclass_fields__ if name != "key"]
    made = insert_into(connection)(RUNS)
    new, goes_back = made.excluded, and_(made.excluded.ended_ms.is_(None), RUNS.c.ended_ms.is_not(None))
    changed: dict[str, Any] = {name: case((goes_back, RUNS.c[name]), else_=new[name]) for name in names}
    for name in ("cpu_s", "error", "bytes", "rows"):
        changed[name] = func.coalesce(new[name], RUNS.c[name])
    for name in ("dag_run", "requester"):
        changed[name] = case((new[name] == "", RUNS.c[name]), else_=new[name])
    # Its process knows when the execution began; a look may know the time of the plan only.
    changed["begun_ms"] = case((new.begun_ms < RUNS.c.begun_ms, RUNS.c.begun_ms), else_=new.begun_ms)
    upserted = made.on_conflict_do_update(index_elements=["of_table", "run_key"], set_=changed)
    rows = [
        {"of_table": row, **storable_row(RUNS, {"run_key": run.key, **{name: getattr(run, name) for name in names}})}
        for run in runs
    ]
    connection.execute(upserted, rows)


def _undo(connection: Connection, row: int, found: TimelineRuns) -> None:
    """Mark runs as undone whose instants left the timeline."""
    if not found.since:
        return
    asked = select(RUNS.c.id, RUNS.c.instant).where(
        RUNS.c.of_table == row,
        RUNS.c.run_key == RUNS.c.instant,
        RUNS.c.instant >= found.since,
        RUNS.c.service.in_(REWRITES),
        RUNS.c.state.in_(("running", "succeeded")),
    )
    vanished = found.recorded - found.instants
    for gone in [one.id for one in connection.execute(asked) if one.instant in vanished]:
        _fail(connection, RUNS.c.id == gone, UNDONE, func.coalesce(RUNS.c.ended_ms, RUNS.c.begun_ms))


def _end_ghosts(connection: Connection, row: int, dead: Mapping[str, str]) -> None:
    """Drop the runs of killed processes: those of their instants say how they ended."""
    if not dead:
        return
    running = select(RUNS.c.id, RUNS.c.run_key, RUNS.c.requester).where(
        RUNS.c.of_table == row, RUNS.c.state == "running", RUNS.c.run_key != RUNS.c.instant
    )
    for one in connection.execute(running).all():
        instant = dead.get(one.run_key.split("-")[1] if "-" in one.run_key else "")
        if instant is not None:
            connection.execute(delete(RUNS).where(RUNS.c.id == one.id))
            of_instant = and_(RUNS.c.of_table == row, RUNS.c.run_key == instant, RUNS.c.requester == "")
            connection.execute(update(RUNS).where(of_instant).values(requester=one.requester))


def _end_earlier_tries(connection: Connection, row: int, run: Run) -> None:
    """Mark earlier tries of a task as failed.

    Airflow starts a try after the end of the one before.
    """
    names = ("service", "dag_run", "begun_ms")
    fitting = storable_row(RUNS, {"run_key": run.key, **{name: getattr(run, name) for name in names}})
    earlier = and_(
        RUNS.c.of_table == row,
        RUNS.c.state == "running",
        RUNS.c.run_key.not_in((fitting["run_key"], RUNS.c.instant)),
        RUNS.c.service == fitting["service"],
        RUNS.c.dag_run == fitting["dag_run"],
        RUNS.c.begun_ms <= fitting["begun_ms"],
    )
    _fail(connection, earlier, GHOST, fitting["begun_ms"])


def _fail(connection: Connection, which: Any, note: str, ended_ms: Any) -> None:
    connection.execute(update(RUNS).where(which).values(state="failed", note=note, ended_ms=ended_ms))


def _drop_oldest(connection: Connection, row: int, table: Any, time: Any, at_most: int) -> None:
    """Delete the rows of a table beyond the newest ones."""
    last = select(time).where(table.c.of_table == row).order_by(time.desc()).offset(at_most).limit(1).scalar_subquery()
    connection.execute(delete(table).where(table.c.of_table == row, time <= last))
