"""The half of a table that has its log files merged: plan, execute, say why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.errors import Busy, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.services.base.engine import EngineName
from hudi_ops.services.compaction.compact import Execution, execute
from hudi_ops.services.compaction.pending import next_compaction
from hudi_ops.services.compaction.plan import (
    CompactionRequest,
    PlanResult,
    left_plan_result,
    plan_compaction,
    preview_compaction,
)
from hudi_ops.services.compaction.result import CompactResult, Progress
from hudi_ops.services.recovery.attempts import rollback_write

logger = logging.getLogger(__name__)


class CompactableTable:
    """What `hudi_ops.Table` compacts with."""

    _session: Session

    def plan_compaction(
        self,
        strategy: str = "size",
        *,
        least: float | None = None,
        max_bytes: int | None = None,
        partitions: Sequence[str] = (),
        dry_run: bool = False,
        resume: bool = False,
    ) -> PlanResult:
        """Decide which file groups are compacted next. Whoever calls `compact` executes it; ingestion goes on meanwhile.

        Args:
            strategy: which come first: `size`, most bytes of log files; `count`, most log files; `commits`, most delta commits
                since they were compacted; `age`, oldest log file.
            least: what measures less waits, in bytes, files, commits or seconds; None: 1 byte, 5 files, 5 commits, 1 hour.
            max_bytes: the plan reads at most so many bytes, one file group at least; None: no limit.
            partitions: paths, or patterns of them, as `delete_partition` takes; none: all.
            dry_run: say what would be planned, and what it would cost; change nothing.
            resume: give a plan that was left, on which nobody works, where there is one, and make none.

        Raises:
            InvalidRequest: a wrong request, or a table that has no log files.
            Unsupported: the table cannot be written, or the log files of all that could be planned cannot be merged.
            Conflict: others took what was chosen, again and again.
        """
        request = CompactionRequest(strategy, least, max_bytes, _listed(partitions))
        if resume and not dry_run and (left := self._left(request)) is not None:
            return left_plan_result(self._session, request, left)
        work = preview_compaction if dry_run else plan_compaction
        return work(self._session, request)

    def explain_compaction(
        self,
        strategy: str = "size",
        *,
        least: float | None = None,
        max_bytes: int | None = None,
        partitions: Sequence[str] = (),
    ) -> PlanResult:
        """Why file groups would be planned, or would not: each with its reason, and one sentence for the whole; changes nothing.

        Args:
            strategy: as in `plan_compaction`.
            least: as there.
            max_bytes: as there.
            partitions: as there.

        Raises:
            InvalidRequest: as `plan_compaction` does.
            Unsupported: the table cannot be written.
        """
        return self.plan_compaction(strategy, least=least, max_bytes=max_bytes, partitions=partitions, dry_run=True)

    def execute_compaction(
        self,
        instant: str | None = None,
        *,
        engine: EngineName = "auto",
        memory_bytes: int | None = None,
        abandoned: bool = False,
        progress: Callable[[Progress], None] = lambda progress: None,
    ) -> CompactResult:
        """Execute a plan, ours or Apache Hudi's. After a failure the same call goes on; after success it changes nothing.

        Args:
            instant: of the plan; None: the oldest one on which nobody works.
            engine: `local`, `spark`, or `auto`, by the bytes of the plan.
            memory_bytes: what one file group may take of memory: larger ones are streamed; None: as this process's memory suggests.
            abandoned: Apache Hudi began to execute it, and has surely ended, though no heartbeat tells.
            progress: called when a file group is done.

        Raises:
            InvalidRequest: no such plan, or one that Apache Hudi began and `abandoned` was not said.
            Unsupported: the table cannot be written.
            Busy: somebody executes it.
            Cancelled: it was cancelled, or taken over by another process.
            Conflict: it cannot be completed; the plan stays.
            Corrupt: a file of it is damaged, or gone; the plan stays.
        """
        how = Execution(engine, memory_bytes, abandoned, progress)
        return execute(self._session, instant, how)

    def compact(
        self,
        instant: str | None = None,
        *,
        strategy: str = "size",
        least: float | None = None,
        max_bytes: int | None = None,
        partitions: Sequence[str] = (),
        engine: EngineName = "auto",
        memory_bytes: int | None = None,
        abandoned: bool = False,
        progress: Callable[[Progress], None] = lambda progress: None,
    ) -> CompactResult:
        """Merge log files into new base files: go on with a plan that was left, else make one and execute it.

        Args:
            instant: execute this plan, and make none.
            strategy: as in `plan_compaction`.
            least: as there.
            max_bytes: as there.
            partitions: as there.
            engine: as in `execute_compaction`.
            memory_bytes: as there.
            abandoned: as there.
            progress: as there.

        Raises:
            InvalidRequest: a wrong request, or a table that has no log files.
            Unsupported: the table cannot be written, or log files cannot be merged; a plan of this call is taken off again.
            Busy: somebody executes the plan.
            Cancelled: it was cancelled, or taken over by another process.
            Conflict: it cannot be completed; the plan stays.
            Corrupt: a file of it is damaged, or gone; the plan stays.
        """
        how = Execution(engine, memory_bytes, abandoned, progress)
        request = CompactionRequest(strategy, least, max_bytes, _listed(partitions))
        instant = instant if instant is not None else self._left(request, abandoned=abandoned)
        if instant is None:
            planned = plan_compaction(self._session, request)
            if planned.instant is None:
                return CompactResult(planned.table, None, None, note=planned.note)
            try:
                return execute(self._session, planned.instant, how)
            except Unsupported:
                # A log file that came while the plan was made, and that cannot be merged: the plan would fail each time.
                self._withdraw(planned.instant)
                raise
        return execute(self._session, instant, how)

    def _withdraw(self, instant: str) -> None:
        """Take a plan of this call off the timeline, unless somebody has begun to execute it."""
        try:
            rollback_write(self._session, instant)
        except HudiOpsError as failure:
            # The caller must hear why the execution failed.
            logger.warning("compaction %s stays planned: %s", instant, failure)

    def _left(self, request: CompactionRequest, *, abandoned: bool = False) -> str | None:
        """A plan on which nobody works. One that somebody is at keeps its groups from us, and nothing else."""
        request.checked()
        try:
            # A plan that was decided by somebody who died right then is on the timeline after that.
            found = next_compaction(self._session, finish_unfinished(self._session), abandoned=abandoned)
        except (Busy, InvalidRequest):
            return None
        return found.time if found is not None else None


def _listed(partitions: Sequence[str]) -> tuple[str, ...]:
    return (partitions,) if isinstance(partitions, str) else tuple(partitions)
