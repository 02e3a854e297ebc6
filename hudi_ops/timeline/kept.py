"""Carry cached values of a timeline over to the next timeline.

A commit changes one instant of perhaps a thousand. Only values that depend on it are computed anew. A timeline also records which
instants changed since each of the last few timelines, so that other modules can carry over their own cached values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import newest_of

if TYPE_CHECKING:
    from hudi_ops.timeline.active import Timeline

Key: TypeAlias = tuple[str, str]
"""Request time of an instant, and the word of its completed file."""
Moved: TypeAlias = tuple[Instant | None, Instant | None]
"""An instant before and after a change; None if it did not exist."""

STEPS_KEPT_MAX = 32
"""Number of earlier timelines whose changes a timeline records; a commit creates three or four timelines."""

_time_of = attrgetter("time")
_completion_of = attrgetter("completion_time")


class Step(NamedTuple):
    """Serial number of a timeline, and the instants that changed in the timeline after it."""

    serial: int
    moved: frozenset[Key]


class Unlogged(NamedTuple):
    """Completed writes without a COMPLETE in a log, newest completion first.

    `lineage` and `head` are those of the log (`Log.lineage`).
    """

    lineage: object
    head: int
    writes: tuple[Instant, ...]


def moved_between(before: Timeline, after: Timeline) -> dict[Key, Moved] | None:
    """Return the instants that differ between two timelines; None if this is unknown.

    It is known if one grew from the other, or both from a third one.
    """
    own = (*before.steps, Step(before.serial, frozenset()))
    places = {step.serial: at for at, step in enumerate(own)}
    keys: set[Key] = set()
    for step in reversed((*after.steps, Step(after.serial, frozenset()))):
        keys |= step.moved
        if step.serial in places:
            keys.update(*(one.moved for one in own[places[step.serial] :]))
            found = {key: (_instant(before, key), _instant(after, key)) for key in keys}
            return {key: (old, now) for key, (old, now) in found.items() if old != now}
    return None


def _instant(timeline: Timeline, key: Key) -> Instant | None:
    time, kind = key
    return next((one for one in timeline.by_time.get(time, ()) if one.kind == kind), None)


def keep_derived(before: Timeline, after: Timeline, moved: Mapping[Key, Moved]) -> None:
    """Copy cached values of one timeline to the next, updated by the changed instants."""
    derived, kept = vars(before), vars(after)
    if "by_time" in derived:
        kept["by_time"] = _by_time(before.by_time, moved)
    if "by_kind" in derived:
        kept["by_kind"] = _by_kind(before.by_kind, moved)
    if "done" in derived:
        now_done = (" ".join(key) for key, (_, now) in moved.items() if now is not None and now.is_completed)
        kept["done"] = before.done.difference(map(" ".join, moved)).union(now_done)
    if "raised" in derived and "by_time" in kept:
        times_moved = {time for time, _ in moved}
        now_raised = (time for time in times_moved if are_raised(after.by_time.get(time, ())))
        kept["raised"] = before.raised.difference(times_moved).union(now_raised)
    if "pending" in derived:
        others = [one for one in before.pending if (one.time, one.kind) not in moved]
        pending = (now for _, now in moved.values() if now is not None and not now.is_completed)
        kept["pending"] = tuple(sorted((*others, *pending), key=order_of))
    times = {time for _, now in moved.values() if now is not None for time in _times(now)}
    is_only_more = all(times.issuperset(_times(old)) for old, _ in moved.values() if old is not None)
    if "known_times" in derived and is_only_more:
        kept["known_times"] = before.known_times | times
    if "first_completion" in derived and not any(old is not None and old.completion_time for old, _ in moved.values()):
        completions = (now.completion_time for _, now in moved.values() if now is not None and now.completion_time)
        kept["first_completion"] = min((*filter(None, (before.first_completion,)), *completions), default="")
    if "newest_time" in derived and is_only_more:
        kept["newest_time"] = max(before.newest_time, newest_of(times))
    _keep_writes(before, kept, moved)
    if "unlogged" in derived:
        _keep_unlogged(derived["unlogged"], kept, moved)
    kept["steps"] = (*before.steps, Step(before.serial, frozenset(moved)))[-STEPS_KEPT_MAX:]


def _by_time(before: Mapping[str, tuple[Instant, ...]], moved: Mapping[Key, Moved]) -> dict[str, tuple[Instant, ...]]:
    grouped = dict(before)
    for (time, kind), (_, now) in moved.items():
        others = [one for one in grouped.get(time, ()) if one.kind != kind]
        held = tuple(sorted((*others, now) if now is not None else others, key=order_of))
        if held:
            grouped[time] = held
        else:
            grouped.pop(time, None)
    return grouped


def _by_kind(before: Mapping[str, tuple[Instant, ...]], moved: Mapping[Key, Moved]) -> dict[str, tuple[Instant, ...]]:
    grouped = dict(before)
    for kind in {kind for _, kind in moved}:
        held = grouped.pop(kind, ())
        since = min(time for time, of_kind in moved if of_kind == kind)
        at = bisect_left(held, since, key=_time_of)
        now = {instant.time: instant for instant in held[at:]}
        for (time, of_kind), (_, instant) in moved.items():
            if of_kind == kind:
                now.pop(time, None)
                if instant is not None:
                    now[time] = instant
        grouped[kind] = (*held[:at], *(now[time] for time in sorted(now)))
        if not grouped[kind]:
            del grouped[kind]
    return grouped


def are_raised(instants: Sequence[Instant]) -> bool:
    """Return whether instants of one request time all have it as completion time, too."""
    return bool(instants) and all(one.time == one.completion_time for one in instants)


def _keep_writes(before: Timeline, kept: dict[str, object], moved: Mapping[Key, Moved]) -> None:
    """Carry over the completed writes, if at most one write completed and none vanished.

    A sorted value is carried over only if the new write is the newest in its order.
    """
    if any(old is not None and is_done(old) for old, _ in moved.values()):
        return
    done = [now for _, now in moved.values() if now is not None and is_done(now)]
    if len(done) > 1:
        return
    derived = vars(before)
    if "completions" in derived:
        kept["completions"] = before.completions | {(one.time, one.completion_time) for one in done}
    if "deltas" in derived:
        kept["deltas"] = before.deltas.union(one.time for one in done if one.kind == "deltacommit")
    if "completed_writes" in derived:
        held = before.completed_writes
        if not done or not held or order_of(held[-1]) < order_of(done[0]):
            kept["completed_writes"] = (*held, *done) if done else held
    if "newest_first" in derived:
        latest = before.newest_first
        if not done or not latest or latest[0].completion_time < done[0].completion_time:
            kept["newest_first"] = (*done, *latest) if done else latest


def is_done(instant: Instant) -> bool:
    """Return whether an instant is a completed write."""
    return instant.is_completed and instant.is_write


def order_of(instant: Instant) -> Key:
    """Return the sort key of an instant on a timeline."""
    return instant.time, instant.kind


def _times(instant: Instant) -> tuple[str, ...]:
    return (instant.time, instant.completion_time) if instant.completion_time else (instant.time,)


def _keep_unlogged(held: Unlogged, kept: dict[str, object], moved: Mapping[Key, Moved]) -> None:
    """Carry over the writes that are not in the log, and add the newly completed ones.

    `unlogged_since` later removes those that are in the log.
    """
    writes = held.writes
    if any(old is not None and is_done(old) for old, _ in moved.values()):
        writes = tuple(one for one in writes if (one.time, one.kind) not in moved)
    if done := [now for _, now in moved.values() if now is not None and is_done(now)]:
        newest = sorted(done, key=_completion_of, reverse=True)
        is_above = not writes or writes[0].completion_time < newest[-1].completion_time
        writes = (*newest, *writes) if is_above else tuple(sorted((*newest, *writes), key=_completion_of, reverse=True))
    kept["unlogged"] = held._replace(writes=writes)
