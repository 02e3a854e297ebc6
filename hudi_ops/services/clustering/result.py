"""Result of a clustering, as users get it."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.cost import Cost, CostError, error_of, tasks_at_a_time
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run
from hudi_ops.services.clustering.cost import estimate
from hudi_ops.services.clustering.inputs import PlanInputs
from hudi_ops.services.clustering.layout import encode_order
from hudi_ops.services.clustering.tasks import ClusteredGroup, ClusterTask
from hudi_ops.timeline.content.plans import ReplacePlan


@dataclass(frozen=True)
class ClusterResult(ServiceResult):
    """Result of a clustering.

    Attributes:
        order: order of the rows, as the plan says it.
        groups: number of plan groups that were rewritten.
        left_out: number of plan groups that other writes touched since the plan: they stay as they are.
        replaced: number of file groups that were rewritten.
        files: number of files that were written.
        rows: number of rows in them.
        log_records: number of records read from log files.
        deleted: number of rows that log files deleted.
        bytes_in: bytes read.
        bytes_out: bytes written.
        spilled: number of plan groups that were sorted on disk.
        estimate: expected cost of the groups that were rewritten; times in seconds.
        actual: what they took.
        estimate_error: how far the estimate was off; 0.1 means that `actual` is ten per cent above it.
    """

    order: str = ""
    groups: int = 0
    left_out: int = 0
    replaced: int = 0
    files: int = 0
    rows: int = 0
    log_records: int = 0
    deleted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    spilled: int = 0
    estimate: Cost | None = None
    actual: Cost | None = None
    estimate_error: CostError | None = None


def result_of(run: Run[ReplacePlan, PlanInputs, ClusterTask, ClusteredGroup]) -> ClusterResult:
    """Return the result of a run that completed."""
    stats = [stat for done in run.done for stat in done.stats]
    sizes = [task.bytes_in for task in run.tasks]
    expected = estimate(sizes, tasks_at_a_time(run.engine), run.task_bytes)
    actual = run.cost(sum(sizes), sum(stat.file_size_in_bytes for stat in stats))
    return ClusterResult(
        table=run.attempt.begun.config.name,
        instant=run.attempt.instant,
        completion_time=run.entry.completion_time,
        engine=run.engine.name,
        engine_reason=run.engine_reason,
        epoch=run.attempt.epoch,
        order=encode_order(run.inputs.order),
        groups=len(run.tasks),
        left_out=len(run.left_out),
        replaced=sum(len(task.sources) for task in run.tasks),
        files=len(stats),
        rows=sum(done.rows for done in run.done),
        log_records=sum(done.counts.log_records for done in run.done),
        deleted=sum(done.counts.deleted for done in run.done),
        bytes_in=actual.bytes_in,
        bytes_out=actual.bytes_out,
        spilled=sum(done.spilled for done in run.done),
        estimate=expected,
        actual=actual,
        estimate_error=error_of(expected, actual),
    )
