"""Policies of a clean, and the earliest instant that each retains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from hudi_ops.commit.holds import Hold
from hudi_ops.config.requests import CleanRequest
from hudi_ops.services.clean.history import NONE, PastColumns, PastSlice
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.files import Flags

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

    def drops(self, past: PastColumns, earliest: str) -> Flags:
        """Return which slices the policy drops, given the earliest retained instant."""
        if self.has_earliest:
            found: Flags = (past.superseded != NONE) & (past.superseded < past.below(earliest))
        else:
            found = (past.replaced != NONE) | (past.ages >= self.retain)
        return found

    @property
    def retained_ms(self) -> int:
        """Return how long the policy `hours` retains instants, in ms."""
        return self.retain * _MS_PER_HOUR

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
            since = instant_of_ms(now_ms - self.retained_ms, state.zone)
            # If no write lies within these hours, the newest one is what readers see in them.
            return next((time for time in writes if time >= since), writes[-1])
        return ""

    def until_ms(self, state: TableState, now_ms: int) -> int | None:
        """Return when the clock alone changes the earliest instant that the policy retains.

        In ms since 1970; None: never.
        """
        wanted = self.wanted(state, now_ms) if self.name == "hours" else ""
        if not wanted or wanted == state.timeline.completed_writes[-1].time:
            return None
        return ms_of_instant(wanted, state.zone) + self.retained_ms + 1


@dataclass(frozen=True)
class Limit:
    """Instant past which a pending instant or a hold lets no clean retain its earliest instant.

    Attributes:
        keeper: the pending instant, or the hold.
        instant: the latest instant that is allowed; empty: all instants are retained.
        why: for people.
    """

    keeper: Instant | Hold
    instant: str
    why: str


def limits_of(state: TableState, wanted: str, held: Sequence[Hold]) -> Iterator[Limit]:
    """Yield what keeps the earliest retained instant below that of the policy alone.

    Args:
        state: of the table.
        wanted: what the policy alone retains.
        held: the holds that have not expired.
    """
    writes = [write.time for write in state.timeline.completed_writes]
    for one in state.timeline.pending:
        if one.time <= wanted and one.action != "clean":
            last = max((time for time in writes if time < one.time), default="")
            yield Limit(one, last, f"{one.action} {one.time} is pending")
    for hold in held:
        if hold.instant < wanted:
            yield Limit(hold, max((time for time in writes if time <= hold.instant), default=""), hold.why)


def earliest_retained(policy: Policy, state: TableState, now_ms: int, held: Sequence[Hold], floor: str) -> Earliest:
    """Return the earliest instant that a clean retains.

    It is never past a pending instant or a hold, and never below that of an earlier clean.

    Args:
        policy: of the clean.
        state: of the table.
        now_ms: time in ms since 1970.
        held: the holds that have not expired.
        floor: earliest retained instant of the cleans before, or empty.
    """
    wanted = policy.wanted(state, now_ms)
    if not policy.has_earliest:
        return Earliest()
    if not wanted:
        return Earliest(floor, wanted)
    limit = min(limits_of(state, wanted, held), key=attrgetter("instant"), default=None)
    found, why = (limit.instant, limit.why) if limit is not None else (wanted, "")
    return Earliest(max(found, floor), wanted, why)
