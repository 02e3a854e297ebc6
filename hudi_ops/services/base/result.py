"""Plan and result of a service, as users get them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from hudi_ops.formats.html_table import html_table
from hudi_ops.services.base.choice import Reason, Verdict
from hudi_ops.services.base.cost import Cost


@dataclass(frozen=True)
class Result:
    """Base of all results that users get."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Return the result as a small table, for notebooks."""
        plain = {name: value for name, value in self.as_dict().items() if not isinstance(value, dict)}
        return html_table(type(self).__name__, plain)


@dataclass(frozen=True)
class EndedPlans(Result):
    """Overdue and cancelled plans that a call ended.

    In a dry run they are those that it would end.

    Attributes:
        cancelled: instants of the overdue plans that it cancelled.
        removed: instants of the cancelled plans that it removed from the timeline.
        waiting: instants of the cancelled plans that stay until their executor has stopped.
    """

    cancelled: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceResult(Result):
    """Result of a service run. `instant` is None if nothing was done; `note` says why."""

    table: str
    instant: str | None
    completion_time: str | None = None
    note: str = ""
    engine: str = ""
    engine_reason: str = ""
    epoch: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class PlanResult(Result):
    """A published plan, or the one that a dry run would publish.

    `instant` is None in a dry run and when nothing was planned; `note` says why. `verdicts` name all planned file groups and some
    of the others; `counts` has all of them, by reason. While the plan was made, `log_files_added` log files completed and joined
    it, and others took `groups_dropped` groups. `ended_plans` are plans of lower priority that were cancelled. `ended_first` has
    the plans of other services that a clean ended before it chose files. `view` says how the table's file-system view was found:
    `built`, or `kept` or `stored` and the instants that were applied to it; empty: it was not asked. `measures` are those of the
    table's health that this service mends, in a dry run.
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
    ended_plans: tuple[str, ...] = ()
    ended_first: EndedPlans = field(default_factory=EndedPlans)
    view: str = ""
    measures: dict[str, float | None] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def planned(self) -> tuple[Verdict, ...]:
        """Return the file groups of the plan."""
        return tuple(verdict for verdict in self.verdicts if verdict.reason == Reason.PLANNED)
