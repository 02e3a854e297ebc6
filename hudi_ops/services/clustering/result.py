"""Estimate the cost of a clustering from the bytes of its files; the result of an execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.services.base.cost import Cost, cost_of_tasks, tasks_at_a_time
from hudi_ops.services.base.rewrite.result import RewriteResult, rewrite_result
from hudi_ops.services.base.rewrite.task import RewrittenGroup
from hudi_ops.services.base.service import Run
from hudi_ops.services.clustering.inputs import PlanInputs
from hudi_ops.services.clustering.layout import encode_order
from hudi_ops.services.clustering.tasks import ClusterTask
from hudi_ops.timeline.content.plans import ReplacePlan

REWRITE_BYTES_PER_S = 15_000_000
"""Stored bytes that one core reads, sorts and encodes in a second."""
GROUP_S = 0.05
"""Further cost of each plan group: opening its files, markers, puts."""


def estimate(sizes: Sequence[int], parallel: int, memory_bytes: int | None = None) -> Cost:
    """Return the cost of rewriting plan groups, `parallel` at a time, from their sizes in bytes.

    A group that would take more than `memory_bytes` is sorted on disk.
    """
    each = [GROUP_S + size / REWRITE_BYTES_PER_S for size in sizes]
    return cost_of_tasks(each, sizes, sum(sizes), parallel, memory_bytes)


@dataclass(frozen=True)
class ClusterResult(RewriteResult):
    """Result of a clustering.

    Attributes:
        order: order of the rows, as the plan says it.
        spilled: number of plan groups that were sorted on disk.
    """

    order: str = ""
    spilled: int = 0


def result_of(run: Run[ReplacePlan, PlanInputs, ClusterTask, RewrittenGroup]) -> ClusterResult:
    """Return the result of a run that completed."""
    expected = estimate([task.bytes_in for task in run.tasks], tasks_at_a_time(run.engine), run.task_bytes)
    spilled = sum(done.streamed for done in run.done)
    return rewrite_result(ClusterResult, run, expected, order=encode_order(run.inputs.order), spilled=spilled)
