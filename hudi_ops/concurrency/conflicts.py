"""Which completed actions an attempt may not pass: pure rules over footprints.

Source: RFC-22 (order of completion); docs/protocol.md §5.
"""

from __future__ import annotations

from collections.abc import Iterable

from hudi_ops.errors import Conflict
from hudi_ops.timeline.footprint import Footprint
from hudi_ops.timeline.instant import Instant


def refuse_overlap(mine: Footprint, instant: str, completed: Iterable[tuple[Instant, Footprint | None]]) -> None:
    """Check an attempt against everything that completed since it recorded the log's head.

    Args:
        mine: what the attempt wrote, and the source ledgers it read.
        instant: the attempt's own instant, named in the error.
        completed: (instant, what it touched); None for a write set that cannot be told, which conflicts with everything.

    Raises:
        Conflict: the first overlap, naming both instants and what they share.
    """
    for other, footprint in completed:
        shared = ("everything: its write set cannot be told",) if footprint is None else mine.overlap(footprint)
        if shared:
            more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
            raise Conflict(
                f"{other.action} {other.time} completed first and touches the same: {', '.join(shared[:3])}{more}",
                instant=instant,
                expected="no overlapping completion since this attempt began",
                found=f"{other.time}, completed {other.completion_time}",
                next_step="run the same call again: it starts from the table as it is now",
                other=other.time,
            )


def refuse_changed_properties(before: dict[str, str], now: dict[str, str], instant: str) -> None:
    """Check that the settings an attempt relied on still hold.

    Raises:
        Conflict: a property changed; names the first one.
    """
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            raise Conflict(
                f"{key} of hoodie.properties changed while the attempt ran",
                instant=instant,
                expected=str(before.get(key)),
                found=str(now.get(key)),
                next_step="run the same call again: it starts from the table's new settings",
            )
