"""A table, as users hold it: create, open, read, and one method per service."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import pyarrow as pa

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.concurrency.lock.locks import LockProvider
from hudi_ops.concurrency.lock.open_lock import lock_of
from hudi_ops.concurrency.vain_waits import PROCESS_WAITS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.definition import OpenOptions, TableDefinition, WriterOptions, split_keywords
from hudi_ops.config.requests import CleanRequest, listed_paths, merged, refuse_unknown
from hudi_ops.config.table import TableConfig
from hudi_ops.config.tables_file import TableLocation
from hudi_ops.config.upkeep_settings import UpkeepSettings
from hudi_ops.config.write_settings import METADATA_COMPACT_AFTER, FileSizes, LogFormat, checked_format
from hudi_ops.context import TableContext
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.formats.html_table import html_table
from hudi_ops.read.plan import Opened
from hudi_ops.services.clean.policy import Policy
from hudi_ops.services.create.adopt import AdoptionResult, adopt_table
from hudi_ops.services.create.adoption import Adoption, AdoptionOptions
from hudi_ops.services.create.create import create_table
from hudi_ops.services.create.given_columns import GivenColumns, given_columns
from hudi_ops.services.write.automatic import recorded_services, written
from hudi_ops.services.write.operations import DELETE_PARTITION, TRUNCATE, WriteOperation
from hudi_ops.services.write.remove import RemovalResult, preview_removal, remove
from hudi_ops.sources.sample_schema import NOTE
from hudi_ops.storage.open import open_storage
from hudi_ops.table.argument_types import checks_types
from hudi_ops.table.health import HealthApi
from hudi_ops.table.indexing import IndexingApi, MetadataApi
from hudi_ops.table.ingestion import IngestApi
from hudi_ops.table.plans import PlansApi
from hudi_ops.table.reading import ReadApi
from hudi_ops.table.repairs import RepairsApi
from hudi_ops.table.savepoints import HoldApi, SavepointApi
from hudi_ops.table.services import ArchiveApi, CleanApi, ClusteringApi, CompactionApi, ResizeApi
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.settings.settings_check import refuse_unopenable
from hudi_ops.view.columns.kept import keep_views
from hudi_ops.view.schema import row_schema, table_schema

_FRAME_OPTIONS = ("query", "listing", "since", "until", "fence", "meta_columns")


@checks_types
class Table(ReadApi, IngestApi, RepairsApi, PlansApi, HealthApi):
    """One table. Not safe for several threads; open one per thread.

    Use `Table.create` or `Table.open`.
    """

    def __init__(
        self,
        ctx: TableContext,
        adoption: AdoptionOptions | None = None,
        conflicts: ConflictSettings | None = None,
        log_format: LogFormat = "parquet",
        file_sizes: FileSizes | None = None,
        metadata_compact_after: int = METADATA_COMPACT_AFTER,
        upkeep: UpkeepSettings | None = None,
    ) -> None:
        self._adoption = Adoption(ctx, adoption or AdoptionOptions())
        session = Session(
            ctx,
            self._adoption,
            conflicts or ConflictSettings(),
            checked_format(log_format),
            file_sizes or FileSizes(),
            metadata_compact_after,
            upkeep or UpkeepSettings(),
        )
        super().__init__(session, self._adoption.options.timezone)
        self._ctx = self._session.ctx
        self.compaction = CompactionApi(self._session)
        self.clustering = ClusteringApi(self._session)
        self.resize = ResizeApi(self._session)
        self.clean = CleanApi(self._session)
        self.archive = ArchiveApi(self._session)
        self.indexing = IndexingApi(self._session)
        self.metadata = MetadataApi(self._session)
        self.savepoints = SavepointApi(self._session)
        self.holds = HoldApi(self._session)
        self.was_created = False
        """Whether `create` made the table just now; False when an equal one was there."""
        self.note = ""
        """What `create` left out of its sample file; empty: nothing."""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        definition: TableDefinition | None = None,
        *,
        schema: GivenColumns,
        options: WriterOptions | None = None,
        locks: LockProvider | None = None,
        engine: Engine | None = None,
        **keywords: Any,
    ) -> Self:
        """Make a table, or open the one that an equal call made.

        Args:
            path: a folder or URI (`file://`, `s3://`, `gs://`, `az://`); made when absent.
            definition: what the table is.
            schema: the table's columns: a `pyarrow.Schema`, in which timestamps without a zone become UTC; a text such as
                `"id string, fare double"`; or a sample file (CSV, JSON lines or Parquet), by its path or URI.
            options: how this writer writes.
            locks: the table lock; None: one that holds inside this process only.
            engine: runs the work; None: threads of this process.
            keywords: fields of `TableDefinition` and `WriterOptions`, in place of those of `definition` and `options`.

        Raises:
            InvalidRequest: the definition cannot be a table, the columns cannot be read, another table lies there, or a keyword is
                unknown.
        """
        of_table, of_writer = split_keywords(keywords, "definition", "schema", "options", "locks", "engine")
        defined = merged(TableDefinition, definition, of_table)
        columns = given_columns(schema)
        table = cls._with(context_of(path, locks, engine), merged(WriterOptions, options, of_writer))
        table.was_created = create_table(table._session, defined, columns)
        table.note = (columns.metadata or {}).get(NOTE, b"").decode()
        return table

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        options: WriterOptions | None = None,
        *,
        locks: LockProvider | None = None,
        engine: Engine | None = None,
        **keywords: Any,
    ) -> Self:
        """Open a table, ours or one that Apache Hudi made; the latter is adopted by the first write.

        Args:
            path: a folder or URI.
            options: how this writer writes, and facts that a table of Apache Hudi does not store (`OpenOptions`).
            locks: the table lock; None: one that holds inside this process only.
            engine: runs the work; None: threads of this process.
            keywords: fields of `OpenOptions`, in place of those of `options`.

        Raises:
            InvalidRequest: the path is not a table, or a keyword or its value is wrong.
            Unsupported: its version cannot be opened.
        """
        chosen = OpenOptions(**{**(dict(options) if options is not None else {}), **keywords})
        table = cls._with(context_of(path, locks, engine), chosen)
        refuse_unopenable(table._ctx.storage)
        return table

    @classmethod
    def at(
        cls,
        location: TableLocation,
        *,
        locks: LockProvider | None = None,
        engine: Engine | None = None,
        accept_future: bool = False,
        **keywords: Any,
    ) -> Self:
        """Open the table at a location, as `tables.yaml` declares it, with the lock that guards it.

        Args:
            location: of `locate_table`.
            locks: in place of the declared lock.
            engine: as in `open`.
            accept_future: let new instants follow one in the future, even against `tables.yaml`.
            keywords: fields of `OpenOptions`; None stands for what is declared.

        Raises:
            InvalidRequest: as `open` does.
            Unsupported: its version cannot be opened.
        """
        given = {name: value for name, value in keywords.items() if value is not None}
        options = location.options(accept_future=accept_future) | given
        table = cls.open(location.path, locks=locks or lock_of(location), engine=engine, **options)
        table._targets = location.targets
        table._asked_as = location.name if location.declaration is not None else location.path
        return table

    @classmethod
    def _with(cls, ctx: TableContext, options: WriterOptions) -> Self:
        keep_views(ctx.storage, options.view)
        return cls(
            ctx,
            AdoptionOptions.of(options),
            options.conflicts,
            options.log_format,
            options.file_sizes,
            options.metadata_compact_after,
            options.upkeep,
        )

    def adopt(
        self, *, drop_metadata_table: bool = False, dry_run: bool = False, count_keys: bool = True
    ) -> AdoptionResult:
        """Begin the commit log of a table that Apache Hudi made; a second call changes nothing.

        Args:
            drop_metadata_table: drop its metadata table. Otherwise it is kept, and one with expression indexes is refused until
                they are dropped. Apache Hudi's writers build it again unless `hoodie.metadata.enable=false`.
            dry_run: check everything, change nothing.
            count_keys: read the keys of all files of a table without buckets, and count those that lie in several file groups.
                Reads use the record index only after a count found no key in two file groups.

        Raises:
            InvalidRequest: buckets, hash fields or time zone are missing, or do not fit the table.
            Unsupported: the table cannot be written, or its metadata table has partitions that are not kept.
        """
        return adopt_table(
            self._session, self._adoption, drop=drop_metadata_table, dry_run=dry_run, count_keys=count_keys
        )

    def __repr__(self) -> str:
        return f"Table({self._ctx.storage.uri!r})"

    def _repr_html_(self) -> str:
        """Return the table's settings and columns as a small table, for notebooks."""
        config = self.config
        facts = {"path": self._ctx.storage.uri, "type": config.table_type, "version": config.version}
        fields = {"record key": config.record_key_fields, "partition by": config.partition_fields}
        return html_table(f"Table {config.name}", {**facts, **fields, **{one.name: one.type for one in self.schema}})

    @property
    def context(self) -> TableContext:
        """The components that this table works with."""
        return self._ctx

    @property
    def config(self) -> TableConfig:
        """The table's settings as they are now."""
        return load_config(self._ctx.storage)

    @property
    def upkeep(self) -> dict[str, dict[str, Any]]:
        """What cleans and archives keep, and whether this writer runs them after its commits."""
        recorded = recorded_services(self._session)
        settings = self._session.upkeep.upon(recorded)
        automatic, clean = settings.automatic(recorded), settings.clean.completed(CleanRequest())
        retained = {"policy": clean.policy, "retain": Policy.of(clean).retain}
        kept = settings.archive.model_dump(include={"keep_min", "keep_max"})
        return {
            "clean": {"automatic": "clean" in automatic, **retained},
            "archive": {"automatic": "archive" in automatic, **kept},
        }

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
        **options: Any,
    ) -> Any:
        """Return the table as a DataFrame of PySpark; executors read the files.

        It shows the table as it is when an action runs; `as_of` pins it. With `since`, `until` or `fence` it shows changes, and
        `until` pins them: take `changes(since)` first, and its checkpoint as `until`.

        Args:
            spark: a classic session; None: the active one, or a new one.
            columns: names, in the order wanted; None for all columns of the table.
            where: a SQL condition as in `read`; it leaves out partitions, files and row groups.
            as_of: as in `read`.
            options: `query`, `listing` and `meta_columns` as in `read`; `since`, `until` and `fence` as in `changes`.

        Raises:
            InvalidRequest: as `read` and `changes` do, changes as of an instant, or an unknown keyword.
            Unsupported: pyspark is not installed, how log files are merged is not known here, or Spark has no type for a column.
        """
        from hudi_ops.datasource import frame_of

        refuse_unknown(options, _FRAME_OPTIONS)
        switches = {name: "true" if options.pop(name, False) else None for name in ("fence", "meta_columns")}
        said = {"query": "snapshot", "listing": "auto", **options, **switches}
        return frame_of(spark, self._ctx.storage, columns, {"where": where, "as_of": self._instant_of(as_of), **said})

    def delete_partition(
        self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, dry_run: bool = False
    ) -> RemovalResult:
        """Remove the rows of whole partitions, in one commit; earlier instants still show them.

        Args:
            paths: partitions as they lie below the table's root (`origin=JFK/month=1`), or patterns (`origin=J*`).
            dry_run: say what would go; change nothing.

        Raises:
            InvalidRequest: a name that no partition has; nothing was changed.
            Conflict: lost to overlapping writes again and again.
            Busy: Apache Hudi has planned a service on these partitions.
        """
        return self._removed(DELETE_PARTITION, listed_paths(paths), dry_run)

    def truncate(self, *, dry_run: bool = False) -> RemovalResult:
        """Remove all rows in one commit; earlier instants still show them.

        Args:
            dry_run: say what would go; change nothing.

        Raises:
            Conflict: lost to other writes again and again.
            Busy: Apache Hudi has planned a service.
        """
        return self._removed(TRUNCATE, (), dry_run)

    def _removed(self, operation: WriteOperation, wanted: Sequence[str], dry_run: bool) -> RemovalResult:
        if dry_run:
            return preview_removal(self._session, operation, wanted)
        return written(self._session, lambda started_s: remove(self._session, operation, wanted, started_s))

    def close(self) -> None:
        """Close the connection to the lock service, if there is one."""
        close = getattr(self._ctx.locks, "close", None)
        if close is not None:
            close()


def context_of(
    path: str | os.PathLike[str], locks: LockProvider | None = None, engine: Engine | None = None
) -> TableContext:
    """Return the components for a table at a path, with the defaults of a single process."""
    storage = open_storage(os.fspath(path))
    return TableContext(
        storage=storage,
        locks=locks or in_process_lock(storage.uri),
        engine=engine or LocalEngine(),
        vain_waits=PROCESS_WAITS,
    )
