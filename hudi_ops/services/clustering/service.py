"""Clustering as a table service: merge small files and sort their rows.

Source: docs/protocol.md §14, §28; docs/format.md §6.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import WriterSettings, stored_schema
from hudi_ops.index.resizes import is_resize
from hudi_ops.services.base.cost import Cost, Rates, TaskSize
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.base.planned.instant_files import files_of_instant
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.rewrite.task import RewrittenGroup
from hudi_ops.services.base.service import Run, TableService, register
from hudi_ops.services.clustering.choose import ClusteringChoice, choose, empty_choice, refuse_unknown_index
from hudi_ops.services.clustering.draft import ClusteringDraft
from hudi_ops.services.clustering.inputs import PlanInputs, inputs_of_plan
from hudi_ops.services.clustering.layout import ORDER_KEY, encode_order, order_of
from hudi_ops.services.clustering.result import ClusterResult
from hudi_ops.services.clustering.tasks import ClusterTask, cluster_group
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema

ClusteringRun = Run[ReplacePlan, PlanInputs, ClusterTask, RewrittenGroup]

RATES = Rates(0.05, read_bytes_per_s=15_000_000)
"""Of plan groups that are read, sorted and encoded."""


class Clustering(
    TableService[
        ClusteringRequest, ClusteringChoice, ReplacePlan, PlanInputs, ClusterTask, RewrittenGroup, ClusterResult
    ]
):
    """Rewrite file groups, one task for each plan group; leave out groups that writes touched."""

    action = "clustering"
    command = "hudi-ops cluster"
    plan_type = ReplacePlan
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
        session, state, inputs = run.session, run.attempt.begun, run.inputs
        schema = table_schema(state.config, state.timeline, session.commits)
        merging = merging_of(state, schema)
        footer = ((ORDER_KEY, encode_order(inputs.order)),) if inputs.order.columns else ()
        return [
            ClusterTask(
                storage=session.ctx.storage,
                table_name=state.config.name,
                partition_path=group.partition_path,
                sources=group.slices,
                merging=merging,
                stored=stored_schema(schema, merging[0].keys is None),
                order=inputs.order,
                outputs=group.outputs,
                instant=run.attempt.instant,
                epoch=run.attempt.epoch,
                number=group.number,
                memory_bytes=run.task_bytes,
                settings=WriterSettings(footer=footer),
                wanted=wanted_facts(session, state, schema),
            )
            for group in inputs.groups
        ]

    def replaced_by(self, task: ClusterTask) -> Footprint:
        """Return the file groups that a task rewrites."""
        return Footprint.of_groups(source.key for source in task.sources)

    def outcome(self, run: ClusteringRun) -> Write:
        """Return a replace commit of the new files, which names every file group that was rewritten."""
        state = run.attempt.begun
        schema = table_schema(state.config, state.timeline, run.session.commits)
        wanted = wanted_facts(run.session, state, schema)
        replaced: dict[str, tuple[str, ...]] = {}
        for task in run.tasks:
            ids = tuple(source.file_id for source in task.sources)
            replaced[task.partition_path] = (*replaced.get(task.partition_path, ()), *ids)
        return Write(
            "CLUSTER",
            [stat for done in run.done for stat in done.stats],
            extra={ORDER_KEY: encode_order(run.inputs.order)} if run.inputs.order.columns else {},
            replaced=replaced,
            facts=[facts for done in run.done for facts in done.facts],
            wanted=wanted,
            # Every key stays; the new files tell where it lies now.
            hidden_keys=pa.array([], pa.string()) if wanted.keys else None,
        )

    def files_unannounced(self, session: Session, attempt: Attempt, plan: ReplacePlan) -> list[str]:
        """List base files of the plan's partitions that carry its instant."""
        found = files_of_instant(session, {planned.partition_path for planned in plan.slices}, attempt.instant)
        return [file.path for file in found if not file.is_log]

    def files_written(self, run: ClusteringRun) -> Sequence[str]:
        """Return the new base files."""
        return [stat.path for done in run.done for stat in done.stats]

    def settled(self, session: Session) -> None:
        """Compact the metadata table if it has enough deltas."""
        after_write(session)

    def result(self, run: ClusteringRun) -> ClusterResult:
        """Return counts of groups, files, rows and bytes."""
        sizes = [TaskSize(task.bytes_in, task.bytes_in) for task in run.tasks]
        return ClusterResult.of(
            run,
            RATES.cost(sizes, run.engine, run.task_bytes),
            order=encode_order(run.inputs.order),
            spilled=sum(done.streamed for done in run.done),
        )

    def is_own(self, session: Session, state: TableState, found: Instant) -> bool:
        """Return whether a completed replace commit was a clustering."""
        metadata = session.commits.metadata(state.timeline, found) if found.kind == "replacecommit" else None
        return metadata is not None and metadata.operation == "CLUSTER" and metadata.made_groups is None


CLUSTERING = register(Clustering())
