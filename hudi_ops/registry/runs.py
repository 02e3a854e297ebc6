"""Say which runs a table itself tells of.

Each instant of the timeline that a process worked on is a run. One function says it when a run ends, when the table is looked at,
and when the registry is made again, so all say the same. What only a process knows is added by the process (`best_effort.py`), and
lost with the registry; docs/registry.md lists it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.registry.recording import GHOST
from hudi_ops.registry.rows import Run, TimelineRuns, process_mark

if TYPE_CHECKING:
    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.health.look import Look
    from hudi_ops.services.inspect.summary import TimelineRow

TOLD_MAX = 200
"""Most runs that a look at a table asks for, the newest: each costs up to three reads of the commit log, once."""

SERVICE_OF_ACTION = {
    "compaction": "compaction",
    "logcompaction": "compaction",
    "clustering": "clustering",
    "clean": "clean",
    "indexing": "indexing",
    "rollback": "rollback",
    "restore": "restore",
}
"""Services by the pending word of their instants; the other instants are those of ingestion."""

_OF_OPERATION = {"COMPACT": "compaction", "LOG_COMPACT": "compaction", "CLUSTER": "clustering", "ALTER_SCHEMA": "alter"}
_RUN_OF_OWNER = re.compile(r" \((.*)\)$")


@dataclass(frozen=True)
class _Named:
    """What the commit log says of instants.

    Attributes:
        dag_runs: run of Airflow of the last process that worked on an instant.
        taken_ms: when the last executor took an instant over, in ms since 1970.
        cancels: requester and time, in ms since 1970, of a cancel.
    """

    dag_runs: Mapping[str, str]
    taken_ms: Mapping[str, int]
    cancels: Mapping[str, tuple[str, int]]


def runs_of_look(
    look: Look,
    *,
    known: Collection[str] = (),
    rows: Mapping[tuple[str, str, str], TimelineRow] | None = None,
    only: Collection[str] | None = None,
    archived: bool = False,
    at_most: int = TOLD_MAX,
) -> TimelineRuns:
    """Return the runs that a table tells of.

    Args:
        look: at the table.
        known: instants of runs that ended, and are known.
        rows: of `describe_timeline`, which are not read again.
        only: these instants; None: the newest.
        archived: also those that were archived.
        at_most: number of runs, the newest.

    Raises:
        Corrupt: the commit log or the history cannot be read.
        Unavailable: storage did not answer.
    """
    from hudi_ops.services.inspect.summary import describe_timeline

    storage, timeline = look.session.ctx.storage, look.state.timeline
    told = describe_timeline(storage, archived=archived, limit=at_most, known=rows, only=only)
    fresh = [row for row in told if row.time and row.time not in known and row.action != "savepoint"]
    named = _named(look, min((row.time for row in fresh), default=""))
    runs = [run for row in fresh if (run := _run(look, row, named)) is not None]
    instants = {one.time for one in (*timeline.instants, *timeline.aborted)}
    since = max(timeline.start, min((row.time for row in told), default="")) if only is None else ""
    return TimelineRuns(runs, frozenset(instants), since if timeline.start else "", dead=_dead(look, fresh))


def runs_of_table(location: TableLocation, instants: Collection[str]) -> tuple[str, TimelineRuns]:
    """Return the id of the table at a location, and the runs that it tells of, of some instants.

    Raises:
        HudiOpsError: the table cannot be read.
    """
    from hudi_ops.health.look import Look
    from hudi_ops.health.many import session_at

    look = Look.at(session_at(location))
    return look.state.log.table_id, runs_of_look(look, only=instants, at_most=len(instants))


def _run(look: Look, row: TimelineRow, named: _Named) -> Run | None:
    """Return the run of an instant.

    None: no process has worked on it, or it is no time of the calendar.
    """
    from hudi_ops.timeline.names import ms_of_instant

    try:
        begun_ms = ms_of_instant(row.time, look.state.zone)
        ended_ms = ms_of_instant(row.completion_time, look.state.zone) if row.completion_time else None
    except InvalidRequest:
        return None
    service, note, state = _service(look, row), row.note, "succeeded"
    requester, cancelled_ms = named.cancels.get(row.time, ("", begun_ms))
    dag_run = named.dag_runs.get(row.time, "")
    if row.state == "aborted":
        state, ended_ms, requester = "cancelled", cancelled_ms, row.owner
    elif row.state != "completed":
        lease = look.lease_of(row.time)
        if lease is None and row.state == "requested":
            return None  # a plan that waits
        is_live = lease is not None and not lease.is_dead(look.session.ctx.clock)
        state, note = ("running", note) if is_live else ("failed", GHOST)
        dag_run = lease.owner.run if lease is not None and lease.owner is not None else dag_run
    elif service == "ingestion" and row.operation:
        note = f"{row.operation}: {note}" if note else row.operation
    return Run(
        key=row.time,
        service=service,
        state=state,
        begun_ms=max(begun_ms, named.taken_ms.get(row.time, begun_ms)),
        ended_ms=ended_ms,
        instant=row.time,
        bytes=row.bytes_written,
        rows=row.rows_written,
        note=note,
        dag_run=dag_run,
        requester=requester,
    )


def _dead(look: Look, rows: Iterable[TimelineRow]) -> dict[str, str]:
    """Return the marks of processes that ended without completing their instants.

    Each has the newest of these instants.
    """
    found = {}
    for row in rows:
        lease = look.lease_of(row.time) if row.state not in {"completed", "aborted"} else None
        # Of an attempt that failed the process may go on.
        if (
            lease is not None
            and lease.owner is not None
            and not lease.has_ended
            and lease.is_dead(look.session.ctx.clock)
        ):
            found[process_mark(lease.owner)] = row.time
    return found


def _service(look: Look, row: TimelineRow) -> str:
    """Return the service of an instant, as its DAG is called."""
    found = SERVICE_OF_ACTION.get(row.action) or _OF_OPERATION.get(row.operation, "ingestion")
    return "resizing" if found == "clustering" and _is_resize(look, row) else found


def _is_resize(look: Look, row: TimelineRow) -> bool:
    """Return whether the plan of a clustering resizes buckets; one that cannot be read does not."""
    from hudi_ops.index.resizes import is_resize
    from hudi_ops.timeline.cancel.aborted import read_aborted
    from hudi_ops.timeline.cancel.aborted_history import load_aborted
    from hudi_ops.timeline.content.plans import decode_plan, read_plan

    storage, timeline = look.session.ctx.storage, look.state.timeline
    plan = timeline.find(row.time, row.action)
    try:
        if plan is not None:
            return is_resize(read_plan(storage, timeline, plan))
        aborted = next((one for one in timeline.aborted if one.time == row.time), None)
        records = [read_aborted(storage, timeline, aborted)] if aborted is not None else load_aborted(storage, row.time)
        return any(is_resize(decode_plan(one.action, base64.b64decode(one.plan))) for one in records)
    except (HudiOpsError, ValueError):
        return False


def _named(look: Look, oldest: str) -> _Named:
    """Return what the commit log says of instants from the oldest one on.

    Without an instant, or without a log, it says nothing.
    """
    from hudi_ops.timeline.log.entries import Cancel, Complete, Takeover
    from hudi_ops.timeline.log.head import reaching_back

    dag_runs: dict[str, str] = {}
    taken_ms: dict[str, int] = {}
    cancels: dict[str, tuple[str, int]] = {}
    if oldest and look.is_adopted:
        for _, entry in reaching_back(look.session.ctx.storage, look.state.log, oldest).own:
            if isinstance(entry, Takeover | Complete):
                found = _RUN_OF_OWNER.search(entry.owner)
                dag_runs[entry.instant] = found[1] if found is not None else ""
                if isinstance(entry, Takeover):
                    taken_ms[entry.instant] = entry.at_ms
            elif isinstance(entry, Cancel):
                cancels.setdefault(entry.instant, (entry.requester or entry.owner, entry.at_ms))
    return _Named(dag_runs, taken_ms, cancels)
