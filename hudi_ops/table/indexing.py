"""Offer the indexes of a table, `table.indexing`, and its metadata table, `table.metadata`."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest
from hudi_ops.services.base.result import PlanResult
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.drop import DropResult, drop_metadata
from hudi_ops.services.indexing.run import build_indexes, execute_build, plan_build
from hudi_ops.services.indexing.service import INDEXING, IndexResult
from hudi_ops.services.inspect.indexes import IndexCost, IndexState, explain_indexes, show_indexes
from hudi_ops.services.metadata_table.compact import MetadataCompaction, compact_metadata
from hudi_ops.services.metadata_table.describe import MetadataFacts, describe_metadata
from hudi_ops.table.argument_types import checks_types
from hudi_ops.table.services import ServiceApi


@checks_types
class IndexingApi(ServiceApi[IndexRequest, IndexResult]):
    """Plans, executes and drops indexes, the partitions of the metadata table.

    Others write all the while; readers use an index once it is built. With `rebuild`, `plan` and `run` drop the partitions first:
    until the build has ended, readers do not use them, and a table whose index is the record index takes no rows. `run` executes
    pending plans before its own. After a failure, the same call continues.
    """

    service = INDEXING
    request_type = IndexRequest

    def _plan(self, wanted: IndexRequest) -> PlanResult:
        return plan_build(self._session, wanted)

    def _execute(self, wanted: IndexRequest, how: Execution) -> IndexResult:
        return execute_build(self._session, wanted.instant, how)

    def _run(self, wanted: IndexRequest, how: Execution) -> IndexResult:
        if wanted.instant is not None:
            return execute_build(self._session, wanted.instant, how)
        return build_indexes(self._session, wanted, how.progress)

    def show(self) -> tuple[IndexState, ...]:
        """Return the state of each index: groups, lag, plan, executor, and what it waits for."""
        return show_indexes(self._session)

    def costs(self, partitions: str | Sequence[str] | None = None) -> tuple[IndexCost, ...]:
        """Return which indexes the table can have, and what a build of each reads; change nothing.

        Args:
            partitions: names; None: all kinds.

        Raises:
            InvalidRequest: an unknown name.
        """
        return explain_indexes(self._session, (partitions,) if isinstance(partitions, str) else partitions)

    def drop(self, partitions: str | Sequence[str] | None = None, *, dry_run: bool = False) -> DropResult:
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


@checks_types
class MetadataApi:
    """Describes and compacts the metadata table, whose partitions `table.indexing` builds."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def describe(self) -> MetadataFacts:
        """Return its partitions with groups and sizes, and the deltas since its last compaction."""
        return describe_metadata(self._session.ctx.storage)

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
