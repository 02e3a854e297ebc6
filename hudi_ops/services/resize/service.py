"""Resize as a table service: split and merge the buckets of hash rings.

Source: docs/protocol §14, §27, §29; docs/format §10.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import replace
from typing import Any

from hudi_ops.commit.decide.takeover import remove_data_files
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import Conflict
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.resizes import changes_of, is_resize
from hudi_ops.index.ring import Child
from hudi_ops.index.ring_files import resize_extra
from hudi_ops.services.base.cost import Cost, Rates, TaskSize
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.services.base.planned.leave_out import refuse_touched
from hudi_ops.services.base.planned.rings import refuse_record_index
from hudi_ops.services.base.planned.slices import files_of_instant
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.rewrite.result import rewrite_fields
from hudi_ops.services.base.rewrite.service import ReplaceService
from hudi_ops.services.base.rewrite.task import RewrittenGroup, task_fields
from hudi_ops.services.base.service import Run, named, register
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.services.resize.bucket_sizes import bucket_sizes, rings_at_limit
from hudi_ops.services.resize.choose import ResizeChoice, choose, empty_choice, refuse_table
from hudi_ops.services.resize.draft import ResizeDraft
from hudi_ops.services.resize.inputs import PlanInputs, inputs_of_plan
from hudi_ops.services.resize.result import ResizeResult
from hudi_ops.services.resize.tasks import ResizeTask, resize_group
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.content.plans import FilesByPartition, ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import completes_as
from hudi_ops.timeline.state import TableState

ResizeRun = Run[ReplacePlan, PlanInputs, ResizeTask, RewrittenGroup]

RATES = Rates(0.02, read_bytes_per_s=15_000_000)
"""Speed of reading, hashing and encoding; fixed cost of a file that is opened or written."""


class Resize(ReplaceService[ResizeRequest, ResizeChoice, PlanInputs, ResizeTask, ResizeResult]):
    """Rewrite buckets into others, one task for each plan group.

    It does not conflict with writes that put their rows into the child groups, too. Groups that other writes touched are left out.
    """

    name = "resize"
    command = "hudi-ops resize"
    result_type = ResizeResult
    has_keys = False
    role = "compaction"
    run = staticmethod(resize_group)

    def is_kind(self, plan: Any) -> bool:
        """Return whether a plan has the strategy of a resize."""
        return is_resize(plan)

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written, or have no hash rings."""
        refuse_unwritable(state.config)
        refuse_table(state)

    def empty_choice(self, request: ResizeRequest) -> ResizeChoice:
        """Return the sizes and the limit of the request."""
        return empty_choice(request)

    def choose(self, session: Session, state: TableState, request: ResizeRequest) -> ResizeChoice:
        """Choose by the request's sizes."""
        return choose(session, state, request)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the health check `buckets` measures."""
        slices = live_columns(session, state)
        at_limit = rings_at_limit(session, state, slices)
        return named("buckets", {**bucket_sizes(slices).values(), "at_limit": at_limit})

    def draft(self, session: Session, state: TableState, choice: ResizeChoice) -> Draft:
        """Return a draft that leaves out groups which others rewrite while the plan is made."""
        return ResizeDraft(session, state, choice).draft()

    def estimate(self, choice: ResizeChoice, engine: Engine) -> Cost:
        """Return the cost of rewriting the chosen groups."""
        groups = choice.groups
        sizes = [TaskSize(group.bytes_in, group.bytes_in, len(group.slices) + group.outputs) for group in groups]
        return RATES.cost(sizes, engine)

    def refuse_plan(self, session: Session, state: TableState, plan: ReplacePlan, instant: str) -> None:
        """Refuse a plan that does not say its child groups, or a table with a record index."""
        refuse_table(state)
        refuse_record_index(state)
        changes_of(plan, state.config.name, instant)

    def inputs(self, session: Session, attempt: Attempt, plan: ReplacePlan) -> PlanInputs:
        """Return the groups of the plan as they are on storage, and their rings."""
        found = inputs_of_plan(session, attempt.begun, attempt.instant, plan)
        changes = [group.change for group in found.groups]
        children = {(change.partition_path, f"{name}-0") for change in changes for name in change.prefixes}
        named = _named(session, attempt, attempt.begun, children)
        listed = files_of_instant(session, {path for path, _ in children}, attempt.instant) if named else []
        there = {(file.partition_path, file.name) for file in listed}
        lost = frozenset(group for group, path, name in named if (path, name) not in there)
        return replace(found, lost=lost)

    def tasks(self, run: ResizeRun) -> list[ResizeTask]:
        """Return one task for each plan group."""
        inputs, fields = run.inputs, task_fields(run, keys=self.has_keys)
        engine = ring_engine_of(run.attempt.begun.log.properties.facts)
        return [
            ResizeTask(
                **fields,
                partition_path=group.change.partition_path,
                change=group.change,
                sources=group.slices,
                engine=engine,
                children=group.children,
                ring=inputs.rings[group.change.partition_path].instant,
                number=group.number,
            )
            for group in inputs.groups
        ]

    def extra_of(self, run: ResizeRun) -> Mapping[str, str]:
        """Return how the rings change."""
        nodes: dict[str, list[Child]] = {}
        for task in run.tasks:
            nodes.setdefault(task.partition_path, []).extend(task.change.children)
        return resize_extra({path: run.inputs.rings[path].instant for path in nodes}, nodes)

    def overtaking(self, run: ResizeRun, other: Contender) -> Contender | None:
        """Return a write without the file groups whose children got its rows, too.

        A replace commit has changed the ring of each of its partitions, so it touches all their groups.
        """
        touched = other.footprint
        if touched is None:
            return other
        if completes_as(other.action) == "replacecommit":
            return replace(other, footprint=Footprint(partitions=touched.touched, is_whole=touched.is_whole))
        written = {
            (task.partition_path, source.file_id[:BUCKET_DIGITS])
            for task in run.tasks
            for source in task.sources
            if any((task.partition_path, name[:BUCKET_DIGITS]) in touched.children for name in task.change.prefixes)
            and run.inputs.lost.isdisjoint((task.partition_path, f"{name}-0") for name in task.change.prefixes)
        }
        return replace(other, footprint=replace(touched, groups=touched.groups - written)) if written else other

    def check(self, run: ResizeRun, state: TableState) -> None:
        """Refuse groups that a write touched without child logs, or whose ring has changed.

        Raises:
            Conflict: names the write, or the ring.
        """
        refuse_touched(self, run, state)
        for task in run.tasks:
            ring = run.inputs.rings[task.partition_path]
            if task.change.seq_no != ring.seq_no:
                raise Conflict(
                    f"the hash ring of partition {task.partition_path or '.'} changed since the resize was planned",
                    table=state.config.name,
                    instant=run.attempt.instant,
                    expected=f"ring number {task.change.seq_no}",
                    found=f"number {ring.seq_no}, of {ring.instant}",
                    next_step=cancel_advice(run.attempt.instant),
                )
        if run.left_out and _named_children(run, state) != run.removed:
            raise Conflict(
                "a write that completed while the resize ran wrote into groups that the resize leaves out",
                table=state.config.name,
                instant=run.attempt.instant,
                expected="no such write since the groups were left out",
                next_step="run the same call again: it deletes these files, too",
            )

    def clear_left_out(self, run: ResizeRun) -> FilesByPartition:
        """Delete the child logs of left-out groups: they would double rows."""
        named = _named_children(run, run.session.loader.load())
        children = _children(run)
        found = files_of_instant(run.session, {path for path, _ in children}, run.attempt.instant)
        remove_data_files(
            run.session,
            run.attempt,
            [file.path for file in found if file.is_log and (file.partition_path, file.file_id) in children],
        )
        return named

    def settled(self, session: Session) -> None:
        """Compact the metadata table if it has enough deltas."""
        after_write(session)

    def result(self, run: ResizeRun) -> ResizeResult:
        """Return counts of groups, files, rows and bytes."""
        sizes = [TaskSize(task.bytes_in, task.bytes_in, len(task.sources) + len(task.children)) for task in run.tasks]
        return ResizeResult(
            **rewrite_fields(run, RATES.cost(sizes, run.engine, run.task_bytes)),
            splits=sum(len(task.children) > 1 for task in run.tasks),
            merges=sum(len(task.sources) > 1 for task in run.tasks),
            streamed=sum(done.streamed for done in run.done),
        )

    def is_own(self, session: Session, state: TableState, found: Instant) -> bool:
        """Return whether a completed replace commit was a resize of ours."""
        metadata = session.commits.metadata(state.timeline, found) if found.kind == "replacecommit" else None
        return metadata is not None and metadata.made_groups is not None


def _children(run: ResizeRun) -> set[tuple[str, str]]:
    """Return (partition path, file id) of the children of left-out groups."""
    return {(task.partition_path, f"{name}-0") for task in run.left_out for name in task.change.prefixes}


def _named_children(run: ResizeRun, state: TableState) -> FilesByPartition:
    """Return the log files in children of left-out groups that completed writes name."""
    found: dict[str, set[str]] = {}
    for _, path, name in _named(run.session, run.attempt, state, _children(run)):
        found.setdefault(path, set()).add(name)
    return {path: tuple(sorted(names)) for path, names in sorted(found.items())}


def _named(
    session: Session, attempt: Attempt, state: TableState, children: AbstractSet[tuple[str, str]]
) -> list[tuple[tuple[str, str], str, str]]:
    """Return child, partition path and file name of the child logs that completed writes name."""
    return [
        (child, stat.partition_path, stat.file_name)
        for write in state.timeline.completed_beyond(attempt.begun.timeline.completions, attempt.instant)
        if (metadata := session.commits.metadata(state.timeline, write)) is not None
        for stat in metadata.stats
        if (child := (stat.partition_path, stat.file_id)) in children and f"_{attempt.instant}.log." in stat.file_name
    ]


RESIZE = register(Resize())
