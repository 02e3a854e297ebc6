"""`table.metadata`: the metadata table of a table; built, dropped, compacted, described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import IndexRequest, merged
from hudi_ops.engine.progress import Progress
from hudi_ops.services.indexing.drop import DropResult, drop_metadata
from hudi_ops.services.indexing.run import BuildResult, build_metadata
from hudi_ops.services.metadata_table.compact import MetadataCompaction, compact_metadata
from hudi_ops.services.metadata_table.describe import MetadataFacts, describe_metadata


class IndexApi:
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
        """Build partitions of the metadata table while others write; readers use them afterwards.

        With `rebuild`, partitions are dropped first: until the build has ended, readers do without, and a table whose index is the
        record index takes no rows. After a crash, the same call goes on.

        Args:
            request: which partitions; an `IndexRequest`.
            progress: called as files are read.
            keywords: fields of the request.

        Raises:
            InvalidRequest: an unknown partition, or one that the table cannot have.
            Unsupported: the table cannot be written.
            Busy: another process builds, or a cancelled resize is being removed.
            Conflict: writes completed faster than they were added, or the metadata table was changed by others.
        """
        wanted = merged(IndexRequest, request, keywords)
        return build_metadata(
            self._session,
            wanted.partitions,
            engine=wanted.engine,
            progress=progress,
            dry_run=wanted.dry_run,
            rebuild=wanted.rebuild,
        )

    def drop(self, partitions: Sequence[str] | None = None, *, dry_run: bool = False) -> DropResult:
        """Drop the metadata table, or partitions of it; readers do without them from then on.

        Apache Hudi's default writers build `files`, `column_stats` and `partition_stats` again.

        Args:
            partitions: names; None: all.
            dry_run: show what would be dropped; change nothing.

        Raises:
            InvalidRequest: an unknown name, or a partition that others need.
            Busy: an index is being built by Apache Hudi.
            Conflict: it is built again at this moment.
        """
        names = (partitions,) if isinstance(partitions, str) else partitions
        return drop_metadata(self._session, names, dry_run=dry_run)

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
