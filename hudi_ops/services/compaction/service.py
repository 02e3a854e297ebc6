"""Compaction as a table service: merge the log files of file groups into new base files.

Source: docs/protocol §14, §17; docs/format §3.1, §9.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.engine.protocol import Engine
from hudi_ops.services.base.cost import Cost, Rates, TaskSize, error_of
from hudi_ops.services.base.planned.slices import files_of_instant
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.rewrite.task import RewrittenGroup, task_fields, wanted_of
from hudi_ops.services.base.service import Run, TableService, named, register
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.compaction.choose import CompactionChoice, choose, empty_choice, refuse_without_logs
from hudi_ops.services.compaction.draft import CompactionDraft
from hudi_ops.services.compaction.inputs import PlanInputs, inputs_of_plan, refuse_missing_log_files
from hudi_ops.services.compaction.read_cost import read_cost
from hudi_ops.services.compaction.result import CompactResult
from hudi_ops.services.compaction.tasks import CompactTask, compact_slice
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.timeline.content.plans import CompactionPlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

CompactionRun = Run[CompactionPlan, PlanInputs, CompactTask, RewrittenGroup]

RATES = Rates(0.05, read_bytes_per_s=40_000_000, write_bytes_per_s=30_000_000)
"""Speed of merging and of encoding; fixed cost of a slice."""


class Compaction(
    TableService[
        CompactionRequest, CompactionChoice, CompactionPlan, PlanInputs, CompactTask, RewrittenGroup, CompactResult
    ]
):
    """Merge log files into base files, one task for each file slice."""

    action = "compaction"
    command = "hudi-ops compact"
    plan_type = CompactionPlan
    result_type = CompactResult
    cancellable = False
    role = "compaction"
    run = staticmethod(compact_slice)

    def refuse_table(self, state: TableState) -> None:
        """Refuse copy-on-write tables and tables that cannot be written."""
        refuse_without_logs(state)
        refuse_unwritable(state.config)

    def empty_choice(self, request: CompactionRequest) -> CompactionChoice:
        """Return the strategy, threshold and limit of the request."""
        return empty_choice(request)

    def choose(self, session: Session, state: TableState, request: CompactionRequest) -> CompactionChoice:
        """Choose by the request's strategy, threshold and limit."""
        return choose(session, state, request)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the health check `read_cost` measures."""
        return named("read_cost", read_cost(live_columns(session, state)).values())

    def draft(self, session: Session, state: TableState, choice: CompactionChoice) -> Draft:
        """Return a draft that adds log files which complete while the plan is made."""
        return CompactionDraft(session, state, choice).draft()

    def estimate(self, choice: CompactionChoice, engine: Engine) -> Cost:
        """Return the cost of merging the chosen slices."""
        return RATES.cost([size_of(found.candidate) for found in choice.planned], engine)

    def inputs(self, session: Session, attempt: Attempt, plan: CompactionPlan) -> PlanInputs:
        """Return the slices of the plan whose group was not replaced since."""
        return inputs_of_plan(session, attempt.begun, attempt.instant, plan)

    def tasks(self, run: CompactionRun) -> list[CompactTask]:
        """Return one task for each slice."""
        fields = task_fields(run, keys=False)
        return [
            CompactTask(**fields, partition_path=slice_.partition_path, sources=(slice_,), number=slice_.number)
            for slice_ in run.inputs.slices
        ]

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
        found = files_of_instant(session, {planned.partition_path for planned in plan.slices}, attempt.instant)
        groups = {(planned.partition_path, planned.file_id) for planned in plan.slices}
        return [file.path for file in found if not file.is_log and (file.partition_path, file.file_id) in groups]

    def settled(self, session: Session) -> None:
        """Compact the metadata table if it has enough deltas."""
        after_write(session)

    def result(self, run: CompactionRun) -> CompactResult:
        """Return counts, cost and the error of the estimate."""
        slices, counts = run.inputs.slices, [done.counts for done in run.done]
        expected = RATES.cost(list(map(size_of, slices)), run.engine, run.task_bytes)
        actual = run.cost(run.inputs.bytes_in, sum(stat.file_size_in_bytes for done in run.done for stat in done.stats))
        return CompactResult(
            **run.result_fields,
            slices=len(run.done),
            replaced=run.inputs.replaced,
            log_files=sum(len(slice_.logs) for slice_ in slices),
            log_records=sum(one.log_records for one in counts),
            corrupt_blocks=sum(one.corrupt_blocks for one in counts),
            rows=sum(done.rows for done in run.done),
            updated=sum(one.updated for one in counts),
            deleted=sum(one.deleted for one in counts),
            inserted=sum(one.inserted for one in counts),
            ignored=sum(one.ignored for one in counts),
            streamed=sum(done.streamed for done in run.done),
            estimate=expected,
            actual=actual,
            estimate_error=error_of(expected, actual),
        )

    def is_own(self, session: Session, state: TableState, found: Instant) -> bool:
        """Return whether a completed commit merged slices."""
        metadata = session.commits.metadata(state.timeline, found) if found.kind == "commit" else None
        return metadata is not None and metadata.is_merge


def size_of(slice_: Slice) -> TaskSize:
    """Return the expected bytes of a merge.

    The new base file is as large as the old one, or as the log files if there was none.
    """
    return TaskSize(slice_.bytes_in, slice_.base_bytes or slice_.log_bytes)


COMPACTION = register(Compaction())
