"""`table.metadata`: the metadata table of a table; built, dropped, compacted, described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest
from hudi_ops.engine.progress import Progress
from hudi_ops.services.indexing.drop import DropResult
from hudi_ops.services.indexing.run import BuildResult
from hudi_ops.services.metadata_table.compact import MetadataCompaction, compact_metadata
from hudi_ops.services.metadata_table.describe import MetadataFacts, describe_metadata
from hudi_ops.table.indexing import IndexingApi


class MetadataApi:
    """Builds, compacts and drops the metadata table. Calling it is an old name of `describe`."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
        return IndexingApi(self._session).run(request, progress=progress, **keywords)

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
        return IndexingApi(self._session).drop(partitions, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> MetadataCompaction:
        """Merge the metadata table's log files into new base files, as writes do from time to time.

        Args:
            dry_run: show what would be merged; change nothing.

        Raises:
            Unsupported: the table cannot be written.
            Busy: a write is between its two commits, or the lock was not to be had.
            Conflict: another process compacted it, or changed its partitions.
        """
        return compact_metadata(self._session, dry_run=dry_run)
