"""Base of the services that rewrite file groups: compaction, clustering and resize.

Source: docs/protocol §14, §17, §28.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.engine.protocol import Engine
from hudi_ops.services.base.cost import Cost, Rates, TaskSize
from hudi_ops.services.base.leave_out import PartialService
from hudi_ops.services.base.publish import Draft
from hudi_ops.services.base.service import Plan, Request, Result, Run, TableService
from hudi_ops.services.metadata_table.compact import after_write
from hudi_ops.services.rewrite.choice import RewriteChoice
from hudi_ops.services.rewrite.draft import RewriteDraft
from hudi_ops.services.rewrite.inputs import PlanInputs, files_of_instant
from hudi_ops.services.rewrite.task import RewriteTask, RewrittenGroup, task_fields, wanted_of
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import completes_as
from hudi_ops.timeline.state import TableState
from hudi_ops.view.slices import Slice

Chosen = TypeVar("Chosen", bound=RewriteChoice[Any])
Inputs = TypeVar("Inputs", bound=PlanInputs[Any])
Task = TypeVar("Task", bound=RewriteTask)


class RewriteService(TableService[Request, Chosen, Plan, Inputs, Task, RewrittenGroup, Result]):
    """Rewrite file groups into new base files, one task for each plan group.

    Attributes:
        draft_type: makes the plan of a choice.
        task_type: class of the tasks.
        rates: speed of the tasks.
        has_keys: whether the statistics of the new files hold their record keys, if an index wants them.
    """

    draft_type: ClassVar[type[RewriteDraft[Any]]]
    task_type: ClassVar[type[Any]]
    rates: ClassVar[Rates]
    has_keys: ClassVar[bool] = True

    def draft(self, session: Session, state: TableState, choice: Chosen) -> Draft:
        """Return a draft that follows what completes or is planned while the plan is made."""
        return self.draft_type(session, state, choice).draft()

    def size_of(self, slices: Sequence[Slice], outputs: int) -> TaskSize:
        """Return the expected bytes of rewriting slices into a number of files."""
        size_bytes = sum(slice_.bytes_in for slice_ in slices)
        return TaskSize(size_bytes, size_bytes)

    def estimate(self, choice: Chosen, engine: Engine) -> Cost:
        """Return the cost of rewriting the chosen groups."""
        return self.rates.cost([self.size_of(group.slices, group.outputs) for group in choice.groups], engine)

    def tasks(self, run: Run[Plan, Inputs, Task, RewrittenGroup]) -> list[Task]:
        """Return one task for each plan group."""
        shared = task_fields(run, keys=self.has_keys)
        return [
            self.task_type(
                **shared,
                partition_path=group.partition_path,
                sources=group.slices,
                number=group.number,
                **self.fields_of(run, group),
            )
            for group in run.inputs.groups
        ]

    def fields_of(self, run: Run[Plan, Inputs, Task, RewrittenGroup], group: Any) -> dict[str, Any]:
        """Return the fields of a group's task that only this service has."""
        return {}

    def settled(self, session: Session) -> None:
        """Compact the metadata table if it has enough deltas."""
        after_write(session)

    def is_own(self, session: Session, state: TableState, found: Instant) -> bool:
        """Return whether a completed write was of this kind, by its metadata."""
        metadata = session.commits.metadata(state.timeline, found) if found.kind == completes_as(self.action) else None
        if metadata is None:
            return False
        merged = "compaction" if metadata.is_merge else ""
        replaced = "resize" if metadata.made_groups is not None else "clustering"
        return self.name == (replaced if metadata.operation == "CLUSTER" else merged)


class ReplaceService(
    RewriteService[Request, Chosen, ReplacePlan, Inputs, Task, Result],
    PartialService[Request, Chosen, ReplacePlan, Inputs, Task, RewrittenGroup, Result],
):
    """Rewrite file groups and complete as a replace commit, without groups that writes touched."""

    action = "clustering"
    plan_type = ReplacePlan

    @abstractmethod
    def extra_of(self, run: Run[ReplacePlan, Inputs, Task, RewrittenGroup]) -> Mapping[str, str]:
        """Return the extra metadata of the replace commit."""

    def replaced_by(self, task: Task) -> Footprint:
        """Return the file groups that a task rewrites; it is left out once other writes touch them."""
        return Footprint.of_groups(source.key for source in task.sources)

    def outcome(self, run: Run[ReplacePlan, Inputs, Task, RewrittenGroup]) -> Write:
        """Return a replace commit of the new files, which names every rewritten file group."""
        wanted = wanted_of(run, keys=self.has_keys)
        replaced: dict[str, tuple[str, ...]] = {}
        for task in run.tasks:
            ids = tuple(source.file_id for source in task.sources)
            replaced[task.partition_path] = (*replaced.get(task.partition_path, ()), *ids)
        return Write(
            "CLUSTER",
            [stat for done in run.done for stat in done.stats],
            extra=self.extra_of(run),
            replaced=replaced,
            facts=[facts for done in run.done for facts in done.facts],
            wanted=wanted,
            # Every key stays; the new files tell where it lies now.
            hidden_keys=pa.array([], pa.string()) if wanted.keys else None,
            removed=run.removed,
        )

    def files_unannounced(self, session: Session, attempt: Attempt, plan: ReplacePlan) -> list[str]:
        """List base files of the plan's partitions that carry its instant."""
        files = files_of_instant(session, {planned.partition_path for planned in plan.slices}, attempt.instant)
        return [file.path for file in files if not file.is_log]
