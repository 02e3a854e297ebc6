"""The half of a table that has its log files merged: plan, execute, say why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import CompactionRequest, EngineName
from hudi_ops.services.base.execute import execute, plan_and_execute
from hudi_ops.services.base.plan import left_plan, left_plan_result, plan, preview
from hudi_ops.services.base.result import PlanResult, Progress
from hudi_ops.services.base.service import Execution
from hudi_ops.services.compaction.choose import empty_choice
from hudi_ops.services.compaction.result import CompactResult
from hudi_ops.services.compaction.service import COMPACTION


class CompactableTable:
    """What `hudi_ops.Table` compacts with."""

    _session: Session

    def plan_compaction(
        self,
        strategy: str = "size",
        *,
        threshold: float | None = None,
        max_bytes: int | None = None,
        partitions: Sequence[str] = (),
        dry_run: bool = False,
        resume: bool = False,
        **old: Any,
    ) -> PlanResult:
        """Decide which file groups are compacted next. Whoever calls `compact` executes it; ingestion goes on meanwhile.

        Args:
            strategy: which come first: `size`, most bytes of log files; `count`, most log files; `commits`, most delta commits
                since they were compacted; `age`, oldest log file.
            threshold: what measures less waits, in bytes, files, commits or seconds; None: 1 byte, 5, 5, 1 hour.
            max_bytes: the plan reads at most so many bytes, one file group at least; None: no limit.
            partitions: paths, or patterns of them, as `delete_partition` takes; none: all.
            old: `least`, the old name of `threshold`.
            dry_run: say what would be planned, and what it would cost; change nothing.
            resume: give a plan that was left, on which nobody works, where there is one, and make none.

        Raises:
            InvalidRequest: a wrong request, or a table that has no log files.
            Unsupported: the table cannot be written, or the log files of all that could be planned cannot be merged.
            Conflict: others took what was chosen, again and again.
        """
        request = CompactionRequest(
            strategy=strategy, threshold=threshold, max_bytes=max_bytes, partitions=partitions, **old
        )
        choice = empty_choice(request)
        if resume and not dry_run and (left := left_plan(self._session, COMPACTION)) is not None:
            return left_plan_result(self._session, COMPACTION, choice, left)
        work = preview if dry_run else plan
        return work(self._session, COMPACTION, request)

    def explain_compaction(
        self,
        strategy: str = "size",
        *,
        threshold: float | None = None,
        max_bytes: int | None = None,
        partitions: Sequence[str] = (),
        **old: Any,
    ) -> PlanResult:
        """Why file groups would be planned, or would not: each with its reason, and one sentence for the whole; changes nothing.

        Args:
            strategy: as in `plan_compaction`.
            threshold: as there.
            old: `least`, the old name of `threshold`.
            max_bytes: as there.
            partitions: as there.

        Raises:
            InvalidRequest: as `plan_compaction` does.
            Unsupported: the table cannot be written.
        """
        return self.plan_compaction(
            strategy, threshold=threshold, max_bytes=max_bytes, partitions=partitions, dry_run=True, **old
        )

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
        done: CompactResult = execute(self._session, COMPACTION, instant, how)
        return done

    def compact(
        self,
        instant: str | None = None,
        *,
        strategy: str = "size",
        threshold: float | None = None,
        max_bytes: int | None = None,
        partitions: Sequence[str] = (),
        engine: EngineName = "auto",
        memory_bytes: int | None = None,
        abandoned: bool = False,
        progress: Callable[[Progress], None] = lambda progress: None,
        **old: Any,
    ) -> CompactResult:
        """Merge log files into new base files: go on with a plan that was left, else make one and execute it.

        Args:
            instant: execute this plan, and make none.
            strategy: as in `plan_compaction`.
            threshold: as there.
            old: `least`, the old name of `threshold`.
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
        request = CompactionRequest(
            strategy=strategy, threshold=threshold, max_bytes=max_bytes, partitions=partitions, **old
        )
        done: CompactResult = plan_and_execute(self._session, COMPACTION, request, how, instant)
        return done
