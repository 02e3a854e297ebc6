"""Resize as a table service: split and merge the buckets of hash rings.

Source: docs/protocol §14, §27, §29; docs/format §10.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from hudi_ops.commit.decide.takeover import remove_data_files
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.config.requests import ResizeRequest
from hudi_ops.errors import Conflict
from hudi_ops.index.bucket_engine import ring_engine_of
from hudi_ops.index.misleading_rings import refuse_record_index
from hudi_ops.index.resizes import changes_of, is_resize
from hudi_ops.index.ring import Child
from hudi_ops.index.ring_files import resize_extra
from hudi_ops.services.base.cost import Rates, TaskSize
from hudi_ops.services.base.leave_out import refuse_touched
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.services.base.service import Run, named, register
from hudi_ops.services.base.slices import live_columns
from hudi_ops.services.resize.bucket_sizes import bucket_sizes, rings_at_limit
from hudi_ops.services.resize.choose import ResizeChoice, choose, empty_choice, refuse_table
from hudi_ops.services.resize.draft import ResizeDraft
from hudi_ops.services.resize.inputs import ParentGroup, ResizeInputs, inputs_of_plan
from hudi_ops.services.resize.tasks import ResizeTask, resize_group
from hudi_ops.services.rewrite.inputs import files_of_instant
from hudi_ops.services.rewrite.result import RewriteResult, rewrite_fields
from hudi_ops.services.rewrite.service import ReplaceService
from hudi_ops.services.rewrite.task import RewrittenGroup
from hudi_ops.timeline.content.footprint import BUCKET_DIGITS, Footprint
from hudi_ops.timeline.content.plans import FilesByPartition, ReplacePlan
from hudi_ops.timeline.names import completes_as
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

ResizeRun = Run[ReplacePlan, ResizeInputs, ResizeTask, RewrittenGroup]


@dataclass(frozen=True)
class ResizeResult(RewriteResult):
    """Result of a resize.

    `left_out` counts the plan groups that writes touched without writing into their children.

    Attributes:
        splits: number of buckets that were split.
        merges: number of runs of buckets that were merged.
        streamed: number of plan groups that were rewritten in bounded memory.
    """

    splits: int = 0
    merges: int = 0
    streamed: int = 0


class Resize(ReplaceService[ResizeRequest, ResizeChoice, ResizeInputs, ResizeTask, ResizeResult]):
    """Rewrite buckets into others, one task for each plan group.

    It does not conflict with writes that put their rows into the child groups, too. Groups that other writes touched are left out.
    """

    name = "resize"
    command = "hudi-ops resize"
    result_type = ResizeResult
    draft_type = ResizeDraft
    task_type = ResizeTask
    rates = Rates(0.02, read_bytes_per_s=15_000_000)
    has_keys = False
    role = "compaction"
    empty_choice = staticmethod(empty_choice)
    choose = staticmethod(choose)
    run = staticmethod(resize_group)

    def is_kind(self, plan: Any) -> bool:
        """Return whether a plan has the strategy of a resize."""
        return is_resize(plan)

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written, or have no hash rings."""
        refuse_unwritable(state.config)
        refuse_table(state)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return what the health check `buckets` measures."""
        slices = live_columns(session, state)
        at_limit = rings_at_limit(session, state, slices)
        return named("buckets", {**bucket_sizes(slices).values(), "at_limit": at_limit})

    def size_of(self, slices: Sequence[Slice], outputs: int) -> TaskSize:
        """Return the expected bytes of a group, and the files that are opened and written for it."""
        return replace(super().size_of(slices, outputs), files=len(slices) + outputs)

    def refuse_plan(self, session: Session, state: TableState, plan: ReplacePlan, instant: str) -> None:
        """Refuse a plan that does not say its child groups, or a table with a record index."""
        refuse_table(state)
        refuse_record_index(state)
        changes_of(plan, state.config.name, instant)

    def inputs(self, session: Session, attempt: Attempt, plan: ReplacePlan) -> ResizeInputs:
        """Return the groups of the plan as they are on storage, and their rings."""
        inputs = inputs_of_plan(session, attempt.begun, attempt.instant, plan)
        changes = [group.change for group in inputs.groups]
        children = {(change.partition_path, f"{name}-0") for change in changes for name in change.prefixes}
        logs = _named(session, attempt, attempt.begun, children)
        files = files_of_instant(session, {path for path, _ in children}, attempt.instant) if logs else []
        there = {(file.partition_path, file.name) for file in files}
        lost = frozenset(group for group, path, name in logs if (path, name) not in there)
        return replace(inputs, lost=lost)

    def fields_of(self, run: ResizeRun, group: ParentGroup) -> dict[str, Any]:
        """Return how the ring changes by a group, and the hashes of its children."""
        return {
            "change": group.change,
            "engine": ring_engine_of(run.attempt.begun.log.properties.facts),
            "children": group.children,
            "ring": run.inputs.rings[group.partition_path].instant,
        }

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
        files = files_of_instant(run.session, {path for path, _ in children}, run.attempt.instant)
        remove_data_files(
            run.session,
            run.attempt,
            [file.path for file in files if file.is_log and (file.partition_path, file.file_id) in children],
        )
        return named

    def result(self, run: ResizeRun) -> ResizeResult:
        """Return counts of groups, files, rows and bytes."""
        sizes = [self.size_of(task.sources, len(task.children)) for task in run.tasks]
        return ResizeResult(
            **rewrite_fields(run, self.rates.cost(sizes, run.engine, run.task_bytes)),
            splits=sum(len(task.children) > 1 for task in run.tasks),
            merges=sum(len(task.sources) > 1 for task in run.tasks),
            streamed=sum(done.streamed for done in run.done),
        )


def _children(run: ResizeRun) -> set[tuple[str, str]]:
    """Return (partition path, file id) of the children of left-out groups."""
    return {(task.partition_path, f"{name}-0") for task in run.left_out for name in task.change.prefixes}


def _named_children(run: ResizeRun, state: TableState) -> FilesByPartition:
    """Return the log files in children of left-out groups that completed writes name."""
    by_path: dict[str, set[str]] = {}
    for _, path, name in _named(run.session, run.attempt, state, _children(run)):
        by_path.setdefault(path, set()).add(name)
    return {path: tuple(sorted(names)) for path, names in sorted(by_path.items())}


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
