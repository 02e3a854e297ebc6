"""Resolve an instant or ISO time to an instant in the time zone of the table."""

from __future__ import annotations

from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.plans import RestorePlan, read_plan
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.head import open_log
from hudi_ops.timeline.names import is_instant, parse_instant
from hudi_ops.timeline.settings.settings_check import parsed_config
from hudi_ops.timeline.state import CommitReader


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
