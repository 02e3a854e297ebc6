"""Rules that keep an instant on the timeline (docs/protocol §22).

The facts are read before (`services.archive.facts`); here nothing is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import MERGING_ACTIONS, REWRITING_ACTIONS


@dataclass(frozen=True)
class Facts:
    """What the rules look at, as of one state of the table.

    Attributes:
        keep: number of completed writes that the policy keeps.
        metadata_compaction: time of the metadata table's last compaction, empty before the first; None without a metadata table.
        clean: request time and earliest retained instant of the newest clean that says one.
        holds: instants that holds keep readable, each with the reason.
        replaced: replace commits whose replaced groups still have a file, each with that file.
        late: writes whose log files lie in a slice with a base instant above their request time, each with the reason.
        left: cancelled and rolled back instants that still have files, markers, leases or records, each with the reason.
        unswept: completed writes with markers, notes or a lease, each with the reason.
        undoing: instants that a pending rollback or restore undoes, each with its name.
    """

    timeline: Timeline
    keep: int
    metadata_compaction: str | None = None
    clean: tuple[str, str] = ("", "")
    holds: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    late: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    unswept: Mapping[str, str] = field(default_factory=dict)
    undoing: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def oldest_pending_write(self) -> Instant | None:
        """The oldest pending instant that adds files."""
        return next((one for one in self.timeline.pending if one.is_write), None)

    @cached_property
    def rewriting_plans(self) -> list[Instant]:
        """Pending plans that replace file groups as they were when the plan was made."""
        actions = REWRITING_ACTIONS - MERGING_ACTIONS
        return [one for one in self.timeline.pending if one.action in actions]

    @cached_property
    def first_savepoint(self) -> str:
        """Request time of the first savepoint's commit; empty without one."""
        return next((one.time for one in self.timeline if one.kind == "savepoint"), "")


@dataclass(frozen=True)
class Verdict:
    """An instant, and why it stays on the timeline; `why` is empty when it can be archived now."""

    instant: str
    action: str
    why: str


def verdicts(facts: Facts) -> Iterator[Verdict]:
    """Yield the verdict of each instant, oldest first.

    An instant that stays keeps all later ones: only the oldest instants leave a timeline.
    """
    kept = ""
    for instant in facts.timeline:
        why = why_kept(facts, instant)
        if not why and kept:
            why = f"{kept} stays"
        elif why and not kept:
            kept = f"the older {instant.action} {instant.time}"
        yield Verdict(instant.time, instant.action, why)


def stopped_by(found: Iterable[Verdict]) -> str:
    """Return the first instant that stays, and why; empty without one."""
    return next((f"{one.action} {one.instant}: {one.why}" for one in found if one.why), "")


def stopped_by_timeline(timeline: Timeline, keep: int) -> str:
    """Return why no instant can leave, by the timeline alone; empty if more has to be read.

    Savepoints and pending instants may keep every instant for months. This check makes no storage call, and spares each commit a
    try to archive.
    """
    facts = Facts(timeline, keep)
    return "" if leaving(facts, 1) else stopped_by(verdicts(facts))


def leaving(facts: Facts, at_most: int) -> list[Instant]:
    """Return the instants of the next batch, oldest first.

    They lie before the first one that stays. A batch ends with a completed write, as the timeline begins with
    one. Instants of one request time leave together.
    """
    found: list[Instant] = []
    for instant in facts.timeline:
        if why_kept(facts, instant):
            break
        found.append(instant)
    stays = facts.timeline.instants[len(found)].time if len(found) < len(facts.timeline.instants) else ""
    while found and (not found[-1].is_write or found[-1].time == stays):
        found.pop()
    if len(found) <= at_most:
        return found
    cut = next((n for n in range(at_most, 0, -1) if found[n - 1].is_write and found[n].time != found[n - 1].time), 0)
    return found[: cut or at_most]


def why_kept(facts: Facts, instant: Instant) -> str:
    """Return why an instant stays on the timeline by itself; empty if nothing keeps it."""
    return kept_by(facts, instant)[1]


def kept_by(facts: Facts, instant: Instant) -> tuple[str, str]:
    """Return the name of the rule that keeps an instant on the timeline, and the reason.

    Both are empty if nothing keeps the instant by itself.
    """
    for rule in RULES:
        if why := rule(facts, instant):
            return rule.__name__.removeprefix("_"), why
    return "", ""


def first_stay(facts: Facts) -> tuple[Instant, str, str] | None:
    """Return the oldest instant that stays, with the rule and the reason; None: all can leave."""
    for instant in facts.timeline:
        rule, why = kept_by(facts, instant)
        if why:
            return instant, rule, why
    return None


def _pending(facts: Facts, instant: Instant) -> str:
    return "" if instant.is_completed else "it is pending"


def _before_pending(facts: Facts, instant: Instant) -> str:
    # Listing readers take the files of instants before the start for rows (docs/format §9.1).
    pending = facts.oldest_pending_write
    if pending is None or instant.time < last_write_before(facts.timeline, pending.time):
        return ""
    return f"{pending.action} {pending.time} is pending: a completed write before it must stay"


def _beyond_plan(facts: Facts, instant: Instant) -> str:
    # The plan's executor leaves out groups that were written since, so it must find the write. By its request time alone the write
    # would be archived.
    for plan in facts.rewriting_plans:
        if instant.time < plan.time < instant.completion_time:
            return (
                f"it completed after the pending {plan.action} {plan.time} was planned, whose executor has to find it"
            )
    return ""


def _undoing(facts: Facts, instant: Instant) -> str:
    by = min((target for target in facts.undoing if target <= instant.time), default=None)
    return f"the pending {facts.undoing[by]} undoes {by}" if by is not None else ""


def _savepoint(facts: Facts, instant: Instant) -> str:
    first = facts.first_savepoint
    return f"the savepoint of {first} keeps it and what came later" if first and instant.time >= first else ""


def _replaced(facts: Facts, instant: Instant) -> str:
    path = facts.replaced.get(instant.time)
    return f"{path} of a group that it replaced exists: it would be read again; a clean removes it" if path else ""


def _left(facts: Facts, instant: Instant) -> str:
    # A file of an instant before the start counts as committed (docs/format §9.1).
    time = min(facts.left, default="")
    if not time or instant.time < last_write_before(facts.timeline, time):
        return ""
    return f"{facts.left[time]}: a completed write before {time} must stay"


def _unswept(facts: Facts, instant: Instant) -> str:
    # A late file of a completed instant is hidden only while the instant is on the timeline.
    return facts.unswept.get(instant.time, "")


def _metadata_compaction(facts: Facts, instant: Instant) -> str:
    compaction = facts.metadata_compaction
    if compaction is None or (compaction and instant.completion_time < compaction):
        return ""
    if not compaction:
        return "the metadata table was never compacted: it needs the timeline to tell what is complete"
    return f"it completed after the metadata table's last compaction {compaction}"


def _hold(facts: Facts, instant: Instant) -> str:
    return next((why for held, why in facts.holds.items() if instant.time >= held), "")


def _clean(facts: Facts, instant: Instant) -> str:
    clean, earliest = facts.clean
    if not earliest or instant.time < earliest:
        return ""
    return f"clean {clean} retains the instants from {earliest} on, and the next clean begins there"


def _late(facts: Facts, instant: Instant) -> str:
    return facts.late.get(instant.time, "")


def _policy(facts: Facts, instant: Instant) -> str:
    if instant.time < first_kept(facts.timeline, facts.keep):
        return ""
    return f"the policy keeps the newest {facts.keep} writes"


RULES: Sequence[Callable[[Facts, Instant], str]] = (
    _pending,
    _before_pending,
    _beyond_plan,
    _undoing,
    _savepoint,
    _replaced,
    _left,
    _unswept,
    _metadata_compaction,
    _hold,
    _clean,
    _late,
    _policy,
)
"""Rules of docs/protocol §22, the policy last, since any other reason is more specific."""


def first_kept(timeline: Timeline, keep: int) -> str:
    """Return the request time of the oldest write that the policy keeps; empty if it keeps all."""
    writes = timeline.completed_writes
    return writes[-keep].time if len(writes) > keep else ""


def last_write_before(timeline: Timeline, time: str) -> str:
    """Return the request time of the last completed write before a time; empty without one."""
    writes = timeline.completed_writes
    at = bisect_left(writes, time, key=attrgetter("time"))
    return writes[at - 1].time if at else ""
