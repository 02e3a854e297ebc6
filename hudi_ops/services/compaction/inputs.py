"""Read the slices of a compaction plan as they are on storage when the plan is executed.

Source: docs/protocol §17; docs/format §3.2, §9.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Conflict
from hudi_ops.files.names import parse_data_file
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.services.rewrite.inputs import GroupInput, PlanInputs, read_slices
from hudi_ops.timeline.content.plans import CompactionPlan
from hudi_ops.timeline.since import Since
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import replaced_groups


@dataclass(frozen=True)
class CompactionInputs(PlanInputs[GroupInput]):
    """Slices of a plan to merge; `replaced` counts those whose group was replaced since."""

    replaced: int


def inputs_of_plan(session: Session, attempt: Attempt, plan: CompactionPlan) -> CompactionInputs:
    """Return the slices of a plan with the sizes of their files.

    The number of a slice is its index in the plan.

    Raises:
        Corrupt: a file is gone although its group was not replaced.
    """
    state = attempt.begun
    hidden = replaced_groups(session.commits, state.timeline)  # they need no merge
    live = [
        (number, planned)
        for number, planned in enumerate(plan.slices)
        if (planned.partition_path, planned.file_id) not in hidden and planned.log_files
    ]
    slices = read_slices(session, state, attempt.instant, [planned for _, planned in live])
    groups = tuple(
        GroupInput(slice_.partition_path, (slice_,), number) for (number, _), slice_ in zip(live, slices, strict=True)
    )
    replaced = sum((planned.partition_path, planned.file_id) in hidden for planned in plan.slices)
    return CompactionInputs(groups, replaced)


def refuse_missing_log_files(
    session: Session, state: TableState, instant: str, plan: CompactionPlan, seen: TableState | None = None
) -> None:
    """Refuse a plan that lacks a log file below its instant: the new base file would hide it.

    A foreign writer whose clock lags may complete such a log file after the plan was published. Only writes that completed since
    `seen`, a state that was checked before, are compared.

    Raises:
        Conflict: names the first such file.
    """
    slices = {(planned.partition_path, planned.file_id): planned for planned in plan.slices}
    for other in Since(seen, state).completed if seen is not None else state.timeline.completed_writes:
        if other.completion_time >= instant:
            continue
        metadata = session.commits.metadata(state.timeline, other)
        for stat in metadata.stats if metadata is not None else ():
            planned = slices.get((stat.partition_path, stat.file_id))
            if planned is None or other.completion_time < planned.base_instant or stat.file_name in planned.log_files:
                continue
            named = parse_data_file(stat.file_name)
            # Log files of a dual writer carry the instant of the resize plan, under which they become visible.
            if named is not None and named.is_log and named.instant == other.time:
                raise Conflict(
                    f"{stat.path} of {other.action} {other.time} is not in the plan, and would be hidden by its base file",
                    table=state.config.name,
                    instant=instant,
                    expected=f"only completion times above {instant}, once it was planned",
                    found=f"{other.time}, completed {other.completion_time}",
                    next_step=f"{cancel_advice(instant)}. Check that clocks agree and that all writers take one lock",
                    other=other.time,
                )
