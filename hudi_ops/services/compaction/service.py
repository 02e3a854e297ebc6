"""Compaction as a table service: merge the log files of file groups into new base files.

Source: docs/protocol §14, §17; docs/format §3.1, §9.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.services.base.cost import Cost, CostError, Rates, TaskSize
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run, named, register
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.compaction.choose import CompactionChoice, choose, empty_choice, refuse_without_logs
from hudi_ops.services.compaction.inputs import CompactionInputs, inputs_of_plan, refuse_missing_log_files
from hudi_ops.services.compaction.read_cost import read_cost
from hudi_ops.services.compaction.tasks import CompactTask, compact_slice
from hudi_ops.services.rewrite.draft import RewriteDraft, begun_by
from hudi_ops.services.rewrite.inputs import files_of_instant
from hudi_ops.services.rewrite.result import cost_fields
from hudi_ops.services.rewrite.service import RewriteService
from hudi_ops.services.rewrite.task import RewrittenGroup, wanted_of
from hudi_ops.timeline.content.plan_bytes import encode_compaction, slice_metrics
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

CompactionRun = Run[CompactionPlan, CompactionInputs, CompactTask, RewrittenGroup]


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


class CompactionDraft(RewriteDraft[CompactionChoice]):
    """Plan of the slices of a choice; log files that complete before it is published join it."""

    action = "compaction"
    work = "compaction"

    def encoded(self, choice: CompactionChoice) -> bytes:
        """Return the bytes of the plan, with the slices of the choice."""
        slices = tuple(planned_slice(chosen.candidate) for chosen in choice.planned)
        return encode_compaction(CompactionPlan(slices, choice.cancel.extra(), tuple(sorted(choice.unplanned()))))


def planned_slice(slice_: Slice) -> PlannedSlice:
    """Return the entry of a file group in its plan, with bare file names.

    Without the metrics Apache Hudi does not execute the plan.
    """
    base_bytes = slice_.base.size_bytes if slice_.base is not None else None
    return PlannedSlice(
        *slice_.key,
        base_file=slice_.base.name if slice_.base is not None else "",
        log_files=tuple(file.name for file in slice_.logs),
        base_instant=begun_by(slice_),
        metrics=slice_metrics(base_bytes, len(slice_.logs), slice_.log_bytes),
    )


class Compaction(
    RewriteService[CompactionRequest, CompactionChoice, CompactionPlan, CompactionInputs, CompactTask, CompactResult]
):
    """Merge log files into base files, one task for each file slice."""

    action = "compaction"
    command = "hudi-ops compact"
    plan_type = CompactionPlan
    result_type = CompactResult
    draft_type = CompactionDraft
    task_type = CompactTask
    rates = Rates(0.05, read_bytes_per_s=40_000_000, write_bytes_per_s=30_000_000)
    has_keys = False
    cancellable = False
    role = "compaction"
    empty_choice = staticmethod(empty_choice)
    choose = staticmethod(choose)
    inputs = staticmethod(inputs_of_plan)
    run = staticmethod(compact_slice)

    def refuse_table(self, state: TableState) -> None:
        """Refuse copy-on-write tables and tables that cannot be written."""
        refuse_without_logs(state)
        refuse_unwritable(state.config)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the health check `read_cost` measures."""
        return named("read_cost", read_cost(live_columns(session, state)).values())

    def size_of(self, slices: Sequence[Slice], outputs: int) -> TaskSize:
        """Return the expected bytes of merging a slice.

        The new base file is as large as the old one, or as the log files if there was none.
        """
        (slice_,) = slices
        return TaskSize(slice_.bytes_in, slice_.base_bytes or slice_.log_bytes)

    def outcome(self, run: CompactionRun) -> Write:
        """Return a commit of the new base files."""
        # A compaction moves no key, so an index that is built at the same time needs none.
        wanted = replace(wanted_of(run, keys=True), keys=True)
        facts = [facts for done in run.done for facts in done.facts]
        stats = [stat for done in run.done for stat in done.stats]
        return Write("COMPACT", stats, compacted=True, facts=facts, wanted=wanted)

    def check(self, run: CompactionRun, state: TableState) -> None:
        """Refuse a plan that lacks a log file below its instant."""
        attempt = run.attempt
        seen = attempt.begun if state is not attempt.begun else None
        refuse_missing_log_files(run.session, state, attempt.instant, run.plan, seen)

    def files_unannounced(self, session: Session, attempt: Attempt, plan: CompactionPlan) -> list[str]:
        """List base files of the plan's groups that carry its instant."""
        groups = {(planned.partition_path, planned.file_id) for planned in plan.slices}
        files = files_of_instant(session, {path for path, _ in groups}, attempt.instant)
        return [file.path for file in files if not file.is_log and (file.partition_path, file.file_id) in groups]

    def result(self, run: CompactionRun) -> CompactResult:
        """Return counts, cost and the error of the estimate."""
        counts = [done.counts for done in run.done]
        sizes = [self.size_of(task.sources, 1) for task in run.tasks]
        return CompactResult(
            **run.result_fields,
            **cost_fields(run, self.rates.cost(sizes, run.engine, run.task_bytes)),
            slices=len(run.done),
            replaced=run.inputs.replaced,
            log_files=sum(len(task.source.logs) for task in run.tasks),
            log_records=sum(count.log_records for count in counts),
            corrupt_blocks=sum(count.corrupt_blocks for count in counts),
            rows=sum(done.rows for done in run.done),
            updated=sum(count.updated for count in counts),
            deleted=sum(count.deleted for count in counts),
            inserted=sum(count.inserted for count in counts),
            ignored=sum(count.ignored for count in counts),
            streamed=sum(done.streamed for done in run.done),
        )


COMPACTION = register(Compaction())
