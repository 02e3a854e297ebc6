"""Result of a service that rewrites plan groups, as users get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hudi_ops.services.base.cost import Cost, CostError, error_of
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run
from hudi_ops.services.rewrite.task import RewrittenGroup


@dataclass(frozen=True)
class RewriteResult(ServiceResult):
    """Result of a service that rewrites plan groups.

    Attributes:
        groups: number of plan groups that were rewritten.
        left_out: number of plan groups that other writes touched since the plan: they stay as they are.
        replaced: number of file groups that were rewritten.
        files: number of files that were written.
        rows: number of rows in them.
        log_records: number of records read from log files.
        deleted: number of rows that log files deleted.
        bytes_in: bytes read.
        bytes_out: bytes written.
        estimate: expected cost of the groups that were rewritten; times in seconds.
        actual: what they took.
        estimate_error: how far the estimate was off; 0.1 means that `actual` is ten per cent above it.
    """

    groups: int = 0
    left_out: int = 0
    replaced: int = 0
    files: int = 0
    rows: int = 0
    log_records: int = 0
    deleted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    estimate: Cost | None = None
    actual: Cost | None = None
    estimate_error: CostError | None = None


def cost_fields(run: Run[Any, Any, Any, RewrittenGroup], expected: Cost) -> dict[str, Any]:
    """Return the fields that compare the cost of a completed run with the expected one."""
    stats = [stat for done in run.done for stat in done.stats]
    actual = run.cost(sum(task.bytes_in for task in run.tasks), sum(stat.file_size_in_bytes for stat in stats))
    return {"estimate": expected, "actual": actual, "estimate_error": error_of(expected, actual)}


def rewrite_fields(run: Run[Any, Any, Any, RewrittenGroup], expected: Cost) -> dict[str, Any]:
    """Return the fields of a `RewriteResult` for a run that completed."""
    costs = cost_fields(run, expected)
    return {
        **run.result_fields,
        **costs,
        "groups": len(run.tasks),
        "left_out": len(run.left_out),
        "replaced": sum(len(task.sources) for task in run.tasks),
        "files": sum(len(done.stats) for done in run.done),
        "rows": sum(done.rows for done in run.done),
        "log_records": sum(done.counts.log_records for done in run.done),
        "deleted": sum(done.counts.deleted for done in run.done),
        "bytes_in": costs["actual"].bytes_in,
        "bytes_out": costs["actual"].bytes_out,
    }
