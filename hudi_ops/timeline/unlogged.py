"""Find completed writes without a COMPLETE in the loaded part of the log.

Nearly all recent writes have one. So the writes without one are cached with the timeline, and a commit only examines new writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.kept import Unlogged
from hudi_ops.timeline.state import TableState


def unlogged_since(state: TableState, time: str) -> Iterator[Instant]:
    """Yield completed writes without a COMPLETE in the loaded log, newest completion first.

    Args:
        state: timeline and log.
        time: earliest completion time.
    """
    timeline, log = state.timeline, state.log
    held: Unlogged | None = vars(timeline).get("unlogged")
    # After a VOID or RESTORE (another lineage) a log completes fewer writes than before. A log that was cut stays in its lineage.
    is_good = held is not None and held.lineage is log.lineage and held.head <= log.head
    writes = held.writes if held is not None and is_good else timeline.newest_first
    end = bisect_left(range(len(writes)), True, key=lambda at: writes[at].completion_time < time)
    recent = [write for write in writes[:end] if write.time not in log.completed]
    if not is_good or len(recent) < end:
        vars(timeline)["unlogged"] = Unlogged(log.lineage, log.head, (*recent, *writes[end:]))
    return iter(recent)
