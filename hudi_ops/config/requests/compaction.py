"""Request model of compactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from hudi_ops.config.requests.cancel import CancelSettings, parse_cancel
from hudi_ops.config.requests.fields import (
    Abandoned,
    CancelText,
    DryRun,
    Engine,
    MaxBytes,
    Memory,
    Partitions,
    PlanInstant,
    Resume,
    StarvationText,
)
from hudi_ops.config.requests.request import Request, checked_name
from hudi_ops.errors import InvalidRequest

StrategyName: TypeAlias = Literal["size", "count", "commits", "age"]


def checked_strategy(name: str) -> str:
    """Return the name of a compaction strategy in lower case; raise as `checked_name` does."""
    return checked_name("compaction strategy", get_args(StrategyName), name)


class CompactionRequest(Request):
    """What a compaction plans, and how its plan is executed."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**Request.checks, "strategy": checked_strategy}

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
    cancel: CancelText = None
    on_overlap: Literal["pass", "cancel"] | None = Field(
        default=None,
        title="On overlap",
        description="What a write to file groups of the plan does: pass, both complete; cancel, the write ends the plan first. "
        "Default: as the table declares, else pass.",
    )
    starvation: StarvationText = None
    partitions: Partitions = ()
    instant: PlanInstant = None
    engine: Engine = "auto"
    memory_bytes: Memory = None
    abandoned: Abandoned = False
    dry_run: DryRun = False
    resume: Resume = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if self.on_overlap == "cancel" and self.cancel is not None and not parse_cancel(self.cancel).cancellable:
            raise InvalidRequest(
                "a write cannot end a plan that is never cancelled",
                expected="on_overlap pass, or another cancel",
                found=f"cancel {self.cancel} and on_overlap cancel",
                field="on_overlap",
            )

    def cancel_settings(self, declared: CancelSettings | None) -> CancelSettings:
        """Return the cancel policy of the plan.

        Args:
            declared: policy of the table; it holds for the fields that the request leaves out. None: `never`.
        """
        declared = declared or CancelSettings(cancellable=False)
        settings = parse_cancel(self.cancel) if self.cancel is not None else declared
        on_overlap = self.on_overlap or (declared.on_overlap if settings.cancellable else "pass")
        is_cancellable = settings.cancellable or on_overlap == "cancel"
        return settings.model_copy(update={"on_overlap": on_overlap, "cancellable": is_cancellable})
