"""Cancel policy of compaction plans, as tables declare it and requests say it."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hudi_ops.clock import DURATION_MAX_S
from hudi_ops.errors import InvalidRequest

HOURS_MAX = DURATION_MAX_S // 3_600
"""Ten years: an age that a plan reaches only by a typing error."""

INSTANTS_MAX = 1_000_000

_LIMIT = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>m|h|d|instants?)")
_HOURS = {"m": 1 / 60, "h": 1.0, "d": 24.0}
_EXPECTED = "never, cancellable, or a limit: after 6h, after 50 instants, after 6h or 50 instants"


class CancelSettings(BaseModel):
    """Whether a cancel may end the compaction plans of a table, and when they are overdue."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cancellable: bool = Field(default=True, description="A cancel may end them.")
    after_hours: float | None = Field(
        default=None, gt=0, le=HOURS_MAX, description="Age from which they are overdue, in hours."
    )
    after_instants: int | None = Field(
        default=None, ge=1, le=INSTANTS_MAX, description="Number of later instants from which they are overdue."
    )
    on_overlap: Literal["pass", "cancel"] = Field(
        default="pass",
        description="What a write to their file groups does: complete beside them, or cancel them first.",
    )
    hard: bool = Field(default=False, description="A clean also cancels overdue plans that a live process executes.")

    @model_validator(mode="after")
    def _limits_need_cancels(self) -> CancelSettings:
        is_limited = self.after_hours is not None or self.after_instants is not None or self.on_overlap == "cancel"
        if not self.cancellable and is_limited:
            raise ValueError("a plan that is not cancellable has no limit: leave the limit or cancellable: false out")
        return self


def parse_cancel(text: str | None) -> CancelSettings:
    """Return the policy of a text: `never`, `cancellable`, or `after 6h or 50 instants`.

    None stands for `cancellable`.

    Raises:
        InvalidRequest: it is none of these, or a limit is out of bounds.
    """
    if text is None:
        return CancelSettings()
    words = " ".join(str(text).lower().split())
    if words in {"never", "cancellable"}:
        return CancelSettings(cancellable=words == "cancellable")
    limits = words.removeprefix("after ").split(" or ") if words.startswith("after ") else []
    read = [found for one in limits if (found := _LIMIT.fullmatch(one))]
    hours = [float(one["number"]) * _HOURS[one["unit"]] for one in read if one["unit"] in _HOURS]
    instants = [float(one["number"]) for one in read if one["unit"] not in _HOURS]
    is_whole = len(read) == len(limits) > 0 and len(hours) <= 1 and len(instants) <= 1
    if (
        not is_whole
        or any(not 0 < one <= HOURS_MAX for one in hours)
        or any(one % 1 or not 1 <= one <= INSTANTS_MAX for one in instants)
    ):
        raise InvalidRequest(
            f"cancel cannot be {text[:100]!r}",
            expected=f"{_EXPECTED}; at most {HOURS_MAX:,} hours and {INSTANTS_MAX:,} instants",
            found=repr(text[:100]),
            next_step="correct cancel, or leave it out for the default",
            field="cancel",
        )
    return CancelSettings(
        after_hours=hours[0] if hours else None, after_instants=int(instants[0]) if instants else None
    )


def checked_cancel(text: str | None) -> str | None:
    """Return a text that `parse_cancel` takes, or None."""
    parse_cancel(text)
    return text
