"""What the decider of a write found on the timeline, as its COMPLETE says: who applies it judges by that what came between.

Source: docs/protocol.md §6.
"""

from __future__ import annotations

from typing import TypedDict

from hudi_ops.timeline.names import REWRITING_ACTIONS, instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState

SEEN_MS = 10 * 60 * 1000
SEEN_MAX = 64
"""How far below its own time, and how many at most, a COMPLETE names completions that its decider has seen."""


class ObservedCompletions(TypedDict):
    """Fields of a COMPLETE that say what its decider found on the timeline."""

    seen: tuple[str, ...]
    seen_from: str


def observed_completions(state: TableState, completion_time: str) -> ObservedCompletions:
    """`seen` and `seen_from` of a write's COMPLETE: what its decider found on the timeline (`entries.Complete`).

    Completions that the log names need no mention. A clock that lags by more than ten minutes, or more than `SEEN_MAX` foreign
    completions in that time, narrow what is noticed; never wrongly.
    """
    since = instant_of_ms(ms_of_instant(completion_time) - SEEN_MS)
    known = {entry.instant for _, entry in state.log.completes()}
    recent = sorted(
        (one.completion_time, one.time)
        for one in state.timeline.completed_writes
        if one.completion_time > since and one.time not in known
    )
    if len(recent) > SEEN_MAX:
        since = recent[-SEEN_MAX - 1][0]
    plans = [one.time for one in state.timeline.pending if one.action in REWRITING_ACTIONS]
    return ObservedCompletions(seen=(*(time for _, time in recent[-SEEN_MAX:]), *plans), seen_from=since)
