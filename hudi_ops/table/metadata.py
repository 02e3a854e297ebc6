"""The half of a table that has its metadata table served: built, dropped, compacted, described."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import EngineName
from hudi_ops.services.indexing.build import BuildResult, build_metadata
from hudi_ops.services.indexing.drop import DropResult, drop_metadata
from hudi_ops.services.indexing.tasks import Progress
from hudi_ops.services.metadata_table.compact import MetadataCompaction, compact_metadata
from hudi_ops.services.metadata_table.describe import MetadataFacts, describe_metadata


class IndexedTable:
    """What `hudi_ops.Table` keeps its metadata table with."""

    _session: Session

    def metadata(self) -> MetadataFacts:
        """Partitions of the metadata table, their file groups and sizes, and how many deltas lie upon its last compaction."""
        return describe_metadata(self._session.ctx.storage)

    def build_metadata(
        self,
        partitions: Sequence[str] | None = None,
        *,
        engine: EngineName = "auto",
        progress: Callable[[Progress], None] = lambda progress: None,
        dry_run: bool = False,
        again: bool = False,
    ) -> BuildResult:
        """Build partitions of the metadata table, and have readers use them. Others may write all the while.

        Args:
            partitions: `files`, `column_stats`, `partition_stats`, `bloom_filters`, `record_index`; None: the first three, as
                Apache Hudi's tables have by default. `files` is built with the others where there is none.
            engine: where files are read: `local`, `spark`, or `auto`, by their bytes.
            progress: called as files are read.
            dry_run: say what would be built; change nothing.
            again: build those anew that are there, damaged or behind; with `partitions` None all of them. They are dropped first:
                until the build has ended, readers do without, and a table whose index is the record index takes no rows. After
                a death, the same call goes on.

        Raises:
            InvalidRequest: an unknown partition, or one that the table cannot have.
            Unsupported: the table cannot be written.
            Busy: somebody else builds, or a resize of buckets is pending.
            Conflict: writes completed faster than they were added, or somebody changed the metadata table.
        """
        names = (partitions,) if isinstance(partitions, str) else partitions
        return build_metadata(self._session, names, engine=engine, progress=progress, dry_run=dry_run, again=again)

    def drop_metadata(self, partitions: Sequence[str] | None = None, *, dry_run: bool = False) -> DropResult:
        """Drop the metadata table, or partitions of it, of any kind; readers do without them from then on.

        Apache Hudi's default writers build `files`, `column_stats` and `partition_stats` again.

        Args:
            partitions: names; None: all.
            dry_run: say what would go; change nothing.

        Raises:
            InvalidRequest: an unknown name, or a partition that others need.
            Busy: an index is being built by Apache Hudi.
            Conflict: somebody builds it again at this moment.
        """
        names = (partitions,) if isinstance(partitions, str) else partitions
        return drop_metadata(self._session, names, dry_run=dry_run)

    def compact_metadata(self, *, dry_run: bool = False) -> MetadataCompaction:
        """Merge the metadata table's log files into new base files, as writes do after a number of its deltas.

        Args:
            dry_run: say what would be merged; change nothing.

        Raises:
            Unsupported: the table cannot be written.
            Busy: a write is between its two commits, or the lock was not to be had.
            Conflict: somebody else compacted it, or changed its partitions, meanwhile.
        """
        return compact_metadata(self._session, dry_run=dry_run)
