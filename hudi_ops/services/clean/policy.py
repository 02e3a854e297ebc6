"""Policies of a clean, and the earliest instant that each retains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.config.requests import CleanRequest
from hudi_ops.services.clean.history import PastSlice
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.state import TableState

HUDI_POLICIES = {
    "commits": "KEEP_LATEST_COMMITS",
    "hours": "KEEP_LATEST_BY_HOURS",
    "versions": "KEEP_LATEST_FILE_VERSIONS",
}
"""Names of the policies in Apache Hudi's clean plans."""

RETAINED = {"commits": 10, "hours": 24, "versions": 3}
"""What each policy retains by default, as Apache Hudi does."""

_MS_PER_HOUR = 3_600_000


@dataclass(frozen=True)
class Earliest:
    """Earliest retained instant of a clean; empty: the policy names none, or drops nothing.

    Attributes:
        wanted: what the policy alone would retain.
        kept_back: what moved the instant back, in words; empty: nothing did.
    """

    instant: str = ""
    wanted: str = ""
    kept_back: str = ""


@dataclass(frozen=True)
class Policy:
    """A policy with what it retains: commits, hours, or slices of each file group."""

    name: str
    retain: int

    @classmethod
    def of(cls, request: CleanRequest) -> Policy:
        """Return the policy of a request."""
        return cls(request.policy, RETAINED[request.policy] if request.retain is None else request.retain)

    @property
    def hudi_name(self) -> str:
        """Return the name of the policy in plans."""
        return HUDI_POLICIES[self.name]

    @property
    def has_earliest(self) -> bool:
        """Return whether the policy retains instants; `versions` retains slices."""
        return self.name != "versions"

    def drops(self, slice_: PastSlice, earliest: str) -> bool:
        """Return whether the policy drops a slice, given the earliest retained instant."""
        if self.has_earliest:
            return bool(slice_.superseded) and slice_.superseded < earliest
        return bool(slice_.replaced) or slice_.age >= self.retain

    def why_kept(self, slice_: PastSlice, earliest: str) -> str:
        """Return in words why the policy keeps a slice."""
        if not slice_.superseded:
            return f"the newest slice of its group, made by {slice_.instant}"
        if not self.has_earliest:
            return f"one of the newest {self.retain} slices of its group"
        if not earliest:
            return f"superseded by {slice_.superseded}; no instant is old enough to be dropped"
        return f"superseded by {slice_.superseded}, not before {earliest}, the earliest retained instant"

    def wanted(self, state: TableState, now_ms: int) -> str:
        """Return the earliest instant that the policy alone retains; empty: all are retained."""
        writes = [write.time for write in state.timeline.completed_writes]
        if self.name == "commits":
            return writes[-self.retain] if len(writes) > self.retain else ""
        if self.name == "hours" and writes:
            since = instant_of_ms(now_ms - self.retain * _MS_PER_HOUR, state.zone)
            # If no write lies within these hours, the newest one is what readers see in them.
            return next((time for time in writes if time >= since), writes[-1])
        return ""


def earliest_retained(
    policy: Policy, state: TableState, now_ms: int, held: Sequence[tuple[str, str]], floor: str
) -> Earliest:
    """Return the earliest instant that a clean retains.

    It is never past a pending instant or a hold, and never below that of an earlier clean.

    Args:
        held: (instant, reason) of each hold.
        floor: earliest retained instant of the cleans before, or empty.
    """
    wanted = policy.wanted(state, now_ms)
    if not policy.has_earliest:
        return Earliest()
    if not wanted:
        return Earliest(floor, wanted)
    writes = [write.time for write in state.timeline.completed_writes]
    found, why = wanted, ""
    for one in state.timeline.pending:
        if one.time <= found and one.action != "clean":
            found = max((time for time in writes if time < one.time), default="")
            why = f"{one.action} {one.time} is pending"
            break
    for instant, reason in held:
        if instant < found:
            found, why = max((time for time in writes if time <= instant), default=""), reason
    return Earliest(max(found, floor), wanted, why if found < wanted else "")
