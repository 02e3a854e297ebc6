"""Base of the services that rewrite file groups and complete as a replace commit.

Source: docs/protocol §14, §28.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, TypeVar

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.commit.write import Write
from hudi_ops.concurrency.attempt import Attempt
from hudi_ops.concurrency.conflicts import Contender
from hudi_ops.services.base.planned.slices import files_of_instant
from hudi_ops.services.base.rewrite.task import RewriteTask, RewrittenGroup, wanted_of
from hudi_ops.services.base.service import Chosen, Inputs, Request, Result, Run, TableService
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import FilesByPartition, ReplacePlan

Task = TypeVar("Task", bound=RewriteTask)


class ReplaceService(TableService[Request, Chosen, ReplacePlan, Inputs, Task, RewrittenGroup, Result]):
    """Rewrite file groups, one task for each plan group; leave out groups that writes touched.

    Attributes:
        has_keys: whether the statistics of the new files hold their record keys, if an index wants them.
    """

    action = "clustering"
    plan_type = ReplacePlan
    has_keys: ClassVar[bool] = True

    @abstractmethod
    def extra_of(self, run: Run[ReplacePlan, Inputs, Task, RewrittenGroup]) -> Mapping[str, str]:
        """Return the extra metadata of the replace commit."""

    def replaced_by(self, task: Task) -> Footprint:
        """Return the file groups that a task rewrites; it is left out once other writes touch them."""
        return Footprint.of_groups(source.key for source in task.sources)

    def overtaking(self, run: Run[ReplacePlan, Inputs, Task, RewrittenGroup], other: Contender) -> Contender | None:
        """Return a write with only the groups whose tasks the plan must leave out; None: no group.

        A resize also completes groups whose writes put their rows into the new buckets, too.
        """
        return other

    def clear_left_out(self, run: Run[ReplacePlan, Inputs, Task, RewrittenGroup]) -> FilesByPartition:
        """Delete what writers put for left-out tasks; return the files that their commits name.

        Writers put such files for the new buckets of a resize alone.
        """
        return {}

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
        found = files_of_instant(session, {planned.partition_path for planned in plan.slices}, attempt.instant)
        return [file.path for file in found if not file.is_log]
