"""Reader fence of RFC-22, option 2: every row returned later has a later request time.

Readers receive writes in order of completion (docs/protocol §15). A fence holds back completed writes that were requested after
a write that may still complete.
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
"""Text above every time."""


def earliest_live(storage: Storage, clock: Clock, timeline: Timeline, reserved: Iterable[str]) -> str:
    """Return the request time of the earliest write that may still complete; empty: none.

    A pending write counts unless its lease is dead; a write without a lease is foreign and may be alive. An instant with a live
    lease that is not on the timeline yet counts, too. `reserved` are the instants that had a lease before the timeline was listed.
    """
    known = {instant.time for instant in timeline}
    pending = [instant.time for instant in timeline.pending if brings_rows(instant)]
    for time in sorted({*pending, *(time for time in reserved if time not in known)}):
        lease = read_lease(storage, time)
        if lease is None and time not in known:
            continue  # released since it was listed
        if lease is None or not lease.is_dead(clock):
            return time
    return ""


def in_both_orders(writes: Sequence[tuple[str, str]], most: int, fence: str) -> int:
    """Return the length of the longest prefix by completion that is also a prefix by request.

    `writes` are the sorted (completion time, request time) of writes that the reader has not received; `most` bounds the result.
    `fence` is the request time of the earliest write that may still complete; empty without one.
    """
    requested = [request for _, request in writes]
    greatest = list(accumulate(requested, max))
    least = list(accumulate([fence or _NEVER, *reversed(requested)], min))[::-1]
    for count in range(most, 0, -1):
        # A checkpoint is a completion time: it cannot separate two writes of the same time.
        is_parted = count < len(writes) and writes[count][0] == writes[count - 1][0]
        if greatest[count - 1] < least[count] and not is_parted:
            return count
    return 0
