"""Resolve an instant or ISO time to an instant in the time zone of the table."""

from __future__ import annotations

from hudi_ops.clock import Clock
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.plans import RestorePlan, read_plan
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.head import open_log
from hudi_ops.timeline.log.reserve import CLOCK_AHEAD_MS_MAX
from hudi_ops.timeline.names import instant_of_ms, is_instant, parse_instant
from hudi_ops.timeline.settings.settings_check import parsed_config
from hudi_ops.timeline.state import CommitReader

_EASTERNMOST_MS = 14 * 3_600_000
"""Largest offset of a time zone from UTC: a table in local time need not say its zone, and a machine need not know zones."""


def as_of_restore(storage: Storage, timeline: Timeline, as_of: str | None) -> str | None:
    """Return the instant as of which to read: at most the savepoint of a pending restore.

    The restore undoes one write after another. The states in between are not readable: a clean may have removed files that they
    need.

    Raises:
        Corrupt: the plan of the restore cannot be read.
    """
    for one in timeline.pending:
        plan = read_plan(storage, timeline, one) if one.action == "restore" else None
        if isinstance(plan, RestorePlan) and plan.savepoint and timeline.find(plan.savepoint) is not None:
            return plan.savepoint if as_of is None else min(as_of, plan.savepoint)
    return as_of


def refuse_before_start(config: TableConfig, timeline: Timeline, as_of: str | None) -> None:
    """Refuse to read as of an instant before the active timeline.

    Raises:
        InvalidRequest: it lies before the timeline's start.
    """
    if as_of is not None and as_of < timeline.start:
        raise InvalidRequest(
            f"the table cannot be read as of {as_of}: it lies before the active timeline",
            table=config.name,
            expected=f"an instant at or after {timeline.start}",
            found=as_of,
            next_step="choose one from `hudi-ops timeline`",
        )


def refuse_future(config: TableConfig, timeline: Timeline, time: str | None, clock: Clock) -> None:
    """Refuse a time in the future.

    As of such a time a later read would give other rows, and after it writes would be passed over. A time up to the table's
    newest one is known, wherever this clock stands. A table in local time may be ahead by its time zone.

    Raises:
        InvalidRequest: it lies above the table's newest time, and more than a minute (`CLOCK_AHEAD_MS_MAX`) above the present.
    """
    if time is None:
        return
    ahead_ms = CLOCK_AHEAD_MS_MAX + (_EASTERNMOST_MS if config.is_in_local_time else 0)
    limit = max(instant_of_ms(clock.now_ms() + ahead_ms), timeline.newest_time)
    if time > limit:
        raise InvalidRequest(
            f"{time} lies in the future: it cannot be told yet what will have completed by then",
            table=config.name,
            expected=f"a time at or before {limit}; the table's newest is {timeline.newest_time or 'none'}",
            found=time,
            next_step="leave it out for the newest rows, or choose a time from `hudi-ops timeline`",
        )


def instant_meant(storage: Storage, text: str, timezone: str | None = None) -> str:
    """Return an instant from typed digits, which are taken as they are, or an ISO time.

    `timezone` is the time zone of the instants; it is used only for a table in local time without a commit log.

    Raises:
        InvalidRequest: the text is neither an instant nor an ISO time, or it is an ISO time and the table's time zone is unknown.
    """
    config = None if is_instant(text) else parsed_config(storage)
    if config is None or not config.is_in_local_time:
        return parse_instant(text)
    newest = CommitReader(storage).newest_with(load_timeline(storage, config), POINTER_KEY)
    log = open_log(storage, Pointer.decode(newest.extra) if newest is not None else None)
    zone = log.properties.facts.timezone if log is not None else timezone
    if zone is None:
        raise InvalidRequest(
            "the table's instants are in the local time of its writers, and nothing says which zone that is",
            table=config.name,
            expected="an instant of 17 digits, or a time zone",
            found=text,
            next_step="copy an instant from `hudi-ops timeline`, or pass timezone when the table is opened",
        )
    return parse_instant(text, zone)
