"""Clustering as a table service: merge small files and sort their rows.

Source: docs/protocol §14, §28; docs/format §6.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import WriterSettings
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.base.cost import Cost, Rates, TaskSize
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.rewrite.result import rewrite_fields
from hudi_ops.services.base.rewrite.service import ReplaceService
from hudi_ops.services.base.rewrite.task import RewrittenGroup, task_fields
from hudi_ops.services.base.service import Run, named, register
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.clustering.choose import ClusteringChoice, choose, empty_choice, refuse_unknown_index
from hudi_ops.services.clustering.draft import ClusteringDraft
from hudi_ops.services.clustering.inputs import PlanInputs, inputs_of_plan
from hudi_ops.services.clustering.layout import ORDER_KEY, encode_order, order_of
from hudi_ops.services.clustering.result import ClusterResult
from hudi_ops.services.clustering.small_files import small_files
from hudi_ops.services.clustering.tasks import ClusterTask, cluster_group
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState

ClusteringRun = Run[ReplacePlan, PlanInputs, ClusterTask, RewrittenGroup]

RATES = Rates(0.05, read_bytes_per_s=15_000_000)
"""Speed of reading, sorting and encoding; fixed cost of a plan group."""


class Clustering(ReplaceService[ClusteringRequest, ClusteringChoice, PlanInputs, ClusterTask, ClusterResult]):
    """Merge small files and sort their rows."""

    command = "hudi-ops cluster"
    result_type = ClusterResult
    run = staticmethod(cluster_group)

    def is_kind(self, plan: Any) -> bool:
        """Return whether a plan does not resize buckets."""
        return not is_resize(plan)

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written, or whose rows may not move."""
        refuse_unwritable(state.config)
        refuse_unknown_index(state)

    def empty_choice(self, request: ClusteringRequest) -> ClusteringChoice:
        """Return the order, sizes and limit of the request."""
        return empty_choice(request)

    def choose(self, session: Session, state: TableState, request: ClusteringRequest) -> ClusteringChoice:
        """Choose by the request's order and sizes."""
        return choose(session, state, request)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the health check `small_files` measures.

        The files of tables with buckets are not measured: they are sorted, and never merged.
        """
        if state.log.properties.facts.has_buckets:
            return {}
        return named("small_files", small_files(live_columns(session, state)).values())

    def draft(self, session: Session, state: TableState, choice: ClusteringChoice) -> Draft:
        """Return a draft that leaves out groups which others touch while the plan is made."""
        return ClusteringDraft(session, state, choice).draft()

    def estimate(self, choice: ClusteringChoice, engine: Engine) -> Cost:
        """Return the cost of rewriting the chosen groups."""
        return RATES.cost([TaskSize(group.bytes_in, group.bytes_in) for group in choice.groups], engine)

    def refuse_plan(self, session: Session, state: TableState, plan: ReplacePlan, instant: str) -> None:
        """Refuse a plan whose strategy is not known."""
        order_of(plan, state.config.name, instant)

    def inputs(self, session: Session, attempt: Attempt, plan: ReplacePlan) -> PlanInputs:
        """Return the groups of the plan as they are on storage."""
        return inputs_of_plan(session, attempt.begun, attempt.instant, plan)

    def tasks(self, run: ClusteringRun) -> list[ClusterTask]:
        """Return one task for each plan group."""
        fields = task_fields(run, keys=self.has_keys)
        settings = WriterSettings(footer=tuple(self.extra_of(run).items()))
        return [
            ClusterTask(
                **fields,
                partition_path=group.partition_path,
                sources=group.slices,
                order=run.inputs.order,
                outputs=group.outputs,
                number=group.number,
                settings=settings,
            )
            for group in run.inputs.groups
        ]

    def extra_of(self, run: ClusteringRun) -> Mapping[str, str]:
        """Return the order of the rows, if they have one."""
        return {ORDER_KEY: encode_order(run.inputs.order)} if run.inputs.order.columns else {}

    def settled(self, session: Session) -> None:
        """Compact the metadata table if it has enough deltas."""
        after_write(session)

    def result(self, run: ClusteringRun) -> ClusterResult:
        """Return counts of groups, files, rows and bytes."""
        sizes = [TaskSize(task.bytes_in, task.bytes_in) for task in run.tasks]
        return ClusterResult(
            **rewrite_fields(run, RATES.cost(sizes, run.engine, run.task_bytes)),
            order=encode_order(run.inputs.order),
            spilled=sum(done.streamed for done in run.done),
        )

    def is_own(self, session: Session, state: TableState, found: Instant) -> bool:
        """Return whether a completed replace commit was a clustering."""
        metadata = session.commits.metadata(state.timeline, found) if found.kind == "replacecommit" else None
        return metadata is not None and metadata.operation == "CLUSTER" and metadata.made_groups is None


CLUSTERING = register(Clustering())
