"""Choose the file groups that a compaction merges, each with the reason for or against it.

Source: docs/protocol §17; docs/format §9.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import CompactionRequest, checked_strategy
from hudi_ops.errors import Corrupt, InvalidRequest, NotFound, Unsupported
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.files.log.visible_blocks import BlockInstants, visible_blocks
from hudi_ops.files.names import parse_data_file
from hudi_ops.services.base.choice import Candidate, Measured, Strategy, cancel_policy, measured, within
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.rewrite.choice import RewriteChoice, RewriteGroup, leave_out_pending, pending_plans, slices_of
from hudi_ops.services.rewrite.draft import begun_by
from hudi_ops.services.rewrite.starvation import held_back, unguard
from hudi_ops.timeline.content.plans import CompactionPlan, read_plan
from hudi_ops.timeline.log.commit_log import Pointer
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy("size", lambda group, now_ms: group.log_bytes, "bytes", 1),
        Strategy("count", lambda group, now_ms: len(group.logs), "log files", 5),
        Strategy("commits", lambda group, now_ms: group.commits, "delta commits", 5),
        Strategy("age", lambda group, now_ms: (now_ms - group.oldest_ms) / 1000, "s", 3600),
    )
}
"""Strategies by name; the first is the default. The largest measure comes first.

A new one also needs its name in `config.requests.StrategyName`, its unit in `cli/services/compact.py: _amount`, and its row in
docs/tables.md.
"""


def parse_strategy(name: str) -> Strategy:
    """Return the strategy of that name.

    Raises:
        InvalidRequest: no strategy has this name.
    """
    return STRATEGIES[checked_strategy(name)]


class LeftReason(StrEnum):
    """Reasons of compaction alone to leave a file group out."""

    UNMERGEABLE = "log files that cannot be merged here"


@dataclass
class CompactionChoice(RewriteChoice[RewriteGroup]):
    """Choice of a compaction. `elsewhere` are partitions outside the request with log files."""

    elsewhere: set[str] = field(default_factory=set)

    def unplanned(self) -> set[str]:
        """Return the partitions with log files that are not planned."""
        return {candidate.partition_path for candidate in self.waiting()} | self.elsewhere

    def refuse_nothing(self, table: str) -> None:
        """Refuse an empty choice if its only due candidates cannot be merged here.

        Raises:
            Unsupported: names the first such file group.
        """
        left = self.others[LeftReason.UNMERGEABLE]
        if not left:
            return
        first, why = left[0]
        where = f"file group {first.file_id} in partition {first.partition_path or '.'}"
        what = (
            f"None of the {len(left)} file groups with log files that are due can be merged here; the first is {where}"
            if len(left) > 1
            else f"The log files of {where} cannot be merged here"
        )
        raise Unsupported(
            f"{what}; nothing was planned",
            table=table,
            expected="log files with rows as Avro or Parquet, deletes and rollbacks",
            found=why,
            next_step="compact them with Apache Hudi; `hudi-ops compact TABLE explain` says why of each file group",
        )


def empty_choice(request: CompactionRequest) -> CompactionChoice:
    """Return the choice of a request without candidates."""
    strategy = parse_strategy(request.strategy)
    threshold = strategy.threshold if request.threshold is None else request.threshold
    return CompactionChoice(
        "compact", "log files", strategy, threshold, request.max_bytes, others={LeftReason.UNMERGEABLE: []}
    )


def choose(session: Session, state: TableState, request: CompactionRequest) -> CompactionChoice:
    """Choose the file groups of a plan; change nothing.

    Raises:
        InvalidRequest: a partition that the table does not have.
    """
    choice = empty_choice(request)
    settings = request.cancel_settings(session.upkeep.cancel)
    choice.cancel = cancel_policy(settings, settings.on_overlap)
    plans = pending_plans(session, state, "compaction")
    slices, choice.bare, choice.elsewhere = _slices(session, state, request.partitions)
    logged = [_candidate(state, slice_) for slice_ in slices]
    free = leave_out_pending(choice, logged, plans)
    reached, choice.below = measured(choice.strategy, free, choice.threshold, session.ctx.clock.now_ms())
    looked_at: dict[tuple[str, str], str] = {}
    starved = held_back(session, state, "compaction", request.starvation)
    if starved is not None:
        kept = {candidate.key for candidate in starved.keep(choice, [due.candidate for due in reached])}
        _take(session, state, choice, [due for due in reached if due.candidate.key in kept], looked_at)
        if choice.planned:
            return choice
        unguard(choice)
    _take(session, state, choice, reached, looked_at)
    return choice


def _take(
    session: Session,
    state: TableState,
    choice: CompactionChoice,
    reached: list[Measured],
    looked_at: dict[tuple[str, str], str],
) -> None:
    """Plan the candidates that can be merged, up to the limit of bytes.

    `looked_at` maps each candidate whose blocks were read to the reason why it cannot be merged; empty: it can be.
    """
    reached = [due for due in reached if not looked_at.get(due.candidate.key)]
    while True:
        choice.planned, choice.beyond = within(reached, choice.max_bytes)
        unknown = [due.candidate for due in choice.planned if due.candidate.key not in looked_at]
        if not unknown:
            choice.groups = [RewriteGroup((due.candidate,)) for due in choice.planned]
            return
        reasons = unmergeable(session, state, unknown)
        looked_at |= {candidate.key: reasons.get(candidate.key, "") for candidate in unknown}
        choice.others[LeftReason.UNMERGEABLE] += [
            (candidate, reasons[candidate.key]) for candidate in unknown if candidate.key in reasons
        ]
        reached = [due for due in reached if not looked_at.get(due.candidate.key)]


def refuse_without_logs(state: TableState) -> None:
    """Refuse a table that has no log files.

    Raises:
        InvalidRequest: a copy-on-write table.
    """
    if state.config.table_type != "MERGE_ON_READ":
        raise InvalidRequest(
            "this table has no log files to compact",
            table=state.config.name,
            expected="a merge-on-read table",
            found=state.config.table_type,
            next_step="nothing to do: its writes rewrite base files at once",
        )


def _slices(session: Session, state: TableState, wanted: Sequence[str]) -> tuple[list[Slice], int, set[str]]:
    """Return the wanted slices with log files, and the number of those without.

    The third value are other partitions with log files.

    Raises:
        InvalidRequest: a name that no partition has, or a table without partitions.
    """
    if not wanted:
        every = live_columns(session, state)
        with_logs = every.filter(every.log_counts > 0)
        return with_logs.objects(), len(every) - len(with_logs), set()
    chosen, listed = slices_of(session, state, wanted)
    paths = {slice_.partition_path for slice_ in chosen}
    if listed is None:
        elsewhere = partitions_to_plan(session, state)
    else:
        elsewhere = {slice_.partition_path for slice_ in listed if slice_.logs}
    logged = [slice_ for slice_ in chosen if slice_.logs]
    return logged, len(chosen) - len(logged), elsewhere - paths


def _candidate(state: TableState, slice_: Slice) -> Candidate:
    timeline = state.timeline
    since = begun_by(slice_)
    later = (write for write in timeline.completed_writes if write.completion_time > since and write.time != since)
    commits = sum(write.kind == "deltacommit" for write in later)
    writers = {file.instant for file in slice_.logs}
    times = [write.completion_time for time in writers if (write := timeline.find(time)) is not None]
    # The completion time of an archived write is not read: its request time is close enough for an age.
    oldest = min(times) if len(times) == len(writers) and all(times) else min(writers)
    oldest_ms = ms_of_instant(oldest, state.zone)
    return Candidate(*slice_.key, slice_.base, slice_.logs, max(commits, len(writers)), oldest_ms)


def partitions_to_plan(session: Session, state: TableState) -> set[str]:
    """Return partitions that the newest compaction left out, and those with log files since.

    They come from the timeline, as in Apache Hudi's incremental planner: nothing is listed. Without a completed compaction, all
    writes on the timeline count.

    Source: docs/format §3.2.
    """
    found: set[str] = set()
    merges = [instant for instant in state.timeline.completed_writes if instant.action == "compaction"]
    newest = max(merges, key=lambda instant: instant.completion_time, default=None)
    if newest is not None:
        plan = read_plan(session.ctx.storage, state.timeline, newest)
        found |= set(plan.unplanned) if isinstance(plan, CompactionPlan) else set()
    for instant in state.timeline.completed_writes:
        metadata = session.commits.metadata(state.timeline, instant)
        if metadata is None or (newest is not None and instant.completion_time < newest.time):
            continue
        for stat in metadata.stats:
            name = parse_data_file(stat.file_name)
            if name is not None and name.is_log:
                found.add(stat.partition_path)
    return found


def unmergeable(session: Session, state: TableState, candidates: Sequence[Candidate]) -> dict[tuple[str, str], str]:
    """Return the file groups that an execution would refuse, with the reason, by their keys.

    Only block headers are read, and only of log files of foreign writers: ours hold whole rows and deletes alone.

    Source: docs/format §9.8.
    """
    ours = _ours(session, state, {log.instant for group in candidates for log in group.logs})
    foreign = [group for group in candidates if any(log.instant not in ours for log in group.logs)]
    instants = BlockInstants.of(state.config, state.timeline)

    def reason(group: Candidate) -> str:
        try:
            # All log files of the group: a rollback block in one file takes back blocks of another.
            blocks = [block for log in group.logs for block in LogFileReader(session.ctx.storage, log.path).blocks]
            visible_blocks(blocks, instants, group.partition_path or ".", state.config.name)
        except (Corrupt, NotFound) as error:
            return error.what
        except Unsupported as error:
            return error.found or error.what
        return ""

    reasons = zip(foreign, session.ctx.local_engine.map(reason, foreign), strict=True)
    return {group.key: found for group, found in reasons if found}


def _ours(session: Session, state: TableState, writers: set[str]) -> set[str]:
    """Return the writers whose commits are in the commit log."""
    found = set()
    for time in writers:
        instant = state.timeline.find(time)
        metadata = session.commits.metadata(state.timeline, instant) if instant and instant.is_completed else None
        if metadata is not None and Pointer.decode(metadata.extra) is not None:
            found.add(time)
    return found
