"""A service kind that replaces file groups: it rewrites each one, merged, under another file id.

It stands in for the services that replace groups, with a plan that Apache Hudi can read and execute as a clustering.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_ops.commit.apply.metadata_delta import wanted_facts
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.config.columns import FILE_NAME
from hudi_ops.engine.protocol import Engine
from hudi_ops.files.base.base_file import WriterSettings, encode_base_file, stored_schema
from hudi_ops.files.base.output import BaseFileOutput
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import base_file_name
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask
from hudi_ops.files.statistics.collect import statistics_of_base
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.kernels.meta_columns import with_file_name
from hudi_ops.services.base.choice import Candidate, Choice, Measured, Strategy
from hudi_ops.services.base.cost import Cost
from hudi_ops.services.base.execute import Execution, execute
from hudi_ops.services.base.merging import merging_of
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import Run, TableService
from hudi_ops.services.base.slices import live_slices
from hudi_ops.services.write.replace import with_replaced
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.timeline.cancel.policy import CancelPolicy
from hudi_ops.timeline.content.clean_bytes import planned_path
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import PlannedGroup, PlannedSlice, ReplacePlan
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema
from hudi_ops.view.slices import Slice

ENDED_BY_WRITES = CancelPolicy(cancellable=True, on_overlap="cancel")
STRATEGY = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""Class with which Apache Hudi executes the plan."""
EVERY_GROUP = Strategy("every-group", lambda candidate, now_ms: 1.0, "groups", 1.0)


@dataclass(frozen=True)
class RewriteRequest:
    """Partitions whose groups are rewritten, None: all, and how the plan may be cancelled."""

    partitions: tuple[str, ...] | None = None
    cancel: CancelPolicy = ENDED_BY_WRITES


@dataclass(frozen=True)
class RewriteInputs:
    """Slices as they are when the plan is executed."""

    slices: tuple[Slice, ...]

    @property
    def bytes_in(self) -> int:
        return sum(slice_.bytes_in for slice_ in self.slices)


@dataclass(frozen=True)
class RewriteTask:
    """A slice to rewrite: as it is read, its columns, and the new base file."""

    table_name: str
    source: Slice
    merging: tuple[MergeRules, BlockInstants]
    stored: pa.Schema
    output: BaseFileOutput
    wanted: StatisticsRequest

    @property
    def bytes_in(self) -> int:
        return self.source.bytes_in


@dataclass(frozen=True)
class Rewritten:
    """Statistics of a new base file."""

    stat: WriteStat
    facts: FileStatistics | None


def rewrite(task: RewriteTask) -> Rewritten:
    storage, source = task.output.storage, task.source
    columns = pa.schema([column for column in task.stored if column.name != FILE_NAME])
    if source.logs:
        rows = SliceScan(SliceTask.of(storage, source, *task.merging, columns)).table()
    else:
        base = FileTask(storage, source.base.path, source.base.size_bytes, columns, tuple(columns.names))
        rows = FileScan(base).table()
    if (place := task.stored.get_field_index(FILE_NAME)) >= 0:
        empty = pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
        rows = with_file_name(rows.add_column(place, task.stored.field(place), empty), task.output.name)
    body = encode_base_file(rows, task.table_name, WriterSettings())
    task.output.put(body)
    facts = statistics_of_base(task.output.path, body, task.stored, task.wanted, rows=rows)
    return Rewritten(task.output.stat(rows.num_rows, body.size, inserted=0, updated=0, deleted=0), facts)


RewriteRun = Run[ReplacePlan, RewriteInputs, RewriteTask, Rewritten]


class Rewriting(TableService[RewriteRequest, ReplacePlan, RewriteInputs, RewriteTask, Rewritten, ServiceResult]):
    """Rewrite file groups into new ones, one task for each group."""

    action = "clustering"
    command = "rewrite"
    plan_type = ReplacePlan
    run = staticmethod(rewrite)

    def refuse_table(self, state: TableState) -> None:
        refuse_unwritable(state.config)

    def empty_choice(self, request: RewriteRequest) -> Choice:
        return Choice("rewrite", "files", EVERY_GROUP, 1.0, cancel=request.cancel)

    def choose(self, session: Session, state: TableState, request: RewriteRequest) -> Choice:
        slices = live_slices(session, state, request.partitions)
        found = [Measured(Candidate(one.partition_path, one.file_id, one.base, one.logs), 1.0) for one in slices]
        return replace(self.empty_choice(request), planned=found)

    def draft(self, session: Session, state: TableState, choice: Choice) -> Draft:
        chosen = [found.candidate for found in choice.planned]
        groups = tuple(PlannedGroup((_planned(session.ctx.storage, one),)) for one in chosen)
        plan_ = ReplacePlan("CLUSTER", groups, STRATEGY, extra=choice.cancel.extra())
        inputs = frozenset((one.partition_path, one.file_id[:BUCKET_DIGITS]) for one in chosen)
        return Draft(encode_clustering(plan_), Footprint(inputs), state, cancel=choice.cancel)

    def estimate(self, choice: Choice, engine: Engine) -> Cost:
        return Cost(sum(found.candidate.bytes_in for found in choice.planned), 0, 0.0, None)

    def inputs(self, session: Session, attempt: Attempt, plan: ReplacePlan) -> RewriteInputs:
        wanted = {(one.partition_path, one.file_id) for one in plan.slices}
        return RewriteInputs(tuple(one for one in live_slices(session, attempt.begun) if one.key in wanted))

    def tasks(self, run: RewriteRun) -> list[RewriteTask]:
        session, state = run.session, run.attempt.begun
        schema = table_schema(state.config, state.timeline, session.commits)
        merging = merging_of(state, schema)
        stored = stored_schema(schema, merging[0].keys is None)
        wanted = wanted_facts(session, state, schema)
        tasks = []
        for number, one in enumerate(run.inputs.slices):
            new_id = _next_id(one.file_id, run.attempt.instant)
            name = base_file_name(new_id, number, run.attempt.epoch, run.attempt.instant)
            output = BaseFileOutput(session.ctx.storage, run.attempt.instant, one.partition_path, new_id, name, None)
            tasks.append(RewriteTask(state.config.name, one, merging, stored, output, wanted))
        return tasks

    def outcome(self, run: RewriteRun) -> Write:
        state = run.attempt.begun
        schema = table_schema(state.config, state.timeline, run.session.commits)
        wanted = wanted_facts(run.session, state, schema)
        facts = [done.facts for done in run.done if done.facts is not None]
        write = Write("CLUSTER", [done.stat for done in run.done], facts=facts, wanted=wanted)
        held: dict[str, list[Slice]] = {}
        for one in run.inputs.slices:
            held.setdefault(one.partition_path, []).append(one)
        return with_replaced(run.session, state, write, held)

    def files_written(self, run: RewriteRun) -> Sequence[str]:
        return [done.stat.path for done in run.done]

    def result(self, run: RewriteRun) -> ServiceResult:
        return ServiceResult(run.attempt.begun.config.name, run.attempt.instant, run.entry.completion_time)


REWRITING = Rewriting()


def plan_rewrite(table: Table, request: RewriteRequest | None = None) -> str:
    """Publish a plan; returns its instant."""
    made = plan(table._session, REWRITING, request or RewriteRequest())
    assert made.instant is not None, made.note
    return made.instant


def execute_rewrite(table: Table, instant: str | None = None) -> ServiceResult:
    """Execute a plan; None: the oldest one without a live executor."""
    return execute(table._session, REWRITING, instant, Execution("local"))


def _planned(storage: Storage, one: Slice) -> PlannedSlice:
    """Return a slice with whole paths: Apache Hudi's executor looks for its files there."""
    base = planned_path(storage, one.base.path) if one.base is not None else ""
    logs = tuple(planned_path(storage, file.path) for file in one.logs)
    return PlannedSlice(
        one.partition_path, one.file_id, base, logs, one.base.instant if one.base is not None else "", {}
    )


def _next_id(file_id: str, instant: str) -> str:
    """Return a file id of the same bucket: equal for every attempt of a plan."""
    return f"{file_id[:BUCKET_DIGITS]}{str(uuid.uuid5(uuid.NAMESPACE_OID, file_id + instant))[BUCKET_DIGITS:]}-0"
