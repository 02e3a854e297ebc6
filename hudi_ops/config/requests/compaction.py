"""Request model of compactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from hudi_ops.config.doors import Door
from hudi_ops.config.requests.cancel import HOURS_MAX, INSTANTS_MAX, CancelSettings, checked_cancel, parse_cancel
from hudi_ops.config.requests.fields import (
    Abandoned,
    CancelText,
    DryRun,
    Engine,
    MaxBytes,
    Partitions,
    PlanInstant,
    Resume,
)
from hudi_ops.config.requests.request import Request
from hudi_ops.config.requests.starvation import StarvationText, checked_guard
from hudi_ops.errors import InvalidRequest

StrategyName: TypeAlias = Literal["size", "count", "commits", "age"]


CANCEL_FIELDS = frozenset({"cancellable", "cancel_after", "cancel_after_instants", "cancel_on_overlap"})
"""Fields that say the cancel policy one by one; `cancel` says it in one text."""


def checked_strategy(name: str) -> str:
    """Return the name of a compaction strategy in lower case.

    Raises:
        InvalidRequest: there is no such strategy.
    """
    names = get_args(StrategyName)
    if str(name).lower() not in names:
        raise InvalidRequest(f"unknown compaction strategy {name!r}", expected=" or ".join(names), found=str(name))
    return name.lower()


class CompactionRequest(Request):
    """What a compaction plans, and how its plan is executed."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **Request.checks,
        "strategy": checked_strategy,
        "cancel": checked_cancel,
        "starvation": checked_guard,
    }

    strategy: StrategyName = Field(
        default="size",
        title="Strategy",
        description="Which file groups come first: size, most bytes of log files; count, most log files; commits, most delta "
        "commits since they were compacted; age, oldest log file.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        title="Minimum to compact",
        description="Skip file groups below this; the unit depends on the strategy: bytes for size, log files for count, delta "
        "commits for commits, seconds for age. Default: 1 byte, 5, 5, 1 hour.",
    )
    max_bytes: MaxBytes = None
    cancel: CancelText = Field(
        default=None,
        title="Cancel",
        description="Whether a cancel may end the plan: never, cancellable, or cancellable and overdue after a limit, such as "
        "after 6h, after 50 instants, after 6h or 50 instants. Default: as the table declares, else never.",
    )
    cancellable: Annotated[bool, Door(form=None)] = Field(
        default=False,
        title="Cancellable",
        description="A cancel may end the plan; without this it needs --force.",
    )
    cancel_after: Annotated[float | None, Door(unit="seconds", form=None)] = Field(
        default=None,
        gt=0,
        le=HOURS_MAX * 3_600,
        title="Cancel after",
        description="The plan is cancellable, and overdue once it is so old. Default: never.",
    )
    cancel_after_instants: Annotated[int | None, Door(form=None)] = Field(
        default=None,
        ge=1,
        le=INSTANTS_MAX,
        title="Cancel after instants",
        description="The plan is cancellable, and overdue once this number of instants came after it. Default: never.",
    )
    cancel_on_overlap: Annotated[bool, Door(form=None)] = Field(
        default=False,
        title="Cancel on overlap",
        description="The plan is cancellable, and a write to its file groups cancels it. Default: both complete.",
    )
    starvation: StarvationText = None
    partitions: Partitions = ()
    instant: PlanInstant = None
    engine: Engine = "auto"
    memory_bytes: Annotated[int | None, Door(option="memory", unit="bytes", form=None)] = Field(
        default=None,
        ge=1,
        title="Memory",
        description="Memory that one file group may take; larger ones are streamed. Default: by the memory of the process.",
    )
    abandoned: Abandoned = False
    dry_run: DryRun = False
    resume: Resume = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        others = sorted(CANCEL_FIELDS & self.model_fields_set)
        if self.cancel is not None and others:
            raise InvalidRequest(
                f"cancel and {others[0]} are both given",
                expected="one of them",
                found=f"cancel={self.cancel!r} and {others[0]}={getattr(self, others[0])!r}",
                next_step=f"leave {others[0]} out: cancel may name a limit, as in 'after 6h or 50 instants'",
            )

    @property
    def cancel_settings(self) -> CancelSettings | None:
        """Return the cancel policy of the plan; None: the request does not say it."""
        if self.cancel is not None:
            return parse_cancel(self.cancel)
        if not CANCEL_FIELDS & self.model_fields_set:
            return None
        hours = self.cancel_after / 3_600 if self.cancel_after is not None else None
        is_limited = hours is not None or self.cancel_after_instants is not None or self.cancel_on_overlap
        return CancelSettings(
            cancellable=self.cancellable or is_limited,
            after_hours=hours,
            after_instants=self.cancel_after_instants,
            on_overlap="cancel" if self.cancel_on_overlap else "pass",
        )
