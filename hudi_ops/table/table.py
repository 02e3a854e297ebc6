"""A table, as users hold it: create, open, read, and one method per service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa

from hudi_ops.commit.retry import retried
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.concurrency.lock.locks import LockProvider
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.key_generators import KeyGenerator, TimePartition
from hudi_ops.config.table import IndexName, TableConfig, index_kind, table_type_of
from hudi_ops.config.write_settings import METADATA_COMPACT_AFTER, FileSizes, LogFormat, checked_format
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.read.plan import Opened
from hudi_ops.services.create.adopt import Adoption, adopt_table
from hudi_ops.services.create.adoption import Adopter, Terms
from hudi_ops.services.create.create import Definition, create_table
from hudi_ops.services.create.protect_lock import protect_lock
from hudi_ops.services.recovery.attempts import RecoverResult, RollbackResult, recover_table, rollback_write
from hudi_ops.services.write.operations import DELETE_PARTITION, TRUNCATE, WriteOperation
from hudi_ops.services.write.remove import RemovalResult, preview_removal, remove
from hudi_ops.storage.open import open_storage
from hudi_ops.table.compaction import CompactableTable
from hudi_ops.table.ingestion import IngestableTable
from hudi_ops.table.metadata import IndexedTable
from hudi_ops.table.reading import ReadableTable
from hudi_ops.table.repairs import RepairableTable
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.settings.settings_check import refuse_unopenable
from hudi_ops.view.schema import row_schema, table_schema

R = TypeVar("R")


class Table(ReadableTable, IngestableTable, CompactableTable, IndexedTable, RepairableTable):
    """One table. Not safe for several threads; open one per thread.

    Use `Table.create` or `Table.open`.
    """

    def __init__(
        self,
        ctx: TableContext,
        terms: Terms | None = None,
        conflicts: ConflictSettings | None = None,
        log_format: LogFormat = "parquet",
        file_sizes: FileSizes | None = None,
        metadata_compact_after: int = METADATA_COMPACT_AFTER,
    ) -> None:
        self._adopter = Adopter(ctx, terms or Terms())
        session = Session(
            ctx,
            self._adopter,
            conflicts or ConflictSettings(),
            checked_format(log_format),
            file_sizes or FileSizes(),
            metadata_compact_after,
        )
        super().__init__(session, self._adopter.terms.timezone)
        self._ctx = self._session.ctx
        self.was_created = False
        """Whether `create` made the table just now; False when an equal one was there."""

    @classmethod
    def create(
        cls,
        path: str,
        *,
        name: str,
        record_key: Sequence[str],
        schema: pa.Schema,
        partition_by: Sequence[str] = (),
        ordering: str | None = None,
        table_type: Literal["cow", "mor"] = "cow",
        index: IndexName = "bucket",
        buckets: int = 1,
        version: Literal[8, 9] = 9,
        key_generator: KeyGenerator = "auto",
        time: TimePartition | None = None,
        hive_style: bool = True,
        url_encode: bool = True,
        meta_fields: bool = True,
        metadata: bool = True,
        locks: LockProvider | None = None,
        engine: Engine | None = None,
        conflicts: ConflictSettings | None = None,
        log_format: LogFormat = "parquet",
        file_sizes: FileSizes | None = None,
        metadata_compact_after: int = METADATA_COMPACT_AFTER,
    ) -> Self:
        """Make a table, or open the one that an equal call made.

        Args:
            path: a folder or URI (`file://`, `s3://`, `gs://`, `az://`); made when absent.
            name: the table's name; printable ASCII without spaces.
            record_key: columns that identify a row.
            schema: the table's columns, without meta columns; timestamps without a zone become UTC.
            partition_by: columns that name the folders of rows.
            ordering: column by which the newer of two rows is told; None: the later write wins.
            table_type: `cow` (copy-on-write) or `mor` (merge-on-read).
            index: how a key's file group is found: by a hash of it, in base files (`bloom`, `simple`), or in the metadata table.
            buckets: file groups per partition with the bucket index; rows are routed by a hash of their key.
            version: table version; 8 for Apache Hudi 1.0 and Trino, which cannot open 9.
            key_generator: `auto` infers it from the fields, as Apache Hudi does; `timestamp` makes the partition as `time` says.
            time: how the partition column is read and printed, for `timestamp`.
            hive_style: folders read `column=value`, else the value alone.
            url_encode: escape characters of partition values that a path must not hold; without it such values are refused.
            meta_fields: base files carry Hudi's five meta columns; without them they are smaller, and only the bucket index works.
            metadata: keep a metadata table: a listing of files, statistics of columns and partitions, as Apache Hudi's tables do.
            locks: the table lock; None: one that holds inside this process only.
            engine: runs the work; None: threads of this process.
            conflicts: as in `open`.
            log_format: as in `open`.
            file_sizes: as in `open`.
            metadata_compact_after: as in `open`.

        Raises:
            InvalidRequest: the definition cannot be a table, or another table lies there.
        """
        table = cls(context_of(path, locks, engine), None, conflicts, log_format, file_sizes, metadata_compact_after)
        what = name, schema, tuple(record_key), tuple(partition_by), ordering, table_type_of(table_type), buckets
        definition = Definition(
            *what,
            version=version,
            key_generator=key_generator,
            time=time,
            hive_style=hive_style,
            url_encode=url_encode,
            meta_fields=meta_fields,
            metadata=metadata,
            index=index_kind(index),
        )
        table.was_created = create_table(table._session, definition)
        return table

    @classmethod
    def open(
        cls,
        path: str,
        *,
        index: IndexName | None = None,
        buckets: int | None = None,
        hash_fields: Sequence[str] | None = None,
        timezone: str | None = None,
        services_only: bool = False,
        locks: LockProvider | None = None,
        engine: Engine | None = None,
        conflicts: ConflictSettings | None = None,
        log_format: LogFormat = "parquet",
        file_sizes: FileSizes | None = None,
        metadata_compact_after: int = METADATA_COMPACT_AFTER,
    ) -> Self:
        """Open a table, ours or one that Apache Hudi made; the latter is adopted by the first write.

        Args:
            path: a folder or URI.
            index: `bucket`, `bloom`, `simple` or `record_index`, for tables of Apache Hudi, which does not store it; None: the
                bucket index where names of file groups show it, or else refused. Kept in the commit log from the first write on.
            buckets: how many buckets a partition has, for tables of Apache Hudi, which does not store it; checked against the
                keys in their files, and kept in the commit log from the first write on.
            hash_fields: the key fields whose values name the bucket; None: all of them.
            timezone: for tables whose instants are in local time: the zone of the machines that write it, as `Europe/Berlin`.
            services_only: adopt a table whose index is another one: Apache Hudi writes its rows, we compact it.
            locks: the table lock; None: one that holds inside this process only.
            engine: runs the work; None: threads of this process.
            conflicts: how this writer gets along with others: who gives way, how early, how often it tries; None: the defaults.
            log_format: format of the rows in log files that this writer makes, `parquet` or `avro`; readers know both.
            file_sizes: how large base files get where new keys may go to any; None: up to 120 MB, as with Apache Hudi.
            metadata_compact_after: after so many of its delta commits a write compacts the metadata table.

        Raises:
            InvalidRequest: the path is not a table, or there is no such format.
            Unsupported: its version cannot be opened.
        """
        terms = Terms(
            buckets,
            tuple(hash_fields) if hash_fields is not None else None,
            timezone,
            services_only,
            index_kind(index) if index is not None else None,
        )
        table = cls(context_of(path, locks, engine), terms, conflicts, log_format, file_sizes, metadata_compact_after)
        refuse_unopenable(table._ctx.storage)
        return table

    def adopt(self, *, drop_metadata_table: bool = False, dry_run: bool = False, count_keys: bool = True) -> Adoption:
        """Begin the commit log of a table that Apache Hudi made, as the first write would; doing it again changes nothing.

        Args:
            drop_metadata_table: drop its metadata table, which is kept otherwise; one with secondary or expression indexes is not,
                and they are to go first. Apache Hudi's writers build it again unless `hoodie.metadata.enable=false`.
            dry_run: check everything, change nothing.
            count_keys: read the keys of all files of a table without buckets, and count those that lie in several file groups.
                Reads use the record index only after a count found no key in two file groups.

        Raises:
            InvalidRequest: buckets, hash fields or time zone are missing, or do not fit the table.
            Unsupported: the table cannot be written, or its metadata table has partitions that are not kept.
        """
        return adopt_table(
            self._session, self._adopter, drop=drop_metadata_table, dry_run=dry_run, count_keys=count_keys
        )

    @property
    def context(self) -> TableContext:
        """The components that this table works with."""
        return self._ctx

    @property
    def config(self) -> TableConfig:
        """The table's settings as they are now."""
        return load_config(self._ctx.storage)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as they are now, without meta columns."""
        opened = Opened.of(self._ctx.storage, self._session.commits)
        return row_schema(opened.config, table_schema(opened.config, opened.timeline, opened.commits))

    def spark_frame(
        self,
        spark: Any = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: str | None = None,
        *,
        query: str = "snapshot",
        listing: str = "auto",
        since: str | None = None,
        until: str | None = None,
        fence: bool = False,
    ) -> Any:
        """The table as a DataFrame of PySpark, through the data source `hudi_ops`; rows go from files to executors.

        It shows the table as it is when an action runs; `as_of` pins it. With `since`, `until` or `fence` it shows changes, and
        `until` pins them: take `changes(since)` first, and its checkpoint as `until`.

        Args:
            spark: a classic session; None: the active one, or a new one.
            columns: names, in the order wanted; None for all, meta columns first.
            where: a SQL condition as in `read`; it leaves out partitions, files and row groups.
            as_of: as in `read`.
            query: as in `read`.
            listing: as in `read`.
            since: as in `changes`; `earliest` for all that the timeline tells.
            until: as in `changes`.
            fence: as in `changes`.

        Raises:
            InvalidRequest: as `read` and `changes` do, or changes as of an instant.
            Unsupported: how log files are merged is not known here, or Spark has no type for a column.
        """
        from hudi_ops.datasource import frame_of

        options = {"where": where, "as_of": self._instant_of(as_of), "query": query, "listing": listing}
        of_changes = {"since": since, "until": until, "fence": "true" if fence else None}
        return frame_of(spark, self._ctx.storage, columns, {**options, **of_changes})

    def delete_partition(self, paths: Sequence[str], *, dry_run: bool = False) -> RemovalResult:
        """Remove the rows of whole partitions, in one commit; earlier instants still show them.

        Args:
            paths: partitions as they lie below the table's root (`origin=JFK/month=1`), or patterns (`origin=J*`).
            dry_run: say what would go; change nothing.

        Raises:
            InvalidRequest: a name that no partition has; nothing was changed.
            Conflict: lost to overlapping writes again and again.
            Busy: Apache Hudi has planned a service on these partitions.
        """
        return self._removed(DELETE_PARTITION, [paths] if isinstance(paths, str) else paths, dry_run)

    def truncate(self, *, dry_run: bool = False) -> RemovalResult:
        """Remove all rows, in one commit; settings and history stay, and earlier instants still show the rows.

        Args:
            dry_run: say what would go; change nothing.

        Raises:
            Conflict: lost to other writes again and again.
            Busy: Apache Hudi has planned a service.
        """
        return self._removed(TRUNCATE, (), dry_run)

    def rollback(self, instant: str, *, abandoned: bool = False, dry_run: bool = False) -> RollbackResult:
        """Undo a pending write whose writer is gone; every write does so by itself where a heartbeat tells.

        A compaction's plan at which nobody is can be taken off, too. A rollback of the write that Apache Hudi began is finished.

        Args:
            instant: the request time of the write, or of the plan.
            abandoned: its writer has surely ended, though no heartbeat tells: a single writer of Apache Hudi makes none.
            dry_run: say what would be deleted; change nothing.

        Raises:
            InvalidRequest: no such instant, a completed one, or one without a heartbeat and `abandoned` was not said.
            Unsupported: another pending service.
            Busy: its writer is alive, or somebody else is rolling it back.
        """
        return rollback_write(self._session, instant, abandoned=abandoned, dry_run=dry_run)

    def recover(self, *, abandoned: bool = False) -> RecoverResult:
        """Finish what was decided, and clear away what dead writers left, as every write does first.

        Args:
            abandoned: finish the pending rollbacks of Apache Hudi, too: its programs have surely ended.

        Raises:
            Unsupported: the table cannot be written.
        """
        return recover_table(self._session, abandoned=abandoned)

    def protect_lock(self) -> str:
        """Restrict the table's lock in ZooKeeper to clients with the configured credentials.

        New locks are protected when they are made; this is for those that are open to all. A table that writers of Apache Hudi
        share needs `shares_credentials` among the lock's settings.

        Returns:
            The lock's address.

        Raises:
            InvalidRequest: no credentials are configured, or Apache Hudi's writers would be kept from the lock.
            Unsupported: a lock without nodes.
        """
        return protect_lock(self._session)

    def _removed(self, operation: WriteOperation, wanted: Sequence[str], dry_run: bool) -> RemovalResult:
        if dry_run:
            return preview_removal(self._session, operation, wanted)
        return retried(self._session, lambda started_s: remove(self._session, operation, wanted, started_s))

    def close(self) -> None:
        """Let go of the lock service, where one is connected."""
        close = getattr(self._ctx.locks, "close", None)
        if close is not None:
            close()


def context_of(path: str, locks: LockProvider | None = None, engine: Engine | None = None) -> TableContext:
    """The components for a table at a path, with the defaults of a single process."""
    storage = open_storage(path)
    return TableContext(storage=storage, locks=locks or in_process_lock(storage.uri), engine=engine or LocalEngine())
