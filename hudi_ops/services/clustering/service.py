"""Clustering as a table service: merge small files and sort their rows.

Source: docs/protocol §14, §28; docs/format §6.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.files.base.base_file import WriterSettings
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.base.cost import Rates
from hudi_ops.services.base.service import Run, named, register
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.clustering.choose import ClusteringChoice, choose, empty_choice, refuse_unknown_index
from hudi_ops.services.clustering.inputs import ClusteringInputs, OutputGroup, inputs_of_plan
from hudi_ops.services.clustering.layout import (
    ORDER_KEY,
    SORT_AND_SIZE,
    SORT_IN_FILE,
    encode_order,
    order_of,
    strategy_params,
)
from hudi_ops.services.clustering.small_files import small_files
from hudi_ops.services.clustering.tasks import ClusterTask, cluster_group
from hudi_ops.services.rewrite.draft import Key, ReplaceDraft, Slices, touched_by
from hudi_ops.services.rewrite.result import RewriteResult, rewrite_fields
from hudi_ops.services.rewrite.service import ReplaceService
from hudi_ops.services.rewrite.task import RewrittenGroup
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import footprint_of
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState

ClusteringRun = Run[ReplacePlan, ClusteringInputs, ClusterTask, RewrittenGroup]


@dataclass(frozen=True)
class ClusterResult(RewriteResult):
    """Result of a clustering.

    Attributes:
        order: order of the rows, as the plan says it.
        spilled: number of plan groups that were sorted on disk.
    """

    order: str = ""
    spilled: int = 0


class ClusteringDraft(ReplaceDraft[ClusteringChoice]):
    """Plan of the groups of a choice; groups that others touch before it is published leave it."""

    work = "clustering"

    def strategy(self) -> tuple[str, Mapping[str, str]]:
        """Return Apache Hudi's class for a table with or without buckets, and the order of the rows."""
        has_buckets = self.begun.log.properties.facts.has_buckets
        return SORT_IN_FILE if has_buckets else SORT_AND_SIZE, strategy_params(self.choice.order)

    def taken_by_write(self, slices: Slices, write: Instant, metadata: CommitMetadata) -> dict[Key, str]:
        """Return the slices that a write touched, also those to which it added log files."""
        why = f"{write.action} {write.time} wrote to it while the plan was made"
        return dict.fromkeys(touched_by(footprint_of(metadata, write.time), slices), why)


class Clustering(ReplaceService[ClusteringRequest, ClusteringChoice, ClusteringInputs, ClusterTask, ClusterResult]):
    """Merge small files and sort their rows."""

    command = "hudi-ops cluster"
    result_type = ClusterResult
    draft_type = ClusteringDraft
    task_type = ClusterTask
    rates = Rates(0.05, read_bytes_per_s=15_000_000)
    empty_choice = staticmethod(empty_choice)
    choose = staticmethod(choose)
    inputs = staticmethod(inputs_of_plan)
    run = staticmethod(cluster_group)

    def is_kind(self, plan: Any) -> bool:
        """Return whether a plan does not resize buckets."""
        return not is_resize(plan)

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written, or whose rows may not move."""
        refuse_unwritable(state.config)
        refuse_unknown_index(state)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the health check `small_files` measures.

        The files of tables with buckets are not measured: they are sorted, and never merged.
        """
        if state.log.properties.facts.has_buckets:
            return {}
        return named("small_files", small_files(live_columns(session, state)).values())

    def refuse_plan(self, session: Session, state: TableState, plan: ReplacePlan, instant: str) -> None:
        """Refuse a plan whose strategy is not known."""
        order_of(plan, state.config.name, instant)

    def fields_of(self, run: ClusteringRun, group: OutputGroup) -> dict[str, Any]:
        """Return the order of the rows and the new files of a group."""
        settings = WriterSettings(footer=tuple(self.extra_of(run).items()))
        return {"order": run.inputs.order, "outputs": group.outputs, "settings": settings}

    def extra_of(self, run: ClusteringRun) -> Mapping[str, str]:
        """Return the order of the rows, if they have one."""
        return {ORDER_KEY: encode_order(run.inputs.order)} if run.inputs.order.columns else {}

    def result(self, run: ClusteringRun) -> ClusterResult:
        """Return counts of groups, files, rows and bytes."""
        sizes = [self.size_of(task.sources, len(task.outputs)) for task in run.tasks]
        return ClusterResult(
            **rewrite_fields(run, self.rates.cost(sizes, run.engine, run.task_bytes)),
            order=encode_order(run.inputs.order),
            spilled=sum(done.streamed for done in run.done),
        )


CLUSTERING = register(Clustering())
