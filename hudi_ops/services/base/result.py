"""Hold what users hear of a service: its progress, its plan and its result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hudi_ops.services.base.choice import Reason, Verdict
from hudi_ops.services.base.cost import Cost


@dataclass(frozen=True, slots=True)
class Progress:
    """How far long work has come: units of `what`, and bytes where they are known."""

    what: str
    done: int
    total: int
    bytes_done: int = 0
    bytes_in: int = 0


@dataclass(frozen=True)
class ServiceResult:
    """What a service did to a table. `instant` is None when it did nothing; `note` says why. `seconds` is wall-clock time."""

    table: str
    instant: str | None
    completion_time: str | None = None
    note: str = ""
    engine: str = ""
    engine_reason: str = ""
    epoch: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class PlanResult:
    """A plan that was published, or would be. `instant` is None in a dry run and when nothing was planned; `note` says why.

    `verdicts` name all planned file groups and some of the others; `counts` has all of them, by reason. While the plan was made,
    `log_files_added` completed and joined it, and `groups_dropped` were taken by others.
    """

    table: str
    instant: str | None
    strategy: str
    threshold: float
    note: str
    verdicts: tuple[Verdict, ...]
    counts: dict[str, int]
    estimate: Cost
    dry_run: bool = False
    log_files_added: int = 0
    groups_dropped: int = 0
    seconds: float = 0.0

    @property
    def planned(self) -> tuple[Verdict, ...]:
        """Return the file groups of the plan."""
        return tuple(verdict for verdict in self.verdicts if verdict.reason == Reason.PLANNED)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        # `came` and `left` are the old names of two fields, for readers of JSON; they go with the next release.
        return {**asdict(self), "came": self.log_files_added, "left": self.groups_dropped}
