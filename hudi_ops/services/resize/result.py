"""Estimate the cost of a resize from the bytes of its buckets; the result of an execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_ops.services.base.cost import Cost, cost_of_tasks, tasks_at_a_time
from hudi_ops.services.base.rewrite.result import RewriteResult, rewrite_result
from hudi_ops.services.base.rewrite.task import RewrittenGroup
from hudi_ops.services.base.service import Run
from hudi_ops.services.resize.choose import ResizeChoice
from hudi_ops.services.resize.inputs import PlanInputs
from hudi_ops.services.resize.tasks import ResizeTask
from hudi_ops.timeline.content.plans import ReplacePlan

REWRITE_BYTES_PER_S = 15_000_000
"""Stored bytes that one core reads, hashes and encodes in a second."""
FILE_S = 0.02
"""Further cost of each file that is opened or written: markers, puts, footer."""


def estimate(choice: ResizeChoice, tasks_at_a_time: int, memory_bytes: int | None = None) -> Cost:
    """Return the cost of executing a choice, `tasks_at_a_time` plan groups at a time.

    A group that would take more than `memory_bytes` is rewritten on disk.
    """
    sizes = [group.bytes_in for group in choice.groups]
    files = [len(group.slices) + group.outputs for group in choice.groups]
    return estimate_groups(sizes, files, tasks_at_a_time, memory_bytes)


def estimate_groups(
    sizes: Sequence[int], files: Sequence[int], tasks_at_a_time: int, memory_bytes: int | None = None
) -> Cost:
    """Return the cost of rewriting plan groups, by bytes read, slices and new files of each."""
    each = [FILE_S * count + size / REWRITE_BYTES_PER_S for count, size in zip(files, sizes, strict=True)]
    return cost_of_tasks(each, sizes, sum(sizes), tasks_at_a_time, memory_bytes)


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
