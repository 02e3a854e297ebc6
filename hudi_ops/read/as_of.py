"""Resolve an instant or ISO time to an instant in the time zone of the table."""

from __future__ import annotations

from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.log.head import open_log
from hudi_ops.timeline.names import is_instant, parse_instant
from hudi_ops.timeline.settings.settings_check import parsed_config
from hudi_ops.timeline.state import CommitReader


def instant_meant(storage: Storage, text: str, timezone: str | None = None) -> str:
    """Return an instant from typed digits, which are taken as they are, or an ISO time.

    `timezone` is that of instants of a table in local time without a commit log.

    Raises:
        InvalidRequest: no instant and no ISO time, or an ISO time for a table in local time whose zone is unknown.
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
