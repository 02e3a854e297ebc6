"""Offer the indexes of a table, `table.indexing`, and its metadata table, `table.metadata`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest
from hudi_ops.engine.progress import Progress
from hudi_ops.services.base.result import PlanResult
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.drop import DropResult, drop_metadata
from hudi_ops.services.indexing.result import IndexResult
from hudi_ops.services.indexing.run import BuildResult, build_metadata, execute_build, plan_build
from hudi_ops.services.indexing.service import INDEXING
from hudi_ops.services.inspect.indexes import IndexCost, IndexState, explain_indexes, show_indexes
from hudi_ops.services.metadata_table.compact import MetadataCompaction, compact_metadata
from hudi_ops.services.metadata_table.describe import MetadataFacts, describe_metadata
from hudi_ops.table.services import ServiceApi


class IndexingApi(ServiceApi[IndexRequest, IndexResult]):
    """Plans, executes and drops indexes, the partitions of the metadata table."""

    service = INDEXING
    request_type = IndexRequest

    def plan(self, request: IndexRequest | None = None, **keywords: Any) -> PlanResult:
        """Publish the plan of a build; partitions that are rebuilt are dropped first.

        Args:
            request: what is built; `dry_run` changes nothing, `resume` returns a pending plan without a live executor, if any.
            keywords: fields of the request.

        Raises:
            InvalidRequest: an unknown partition, or one that the table cannot have.
            Unsupported: the table cannot be written.
            Busy: a plan of one of the partitions is pending.
        """
        return plan_build(self._session, self._merged(request, keywords))

    def execute(
        self,
        request: IndexRequest | None = None,
        *,
        progress: Callable[[Progress], None] = lambda progress: None,
        **keywords: Any,
    ) -> IndexResult:
        """Execute a plan, ours or Apache Hudi's; after a failure the same call continues.

        Args:
            request: names the plan by `instant`; else the oldest plan without a live executor. Says how long catch-up may take.
            progress: called as files are read.
            keywords: fields of the request.

        Raises:
            InvalidRequest: there is no such plan, or Apache Hudi began it and `abandoned` is not set.
            Unsupported: the table cannot be written.
            Busy: another process executes it, or a cancelled resize is being removed.
            Cancelled: it was cancelled, or taken over by another process.
            Conflict: catch-up took too long, or another process changed the metadata table.
        """
        wanted = self._executable(request, keywords)
        how = Execution(wanted.engine, None, wanted.abandoned, progress, wanted)
        return execute_build(self._session, wanted.instant, how)

    def run(  # type: ignore[override]
        self,
        request: IndexRequest | None = None,
        *,
        progress: Callable[[Progress], None] = lambda progress: None,
        **keywords: Any,
    ) -> BuildResult:
        """Build indexes while others write; pending plans are executed first.

        Readers use them afterwards.

        With `rebuild`, partitions are dropped first: until the build has ended, readers do not use them, and a table whose
        index is the record index takes no rows. After a crash, the same call continues.

        Args:
            request: what is built.
            progress: called as files are read.
            keywords: fields of the request.

        Raises:
            InvalidRequest: an unknown partition, or one that the table cannot have.
            Unsupported: the table cannot be written.
            Busy: another process builds, or a cancelled resize is being removed.
            Cancelled: the build was cancelled, or another process took it for dead.
            Conflict: catch-up took too long, or another process changed the metadata table.
        """
        wanted = self._merged(request, keywords)
        return build_metadata(
            self._session,
            wanted.partitions,
            engine=wanted.engine,
            progress=progress,
            dry_run=wanted.dry_run,
            rebuild=wanted.rebuild,
            request=wanted,
        )

    def show(self) -> tuple[IndexState, ...]:
        """Return the state of each index: groups, lag, plan, executor, and what it waits for."""
        return show_indexes(self._session)

    def costs(self, partitions: Sequence[str] | None = None) -> tuple[IndexCost, ...]:
        """Return which indexes the table can have, and what a build of each reads; change nothing.

        Args:
            partitions: names; None: all kinds.

        Raises:
            InvalidRequest: an unknown name.
        """
        return explain_indexes(self._session, partitions)

    def drop(self, partitions: Sequence[str] | None = None, *, dry_run: bool = False) -> DropResult:
        """Drop all indexes, or some; a build of them is cancelled first.

        Readers do not use them from then on.

        Apache Hudi's default writers build `files`, `column_stats` and `partition_stats` again.

        Args:
            partitions: names; None: all.
            dry_run: show what would be dropped; change nothing.

        Raises:
            InvalidRequest: an unknown name, or a partition that others need.
            Busy: Apache Hudi builds an index, or the executor of a build did not stop in time.
            Conflict: it is built again at this moment.
        """
        names = (partitions,) if isinstance(partitions, str) else partitions
        return drop_metadata(self._session, names, dry_run=dry_run)


class MetadataApi:
    """Builds, compacts and drops the metadata table. Calling it is an old name of `describe`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._indexing = IndexingApi(session)

    def describe(self) -> MetadataFacts:
        """Return its partitions with groups and sizes, and the deltas since its last compaction."""
        return describe_metadata(self._session.ctx.storage)

    __call__ = describe

    def build(
        self,
        request: IndexRequest | None = None,
        *,
        progress: Callable[[Progress], None] = lambda progress: None,
        **keywords: Any,
    ) -> BuildResult:
        """Call `indexing.run`.

        Args:
            request: which partitions; an `IndexRequest`.
            progress: called as files are read.
            keywords: fields of the request.

        Raises:
            InvalidRequest: an unknown partition, or one that the table cannot have.
            Unsupported: the table cannot be written.
            Busy: another process builds, or a cancelled resize is being removed.
            Conflict: catch-up took too long, or another process changed the metadata table.
        """
        return self._indexing.run(request, progress=progress, **keywords)

    def drop(self, partitions: Sequence[str] | None = None, *, dry_run: bool = False) -> DropResult:
        """Call `indexing.drop`.

        Args:
            partitions: names; None: all.
            dry_run: show what would be dropped; change nothing.

        Raises:
            InvalidRequest: an unknown name, or a partition that others need.
            Busy: Apache Hudi builds an index.
            Conflict: it is built again at this moment.
        """
        return self._indexing.drop(partitions, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> MetadataCompaction:
        """Merge the metadata table's log files into new base files, as writes do from time to time.

        Args:
            dry_run: show what would be merged; change nothing.

        Raises:
            Unsupported: the table cannot be written.
            Busy: a write is between its two commits, or the lock was not free in time.
            Conflict: another process compacted it, or changed its partitions.
        """
        return compact_metadata(self._session, dry_run=dry_run)
