"""Take a picture of one table: all that is shown of it, read at one time.

Programs that show tables read pictures from the registry, and never a table. What reads tables is loaded only when a picture is
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hudi_ops.errors import HudiOpsError, Unsupported

if TYPE_CHECKING:
    from hudi_ops.concurrency.lease.lease import Lease
    from hudi_ops.config.tables_file import TableLocation
    from hudi_ops.health.look import Look
    from hudi_ops.services.inspect.summary import TimelineRow

FORM: Literal[1] = 1
"""Form of pictures. Pictures of another form are not shown."""

INSTANTS_MAX = 1000
"""Most instants of a picture, the newest."""

ABORTED_MAX = 20
"""Most aborted plans of a picture, the newest."""

LEASES_MAX = 200
"""Most leases of a picture, and most savepoints and holds that keep nothing beyond the policy."""

UNREADABLE = "cannot be read: "
"""Note of an instant whose file was damaged: it is read again for the next picture."""

T = TypeVar("T")


class Picture(BaseModel):
    """What is shown of one table, as plain values."""

    model_config = ConfigDict(frozen=True)

    form: Literal[1] = Field(default=FORM, description="Form of the picture.")
    release: str = Field(default="", description="Release of hudi-ops that took it.")
    at: str = Field(description="When it was taken, as ISO time in UTC.")
    name: str = Field(description="Name of the table in tables.yaml, or its folder.")
    path: str = Field(description="URI of the table.")
    table_id: str = Field(description="Of its commit log; empty: it was not adopted.")
    digest: str = Field(description="Of the table's state, see `health.seen.state_digest`.")
    head: int = Field(description="Newest slot of the commit log, of which the digest is; -1: no log.")
    changes_with_time: bool = Field(
        description="Whether it changes although the table does not: leases end, plans become overdue, holds expire, and another "
        "process gets the lock."
    )
    about: dict[str, Any] = Field(default={}, description="As `hudi-ops show NAME --json` prints it.")
    timeline: list[dict[str, Any]] = Field(default=[], description="Newest rows of `hudi-ops timeline NAME --json`.")
    timeline_left: int = Field(default=0, description="Number of older instants on the timeline.")
    plans: list[dict[str, Any]] = Field(
        default=[], description="Rows of `hudi-ops plans NAME --aborted --json`: all pending ones, the newest aborted."
    )
    leases: list[dict[str, Any]] = Field(
        default=[], description="instant, role, owner, run, beat_ms, expires_ms, is_dead."
    )
    lock: dict[str, Any] = Field(default={}, description="As `hudi-ops lock NAME --json` prints it.")
    indexes: list[dict[str, Any]] = Field(default=[], description="Rows of `hudi-ops index NAME show --json`.")
    keepers: list[dict[str, Any]] = Field(
        default=[],
        description="kind (savepoint, hold, plan), name, files, bytes, detail: what keeps files that the policy drops.",
    )
    errors: dict[str, dict[str, Any]] = Field(default={}, description="For parts that could not be read, the error.")


def picture_of(
    location: TableLocation, previous: Picture | Mapping[str, Any] | None = None, look: Look | None = None
) -> Picture:
    """Take a picture of the table at a location; change nothing.

    A part that cannot be read is empty, and `errors` says why.

    Args:
        location: of `locate_table`.
        previous: last picture of the table; instants that it has are not read again.
        look: at the table, whose state is shown; None: a new one.

    Raises:
        InvalidRequest: the path is not a table.
        Unsupported: its version cannot be read.
        Unavailable: storage did not answer.
        Conflict: another process dropped it and made it again during the call.
        Corrupt: its settings, its commit log or its timeline cannot be read.
    """
    from hudi_ops.config.definition import OpenOptions
    from hudi_ops.health.health import release
    from hudi_ops.health.look import Look
    from hudi_ops.health.many import session_at
    from hudi_ops.health.seen import state_digest
    from hudi_ops.health.verdict import said_time
    from hudi_ops.services.cancel.plans import describe_plans
    from hudi_ops.services.inspect.indexes import show_indexes
    from hudi_ops.services.inspect.locks import describe_lock, read_leases
    from hudi_ops.services.inspect.summary import describe_table, describe_timeline

    look = look or Look.at(session_at(location))
    session, state = look.session, look.state
    storage, clock = session.ctx.storage, session.ctx.clock
    errors: dict[str, dict[str, Any]] = {}

    def part(name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except HudiOpsError as error:
            errors[name] = error.at(table=location.name).as_dict()
            return None

    digest = state_digest(storage, state.log.head)
    upkeep = OpenOptions(**location.options()).upkeep
    known = known_rows(previous, storage.uri, state.log.table_id)
    rows = part("timeline", lambda: describe_timeline(storage, limit=INSTANTS_MAX, known=known)) or []
    aborted = sum(one.state.name == "ABORTED" for one in state.timeline.aborted)
    plans = part("plans", lambda: describe_plans(session, aborted=True)) or []
    ended = [one for one in plans if one.state == "aborted"]
    held = part("leases", lambda: read_leases(storage))
    lock = part("lock", lambda: describe_lock(location, storage, clock, held)) or {}
    leases = [_lease(one, look) for one in (held or [])[:LEASES_MAX]]
    keepers = part("keepers", lambda: _keepers(look)) or []
    pending = [one for one in plans if one.state != "aborted"]
    found = Picture(
        release=release(),
        at=said_time(look.now_ms),
        name=location.name,
        path=storage.uri,
        table_id=state.log.table_id if look.is_adopted else "",
        digest=digest,
        head=state.log.head,
        changes_with_time=bool(pending or leases or lock.get("line") or any(one["kind"] == "hold" for one in keepers)),
        about=part("about", lambda: describe_table(storage, upkeep, clock).as_dict()) or {},
        timeline=[row.as_dict() for row in rows],
        timeline_left=max(0, len(state.timeline.instants) + aborted - len(rows)) if "timeline" not in errors else 0,
        plans=[one.as_dict() for one in (*ended[-ABORTED_MAX:], *pending)],
        leases=leases,
        lock=lock,
        indexes=part("indexes", lambda: [one.as_dict() for one in show_indexes(session)]) or [],
        keepers=keepers,
        errors=errors,
    )
    # What is not supported today is not supported at the next look either.
    may_mend = any(error["exit_code"] != Unsupported.exit_code for error in errors.values())
    return found.model_copy(
        update={"changes_with_time": found.changes_with_time or may_mend, "plans": _by_instant(found.plans)}
    )


def picture_from(given: Picture | Mapping[str, Any] | None) -> Picture | None:
    """Return a picture from its plain values; None: of another form, or none at all."""
    if given is None or isinstance(given, Picture):
        return given
    try:
        return Picture.model_validate(given)
    except ValueError:
        return None


def _by_instant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["instant"]))


def known_rows(
    previous: Picture | Mapping[str, Any] | None, uri: str, table_id: str
) -> dict[tuple[str, str, str], TimelineRow]:
    """Return the rows of completed instants of the previous picture: they never change."""
    from hudi_ops.health.health import release
    from hudi_ops.services.inspect.summary import TimelineRow

    before = picture_from(previous)
    if before is None or (before.release, before.path, before.table_id) != (release(), uri, table_id) or not table_id:
        return {}
    rows = [TimelineRow(**row) for row in before.timeline if row["state"] == "completed"]
    return {(row.time, row.action, row.completion_time): row for row in rows if not row.note.startswith(UNREADABLE)}


def _lease(lease: Lease, look: Look) -> dict[str, Any]:
    from hudi_ops.services.cancel.plans import executor_of

    return {
        "instant": lease.instant,
        "role": lease.role,
        "owner": executor_of(lease),
        "run": lease.owner.run if lease.owner is not None else "",
        "beat_ms": lease.beaten_ms,
        "expires_ms": lease.expires_ms,
        "is_dead": lease.is_dead(look.session.ctx.clock),
    }


def _keepers(look: Look) -> list[dict[str, Any]]:
    """Return what keeps files beyond the policy, the one whose end frees most first.

    Savepoints and holds that keep no such file come last.
    """
    from hudi_ops.commit.holds import live_holds
    from hudi_ops.commit.support import refuse_unserviced
    from hudi_ops.services.clean.keepers import HOLD, SAVEPOINT
    from hudi_ops.services.clean.measure import files_kept

    session, state = look.session, look.state
    try:
        refuse_unserviced(state.config, "a clean")
    except Unsupported:
        return []  # no policy drops files of such a table
    holds = {hold.id: hold for hold in live_holds(session.ctx, look.now_ms)}
    kept = files_kept(session, state, look.view, look.upkeep.clean, look.now_ms)
    kinds = {SAVEPOINT: "savepoint", HOLD: "hold"}
    found = [
        {
            "kind": kinds.get(one.reason, "plan"),
            "name": one.name,
            "files": one.files,
            "bytes": one.bytes,
            "detail": holds[one.name].why if one.name in holds else one.action,
        }
        for one in kept.keepers
    ]
    named = {(one["kind"], one["name"]) for one in found}
    others = [("savepoint", one.time, "") for one in state.timeline.savepoints]
    others += [("hold", hold.id, hold.why) for hold in holds.values()]
    found += [
        {"kind": kind, "name": name, "files": 0, "bytes": 0, "detail": detail}
        for kind, name, detail in others[:LEASES_MAX]
        if (kind, name) not in named
    ]
    return found
