"""Result of a clustering, for users."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.cost import tasks_at_a_time
from hudi_ops.services.base.rewrite.result import RewriteResult, rewrite_result
from hudi_ops.services.base.rewrite.task import RewrittenGroup
from hudi_ops.services.base.service import Run
from hudi_ops.services.clustering.cost import estimate
from hudi_ops.services.clustering.inputs import PlanInputs
from hudi_ops.services.clustering.layout import encode_order
from hudi_ops.services.clustering.tasks import ClusterTask
from hudi_ops.timeline.content.plans import ReplacePlan


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
