"""Result of a compaction, for users."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_ops.services.base.cost import Cost, CostError
from hudi_ops.services.base.result import ServiceResult


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
