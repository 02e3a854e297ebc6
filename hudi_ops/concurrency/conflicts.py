"""Conflict rules over footprints, and the strategies that decide which write gives way.

An overlapping write that completed first always wins: otherwise its rows would be lost. A strategy decides only about planned and
running writes.

Source: RFC-22 (order of completion); docs/protocol §5.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from hudi_ops.config.table import INDEX_DEFINITIONS, METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY

Role: TypeAlias = Literal["ingest", "service", "compaction"]
"""A `service` replaces file groups. A `compaction` merges its plan's slices within their groups: later completions are read on top
of its result, so it conflicts with no write (docs/protocol §17)."""

Stage: TypeAlias = Literal["completed", "planned", "running"]

UNKNOWN = "everything: its write set is unknown"
_SHOWN_MAX = 3
_NAMED_MAX = 100


@dataclass(frozen=True, slots=True)
class Contender:
    """A write as conflict rules see it.

    An unknown `footprint` is None and conflicts with everything. `owner` is empty for writers that do not name themselves;
    `is_foreign` marks foreign writers. The other fields are about plans of ours: `on_overlap` and `is_cancellable` come from the
    PLAN entry; `is_cancelled` and `is_taken` say that a CANCEL or a TAKEOVER names the plan. `planned_ms` is when it was planned,
    in ms since 1970; a write cancels it only once it is `wait_s` seconds old. `remaining` are the plan groups that no write has
    touched, of a plan that shrinks and is not cancellable: a write must leave one of them.
    """

    instant: str
    action: str
    footprint: Footprint | None
    role: Role = "ingest"
    stage: Stage = "running"
    owner: str = ""
    completion_time: str = ""
    is_foreign: bool = False
    on_overlap: str = ""
    is_cancellable: bool = False
    is_cancelled: bool = False
    is_taken: bool = False
    wait_s: float = 0.0
    planned_ms: int = 0
    remaining: tuple[Footprint, ...] = ()

    def shared(self, other: Contender) -> tuple[str, ...]:
        """Return what both writes touch, as text; empty if they do not overlap."""
        if self.footprint is None or other.footprint is None:
            return (UNKNOWN,)
        return self.footprint.overlap(other.footprint)

    def ends(self, plan: Contender) -> bool:
        """Return whether this write cancels a pending plan before it completes (RFC-79).

        A plan that leaves out touched groups (`shrink`) is cancelled only if no group would be left.
        """
        if self.role != "ingest" or not plan.is_cancellable or plan.is_cancelled:
            return False
        if plan.on_overlap == "cancel":
            return bool(self.shared(plan))
        return plan.on_overlap == "shrink" and self._covers(plan)

    def _covers(self, plan: Contender) -> bool:
        """Return whether this write touches every file group of a plan."""
        mine, theirs = self.footprint, plan.footprint
        if mine is None or theirs is None:
            return False
        return mine.is_whole or all(group in mine.groups or group[0] in mine.partitions for group in theirs.groups)

    def leaves_nothing_of(self, plan: Contender) -> bool:
        """Return whether this write touches all that remains of a plan that is not cancellable."""
        mine = self.footprint
        return bool(plan.remaining) and all(mine is None or bool(one.overlap(mine)) for one in plan.remaining)

    def executed_as_planned(self) -> Contender:
        """Return the plan as Apache Hudi executes it: it replaces all groups of the plan."""
        return replace(self, on_overlap="cancel") if self.on_overlap == "shrink" else self

    @property
    def owned_by(self) -> str:
        """Its owner, as text."""
        return self.owner or "a foreign writer, such as Apache Hudi"


@runtime_checkable
class ConflictStrategy(Protocol):
    """Rule for which of two overlapping writes gives way; completed ones always win.

    Called under the table lock, so it must not do I/O or wait.
    """

    @property
    def name(self) -> str:
        """Name in settings and errors."""

    def looks_at_running(self, role: Role) -> bool:
        """Return whether a role needs the running writes; each costs up to three storage calls."""

    def yields(self, mine: Contender, other: Contender) -> bool:
        """Return whether `mine`, about to complete, gives way to the planned or running `other`."""


class FirstCommitter:
    """Strategy: the first write to complete wins, against planned and running writes, too."""

    name = "first-committer"

    def looks_at_running(self, role: Role) -> bool:
        """Return False: running writes do not matter."""
        return False

    def yields(self, mine: Contender, other: Contender) -> bool:
        """Return False: no write gives way."""
        return False


class IngestionFirst:
    """Strategy: a service gives way to overlapping ingestion; of two ingestions the first wins.

    An ingestion that is only requested, or that names partitions without file groups, may touch any group, and so counts.
    """

    name = "ingestion-first"

    def looks_at_running(self, role: Role) -> bool:
        """Return True for services."""
        return role == "service"

    def yields(self, mine: Contender, other: Contender) -> bool:
        """Return True for a service that meets an ingestion."""
        return mine.role == "service" and other.role == "ingest"


STRATEGIES: dict[str, type[ConflictStrategy]] = {made.name: made for made in (FirstCommitter, IngestionFirst)}


def strategy_of(given: Any) -> ConflictStrategy:
    """Return the strategy of a setting: a name, an import path `module:Class`, or an object.

    Raises:
        InvalidRequest: no such strategy, or the object is not a strategy.
    """
    made = given
    if isinstance(given, str):
        module, colon, name = given.partition(":")
        if not colon and given not in STRATEGIES:
            raise InvalidRequest(
                f"unknown conflict strategy {given!r}",
                expected=f"{', '.join(sorted(STRATEGIES))}, or module:Class",
                found=given,
            )
        try:
            made = (getattr(importlib.import_module(module), name) if colon else STRATEGIES[given])()
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"the conflict strategy {given} cannot be made: {error}",
                expected="an importable class whose constructor needs nothing",
                next_step="check the import path, and PYTHONPATH of the process that writes",
            ) from error
    if not isinstance(made, ConflictStrategy):
        raise InvalidRequest(
            f"{type(made).__name__} is not a conflict strategy",
            expected="an object with name, looks_at_running(role) and yields(mine, other)",
            found=repr(made),
        )
    return made


def refuse_completed(mine: Contender, others: Iterable[Contender], *, early: bool = False) -> None:
    """Check an attempt against later completions, which win under every strategy.

    `early`: the check runs before the work has ended, so a conflict saves the rest of it.

    Raises:
        Conflict: the first overlap, with both instants, what they share, and the other's owner.
    """
    for other in others:
        if shared := mine.shared(other):
            raise Conflict(
                f"{other.action} {other.instant} of {other.owned_by} completed first and touches the same: {_some(shared)}",
                instant=mine.instant,
                expected="no overlapping completion since this attempt began",
                found=f"{other.instant}, completed {other.completion_time}",
                next_step=f"run the same call again: it starts from the table as it is now. {_advice(shared)}",
                **_details(mine, other, "conflicts.retries"),
                early=early,
            )


def refuse_running(mine: Contender, others: Iterable[Contender], strategy: ConflictStrategy) -> None:
    """Check an attempt that is about to complete against running writes, by its strategy.

    Raises:
        Conflict: it has to give way.
    """
    for other in others:
        if (shared := mine.shared(other)) and strategy.yields(mine, other):
            raise Conflict(
                f"{other.action} {other.instant} of {other.owned_by} is under way and touches the same: {_some(shared)}; "
                f"under {strategy.name} a {mine.role} gives way to it",
                instant=mine.instant,
                expected=f"no live write that a {mine.role} gives way to",
                found=f"{other.instant}, {other.action}, not completed",
                next_step="run it again after that write; with conflicts.strategy first-committer, the first to complete wins",
                **_details(mine, other, "conflicts.strategy"),
                early=False,
            )


def refuse_planned(mine: Contender, plans: Iterable[Contender], strategy: ConflictStrategy) -> None:
    """Check an attempt against pending plans, whose services read file groups as of the plan.

    Foreign plans always take precedence: their executors do not check for our writes. So does a plan of ours that replaces groups
    and is not cancellable, unless it shrinks and something of it remains: its executor would fail each time.

    Raises:
        Busy: it has to wait for one of them.
    """
    for plan in plans:
        shared = mine.shared(plan)
        is_exclusive = (
            plan.is_foreign
            or plan.footprint is None
            or (mine.role == "ingest" and (plan.on_overlap == "cancel" or mine.leaves_nothing_of(plan)))
        )
        if shared and (is_exclusive or strategy.yields(mine, plan)):
            found = (
                "a plan that cannot be read" if plan.footprint is None else f"{len(plan.footprint.groups)} input groups"
            )
            raise Busy(
                f"{plan.action} {plan.instant} of {plan.owned_by} is pending on the same file groups: {_some(shared)}",
                instant=mine.instant,
                expected="no pending plan that replaces what this write touches",
                found=found,
                next_step=_plan_advice(plan),
                **_details(mine, plan, "conflicts.strategy" if not plan.is_foreign else "disjoint partitions"),
            )


def _plan_advice(plan: Contender) -> str:
    if plan.is_cancelled:
        return (
            "it is cancelled, and leaves the timeline once its executor has stopped: run the same call again in some seconds; "
            f"`hudi-ops cancel TABLE {plan.instant}` waits for that"
        )
    forced = "" if plan.is_foreign or plan.is_cancellable else " --force"
    return (
        f"execute the {plan.action}, or `hudi-ops cancel TABLE {plan.instant}{forced}`; then run the same call again. "
        "Writers on other partitions pass"
    )


def refuse_older(mine: Contender, older: Contender) -> None:
    """Refuse to continue beside an older overlapping write, which probably completes first.

    Raises:
        Conflict: always; `early`, so that the retry waits for the other write first.
    """
    shared = mine.shared(older)
    raise Conflict(
        f"{older.action} {older.instant} of {older.owned_by} began first, is under way and touches the same: {_some(shared)}",
        instant=mine.instant,
        expected="no live writer that began before this attempt on the same file groups",
        found=f"{older.instant}, {older.action}, not completed",
        next_step="run the same call again: it waits for that writer (conflicts.wait_s) and then starts from its result; "
        f"conflicts.early_detection: false lets both work and the first to complete win. {_advice(shared)}",
        **_details(mine, older, "conflicts.early_detection"),
        early=True,
    )


_METADATA_KEYS = frozenset({METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT, INDEX_DEFINITIONS, FOLDED_KEY})


def refuse_changed_properties(before: dict[str, str], now: dict[str, str], instant: str) -> None:
    """Check that the settings on which an attempt relied are unchanged.

    The partitions of the metadata table may change: the delta is made for those that exist at completion.

    Raises:
        Conflict: names the first property that changed.
    """
    for key in sorted((before.keys() | now.keys()) - _METADATA_KEYS):
        if before.get(key) != now.get(key):
            raise Conflict(
                f"{key} of hoodie.properties changed while the attempt ran",
                instant=instant,
                expected=str(before.get(key)),
                found=str(now.get(key)),
                next_step="run the same call again: it starts from the table's new settings",
            )


def _some(shared: tuple[str, ...]) -> str:
    more = f" and {len(shared) - _SHOWN_MAX} more" if len(shared) > _SHOWN_MAX else ""
    return ", ".join(shared[:_SHOWN_MAX]) + more


def _advice(shared: tuple[str, ...]) -> str:
    if shared[0].startswith("source "):
        return "Let one writer take from a source, or give each its own folder."
    if shared == (UNKNOWN,):
        return "A write with an unknown write set conflicts with every other write."
    return (
        "Writers on disjoint partitions, or with more buckets, conflict less; conflicts.retries sets the number of tries"
        if not shared[0].startswith("new keys ")
        else "Either may have added a key of the other's. Writers that add keys to disjoint partitions do not conflict"
    )


def _details(mine: Contender, other: Contender, setting: str) -> dict[str, Any]:
    """Return error details for `--json` and callers. The lists are empty for unknown write sets."""
    ours, theirs = mine.footprint or Footprint(), other.footprint or Footprint()
    return {
        "other": other.instant,
        "other_action": other.action,
        "other_stage": other.stage,
        "other_owner": other.owner,
        "file_groups": [f"{path or '.'}/{group}" for path, group in sorted(ours.groups & theirs.groups)][:_NAMED_MAX],
        "partitions": sorted(
            (ours.partitions & theirs.touched) | (theirs.partitions & ours.touched) | (ours.looked & theirs.adds)
        )[:_NAMED_MAX],
        "sources": sorted(ours.sources & theirs.sources),
        "setting": setting,
    }
