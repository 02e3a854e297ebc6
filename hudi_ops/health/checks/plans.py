"""Pending plans: their age, overdue ones, and file groups whose plans are always cancelled."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.config.requests.targets import PlansTargets
from hudi_ops.health.check import EVIDENCE_MAX, TABLE, Check, Evidence, Facts, Judgement, Measure
from hudi_ops.health.look import Look
from hudi_ops.health.starved import IN_A_ROW, StarvedGroups, may_be_starved, starved_groups
from hudi_ops.services.cancel.pending_plans import PendingPlan, PendingPlans, pending_plans
from hudi_ops.services.clustering.layout import ORDER_KEY, decode_order

_GUARD = ("--starvation", f"wait 60s after {IN_A_ROW}")
"""Option of plans for which writes wait, once they cancelled that many plans."""


@dataclass(frozen=True, kw_only=True)
class PlansFacts(Facts):
    """Pending plans, and starved file groups of each service."""

    pending: PendingPlans
    starved: tuple[StarvedGroups, ...]


def measure(look: Look) -> PlansFacts:
    """Return the facts of the pending plans and of cancelled ones."""
    session, state = look.session, look.state
    pending = pending_plans(session, state, look.lease_of)
    ends = [plan.live_until_ms + 1 for plan in pending.oldest if plan.live_until_ms is not None]
    return PlansFacts(
        until_ms=min(ends, default=None),
        pending=pending,
        starved=starved_groups(session, state, look.slices if may_be_starved(state) else None),
    )


def judge(facts: PlansFacts, targets: PlansTargets, now_ms: int) -> Judgement:
    """Judge the plans by their targets."""
    by_ms, oldest = max(now_ms, facts.pending.newest_ms), facts.pending.oldest
    overdue = [plan for plan in oldest if plan.is_overdue(by_ms)]
    starved = sum(one.count for one in facts.starved)
    age = Measure("age", (now_ms - oldest[0].planned_ms) / 1000 if oldest else None, targets.age, "s")
    of_overdue = Measure("overdue", len(overdue), targets.overdue, "plans")
    of_starved = Measure("starved", starved, targets.starved, "file groups")
    old_ms = None if targets.age is None else now_ms - targets.age * 1000
    old = [plan for plan in oldest if age.is_missed and old_ms is not None and plan.planned_ms < old_ms]
    wrong = [plan for plan in oldest if plan in old or (of_overdue.is_missed and plan in overdue)]
    since = [round(plan.planned_ms + targets.age * 1000) for plan in old if targets.age is not None]
    since += [plan.due_ms for plan in overdue if of_overdue.is_missed and plan.due_ms is not None]
    words = [_words(plan, is_overdue=plan in overdue) for plan in wrong]
    words.sort(key=lambda one: one[:1] != ("cancel",))  # a plan that is gone holds no other one up
    words += [_compact_words(one) for one in facts.starved if of_starved.is_missed]
    said = [_evidence(plan, is_overdue=plan in overdue) for plan in (*wrong, *(o for o in oldest if o not in wrong))]
    return Judgement(
        (age, of_overdue, of_starved),
        tuple([*said, *(line for one in facts.starved for line in _starved_evidence(one))][:EVIDENCE_MAX]),
        tuple(one for one in words if one),
        _note(facts, wrong),
        min(since, default=None),
    )


def _words(plan: PendingPlan, *, is_overdue: bool) -> tuple[str, ...]:
    """Return the command that ends a plan; empty while a process executes it."""
    if plan.state == "running" and not is_overdue:
        return ()
    return plan.cancel if is_overdue or plan.state == "cancelled" or not plan.command else plan.command


def _compact_words(starved: StarvedGroups) -> tuple[str, ...]:
    """Return the command that plans starved file groups, and lets writes wait for it."""
    if starved.is_a_resize:
        return ("resize", TABLE)
    if starved.action != "clustering":
        return ("compact", TABLE, *_GUARD)
    order = decode_order(dict(starved.params).get(ORDER_KEY, ""))
    columns = order.columns if order is not None else ()
    sorted_by = ("--sort-by", ",".join(columns), "--order", order.curve) if order is not None and columns else ()
    return ("cluster", TABLE, *sorted_by, *_GUARD)


def _evidence(plan: PendingPlan, *, is_overdue: bool) -> Evidence:
    said = {
        "planned": "no process has begun it",
        "running": f"{plan.executor} executes it now",
        "left": f"{plan.executor or 'an executor'} left it",
        "cancelled": "cancelled, and not removed yet",
    }[plan.state]
    if plan.is_foreign_run and plan.state != "cancelled":
        said = "another program began to execute it, without a heartbeat"
    said = f"{plan.action}: {said}"
    return Evidence("instant", plan.instant, f"{said}; overdue" if is_overdue else said)


def _starved_evidence(starved: StarvedGroups) -> list[Evidence]:
    return [
        Evidence(
            "file group",
            f"{one.partition_path or '.'}/{one.group}",
            f"its last {one.cancels} plans of a {starved.action} were cancelled",
        )
        for one in starved.examples
    ]


def _note(facts: PlansFacts, wrong: list[PendingPlan]) -> str:
    notes = []
    if any(plan.is_foreign_run and plan.command for plan in wrong):
        notes.append("make sure that the other program has ended: --abandoned states that")
    if any(plan.state == "running" for plan in wrong):
        notes.append("a plan that is executed now ends by itself, or by `hudi-ops cancel`")
    unread = facts.pending.count - len(facts.pending.oldest)
    if unread > 0:
        notes.append(f"{unread} younger pending plans were not read, and are not counted as overdue")
    return "; ".join(notes)


CHECK = Check("plans", PlansFacts, measure, judge)
