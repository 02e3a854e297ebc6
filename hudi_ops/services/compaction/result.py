"""Result of a compaction, for users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_ops.services.base.cost import Cost, CostError, error_of, tasks_at_a_time
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run
from hudi_ops.services.compaction.cost import estimate
from hudi_ops.services.compaction.inputs import PlanInputs
from hudi_ops.timeline.content.plans import CompactionPlan

if TYPE_CHECKING:
    from hudi_ops.services.compaction.tasks import CompactedSlice, CompactTask


@dataclass(frozen=True)
class CompactResult(ServiceResult):
    """Result of an execution; times in seconds, sizes in bytes.

    `rows` counts the rows of the new base files; `updated`, `deleted` and `inserted` count effects of log records on the old ones,
    `ignored` counts records that lost. `corrupt_blocks` counts damaged stretches of log files that were skipped, as Apache Hudi
    does. `replaced` counts slices left out because their group was replaced since the plan was made. An `estimate_error` of 0.1
    means that `actual` is ten per cent above `estimate`.
    """

    slices: int = 0
    replaced: int = 0
    log_files: int = 0
    log_records: int = 0
    corrupt_blocks: int = 0
    rows: int = 0
    updated: int = 0
    deleted: int = 0
    inserted: int = 0
    ignored: int = 0
    streamed: int = 0
    estimate: Cost | None = None
    actual: Cost | None = None
    estimate_error: CostError | None = None


def result_of(run: Run[CompactionPlan, PlanInputs, CompactTask, CompactedSlice]) -> CompactResult:
    """Return the result of a run that completed."""
    slices = run.done
    expected = estimate(run.inputs.sizes, tasks_at_a_time(run.engine), run.task_bytes)
    actual = run.cost(run.inputs.bytes_in, sum(done.stat.file_size_in_bytes for done in slices))
    return CompactResult(
        **run.result_fields,
        slices=len(slices),
        replaced=run.inputs.replaced,
        log_files=sum(len(each.logs) for each in run.inputs.slices),
        log_records=sum(done.counts.log_records for done in slices),
        corrupt_blocks=sum(done.counts.corrupt_blocks for done in slices),
        rows=sum(done.stat.num_writes for done in slices),
        updated=sum(done.counts.updated for done in slices),
        deleted=sum(done.counts.deleted for done in slices),
        inserted=sum(done.counts.inserted for done in slices),
        ignored=sum(done.counts.ignored for done in slices),
        streamed=sum(done.streamed for done in slices),
        estimate=expected,
        actual=actual,
        estimate_error=error_of(expected, actual),
    )
