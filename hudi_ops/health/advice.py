"""Say which commands of a planned service mend a table, and what they wait for."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.health.check import TABLE, Measure
from hudi_ops.health.plans_before import PlansBefore
from hudi_ops.services.cancel.endings import Words

OWN_MAX = 3
"""Most pending plans of a service for which its command is repeated."""


def planned(words: Words, before: PlansBefore, times: int = 1) -> tuple[Words, ...]:
    """Return the commands that end the plans before a service, and run it.

    Args:
        words: command that runs the service: it executes a pending plan if there is one, else it makes one.
        before: pending plans that come first.
        times: number of plans that the service needs after these.
    """
    others = dict.fromkeys(plan.command for plan in before.others if plan.command and not plan.is_begun)
    executed = tuple((command, TABLE, "execute") for command in others)
    return (*executed, *[words] * (min(before.own, OWN_MAX) + times))


def waits(before: PlansBefore) -> str:
    """Return a note on plans of others that no advised command ends; empty: there is none."""
    if before.begun:
        return f"plan {before.begun[0]}, which another process has begun, holds some of the file groups until it ends"
    for plan in before.others:
        if plan.is_begun:
            return f"plan {plan.instant}, which an executor has begun, holds some of the file groups until it ends"
        if not plan.command:
            return f"plan {plan.instant} of Apache Hudi holds some of the file groups until Apache Hudi executes it"
    return ""


def notes(parts: Sequence[str]) -> str:
    """Join the parts of a note that are not empty."""
    return "; ".join(part for part in parts if part)


def is_missed(measures: Sequence[Measure], name: str) -> bool:
    """Return whether the measure of a name misses its target."""
    return any(one.name == name and one.is_missed for one in measures)
