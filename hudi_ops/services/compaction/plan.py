"""Plan a compaction: which file groups have their log files merged into a new base file next, and why the others wait.

What it would cost is said before anything is done. A plan is published by its PLAN slot, and executed by whoever comes first
(`services.compact`).

Source: docs/protocol.md §14, §17; docs/format.md §9.2.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hudi_ops.commit.pending import pending_inputs
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.errors import Conflict, InvalidRequest, Unsupported
from hudi_ops.services.base.publish import publish_plan
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.compaction.cost import Cost, estimate, slices_at_a_time
from hudi_ops.services.compaction.draft import CompactionDraft
from hudi_ops.services.compaction.partitions import partitions_to_plan
from hudi_ops.services.compaction.reasons import Choice, Reason, Verdict, sentence_of
from hudi_ops.services.compaction.strategies import (
    Candidate,
    CompactionStrategy,
    Measured,
    measured,
    parse_strategy,
    within,
)
from hudi_ops.services.compaction.unmergeable import unmergeable
from hudi_ops.services.write.replace import choose, plain_paths
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice, is_partitioned

logger = logging.getLogger(__name__)

TRIES_MAX = 3
"""How often a plan is made anew because others took all that it chose."""


@dataclass(frozen=True)
class CompactionRequest:
    """What is to be planned.

    Attributes:
        strategy: `size`, `count`, `commits` or `age`; see `compaction_strategies`.
        least: threshold, in the strategy's unit; None: its own.
        max_bytes: bytes of base and log files that one plan reads, one file group at least; None: no limit.
        partitions: paths, or patterns of paths; none: all.
    """

    strategy: str = "size"
    least: float | None = None
    max_bytes: int | None = None
    partitions: tuple[str, ...] = ()

    def checked(self) -> CompactionStrategy:
        """The strategy that is meant.

        Raises:
            InvalidRequest: an unknown one, or a threshold or limit that nothing can meet.
        """
        found = parse_strategy(self.strategy)
        for name, value in (("threshold", self.least), ("limit of bytes", self.max_bytes)):
            if value is not None and value < (0 if name == "threshold" else 1):
                raise InvalidRequest(f"a {name} of {value} is not possible", expected="a positive number")
        return found


@dataclass(frozen=True)
class PlanResult:
    """A plan that was published, or would be. `instant` is None when nothing was, and in a dry run; the note says why.

    `verdicts` name the file groups that are planned, and some that are not; `counts` has all of them, by reason. `came` counts log
    files that were added because they completed while the plan was made, `left` the groups that others took in that time.
    """

    table: str
    instant: str | None
    strategy: str
    threshold: float
    note: str
    verdicts: tuple[Verdict, ...]
    counts: dict[str, int]
    estimate: Cost
    dry_run: bool = False
    came: int = 0
    left: int = 0
    seconds: float = 0.0

    @property
    def planned(self) -> tuple[Verdict, ...]:
        """The file groups of the plan."""
        return tuple(one for one in self.verdicts if one.reason is Reason.PLANNED)

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def preview_compaction(session: Session, request: CompactionRequest) -> PlanResult:
    """What a plan would name now, what it would cost, and why it leaves out the rest; changes nothing.

    Args:
        session: the table's.
        request: what is to be planned.

    Raises:
        InvalidRequest: a wrong request, or a table that has no log files.
        Unsupported: the table cannot be written.
    """
    state = session.loader.load()
    choice = _choose(session, state, request)
    return _result(session, state, choice, dry_run=True)


def plan_compaction(session: Session, request: CompactionRequest) -> PlanResult:
    """Publish a plan, if there is anything to plan.

    Args:
        session: the table's.
        request: what is to be planned.

    Raises:
        InvalidRequest: a wrong request, or a table that has no log files; nothing was changed.
        Unsupported: the table cannot be written, or the log files of all that could be planned cannot be merged; no plan is left.
        Conflict: others took what was chosen, again and again.
        Busy: the lock was not to be had, or a write of another program is pending without a heartbeat.
    """
    started_s = session.ctx.clock.monotonic_s()
    request.checked()
    _refuse_without_logs(session.loader.load())
    recover(session)
    session.is_clean = False  # until a write has ended well
    for tried in range(TRIES_MAX):
        state = session.loader.load()
        session.silent.refuse(state)  # it could not be executed
        choice = _choose(session, state, request)
        if not choice.planned:
            _refuse_unmergeable(state, choice)
            break
        draft = CompactionDraft(session, state, [one.candidate for one in choice.planned], choice.unplanned())
        try:
            planned = publish_plan(session, "compaction", draft.draft())
        except Conflict:
            if tried + 1 == TRIES_MAX:
                raise
            continue
        result = _result(session, state, _as_published(choice, draft))
        seconds = round(session.ctx.clock.monotonic_s() - started_s, 3)
        return replace(result, instant=planned.instant, came=draft.came, left=len(draft.left), seconds=seconds)
    result = _result(session, state, choice)
    return replace(result, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def left_plan_result(session: Session, request: CompactionRequest, instant: str) -> PlanResult:
    """The result where a plan that was left is to be executed first."""
    choice = Choice(request.checked(), request.checked().least if request.least is None else request.least, None)
    note = f"compaction {instant} was planned before, and nobody is at it: it comes first"
    return replace(_result(session, session.loader.load(), choice), instant=instant, note=note)


def _choose(session: Session, state: TableState, request: CompactionRequest) -> Choice:
    strategy = request.checked()
    _refuse_without_logs(state)
    least = strategy.least if request.least is None else request.least
    choice = Choice(strategy, least, request.max_bytes)
    free: list[Candidate] = []
    taken = _pending_groups(session, state)
    slices, choice.elsewhere = _slices(session, state, request.partitions)
    for one in slices:
        if not one.logs:
            choice.without_logs += 1
            continue
        candidate = _candidate(state, one)
        by = taken.get("") or taken.get(f"{one.partition_path}/{one.file_id[:BUCKET_DIGITS]}")
        if by is not None:
            choice.pending.append((candidate, by))
        else:
            free.append(candidate)
    reached, choice.below = measured(strategy, free, least, session.ctx.clock.now_ms())
    looked_at: dict[tuple[str, str], str] = {}
    while True:
        choice.planned, choice.beyond = within(reached, request.max_bytes)
        unknown = [one.candidate for one in choice.planned if one.candidate.key not in looked_at]
        if not unknown:
            return choice
        reasons = unmergeable(session, state, unknown)
        looked_at |= {one.key: reasons.get(one.key, "") for one in unknown}
        choice.unmergeable += [(one, reasons[one.key]) for one in unknown if one.key in reasons]
        reached = [one for one in reached if not looked_at.get(one.candidate.key)]


def _slices(session: Session, state: TableState, wanted: Sequence[str]) -> tuple[list[Slice], set[str]]:
    """Visible slices of the wanted partitions, and the other partitions that have log files.

    Raises:
        InvalidRequest: a name that no partition has, or a table without partitions.
    """
    if not wanted:
        return live_slices(session, state), set()
    if not is_partitioned(state.config):
        raise InvalidRequest(
            "the table has no partitions to choose from",
            table=state.config.name,
            expected="no partition named",
            found=", ".join(wanted),
        )
    if paths := plain_paths(wanted):
        found = live_slices(session, state, paths)
        if {one.partition_path for one in found} == set(paths):
            return found, partitions_to_plan(session, state) - set(paths)
    found = live_slices(session, state)
    chosen = choose({one.partition_path: one for one in found}, wanted, state.config)
    elsewhere = {one.partition_path for one in found if one.logs and one.partition_path not in chosen}
    return [one for one in found if one.partition_path in chosen], elsewhere


def _candidate(state: TableState, one: Slice) -> Candidate:
    timeline = state.timeline
    since = one.base.instant if one.base is not None else min(file.instant for file in one.logs)
    later = (done for done in timeline.completed_writes if done.completion_time > since and done.time != since)
    commits = sum(done.kind == "deltacommit" for done in later)
    writers = {file.instant for file in one.logs}
    times = [found.completion_time for time in writers if (found := timeline.find(time)) is not None]
    # When an archived write completed is not looked up for this: its request time is close enough for an age.
    oldest = min(times) if len(times) == len(writers) and all(times) else min(writers)
    return Candidate(
        one.partition_path,
        one.file_id,
        one.base,
        one.logs,
        max(commits, len(writers)),
        ms_of_instant(oldest, state.zone),
    )


def _pending_groups(session: Session, state: TableState) -> dict[str, str]:
    """`partition/bucket digits` -> the plan that is pending on it; under the empty key one that cannot be read."""
    found: dict[str, str] = {}
    for instant, inputs in pending_inputs(session.ctx, state):
        if session.was_cancelled(state, instant.time):
            continue
        said = f"{instant.action} {instant.time}"
        if inputs is None:
            found[""] = f"{said}, which cannot be read"
        else:
            found |= {f"{partition}/{group}": said for partition, group in inputs.groups}
    return found


def _refuse_without_logs(state: TableState) -> None:
    """Compaction is for merge-on-read tables that can be written.

    Raises:
        InvalidRequest: a copy-on-write table.
        Unsupported: it cannot be written.
    """
    if state.config.table_type != "MERGE_ON_READ":
        raise InvalidRequest(
            "this table has no log files to compact",
            table=state.config.name,
            expected="a merge-on-read table",
            found=state.config.table_type,
            next_step="nothing to do: its writes rewrite base files at once",
        )
    refuse_unwritable(state.config)


def _refuse_unmergeable(state: TableState, choice: Choice) -> None:
    """Refuse to plan nothing in silence where only log files that cannot be merged keep the service from its work.

    Raises:
        Unsupported: names the first such file group.
    """
    if not choice.unmergeable:
        return
    first, why = choice.unmergeable[0]
    where = f"file group {first.file_id} in partition {first.partition_path or '.'}"
    count = len(choice.unmergeable)
    said = (
        f"None of the {count} file groups with log files that are due can be merged here; the first is {where}"
        if count > 1
        else f"The log files of {where} cannot be merged here"
    )
    raise Unsupported(
        f"{said}; nothing was planned",
        table=state.config.name,
        expected="log files with rows as Avro or Parquet, deletes and rollbacks",
        found=why,
        next_step="compact them with Apache Hudi; `hudi-ops compact TABLE explain` says why of each file group",
    )


def _as_published(choice: Choice, draft: CompactionDraft) -> Choice:
    """The choice with what became of it while it was decided."""
    now = {one.key: one for one in draft.slices}
    kept = [Measured(now[one.candidate.key], one.measure) for one in choice.planned if one.candidate.key in now]
    gone = [(one.candidate, draft.left[one.candidate.key]) for one in choice.planned if one.candidate.key in draft.left]
    return replace(choice, planned=kept, pending=[*choice.pending, *gone])


def _result(session: Session, state: TableState, choice: Choice, *, dry_run: bool = False) -> PlanResult:
    sizes = [(one.candidate.base_bytes, one.candidate.log_bytes) for one in choice.planned]
    return PlanResult(
        table=state.config.name,
        instant=None,
        strategy=choice.strategy.name,
        threshold=choice.least,
        note=sentence_of(choice),
        verdicts=choice.verdicts(),
        counts=choice.counts(),
        estimate=estimate(sizes, slices_at_a_time(session.ctx.engine)),
        dry_run=dry_run,
    )
