"""Completed writes that no slot completes, as far as the log was read.

Nearly all that completed lately is in the log. So the writes that are not are kept with the timeline, from one to the next, and a
commit looks at what is new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.kept import Unlogged
from hudi_ops.timeline.state import TableState


def unlogged_since(state: TableState, time: str) -> Iterator[Instant]:
    """Yield completed writes that the read log has no COMPLETE of, newest completion first.

    Args:
        state: of timeline and log.
        time: earliest completion time.
    """
    timeline, log = state.timeline, state.log
    held: Unlogged | None = vars(timeline).get("unlogged")
    # A log of which an entry was voided completes less than one before it. One that was cut tells less, and completes the same.
    is_good = held is not None and held.lineage is log.lineage and held.head <= log.head
    writes = held.writes if held is not None and is_good else timeline.newest_first
    end = bisect_left(range(len(writes)), True, key=lambda at: writes[at].completion_time < time)
    recent = [write for write in writes[:end] if write.time not in log.completed]
    if not is_good or len(recent) < end:
        vars(timeline)["unlogged"] = Unlogged(log.lineage, log.head, (*recent, *writes[end:]))
    return iter(recent)
