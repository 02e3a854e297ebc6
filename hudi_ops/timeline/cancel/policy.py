"""Cancel policy of a plan: whether it may be cancelled, and when it is overdue (RFC-79)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

CANCELLABLE_KEY = "hudi_ops.cancellable"
HOURS_KEY = "hudi_ops.cancel_after_hours"
INSTANTS_KEY = "hudi_ops.cancel_after_instants"
OVERLAP_KEY = "hudi_ops.on_overlap"
WAIT_KEY = "hudi_ops.cancel_wait_s"

OnOverlap: TypeAlias = Literal["pass", "shrink", "cancel"]
"""Effect of a write that touches file groups of a pending plan.

`pass`: both complete. `shrink`: the write completes, and the plan leaves out the touched groups. `cancel`: the write first cancels
the plan.
"""


@dataclass(frozen=True)
class CancelPolicy:
    """Whether a plan may be cancelled, and when it is overdue.

    Attributes:
        cancellable: a cancel may end the plan.
        hours: age in hours from which the plan is overdue; None: age does not matter.
        instants: number of later instants from which the plan is overdue; None: their number does not matter.
        on_overlap: effect of a write to its file groups. If the plan is not cancellable, `cancel` makes the write wait (`Busy`):
            after such a write, the executor of a plan that replaces groups would fail. If Apache Hudi may execute the plan,
            `shrink` counts as `cancel`, since Apache Hudi replaces all planned groups.
        wait_s: age of the plan, in seconds, until which a write waits before it cancels the plan.
    """

    cancellable: bool = False
    hours: float | None = None
    instants: int | None = None
    on_overlap: OnOverlap = "pass"
    wait_s: float = 0.0

    def entry_fields(self) -> dict[str, Any]:
        """Return the fields of the PLAN entry."""
        return {
            "cancellable": self.cancellable,
            "cancel_after_hours": self.hours,
            "cancel_after_instants": self.instants,
            "on_overlap": self.on_overlap,
            "cancel_wait_s": self.wait_s,
        }

    def extra(self) -> dict[str, str]:
        """Return the entries of the plan's extra metadata; none for a plan that is not cancellable."""
        if not self.cancellable:
            return {}
        limits = {
            HOURS_KEY: f"{self.hours:g}" if self.hours is not None else "",
            INSTANTS_KEY: str(self.instants or ""),
            OVERLAP_KEY: self.on_overlap if self.on_overlap != "pass" else "",
            WAIT_KEY: f"{self.wait_s:g}" if self.wait_s else "",
        }
        return {CANCELLABLE_KEY: "true", **{key: text for key, text in limits.items() if text}}

    def __str__(self) -> str:
        return self.said()

    def said(self, shrinks: str = "leaves out file groups that writes touch") -> str:
        """Return the policy in words.

        Args:
            shrinks: what a plan with `shrink` does.
        """
        if not self.cancellable:
            return (
                "not cancellable, writes to its file groups wait" if self.on_overlap == "cancel" else "not cancellable"
            )
        limits = [said_hours(self.hours)] if self.hours is not None else []
        limits += [f"{self.instants} instants"] if self.instants is not None else []
        parts = ["cancellable"]
        said = {"cancel": "ended by writes to its file groups", "shrink": shrinks}
        parts += [said[self.on_overlap]] if self.on_overlap in said else []
        parts += [f"writes wait for it for {self.wait_s:g} s"] if self.wait_s else []
        parts += [f"overdue after {' or '.join(limits)}"] if limits else []
        return ", ".join(parts)


def said_hours(hours: float) -> str:
    """Return a limit of age in words: in seconds or minutes below an hour."""
    seconds = hours * 3_600
    return f"{hours:g} h" if hours >= 1 else f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


ENDING = frozenset({"shrink", "cancel"})
"""Values of `on_overlap` with which a write may cancel the plan."""

NEVER = CancelPolicy()
"""A plan that only `force` cancels."""
