"""Measure the length of the timeline, and what stops archives, for the table's health."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from hudi_ops.commit.holds import Hold, live_holds
from hudi_ops.commit.session import Session
from hudi_ops.services.archive.facts import Bound, read_facts
from hudi_ops.services.archive.rules import Facts, first_stay
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.table_view import View

BLOCKS_MAX = 8
"""Most reasons that a measure names."""

NAMES_MAX = 10
"""Most holds or instants that a reason names."""

_OF_INSTANTS = frozenset({"pending", "before_pending", "beyond_plan", "undoing"})
_GONE: dict[str, Any] = {"metadata_compaction": None, "clean": ("", "")}
"""Facts without a reason, where they are no empty mapping."""


@dataclass(frozen=True)
class Block:
    """Reason for which archives leave more writes than they keep, beside those before it.

    Attributes:
        rule: name of the rule of `archive.rules`, for example `savepoint`.
        instant: the oldest instant that stays.
        action: of this instant.
        why: for people.
        names: what has to end: pending instants, savepoints or ids of holds; empty: nothing of these kinds.
    """

    rule: str
    instant: str
    action: str
    why: str
    names: tuple[str, ...] = ()


def timeline_ratio(timeline: Timeline, most: int) -> float:
    """Return the completed writes on the timeline, divided by the number `most`.

    Archiving begins above this number.
    """
    return len(timeline.completed_writes) / most


def blocks_of(
    session: Session, state: TableState, view: View, kept: tuple[int, int], now_ms: int
) -> tuple[tuple[Block, ...], int | None]:
    """Return why archiving stands still, and when a hold among the reasons ends.

    The time is in ms since 1970; None: no hold is among them. Archiving stands still if more completed writes stay than the number
    above which it begins. The reasons that the timeline alone tells are found without a storage call; then a fixed number of files
    is read (`facts.Bound`).

    Args:
        session: of the table.
        state: of the table.
        view: of the whole table, at the state's timeline.
        kept: how many writes an archive keeps, and the number above which it begins.
        now_ms: time in ms since 1970.

    Raises:
        Corrupt: a plan or result on the timeline, a commit's metadata or a hold cannot be read.
    """
    least, most = kept
    facts, is_read = Facts(state.timeline, least), False
    holds: list[Hold] = []
    found: list[Block] = []
    until_ms: int | None = None
    while len(found) < BLOCKS_MAX:
        stay = first_stay(facts)
        if stay is None or stay[1] == "policy" or _staying(facts.timeline, stay[0]) <= most:
            if is_read:
                break
            holds = [*live_holds(session.ctx, now_ms)]
            facts = read_facts(session, replace(state, timeline=facts.timeline), least, Bound(view, now_ms))
            is_read = True
            continue
        instant, rule, why = stay
        names = _WHAT_ENDS[rule](facts, instant) if rule in _WHAT_ENDS else ()
        if rule == "hold":
            ended = [hold for hold in holds if hold.instant <= instant.time]
            names = tuple(hold.id for hold in ended)
            until_ms = min([hold.until_ms for hold in ended] + ([until_ms] if until_ms is not None else []))
        found.append(Block(rule, instant.time, instant.action, why, names[:NAMES_MAX]))
        facts = _without(facts, found[-1])
    return tuple(found), until_ms


def _staying(timeline: Timeline, first: Instant) -> int:
    return sum(write.time >= first.time for write in timeline.completed_writes)


def _without(facts: Facts, block: Block) -> Facts:
    """Return the facts as if a reason was gone."""
    if block.rule == "hold":
        return replace(facts, holds={at: why for at, why in facts.holds.items() if at > block.instant})
    if block.rule in _OF_INSTANTS or block.rule == "savepoint":
        is_savepoint = block.rule == "savepoint"
        left = _timeline_without(facts.timeline, block.names, is_savepoint=is_savepoint)
        undoing = {} if block.rule in {"pending", "undoing"} else facts.undoing
        return replace(facts, timeline=left, undoing=undoing)
    gone: dict[str, Any] = {block.rule: _GONE.get(block.rule, {})}
    return replace(facts, **gone)


def _timeline_without(timeline: Timeline, times: Collection[str], *, is_savepoint: bool) -> Timeline:
    return replace(
        timeline,
        instants=tuple(
            one
            for one in timeline
            if not (one.time in times and (one.kind == "savepoint" if is_savepoint else not one.is_completed))
        ),
    )


def _pending_itself(facts: Facts, instant: Instant) -> tuple[str, ...]:
    return (instant.time,)


def _oldest_write(facts: Facts, instant: Instant) -> tuple[str, ...]:
    return (facts.oldest_pending_write.time,) if facts.oldest_pending_write is not None else ()


def _plans_before_completion(facts: Facts, instant: Instant) -> tuple[str, ...]:
    return tuple(plan.time for plan in facts.rewriting_plans if instant.time < plan.time < instant.completion_time)


def _undoing(facts: Facts, instant: Instant) -> tuple[str, ...]:
    return tuple(one.time for one in facts.timeline.pending if one.action in {"rollback", "restore"})


def _first_savepoint(facts: Facts, instant: Instant) -> tuple[str, ...]:
    return (facts.first_savepoint,)


_WHAT_ENDS: dict[str, Callable[[Facts, Instant], tuple[str, ...]]] = {
    "pending": _pending_itself,
    "before_pending": _oldest_write,
    "beyond_plan": _plans_before_completion,
    "undoing": _undoing,
    "savepoint": _first_savepoint,
}
