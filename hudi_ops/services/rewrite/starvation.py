"""Keep plans from being cancelled by writes again and again (RFC-79).

The records of cancelled plans on the timeline say which file groups were in them. Groups of which writes cancelled enough plans
are planned by halves, only in colder partitions, or with a window in which writes wait.

Source: docs/protocol §26, step 12.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from hudi_ops.commit.session import Session
from hudi_ops.config.requests.starvation import StarvationGuard, parse_guard
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.services.base.choice import Candidate, Choice, Reason, count_of
from hudi_ops.timeline.cancel.aborted import AbortedPlan, read_aborted
from hudi_ops.timeline.cancel.policy import ENDING
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, footprint_of, inputs_of
from hudi_ops.timeline.content.plans import Plan, decode_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import fate_of
from hudi_ops.timeline.log.entries import cancel_of
from hudi_ops.timeline.names import State
from hudi_ops.timeline.state import TableState

CAUSE = "ingestion"
"""Cause of the CANCELs that count."""

Group = tuple[str, str]
C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True)
class Starved:
    """File groups whose plans were cancelled by writes, and the guard that treats them.

    `counts` has the number of cancelled plans of each group: partition path and first digits of the file id.
    """

    guard: StarvationGuard
    counts: Counter[Group]

    def cancels(self, one: Candidate) -> int:
        """Return the number of a candidate's plans that writes cancelled; 0 below `guard.after`."""
        found = self.counts[one.partition_path, one.file_id[:BUCKET_DIGITS]]
        return found if found >= self.guard.after else 0

    def keep(self, choice: Choice, due: Sequence[C], *, least: int = 1) -> list[C]:
        """Return the candidates that may be planned now; add the others to the choice.

        Args:
            choice: gets the candidates that are held back, and what the guard does.
            due: the candidates that would be planned without the guard.
            least: least number of groups that halving leaves: one small file alone cannot be merged.
        """
        starved = [one for one in due if self.cancels(one)]
        if not starved:
            return list(due)
        if self.guard.how == "wait":
            if choice.cancel.on_overlap not in ENDING or not choice.cancel.cancellable:
                return list(due)  # no write ends the plan
            choice.cancel = replace(choice.cancel, wait_s=self.guard.wait_s)
            choice.guard = (
                f"writes to {count_of(len(starved), 'file group')} wait up to {self.guard.wait_s:g} s for the plan"
            )
            return list(due)
        held = self._hotter(due, starved) if self.guard.how == "colder" else self._second_half(starved, least)
        if not held:
            return list(due)
        why = "in a partition written lately" if self.guard.how == "colder" else "in the other half"
        left = choice.others.setdefault(Reason.GUARDED, [])
        left += [(one, f"writes cancelled {count_of(self.cancels(one), 'plan')} of it; {why}") for one in held]
        choice.guard = f"{count_of(len(held), 'file group')} left out, since writes cancelled plans of them"
        keys = {one.key for one in held}
        return [one for one in due if one.key not in keys]

    def _second_half(self, starved: Sequence[C], least: int) -> list[C]:
        """Return the groups to hold back: all but the colder half, then a quarter, and so on."""
        times = max(self.cancels(one) for one in starved) - self.guard.after + 1
        kept = max(least, -(-len(starved) // 2**times))
        by_partition = _by_partition(starved)
        # File groups that may be merged with each other stay together; those alone in their partition come last.
        newest = {path: (len(found) == 1, max(map(_newest, found)), path) for path, found in by_partition.items()}
        return sorted(starved, key=lambda one: (newest[one.partition_path], _newest(one), one.key))[kept:]

    def _hotter(self, due: Sequence[C], starved: Sequence[C]) -> list[C]:
        """Return the starved groups that are not in the colder half of the partitions."""
        newest = {path: max(map(_newest, found)) for path, found in _by_partition(due).items()}
        colder = sorted(newest, key=lambda path: (newest[path], path))[: -(-len(newest) // 2)]
        return [one for one in starved if one.partition_path not in colder]


def unguard(choice: Choice) -> None:
    """Release the candidates that a guard held back: otherwise nothing would be planned."""
    choice.others.pop(Reason.GUARDED, None)
    choice.guard = ""


def held_back(session: Session, state: TableState, action: str, text: str | None) -> Starved | None:
    """Return the groups in plans of `action` that writes cancelled; None without a guard.

    Only plans after the newest completed one of a group count. Archived records do not count.
    """
    if text is None:
        return None
    plans = {**_removed(session, state, action), **_pending(session, state, action)}
    done = newest_done(session, state.timeline.completed_writes, state, min(plans, default=""))
    return Starved(parse_guard(text), cancels_of(plans, done))


def cancels_of(plans: Mapping[str, Collection[Group]], done: Mapping[Group, str]) -> Counter[Group]:
    """Return the number of cancelled plans of each file group.

    Args:
        plans: file groups of the cancelled plans, by instant.
        done: newest completed plan of file groups; only cancelled plans after it count.
    """
    found = Counter[Group]()
    for instant, groups in plans.items():
        found.update(group for group in groups if done.get(group, "") < instant)
    return found


def _removed(session: Session, state: TableState, action: str) -> dict[str, frozenset[Group]]:
    """Return the file groups of removed plans that writes cancelled, by instant."""
    found = {}
    for plan in state.timeline.aborted:
        if plan.action == action and State.ABORTED in plan.states and session.was_cancelled(state, plan.time):
            with suppress(NotFound, Corrupt):  # archived since; `verify` reports one that cannot be read
                record = read_aborted(session.ctx.storage, state.timeline, plan)
                if record.cause == CAUSE:
                    found[plan.time] = groups_of(planned_by(record))
    return found


def _pending(session: Session, state: TableState, action: str) -> dict[str, frozenset[Group]]:
    """Return the file groups of pending plans that writes cancelled, by instant."""
    found = {}
    for plan in state.timeline.pending:
        if plan.action != action or not session.was_cancelled(state, plan.time):
            continue
        cancel = cancel_of(fate_of(session.ctx.storage, state, plan.time))
        inputs = session.contenders.inputs(state.timeline, plan)
        if cancel is not None and cancel.cause == CAUSE and inputs is not None:
            found[plan.time] = inputs.groups
    return found


def planned_by(record: AbortedPlan) -> Plan | None:
    """Return the plan in the record of a cancelled one; None: it cannot be read."""
    with suppress(Corrupt, ValueError):  # `verify` reports the record
        return decode_plan(record.action, base64.b64decode(record.plan))
    return None


def groups_of(plan: Plan | None) -> frozenset[Group]:
    """Return the file groups that a plan works on; none if it could not be read."""
    inputs = inputs_of(plan)
    return inputs.groups if inputs is not None else frozenset()


def newest_done(session: Session, writes: Iterable[Instant], state: TableState, since: str) -> dict[Group, str]:
    """Return the newest compaction or clustering of each file group, among some writes.

    Only writes above `since` count. The metadata of each of these writes is read; none, if `since` is empty.
    """
    found: dict[Group, str] = {}
    for write in writes if since else ():
        metadata = session.commits.metadata(state.timeline, write) if write.time > since else None
        if metadata is not None and (metadata.is_merge or metadata.operation == "CLUSTER"):
            done = dict.fromkeys(footprint_of(metadata, write.time).groups, write.time)
            found |= {group: max(instant, found.get(group, "")) for group, instant in done.items()}
    return found


def _by_partition(candidates: Sequence[C]) -> dict[str, list[C]]:
    found: dict[str, list[C]] = {}
    for one in candidates:
        found.setdefault(one.partition_path, []).append(one)
    return found


def _newest(one: Candidate) -> str:
    """Return the newest instant that wrote a candidate."""
    return max([file.instant for file in one.logs] + ([one.base.instant] if one.base is not None else []))
