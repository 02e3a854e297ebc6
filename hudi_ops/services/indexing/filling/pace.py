"""Measure how fast catch-up adds completions and how fast others make them.

The estimate assumes that catch-up has to add every completion, although most writers carry announced partitions by themselves. So
it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hudi_ops.timeline.builds.checkpoint import pace_words
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import ms_of_instant

_LEAST_S = 1.0
"""Shortest time since the announcement that gives a rate: the first write must not look like thousands a second."""


@dataclass
class Pace:
    """Pace of catch-up, and of other writers since the announcement.

    Attributes:
        announced_at: completion time of the build's instant; what completes above it came after the announcement. Empty: it is not
            announced yet.
        zone: time zone of the table's instants.
        before: rate of an earlier executor's catch-up; None: unknown.
        added: number of completions that rounds added.
        added_s: time that these rounds took.
        left: number of known completions that are still to be added; None: not known yet.
    """

    announced_at: str = ""
    zone: str = "UTC"
    before: float | None = None
    added: int = 0
    added_s: float = 0.0
    left: int | None = None
    _others: set[str] = field(default_factory=set)

    def saw(self, completed: Iterable[Instant]) -> None:
        """Note completed instants of the table; those before the announcement do not count."""
        if not self.announced_at:
            return
        self._others |= {one.time for one in completed if one.completion_time > self.announced_at}

    def add_round(self, completions: int, seconds: float) -> None:
        """Count a round of catch-up."""
        self.added += completions
        self.added_s += seconds

    @property
    def catch_up_per_s(self) -> float | None:
        """Return the completions that catch-up adds in a second; None: it has added none."""
        return self.added / self.added_s if self.added and self.added_s > 0 else self.before

    def ingest_per_s(self, now_ms: int) -> float | None:
        """Return the completions of other writers in a second since the announcement, if any."""
        if not self.announced_at:
            return None
        return len(self._others) / max((now_ms - ms_of_instant(self.announced_at, self.zone)) / 1000, _LEAST_S)

    def seconds_left(self, now_ms: int) -> float | None:
        """Return the estimated time to the end of catch-up.

        None: unknown, or other writers complete as fast as catch-up adds.
        """
        catch_up, ingest = self.catch_up_per_s, self.ingest_per_s(now_ms)
        if self.left is None or catch_up is None or ingest is None or ingest >= catch_up:
            return None
        return round(self.left / (catch_up - ingest), 1)

    def facts(self, now_ms: int) -> dict[str, Any]:
        """Return the rates, as checkpoints and results have them."""
        rates = {"catch_up_per_s": self.catch_up_per_s, "ingest_per_s": self.ingest_per_s(now_ms)}
        return {name: None if rate is None else round(rate, 3) for name, rate in rates.items()}

    def words(self, now_ms: int) -> str:
        """Return the rates and the estimate, in words."""
        return "; ".join(pace_words(**self.facts(now_ms), seconds_left=self.seconds_left(now_ms)))
