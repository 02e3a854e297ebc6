"""What a compaction did, beside what was expected of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.services.compaction.cost import Cost, CostError, error_of
from hudi_ops.services.compaction.inputs import PlanInputs
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.timeline.state import TableState

if TYPE_CHECKING:
    from hudi_ops.services.compaction.tasks import CompactedSlice


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an execution has come."""

    slices_done: int
    slices: int
    bytes_done: int
    bytes_in: int


@dataclass(frozen=True)
class CompactResult:
    """What the execution of a plan did. `instant` is None when there was none; times in seconds, sizes in bytes.

    `rows` are those of the new base files; `updated`, `deleted` and `inserted` say what the log records did to the rows of the old
    ones, `ignored` are records that lost. `corrupt_blocks` are damaged stretches of log files that were passed over, as Apache Hudi
    does. `replaced` counts slices that were left out because their group was replaced meanwhile. `estimate` is what was expected,
    `actual` what it took, and `off` by how much the estimate was off: 0.1 is ten per cent more than expected.
    """

    table: str
    instant: str | None
    completion_time: str | None
    engine: str = ""
    engine_reason: str = ""
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
    epoch: int = 0
    estimate: Cost | None = None
    actual: Cost | None = None
    off: CostError | None = None
    seconds: float = 0.0
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def done_before(state: TableState, found: Instant | None, note: str) -> CompactResult:
    """The result where nothing was left to do."""
    if found is None:
        return CompactResult(state.config.name, None, None, note=note)
    return CompactResult(state.config.name, found.time, found.completion_time or None, note=note)


def result_of(
    attempt: Attempt,
    entry: Complete,
    inputs: PlanInputs,
    slices: Sequence[CompactedSlice],
    engine: tuple[str, str],
    expected: Cost,
    took_s: float,
    before_bytes: int,
) -> CompactResult:
    """The result of an execution that completed.

    Args:
        attempt: whose.
        entry: its decision.
        inputs: what was merged.
        slices: what came of each.
        engine: its name, and why it was taken.
        expected: the estimate.
        took_s: seconds, without waiting for others before.
        before_bytes: the most memory that Arrow had ever taken in this process before; only beyond that the peak can be told.
    """
    peak_bytes = pa.default_memory_pool().max_memory()
    is_seen = engine[0] == "local" and peak_bytes > before_bytes
    was = Cost(
        bytes_in=inputs.bytes_in,
        bytes_out=sum(one.stat.file_size_in_bytes for one in slices),
        seconds=round(took_s, 3),
        memory_bytes=peak_bytes if is_seen else None,
    )
    return CompactResult(
        table=attempt.begun.config.name,
        instant=attempt.instant,
        completion_time=entry.completion_time,
        engine=engine[0],
        engine_reason=engine[1],
        slices=len(slices),
        replaced=inputs.replaced,
        log_files=sum(len(one.logs) for one in inputs.slices),
        log_records=sum(one.counts.log_records for one in slices),
        corrupt_blocks=sum(one.counts.corrupt_blocks for one in slices),
        rows=sum(one.stat.num_writes for one in slices),
        updated=sum(one.counts.updated for one in slices),
        deleted=sum(one.counts.deleted for one in slices),
        inserted=sum(one.counts.inserted for one in slices),
        ignored=sum(one.counts.ignored for one in slices),
        streamed=sum(one.streamed for one in slices),
        epoch=attempt.epoch,
        estimate=expected,
        actual=was,
        off=error_of(expected, was),
    )
