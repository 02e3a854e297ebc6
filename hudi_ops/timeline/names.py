"""Grammar of instant times and of timeline file names, both layouts.

Instant times are text: `yyyyMMddHHmmssSSS`, compared as strings everywhere, by Apache Hudi too. Source: docs/format §2.1, §2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hudi_ops.clock import bounded_ms
from hudi_ops.errors import InvalidRequest


class State(IntEnum):
    """State of an instant; the highest state on storage counts.

    An aborted plan (RFC-79) has no pending file. While one exists beside `.aborted`, the plan's removal is not finished. The mark
    `swept` beside `.aborted` says that the second sweep for its files is done.
    """

    SWEPT = -2
    ABORTED = -1
    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


COMPLETED_ACTIONS = frozenset({
    "commit",
    "deltacommit",
    "replacecommit",
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "indexing",
    "schemacommit",
})
WRITE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit"})
"""Completed actions that add or replace data files. A pending instant has one of these words only if it is ingestion."""
_COMPLETES_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
REWRITING_ACTIONS = frozenset(_COMPLETES_AS)
"""Pending words of the services that rewrite file groups, in the state that their plan names."""
SERVICE_ACTIONS = REWRITING_ACTIONS | {"clean", "indexing"}
"""Pending words of services that execute a plan. Only the rewriting services add data files."""
MERGING_ACTIONS = frozenset({"compaction", "logcompaction"})
"""Pending words of the services that merge the files of a group within the group."""
_PENDING_ACTIONS = COMPLETED_ACTIONS | _COMPLETES_AS.keys()
_ENDED = {"aborted": State.ABORTED, "aborted.swept": State.SWEPT}
_NAME = re.compile(r"(?P<time>\d+)(?:_(?P<completion>\d+))?\.(?P<rest>[a-z.]+)")


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """Timeline file, by its name.

    `action` is the word in the name (`compaction` while pending, `commit` once complete); `completion_time` is empty unless the
    name carries one.
    """

    name: str
    time: str
    action: str
    state: State
    completion_time: str = ""


def completes_as(action: str) -> str:
    """Return the name under which `action` completes: `commit` for a compaction, for example."""
    return _COMPLETES_AS.get(action, action)


@lru_cache(maxsize=16_384)
def parse_file_name(name: str, layout: int) -> TimelineFile | None:
    """Parse a timeline file name; None for other names, which Apache Hudi skips, too."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    time, completion, rest = match["time"], match["completion"] or "", match["rest"]
    if rest == "inflight":
        return TimelineFile(name, time, "commit", State.INFLIGHT)
    action, _, suffix = rest.partition(".")
    if suffix == "requested" and action in _PENDING_ACTIONS and not completion:
        return TimelineFile(name, time, action, State.REQUESTED)
    if suffix == "inflight" and action in _PENDING_ACTIONS and not completion:
        return TimelineFile(name, time, action, State.INFLIGHT)
    if suffix in _ENDED and action in SERVICE_ACTIONS and not completion:
        return TimelineFile(name, time, action, _ENDED[suffix])
    if suffix or action not in COMPLETED_ACTIONS or (layout == 2) != bool(completion):
        return None
    return TimelineFile(name, time, action, State.COMPLETED, completion)


def requested_name(time: str, action: str) -> str:
    """Return the name of a requested file; `action` is the pending word, such as `compaction`."""
    return f"{time}.{action}.requested"


def inflight_name(time: str, action: str) -> str:
    """Return the name of an inflight file: plain `I.inflight` for commits, in both layouts."""
    return f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight"


def aborted_name(time: str, action: str) -> str:
    """Return the name of the file of an aborted plan; `action` is the pending word."""
    return f"{time}.{action}.aborted"


def swept_name(time: str, action: str) -> str:
    """Return the name of the mark beside `.aborted` which says that no file is left."""
    return f"{aborted_name(time, action)}.swept"


def completed_name(time: str, action: str, completion_time: str) -> str:
    """Return the name of a completed file in layout 2; `action` may be the pending word."""
    return f"{time}_{completion_time}.{completes_as(action)}"


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone of a name.

    Raises:
        InvalidRequest: no time zone has this name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"{name!r} is not a time zone",
            expected="a name of the IANA data base, for example Europe/Berlin or UTC",
            found=repr(name),
            next_step="pass the zone of the machines whose Java programs write the table",
        ) from None


def instant_of_ms(ms: int, zone: str = "UTC") -> str:
    """Return the instant time of a moment, in a time zone: 17 digits, also before the year 1000.

    A moment outside the calendar counts as the nearest one within.

    >>> instant_of_ms(1795255260123)
    '20261121060100123'
    >>> instant_of_ms(1795255260123, "Asia/Kolkata")
    '20261121113100123'
    """
    ms = bounded_ms(ms)
    moment = datetime.fromtimestamp(ms // 1000, tz=UTC if zone == "UTC" else zone_named(zone))
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{ms % 1000:03d}"  # `%Y` does not pad


def ms_of_instant(time: str, zone: str = "UTC") -> int:
    """Return the moment of an instant time in a time zone, in ms since 1970.

    14-digit instants count as their last millisecond. An hour that a clock change repeats means its first pass.

    Raises:
        InvalidRequest: not a calendar time; the metadata table's bootstrap instants are such.
    """
    padded = time + "999" if len(time) == 14 else time
    try:
        moment = datetime.strptime(padded[:14], "%Y%m%d%H%M%S").replace(
            tzinfo=UTC if zone == "UTC" else zone_named(zone)
        )
    except ValueError:
        moment = None
    if moment is None or not re.fullmatch(r"\d{17}", padded):
        raise InvalidRequest(
            f"{time!r} is not an instant time", expected="yyyyMMddHHmmssSSS, 17 digits", found=repr(time)
        )
    return int(moment.timestamp()) * 1000 + int(padded[14:])


def ahead_ms(time: str, now_ms: int, zone: str = "UTC") -> int:
    """Return how far an instant time is ahead of now, in ms; negative when it is behind.

    When a clock change repeats an hour, instants of the first pass look later than the present during the second pass. Such
    instants, and those that rose above them, even past the end of the hour, do not count as ahead.
    """
    moment = datetime.fromtimestamp(now_ms // 1000, tz=UTC if zone == "UTC" else zone_named(zone))
    put_back = (moment.replace(fold=0).utcoffset() or timedelta()) - (moment.utcoffset() or timedelta())
    return ms_of_instant(time, zone) - now_ms - put_back // timedelta(milliseconds=1)


def newest_of(times: Iterable[str]) -> str:
    """Return the newest of some times, or empty; only times of 17 digits are compared."""
    return max((time for time in times if len(time) == 17), default="")


def is_instant(text: str) -> bool:
    """Return whether a text is an instant's digits rather than an ISO time."""
    return re.fullmatch(r"\d{17}|\d{14}", text) is not None


def parse_instant(text: str, zone: str = "UTC") -> str:
    """Parse a typed instant time: 17 or 14 digits, or an ISO date or time (default UTC).

    The result is in the time zone `zone` of the table.

    Raises:
        InvalidRequest: the text is neither.
    """
    if is_instant(text):
        return text if len(text) == 17 else text + "999"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{text!r} is not an instant",
            expected="yyyyMMddHHmmssSSS or an ISO time",
            found=repr(text),
            next_step="copy an instant from `hudi-ops timeline`",
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return instant_of_ms(since // timedelta(milliseconds=1), zone)
