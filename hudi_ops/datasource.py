"""Provide `spark.read.format("hudi_ops")`, a Python data source for Spark.

Tasks open data files with pyarrow and return Arrow batches.

Options: `columns` (names separated by commas), `where` (a SQL condition as in `Table.read`), `as_of` (an instant or an ISO time),
`query` (`snapshot` or `read_optimized`), `listing` (`auto`, `storage` or `metadata`, as in `Table.read`); and for changes instead
of all rows: `since`, `until`, `fence`, as in `Table.changes`. The table is looked at anew for each action; `as_of` pins it, and
`until` pins changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hudi_ops.clock import SystemClock
from hudi_ops.errors import InvalidRequest, NotFound, Unsupported
from hudi_ops.files.slice.file_scan import FileTask
from hudi_ops.files.slice.slice_scan import SliceTask, open_scan
from hudi_ops.kernels import condition
from hudi_ops.kernels.condition import Condition
from hudi_ops.read.as_of import instant_meant
from hudi_ops.read.changes import ChangesRequest, plan_changes
from hudi_ops.read.lost_files import vanished
from hudi_ops.read.plan import ReadPlan, ReadRequest, plan_read, request_of
from hudi_ops.storage.open import open_storage
from hudi_ops.storage.protocol import Storage

FORMAT = "hudi_ops"
OF_CHANGES = ("since", "until", "fence")
OPTIONS = ("path", "columns", "where", "as_of", "query", "listing", *OF_CHANGES)

TASK_BYTES = 64 << 20
"""Files are put together up to this size for one task; a larger file is a task of its own."""

FILE_COST_BYTES = 4 << 20
"""What opening a file counts for beside its bytes, as in Spark's own file sources."""

_COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}


def register(spark: Any) -> None:
    """Make the format `hudi_ops` known to a session; asking again changes nothing."""
    spark.dataSource.register(HudiOpsDataSource)


def frame_of(
    spark: Any, storage: Storage, columns: Sequence[str] | None, wanted: Mapping[str, str | None] | None = None
) -> Any:
    """Return a DataFrame over the table at a storage's root.

    `spark` is a classic session; None: the active one, or a new one. `wanted` are the other options, by name.

    Raises:
        InvalidRequest: an unknown column or instant, a filter that is no text, or one that does not fit.
        Unsupported: how log files are merged is not known here, or Spark has no type for a column.
    """
    where = (wanted or {}).get("where")
    if where is not None and not isinstance(where, str):
        raise InvalidRequest(
            "the filter of a DataFrame is SQL text", expected="a str", found=type(where).__name__, field="where"
        )
    for name in columns or ():
        if "," in name:
            raise InvalidRequest(f"the column {name!r} cannot be named to Spark: it holds a comma", field=name)
    options = {**(wanted or {}), "path": storage.uri}
    if columns is not None:
        options["columns"] = ",".join(columns)
    given = {name: value for name, value in options.items() if value is not None}
    # Asked here first: what is wrong with the request comes as an error of ours, not inside one of Spark's.
    spark_schema(_Asked.of(storage, given).plan().schema)
    session = spark if spark is not None else _session()
    register(session)
    return session.read.format(FORMAT).options(**given).load()


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the table's columns in Spark's types.

    Raises:
        Unsupported: a type that Spark does not have, such as a time of day.
    """
    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise Unsupported(
            f"Spark has no type for a column of this table: {error}",
            expected="types that Spark's own sources can give",
            found=", ".join(f"{one.name}: {one.type}" for one in schema),
            next_step="leave the column out by the option `columns`",
        ) from error


class HudiOpsDataSource(DataSource):  # type: ignore[misc]
    """The data source; Spark makes one in a Python worker for each `load`."""

    @classmethod
    def name(cls) -> str:
        """`hudi_ops`."""
        return FORMAT

    def schema(self) -> StructType:
        """Columns that `load` gives: all, meta columns first, or those of the option `columns`.

        Raises:
            InvalidRequest: an unknown option, column or instant, or a filter that does not fit.
        """
        return spark_schema(self._plan().schema)

    def reader(self, schema: StructType) -> HudiOpsReader:
        """Return a reader of the table; a user's own `schema` names the columns to read."""
        names = tuple(schema.names)
        asked = _Asked.of(_storage(self.options), {**self._given(), "columns": None})
        return HudiOpsReader(replace(asked, read=replace(asked.read, columns=names)), schema)

    def _plan(self) -> ReadPlan:
        return _Asked.of(_storage(self.options), self._given()).plan()

    def _given(self) -> dict[str, str | None]:
        for name in self.options:
            if name.lower() not in OPTIONS:
                raise InvalidRequest(
                    f"the format {FORMAT} has no option {name}", expected=", ".join(OPTIONS), found=name, setting=name
                )
        return {name: self.options.get(name) for name in OPTIONS}


class HudiOpsReader(DataSourceReader):  # type: ignore[misc]
    """Plans tasks on the driver and reads files on executors."""

    def __init__(self, asked: _Asked, schema: StructType) -> None:
        self._asked, self._schema = asked, to_arrow_schema(schema)
        self._pushed: Condition | None = None

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - the name is Spark's
        """Accept conditions of the query (Spark 4.1): they exclude partitions, files, row groups.

        All are given back, so that Spark applies them to the rows by its own rules, which differ for NaN.
        """
        for one in filters:
            known = _pushed(one, self._schema)
            if known is not None:
                self._pushed = known if self._pushed is None else condition.both(self._pushed, known)
        return filters

    def partitions(self) -> list[InputPartition]:
        """One task for each file group; several small ones without log files share a task."""
        read = self._asked.read
        given = read.where if isinstance(read.where, Condition) else None
        joined = (
            given if self._pushed is None else self._pushed if given is None else condition.both(given, self._pushed)
        )
        plan = replace(self._asked, read=replace(read, where=joined)).plan()
        return [InputPartition(FilesToRead(part, self._schema, self._asked.if_gone)) for part in _packed(plan.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one task.

        Raises:
            Unavailable: a file was cleaned away since the query was planned.
            Corrupt: a file is lost.
        """
        if partition is None:  # no file at all: Spark asks all the same
            return
        yield from partition.value.batches()


@dataclass(frozen=True)
class FilesToRead:
    """One task: files or slices, columns in Spark's types, and the reaction to a missing file."""

    tasks: tuple[FileTask | SliceTask, ...]
    schema: pa.Schema
    if_gone: str = ""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Their rows.

        Raises:
            Unavailable: a file was cleaned away.
            Corrupt: a file is lost.
        """
        # Spark runs one task a core; pyarrow's own threads on top of that only make them fight.
        pa.set_cpu_count(1)
        for task in self.tasks:
            try:
                for batch in open_scan(task, streaming=True).batches():
                    yield from pa.Table.from_batches([batch]).cast(self.schema).to_batches()
            except NotFound as error:
                gone = vanished(task.storage, error, self.if_gone)
                raise gone from error


def _session() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return session if session is not None else SparkSession.builder.appName("hudi-ops").getOrCreate()


def _storage(options: Any) -> Storage:
    path = options.get("path")
    if not path:
        raise InvalidRequest(
            "no table was named", expected='.load("/data/trips"), or the option path', found="none", setting="path"
        )
    return open_storage(path)


@dataclass(frozen=True)
class _Asked:
    """What the options ask for: rows as they are, or changes."""

    storage: Storage
    read: ReadRequest
    changes: ChangesRequest | None = None

    @classmethod
    def of(cls, storage: Storage, options: Mapping[str, str | None]) -> _Asked:
        names = options.get("columns")
        columns = tuple(name.strip() for name in names.split(",")) if names else None
        as_of, since, until = (options.get(name) or None for name in ("as_of", "since", "until"))
        fence = _is_set(options.get("fence"))
        asked = {"since": since, "until": until, "fence": fence}
        of_changes = [name for name in OF_CHANGES if asked[name]]
        if as_of and of_changes:
            raise InvalidRequest(
                "the table as of an instant has no changes",
                expected=f"either as_of or {of_changes[0]}",
                found="both",
                setting="as_of",
                next_step="name the end of the interval by the option until",
            )
        instant = instant_meant(storage, as_of) if as_of else None
        query = options.get("query") or "snapshot"
        if of_changes and query != "snapshot":
            raise InvalidRequest(
                "changes are those of all files", expected="query=snapshot with changes", found=query, setting="query"
            )
        listing = options.get("listing") or "auto"
        read = request_of(columns, options.get("where") or None, instant, None, query, listing)
        return cls(storage, read, ChangesRequest(read, since, until, fence) if of_changes else None)

    def plan(self) -> ReadPlan:
        """Return the files to read, as of now."""
        if self.changes is None:
            return plan_read(self.storage, self.read)
        return plan_changes(self.storage, replace(self.changes, read=self.read), SystemClock()).read

    @property
    def if_gone(self) -> str:
        again = "run the query again; the cleaner removed an old slice"
        return again if self.changes is None else f"{again}. If it repeats, ask without `until` and without a fence"


def _is_set(text: str | None) -> bool:
    if text is None or text.lower() in {"true", "false"}:
        return text is not None and text.lower() == "true"
    raise InvalidRequest("the option fence is a switch", expected="true or false", found=text, setting="fence")


def _packed(tasks: Sequence[FileTask | SliceTask]) -> list[tuple[FileTask | SliceTask, ...]]:
    packed: list[list[FileTask | SliceTask]] = []
    size = TASK_BYTES
    for task in tasks:
        if isinstance(task, SliceTask):
            packed.append([task])
            size = TASK_BYTES  # full: merging is work enough for a task
            continue
        cost = task.size_bytes + FILE_COST_BYTES
        if size + cost > TASK_BYTES:
            packed.append([])
            size = 0
        packed[-1].append(task)
        size += cost
    return [tuple(part) for part in packed]


def _pushed(one: Any, schema: pa.Schema) -> Condition | None:
    """Return our condition for a filter of Spark; None where the two would differ."""
    kind = type(one).__name__
    if kind == "Not":
        inner = _pushed(one.child, schema)
        return condition.negated(inner) if inner is not None else None
    path: tuple[str, ...] = tuple(getattr(one, "attribute", ()))
    if len(path) != 1 or path[0] not in schema.names:
        return None
    name = path[0]
    if kind == "IsNull":
        return condition.absent(name)
    if kind == "IsNotNull":
        return condition.negated(condition.absent(name))
    values = tuple(one.value) if kind == "In" else (getattr(one, "value", None),)
    if not values or not all(_is_alike(value, schema.field(name).type) for value in values):
        return None
    if kind == "In":
        return condition.member(name, values)
    return condition.compared(name, _COMPARISONS[kind], values[0]) if kind in _COMPARISONS else None


def _is_alike(value: Any, kind: pa.DataType) -> bool:
    """Types whose values Spark and Arrow order alike; not floats, since Spark orders NaN last."""
    is_kind = pa.types
    match value:
        case bool():
            return bool(is_kind.is_boolean(kind))
        case int():
            return bool(is_kind.is_integer(kind))
        case str():
            return bool(is_kind.is_string(kind))
        case Decimal():
            return bool(is_kind.is_decimal(kind))
        case date() if not isinstance(value, datetime):
            return bool(is_kind.is_date(kind))
    return False
