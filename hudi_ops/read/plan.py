"""Plan a read: the instant, the columns, and the files that may hold wanted rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.clock import Clock, SystemClock
from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import InvalidRequest
from hudi_ops.files.base.base_file import stored_schema
from hudi_ops.files.base.row_groups import Constants
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import selected
from hudi_ops.kernels.condition import Condition, both, computed, possible_units
from hudi_ops.metadata.prune.sought import NOTHING_LEFT_OUT, Decision, LeftOut, Sought
from hudi_ops.metadata.prune.usable import why_index_unused, why_values_unused
from hudi_ops.metadata.prune.worth import may_pay
from hudi_ops.metadata.reader.listing import ListingChoice, listing_choice, open_listing
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.read.as_of import as_of_restore, refuse_before_start, refuse_future
from hudi_ops.read.current_view import ViewListing, built_view, view_or_folders
from hudi_ops.read.fixed_keys import buckets_of, fixed_keys, values_by_index
from hudi_ops.read.prune import Chosen, choose_slices, with_metadata
from hudi_ops.read.where import Filter, parse_where
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.settings.settings_check import open_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.read_tasks import ReadTasks
from hudi_ops.view.columns.slices import SliceColumns, with_all_columns
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.listing import Keep, Listing
from hudi_ops.view.moment import Moment
from hudi_ops.view.partition_values import PartitionPaths
from hudi_ops.view.schema import row_schema, table_schema

_LIMIT_MAX = 2**63 - 1
logger = logging.getLogger(__name__)

QueryType = Literal["snapshot", "read_optimized"]
"""`snapshot`: the newest state of all rows. `read_optimized`: base files alone, which is faster, but lacks rows of log files."""


@dataclass(frozen=True)
class ReadRequest:
    """Request for rows. `as_of` is a request time; `columns` None means all columns.

    `listing` is the source of the file listing; with `storage`, the metadata table is not used at all. `meta_columns`: return the
    columns that Apache Hudi adds, too, before the others. `pushed` is a further condition, of an engine. `indexes`: when the
    indexes of the metadata table are asked; rows do not depend on it.
    """

    columns: tuple[str, ...] | None = None
    where: Filter | pc.Expression | None = None
    as_of: str | None = None
    limit: int | None = None
    query: QueryType = "snapshot"
    listing: ListingChoice = "auto"
    meta_columns: bool = False
    pushed: Condition | None = None
    indexes: Decision = "estimate"

    @property
    def is_filtered(self) -> bool:
        """Whether only some of the rows are wanted."""
        return self.where is not None or self.pushed is not None


@dataclass(frozen=True)
class Opened:
    """A table opened for reading: its settings and its timeline, at one moment."""

    config: TableConfig
    timeline: Timeline
    commits: CommitReader

    @classmethod
    def of(cls, storage: Storage, commits: CommitReader | None = None) -> Opened:
        """Open the table at the storage's root, with or without a commit log.

        Raises:
            InvalidRequest: the path is not a table.
            Corrupt: its settings cannot be read, or contradict the commit log.
        """
        reader = commits or CommitReader(storage)
        config = open_config(storage, reader.settings)
        return cls(config, load_timeline(storage, config), reader)


@dataclass(frozen=True)
class ReadPlan:
    """Files of one moment that may hold wanted rows.

    Attributes:
        schema: schema of the returned rows.
        tasks: one for each file group, by partition and file id; each is made when it is taken.
        limit: largest number of rows to return; None: all.
        partitions: partition paths whose files are read.
        partitions_skipped: partitions, and folders with all partitions below, that the condition excludes.
        left_out: what the metadata table excluded from the plan.
        opened: the opened table, if the plan reads its newest state; None if it reads an earlier instant, or only the base files of
            slices that have log files.
    """

    table: str
    schema: pa.Schema
    tasks: ReadTasks
    limit: int | None = None
    partitions: tuple[str, ...] = ()
    partitions_skipped: tuple[str, ...] = ()
    left_out: LeftOut = NOTHING_LEFT_OUT
    opened: Opened | None = None


@dataclass(frozen=True)
class Wanted:
    """Columns, condition and keys that a request reads from each file of a table.

    Attributes:
        schema: the table's columns as they are stored, meta columns first.
        needed: the columns to read, in the table's order.
        columns: the columns to return, in the requested order.
        keys: the only record keys that wanted rows can have; None: any key.
    """

    schema: pa.Schema
    needed: pa.Schema
    columns: tuple[str, ...]
    condition: Condition | None
    keys: tuple[str, ...] | None

    @classmethod
    def of(cls, config: TableConfig, plain: pa.Schema, request: ReadRequest, only: Condition | None = None) -> Wanted:
        """Return the columns, condition and keys of a request; `only` is a further condition.

        `plain` are the table's columns, without meta columns.

        Raises:
            InvalidRequest: an unknown column, or a filter that does not fit its columns.
        """
        schema = stored_schema(plain, config.populate_meta_fields)
        columns = _columns(schema, request, config.name)
        used = request.where.columns if isinstance(request.where, Filter) else ()
        _refuse_unknown(schema, (*columns, *used), config.name)
        condition = _condition_of(request, schema)
        selected(schema.empty_table(), condition)
        for further in (request.pushed, only):
            if further is not None:
                condition = further if condition is None else both(condition, further)
        wanted = {*columns, *(condition.columns if condition is not None else ())}
        needed = pa.schema([one for one in schema if one.name in wanted])
        keys = fixed_keys(condition, config, schema) if condition is not None else None
        return cls(schema, needed, columns, condition, keys)

    @property
    def output(self) -> pa.Schema:
        """Schema of the returned rows."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    def tasks(self, storage: Storage, config: TableConfig, slices: SliceColumns, instants: BlockInstants) -> ReadTasks:
        """Return the read task of each slice, in order.

        Raises:
            Unsupported: a slice has log files, and this library does not know how to merge them.
            Corrupt: the path of a partition does not tell the columns that no file holds.
        """
        constants = self._constants(config, slices)
        rules = MergeRules.of(config, self._plain) if len(slices.logs) else None
        wanted = (self.needed, self.columns, self.condition, self.keys, constants)
        return ReadTasks(storage, slices, rules, instants, *wanted)

    def _constants(self, config: TableConfig, slices: SliceColumns) -> dict[str, Constants]:
        """Return for each partition the needed columns that only its path holds.

        It is empty if there are no such columns.
        """
        names = {*self.needed.names} & {*config.dropped_columns}
        if not names:
            return {}
        paths = PartitionPaths.of(config, self.schema)
        return {path: tuple((n, v) for n, v in paths.values(path).items() if n in names) for path in slices.partitions}

    @property
    def _plain(self) -> pa.Schema:
        return pa.schema([one for one in self.schema if one.name not in META_COLUMNS])

    def partitions(self, config: TableConfig) -> tuple[Keep | None, bool]:
        """Return a test for partitions that may hold wanted rows, and whether it fits folders.

        The test is None if all partitions may. It fits if it may also be called for folders above partitions.
        """
        condition = self.condition
        if condition is None or not set(condition.columns) & set(config.partition_fields):
            return None, False
        reader, columns, known = PartitionPaths.of(config, self.schema), condition.columns, dict[str, bool]()

        def keep(paths: Sequence[str]) -> list[bool]:
            new = [path for path in paths if path not in known]
            if new:
                may_hold = possible_units(condition, reader.bounds(new, columns, self.schema))
                known.update(zip(new, may_hold.tolist(), strict=True))
            return [known[path] for path in paths]

        return keep, reader.may_prune_folders

    def sought(self, config: TableConfig, request: ReadRequest) -> Sought:
        """Return the request to the indexes."""
        by_path, may_prune_folders = self.partitions(config)
        condition = self.condition
        columns = condition.columns if condition is not None and self.keys is None else ()
        is_decided = PartitionPaths.of(config, self.schema).decides(columns)
        return Sought(
            self.schema,
            condition,
            self.keys,
            by_path,
            may_prune_folders,
            is_newest=request.as_of is None,
            told_by_path=config.dropped_columns,
            is_decided=is_decided,
            decision=request.indexes,
        )


def plan_read(
    storage: Storage, request: ReadRequest, commits: CommitReader | None = None, clock: Clock | None = None
) -> ReadPlan:
    """Return the files to read, without excluded partitions; no data file is opened.

    `clock` tells which instants lie in the future; None: this machine's.

    Raises:
        InvalidRequest: an unknown column, a filter that does not fit its columns, or an instant from before the timeline's start,
            in the future, or one that needs files which a clean removed.
        Corrupt: a file is lost that a completed write names, or a partition's path does not tell the columns that no file holds.
        Unavailable: a file was removed while the table was listed.
        Unsupported: rows are in log files, and this library does not know how to merge them.
    """
    return _planned(storage, request, Opened.of(storage, commits), clock or SystemClock())


def _planned(
    storage: Storage, request: ReadRequest, opened: Opened, clock: Clock, view: View | None = None
) -> ReadPlan:
    config = opened.config
    refuse_future(config, opened.timeline, request.as_of, clock)
    request = replace(request, as_of=as_of_restore(storage, opened.timeline, request.as_of))
    refuse_before_start(config, opened.timeline, request.as_of)
    plain = row_schema(config, table_schema(config, opened.timeline, opened.commits, request.as_of))
    wanted = Wanted.of(config, plain, request)
    sought = wanted.sought(config, request)
    if sought.is_newest and request.query == "snapshot" and wanted.condition is not None and wanted.keys is None:
        values = values_by_index(storage, wanted.condition, config, plain)
        if values and (why := why_values_unused(opened.timeline, opened.commits)):
            logger.info("secondary indexes of %s are not asked: %s", config.name, why)
            values = {}
        sought = replace(sought, values=values)
    if sought.is_newest and wanted.keys is not None and request.listing != "storage":
        sought = replace(sought, buckets=buckets_of(wanted.keys, storage, config, opened.timeline, opened.commits))

    of, with_logs = (opened.timeline, opened.commits, request.as_of), request.query == "snapshot"
    moment = Moment(storage, config, *of, sought.by_path, is_whole=True, with_logs=with_logs)

    why_unused = partial(why_index_unused, storage, config, opened.timeline, opened.commits)
    walked, may_walk = None, request.listing != "metadata" and request.indexes != "always"
    if view is None:
        view, walked = view_or_folders(moment, request.listing, sought.may_prune_folders, may_walk=may_walk)
    if view is not None and view.timeline is not opened.timeline:  # a server told a later state
        return _planned(storage, request, replace(opened, timeline=view.timeline), clock, view)

    def choose(metadata: MetadataTable | None) -> Chosen:
        listing: Listing = walked or open_listing(storage, config, metadata, request.listing)
        if view is not None:
            listing = ViewListing(view)
        elif request.listing == "auto" and request.as_of is None and not sought.asks:
            listing = ViewListing(built_view(moment, listing), listing.source)

        def visible(listed: FileColumns) -> SliceColumns:
            if isinstance(listing, ViewListing):
                found = moment.slices_of(listing.view.with_files(listed), are_listed=view is None)
            else:
                found = moment.slices(listed, listing.source)
            return with_all_columns(config, found)

        return choose_slices(listing, visible, sought, metadata, why_unused)

    chosen = choose(None) if view is not None or walked is not None else None
    if chosen is None or may_pay(storage, chosen.slices, sought, config.metadata_partitions):
        archived = opened.commits.archived
        chosen = with_metadata(storage, config, opened.timeline, request.listing, choose, archived=archived)
    slices, is_whole = chosen.slices, request.as_of is None
    if request.query == "read_optimized":
        is_whole = is_whole and not len(slices.logs)
        slices = slices.bases_alone()
    tasks = wanted.tasks(storage, config, slices, BlockInstants.of(config, opened.timeline, request.as_of))
    whole = opened if is_whole else None
    return ReadPlan(
        config.name, wanted.output, tasks, request.limit, chosen.partitions, chosen.skipped, chosen.left_out, whole
    )


def _condition_of(request: ReadRequest, schema: pa.Schema) -> Condition | None:
    if request.where is None or isinstance(request.where, Filter):
        return request.where.bind(schema) if request.where is not None else None
    # Arrow does not tell which columns an expression uses: take all columns whose names occur in its text.
    text = str(request.where)
    return computed(request.where, [name for name in schema.names if name in text])


def _columns(schema: pa.Schema, request: ReadRequest, table: str) -> tuple[str, ...]:
    """Return the names of the columns to return, in the requested order.

    Raises:
        InvalidRequest: no column is requested, or a column twice.
    """
    if request.columns is not None and not request.columns:
        raise InvalidRequest(
            "no columns were asked for",
            table=table,
            expected="at least one column, or None for all",
            found="an empty list",
            next_step="name a column, or leave the list out",
        )
    if len(set(request.columns or ())) < len(request.columns or ()):
        raise InvalidRequest(
            "a column was asked for twice",
            table=table,
            expected="each column once",
            found=", ".join(request.columns or ()),
        )
    wanted = request.columns or tuple(name for name in schema.names if name not in META_COLUMNS)
    first = [name for name in META_COLUMNS if name in schema.names] if request.meta_columns else []
    return (*first, *(name for name in wanted if name not in first))


def _refuse_unknown(schema: pa.Schema, names: Sequence[str], table: str) -> None:
    """Refuse columns that the table lacks.

    Raises:
        InvalidRequest: a column is unknown.
    """
    known = set(schema.names)
    for name in names:
        if name not in known:
            raise InvalidRequest(
                f"the table has no column {name}",
                table=table,
                expected=", ".join(n for n in schema.names if n not in META_COLUMNS),
                found=name,
                field=name,
            )


def request_of(
    columns: Sequence[str] | None,
    where: pc.Expression | str | None,
    as_of: str | None,
    limit: int | None,
    query: str = "snapshot",
    listing: str = "auto",
    *,
    meta_columns: bool = False,
) -> ReadRequest:
    """Return the request of a caller, whose filter is SQL text or an expression.

    Raises:
        InvalidRequest: the text is no filter, a name no text, the limit negative, or there is no such type of query or listing.
    """
    if limit is not None and not 0 <= limit <= _LIMIT_MAX:
        what = "limit must not be negative" if limit < 0 else "limit is above the number of rows that a table can have"
        raise InvalidRequest(
            what, expected=f"0 to {_LIMIT_MAX}", found=str(limit), next_step="leave it out for all rows"
        )
    if query not in get_args(QueryType):
        raise InvalidRequest(
            f"there is no query type {query}", expected=" or ".join(get_args(QueryType)), found=query, field="query"
        )
    wanted = parse_where(where) if isinstance(where, str) else where
    names = tuple(columns) if columns is not None else None
    if wrong := [name for name in names or () if not isinstance(name, str)]:
        raise InvalidRequest(
            f"{wrong[0]!r} is not the name of a column",
            expected="names as text",
            found=type(wrong[0]).__name__,
            next_step="pass the names of columns as texts of Python",
            field="columns",
        )
    choice = listing_choice(listing)
    indexes: Decision = "always" if choice == "metadata" else "estimate"
    return ReadRequest(names, wanted, as_of, limit, cast(QueryType, query), choice, meta_columns, indexes=indexes)
