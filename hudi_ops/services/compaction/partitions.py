"""Find partitions with log files by the timeline, like Apache Hudi's incremental planner."""

from __future__ import annotations

from hudi_ops.commit.session import Session
from hudi_ops.files.names import parse_data_file
from hudi_ops.timeline.content.plans import CompactionPlan, read_plan
from hudi_ops.timeline.state import TableState


def partitions_to_plan(session: Session, state: TableState) -> set[str]:
    """Return partitions that the newest compaction left out, and those with log files since.

    Nothing is listed. Without a completed compaction, all writes on the timeline count.

    Source: docs/format.md §3.2.
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
