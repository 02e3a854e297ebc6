"""Completions that the decider of a write observed; appliers detect later ones.

Source: docs/protocol.md §6.
"""

from __future__ import annotations

from itertools import islice
from typing import TypedDict

from hudi_ops.timeline.names import REWRITING_ACTIONS, instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.timeline.unlogged import unlogged_since

SEEN_MS = 10 * 60 * 1000
SEEN_MAX = 64
"""Span in ms below the completion time, and largest number, of observed completions in a COMPLETE."""


class ObservedCompletions(TypedDict):
    """The fields of a COMPLETE with what its decider found on the timeline."""

    seen: tuple[str, ...]
    seen_from: str


def observed_completions(state: TableState, completion_time: str) -> ObservedCompletions:
    """Return `seen` and `seen_from` of a write's COMPLETE (`entries.Complete`).

    Completions in the log are not repeated. If a clock lags by more than ten minutes, or more than `SEEN_MAX` foreign writes
    completed in that time, appliers detect fewer later completions, but raise no false alarms.
    """
    since = instant_of_ms(ms_of_instant(completion_time) - SEEN_MS)
    newest_first = (write for write in unlogged_since(state, since) if write.completion_time > since)
    recent = sorted((write.completion_time, write.time) for write in islice(newest_first, SEEN_MAX + 1))
    if len(recent) > SEEN_MAX:
        since = recent[0][0]
    plans = [instant.time for instant in state.timeline.pending if instant.action in REWRITING_ACTIONS]
    return ObservedCompletions(seen=(*(time for _, time in recent[-SEEN_MAX:]), *plans), seen_from=since)
