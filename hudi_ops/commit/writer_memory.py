"""What a session remembers from one write to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_ops.timeline.active import Timeline


@dataclass
class WriterMemory:
    """Facts that the writes of one session leave for its next write.

    Attributes:
        gives_way: the current write waits for older overlapping ones; true while retries remain.
        is_clean: the last write ended well and left nothing to recover.
        recovered_s: monotonic time of the last recovery.
        metadata_deltas: delta commits of the metadata table since its last compaction, as of the last write.
        automatic: id of the table and slot of its properties, and the automatic services recorded there; None: not read yet.
        sealed_rings: instants of replace commits whose rings have their `.commit` files, or need none of this session.
        ended_plans: instants of the plans that the last write cancelled.
        counted_clean: a completed clean, and the number of files that it deleted.
        plan_windows: monotonic time until which writes wait for a plan, by the plan's instant.
        waits: number of commits until an automatic service is tried again, by service.
        metadata_timeline: the metadata table's timeline as the last decision listed it: the next delta is made from it, and checked
            under the lock.
    """

    gives_way: bool = False
    is_clean: bool = False
    recovered_s: float = float("-inf")
    metadata_deltas: int = 0
    automatic: tuple[tuple[str, int], Mapping[str, Mapping[str, str | int]]] | None = None
    sealed_rings: set[str] = field(default_factory=set)
    ended_plans: tuple[str, ...] = ()
    counted_clean: tuple[str, int] = ("", 0)
    plan_windows: dict[str, float] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    metadata_timeline: Timeline | None = None

    def is_turn_of(self, service: str) -> bool:
        """Count one commit; return whether an automatic service may be tried after it."""
        self.waits[service] = max(0, self.waits.get(service, 0) - 1)
        return not self.waits[service]
