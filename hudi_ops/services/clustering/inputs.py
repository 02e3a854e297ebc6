"""Read the groups of a clustering plan as they are on storage when the plan is executed."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.errors import Unsupported
from hudi_ops.files.names import bucket_file_id, group_file_id
from hudi_ops.kernels.sorting.order import SortOrder
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.services.clustering.layout import order_of
from hudi_ops.services.rewrite.inputs import GroupInput, PlanInputs, read_groups
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS
from hudi_ops.timeline.content.plans import PlannedGroup, ReplacePlan
from hudi_ops.view.slices import Slice


@dataclass(frozen=True)
class OutputGroup(GroupInput):
    """Slices that are rewritten together; `outputs` are the file ids of the new files."""

    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ClusteringInputs(PlanInputs[OutputGroup]):
    """Groups of a plan, and the order of their rows."""

    order: SortOrder


def inputs_of_plan(session: Session, attempt: Attempt, plan: ReplacePlan) -> ClusteringInputs:
    """Return the groups of a plan with the sizes of their files.

    Raises:
        Unsupported: a group spans partitions or buckets, or the plan's strategy is not known.
        Corrupt: a file is gone.
    """
    state, instant = attempt.begun, attempt.instant
    order = order_of(plan, state.config.name, instant)
    has_buckets, table_id = state.log.properties.facts.has_buckets, state.log.table_id
    groups: list[OutputGroup] = []
    number = 0
    for planned, slices in read_groups(session, state, instant, plan):
        path = _partition_of(planned, state.config.name, instant)
        if has_buckets:
            ids = [bucket_file_id(table_id, path, _bucket_of(slices, state.config.name, instant), instant)]
        else:
            ids = [group_file_id(table_id, path, number + place, instant) for place in range(max(1, planned.outputs))]
        groups.append(OutputGroup(path, slices, number, tuple(ids)))
        number += len(ids)
    return ClusteringInputs(tuple(groups), order)


def _bucket_of(slices: tuple[Slice, ...], table: str, instant: str) -> int:
    """Return the bucket of a group's only slice, which the new file group replaces.

    Raises:
        Unsupported: the group has several slices.
    """
    if len(slices) != 1:
        raise Unsupported(
            "a group of the plan merges several buckets of the table",
            table=table,
            instant=instant,
            expected="one file group in each group of the plan",
            found=", ".join(one.file_id for one in slices),
            next_step=cancel_advice(instant),
        )
    return int(slices[0].file_id[:BUCKET_DIGITS])


def _partition_of(group: PlannedGroup, table: str, instant: str) -> str:
    paths = {one.partition_path for one in group.slices}
    if len(paths) != 1:
        raise Unsupported(
            "a group of the plan does not lie in one partition",
            table=table,
            instant=instant,
            expected="slices of one partition in each group",
            found=", ".join(sorted(paths)) or "a group without slices",
            next_step=cancel_advice(instant),
        )
    return paths.pop()
