"""The fence of RFC-22, option 2: where a reader stops so that nothing it is given later was requested before what it has.

Completion decides what a reader is given and when (docs/protocol.md §15); a fence holds some of it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from hudi_ops.clock import Clock
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.log.checkpoint import brings_rows

_NEVER = "~"
"""Above every time."""


def earliest_live(storage: Storage, clock: Clock, timeline: Timeline, reserved: Iterable[str]) -> str:
    """Request time of the earliest write that may still complete; empty when there is none.

    A pending write counts unless its lease is dead; one without a lease is another program's, of which nobody can tell. So does an
    instant whose name is reserved by a live lease though nothing of it is on the timeline yet.

    Args:
        storage: the table's.
        clock: judges leases.
        timeline: as it is now.
        reserved: instants that had a lease before the timeline was listed.
    """
    known = {one.time for one in timeline}
    pending = [one.time for one in timeline.pending if brings_rows(one)]
    for time in sorted({*pending, *(one for one in reserved if one not in known)}):
        lease = read_lease(storage, time)
        if lease is None and time not in known:
            continue  # it was given up since it was listed
        if lease is None or not lease.is_dead(clock):
            return time
    return ""


def in_both_orders(writes: Sequence[tuple[str, str]], most: int, fence: str) -> int:
    """How many of the writes may be given: the longest beginning by completion that is a beginning by request, too.

    Args:
        writes: (completion time, request time), sorted; all that were not given yet.
        most: so many of them at most.
        fence: request time of the earliest write that is still to come; empty when none is.
    """
    requested = [request for _, request in writes]
    greatest = list(accumulate(requested, max))
    least = list(accumulate([fence or _NEVER, *reversed(requested)], min))[::-1]
    for count in range(most, 0, -1):
        # A checkpoint is a completion time: it cannot part two writes of the same one.
        is_parted = count < len(writes) and writes[count][0] == writes[count - 1][0]
        if greatest[count - 1] < least[count] and not is_parted:
            return count
    return 0
