"""Result of a resize, as users get it."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.cost import Cost, CostError, error_of, tasks_at_a_time
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run
from hudi_ops.services.resize.cost import estimate_groups
from hudi_ops.services.resize.inputs import PlanInputs
from hudi_ops.services.resize.tasks import ResizedGroup, ResizeTask
from hudi_ops.timeline.content.plans import ReplacePlan


@dataclass(frozen=True)
class ResizeResult(ServiceResult):
    """Result of a resize.

    Attributes:
        groups: number of plan groups that were rewritten.
        left_out: number of plan groups that writes touched without writing into their children: they stay as they are.
        splits: number of buckets that were split.
        merges: number of runs of buckets that were merged.
        replaced: number of buckets that were rewritten.
        files: number of files that were written, one for each new bucket.
        rows: number of rows in them.
        log_records: number of records read from log files.
        deleted: number of rows that log files deleted.
        bytes_in: bytes read.
        bytes_out: bytes written.
        streamed: number of plan groups that were rewritten in bounded memory.
        estimate: expected cost of the groups that were rewritten; times in seconds.
        actual: what they took.
        estimate_error: how far the estimate was off; 0.1 means that `actual` is ten per cent above it.
    """

    groups: int = 0
    left_out: int = 0
    splits: int = 0
    merges: int = 0
    replaced: int = 0
    files: int = 0
    rows: int = 0
    log_records: int = 0
    deleted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    streamed: int = 0
    estimate: Cost | None = None
    actual: Cost | None = None
    estimate_error: CostError | None = None


def result_of(run: Run[ReplacePlan, PlanInputs, ResizeTask, ResizedGroup]) -> ResizeResult:
    """Return the result of a run that completed."""
    stats = [stat for done in run.done for stat in done.stats]
    sizes = [task.bytes_in for task in run.tasks]
    files = [len(task.sources) + len(task.children) for task in run.tasks]
    expected = estimate_groups(sizes, files, tasks_at_a_time(run.engine), run.task_bytes)
    actual = run.cost(sum(sizes), sum(stat.file_size_in_bytes for stat in stats))
    return ResizeResult(
        table=run.attempt.begun.config.name,
        instant=run.attempt.instant,
        completion_time=run.entry.completion_time,
        engine=run.engine.name,
        engine_reason=run.engine_reason,
        epoch=run.attempt.epoch,
        groups=len(run.tasks),
        left_out=len(run.left_out),
        splits=sum(len(task.children) > 1 for task in run.tasks),
        merges=sum(len(task.sources) > 1 for task in run.tasks),
        replaced=sum(len(task.sources) for task in run.tasks),
        files=len(stats),
        rows=sum(done.rows for done in run.done),
        log_records=sum(done.counts.log_records for done in run.done),
        deleted=sum(done.counts.deleted for done in run.done),
        bytes_in=actual.bytes_in,
        bytes_out=actual.bytes_out,
        streamed=sum(done.streamed for done in run.done),
        estimate=expected,
        actual=actual,
        estimate_error=error_of(expected, actual),
    )
