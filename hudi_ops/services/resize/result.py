"""Result of a resize, for users."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.cost import tasks_at_a_time
from hudi_ops.services.base.rewrite.result import RewriteResult, rewrite_result
from hudi_ops.services.base.rewrite.task import RewrittenGroup
from hudi_ops.services.base.service import Run
from hudi_ops.services.resize.cost import estimate_groups
from hudi_ops.services.resize.inputs import PlanInputs
from hudi_ops.services.resize.tasks import ResizeTask
from hudi_ops.timeline.content.plans import ReplacePlan


@dataclass(frozen=True)
class ResizeResult(RewriteResult):
    """Result of a resize.

    `left_out` counts the plan groups that writes touched without writing into their children.

    Attributes:
        splits: number of buckets that were split.
        merges: number of runs of buckets that were merged.
        streamed: number of plan groups that were rewritten in bounded memory.
    """

    splits: int = 0
    merges: int = 0
    streamed: int = 0


def result_of(run: Run[ReplacePlan, PlanInputs, ResizeTask, RewrittenGroup]) -> ResizeResult:
    """Return the result of a run that completed."""
    sizes = [task.bytes_in for task in run.tasks]
    files = [len(task.sources) + len(task.children) for task in run.tasks]
    return rewrite_result(
        ResizeResult,
        run,
        estimate_groups(sizes, files, tasks_at_a_time(run.engine), run.task_bytes),
        splits=sum(len(task.children) > 1 for task in run.tasks),
        merges=sum(len(task.sources) > 1 for task in run.tasks),
        streamed=sum(done.streamed for done in run.done),
    )
