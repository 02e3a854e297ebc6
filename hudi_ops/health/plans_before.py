"""Find the pending plans that must end before a service can plan some file groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.concurrency.pending import plan_inputs
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS, State
from hudi_ops.timeline.state import TableState

PLANS_READ_MAX = 3
"""Most plans of other services that are read; the oldest come first."""


@dataclass(frozen=True)
class OtherPlan:
    """Pending plan of another service.

    Attributes:
        instant: its time.
        command: word of the command that executes it; empty: only Apache Hudi does.
        is_begun: an executor began it, and may still run.
    """

    instant: str
    command: str
    is_begun: bool


@dataclass(frozen=True)
class PlansBefore:
    """Pending plans that come before a new plan of a service.

    Attributes:
        own: number of plans of the service's own action that its command executes first.
        begun: own plans that the command does not execute: a live process does, or another program began them.
        others: plans of other services that name one of the asked file groups.
    """

    own: int = 0
    begun: tuple[str, ...] = ()
    others: tuple[OtherPlan, ...] = ()


def plans_before(session: Session, state: TableState, action: str, groups: Iterable[tuple[str, str]]) -> PlansBefore:
    """Return the pending plans that come before a new plan of `action` for some file groups.

    It reads at most `PLANS_READ_MAX` plans. A plan that cannot be read may name any group.

    Args:
        session: of this process.
        state: of the table.
        action: word of the service's pending instants.
        groups: partition path and file id of each.
    """
    pending = [instant for instant in state.timeline.pending if instant.action in REWRITING_ACTIONS]
    asked = {(path, file_id[:BUCKET_DIGITS]) for path, file_id in groups}
    of_clusterings = "resize" if state.log.properties.facts.has_ring else "cluster"
    commands = {"compaction": "compact", "clustering": of_clusterings}
    others = []
    for instant in [one for one in pending if one.action != action][: PLANS_READ_MAX if asked else 0]:
        inputs = plan_inputs(session.ctx, state, instant)
        if inputs is None or not asked.isdisjoint(inputs.groups):
            is_begun = State.INFLIGHT in instant.states
            others.append(OtherPlan(instant.time, commands.get(instant.action, ""), is_begun))
    own = [instant for instant in pending if instant.action == action]
    begun = [instant.time for instant in own[:PLANS_READ_MAX] if _is_of_others(session, instant)]
    return PlansBefore(len(own) - len(begun), tuple(begun), tuple(others))


def _is_of_others(session: Session, plan: Instant) -> bool:
    """Return whether a process of others may be executing a plan.

    It has a live lease, or another program began it and leaves no heartbeat.
    """
    lease = read_lease(session.ctx.storage, plan.time)
    if lease is None:
        return State.INFLIGHT in plan.states
    return not lease.is_dead(session.ctx.clock)
