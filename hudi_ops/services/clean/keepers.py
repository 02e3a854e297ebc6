"""Find what keeps a file that a policy would drop: savepoints, pending plans and holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hudi_ops.commit.holds import Hold, live_holds
from hudi_ops.commit.session import Session
from hudi_ops.config.table import TableConfig
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, Conflict
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.services.base.choice import Reason
from hudi_ops.services.clean.history import GroupKey, PastSlice
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice, ReplacePlan, Savepoint, read_plan, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState

SAVEPOINT, PENDING, HOLD = "savepoint", Reason.PENDING.value, "hold"
"""Reasons for which a file is held back."""


@dataclass(frozen=True)
class Keepers:
    """Savepoints, pending plans and holds of a table at one time.

    Attributes:
        savepoints: request time of a savepoint that names a file, by the file's path.
        saved: request times of the savepoints.
        reads: (instant of the slice, plan) by file group, for each slice that a pending plan reads.
        holds: holds that have not expired, oldest instant first.
        named: the paths that each savepoint names, by its request time.
        plans: the pending plans, each with the instant of the first slice that it reads of each file group.
    """

    savepoints: Mapping[str, str] = field(default_factory=dict)
    saved: frozenset[str] = frozenset()
    reads: Mapping[GroupKey, tuple[str, str]] = field(default_factory=dict)
    holds: Sequence[Hold] = ()
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    plans: Mapping[Instant, Mapping[GroupKey, str]] = field(default_factory=dict)

    def keeper_of(self, slice_: PastSlice, path: str) -> tuple[str, str] | None:
        """Return the reason and, for people, what keeps a file of a slice; None: nothing does."""
        if path in self.savepoints:
            return SAVEPOINT, f"savepoint {self.savepoints[path]} names it"
        seen_by = self.savepoint_of(slice_, path)
        if seen_by is not None:
            return SAVEPOINT, f"a read as of savepoint {seen_by} sees it"
        read = self.reads.get((slice_.partition_path, slice_.file_id))
        if read is not None and slice_.instant >= read[0]:
            return PENDING, f"{read[1]} reads it"
        hold = self.hold_of(slice_)
        return (HOLD, hold.why) if hold is not None else None

    def savepoint_of(self, slice_: PastSlice, path: str) -> str | None:
        """Return a savepoint as of which a read opens a file that the savepoint does not name.

        A compaction that was planned below the savepoint completed above it: its base file has the rows of the named files, and
        a read as of the savepoint opens it instead of them.
        """
        file = parse_data_file(path.rpartition("/")[2]) if self.saved else None
        if file is None:
            return None
        least, end = max(slice_.instant, file.instant), slice_.superseded
        return next((saved for saved in sorted(self.saved) if least <= saved and (not end or saved < end)), None)

    def hold_of(self, slice_: PastSlice) -> Hold | None:
        """Return a hold that needs a slice: reads as of its instant, or later, see it."""
        return next((hold for hold in self.holds if not slice_.superseded or hold.instant < slice_.superseded), None)


def keepers(ctx: TableContext, config: TableConfig, timeline: Timeline, now_ms: int | None = None) -> Keepers:
    """Read what keeps files of a table.

    Args:
        ctx: storage and clock.
        config: settings of the table.
        timeline: its savepoints and pending plans.
        now_ms: time at which holds count, in ms since 1970; None: by the clock.

    Raises:
        Busy: a pending plan cannot be read: what it needs is unknown.
        Conflict: a savepoint was deleted while it was read.
        Corrupt: a savepoint, a plan or a hold cannot be read.
    """
    named: dict[str, list[str]] = {}
    for savepoint in timeline.savepoints:
        said = read_result(ctx.storage, timeline, savepoint)
        if not isinstance(said, Savepoint):
            raise Conflict(
                f"the savepoint of {savepoint.time} was deleted while the clean was planned",
                table=config.name,
                instant=savepoint.time,
                next_step="run the same call again",
            )
        named[savepoint.time] = [data_path(path, name) for path, names in said.files.items() for name in names]
    plans = _plans(ctx.storage, config, timeline)
    reads: dict[GroupKey, tuple[str, str]] = {}
    for plan, starts in plans.items():
        for key, start in starts.items():
            if key not in reads or start < reads[key][0]:
                reads[key] = start, f"{plan.action} {plan.time}"
    return Keepers(
        savepoints={path: time for time, paths in reversed(named.items()) for path in paths},
        saved=frozenset(named),
        reads=reads,
        holds=live_holds(ctx, now_ms),
        named=named,
        plans=plans,
    )


def _plans(storage: Storage, config: TableConfig, timeline: Timeline) -> dict[Instant, dict[GroupKey, str]]:
    found: dict[Instant, dict[GroupKey, str]] = {}
    for one in timeline.pending:
        if one.action not in REWRITING_ACTIONS:
            continue
        plan = read_plan(storage, timeline, one)
        if plan is None:
            raise Busy(
                f"{one.action} {one.time} is pending, and its plan is empty: the files that it needs are unknown",
                table=config.name,
                instant=one.time,
                expected="a plan in its requested file",
                found="an empty file",
                next_step=f"cancel it: `hudi-ops cancel TABLE {one.time} --force`",
            )
        starts = found.setdefault(one, {})
        for slice_ in _slices_of(plan):
            key, start = (slice_.partition_path, slice_.file_id), slice_.base_instant or ""
            starts[key] = min(start, starts.get(key, start))
    return found


def _slices_of(plan: object) -> Iterable[PlannedSlice]:
    return plan.slices if isinstance(plan, CompactionPlan | ReplacePlan) else ()


def refuse_pending_clean(session: Session, state: TableState) -> None:
    """Refuse to plan beside a pending clean that is not cancelled.

    Two cleans would delete by two choices.

    Raises:
        Busy: names it.
    """
    for one in state.timeline.pending:
        if one.action != "clean" or session.was_cancelled(state, one.time):
            continue
        raise Busy(
            f"clean {one.time} is pending",
            table=state.config.name,
            instant=one.time,
            expected="no pending clean",
            found=str(one),
            next_step=f"finish it: `hudi-ops clean TABLE execute --instant {one.time}`; "
            "with --abandoned if Apache Hudi began it and ended",
            other=one.time,
        )
