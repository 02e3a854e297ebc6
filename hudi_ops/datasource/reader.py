"""Read a table in Spark: plan tasks on the driver, read files on executors, accept filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hudi_ops.datasource.options import Asked
from hudi_ops.errors import NotFound
from hudi_ops.files.slice.file_scan import FileTask
from hudi_ops.files.slice.slice_scan import SliceTask, open_scan
from hudi_ops.kernels import condition
from hudi_ops.kernels.condition import Condition
from hudi_ops.read.literals import literal_of
from hudi_ops.read.lost_files import vanished
from hudi_ops.read.operands import Operand, among, compared

TASK_BYTES = 64 << 20
"""Files are put together up to this size for one task; a larger file is a task of its own."""

FILE_COST_BYTES = 4 << 20
"""Cost of opening a file, counted as bytes, as in Spark's own file sources."""

_COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}


class HudiOpsReader(DataSourceReader):  # type: ignore[misc]
    """Plans tasks on the driver and reads files on executors."""

    def __init__(self, asked: Asked, schema: StructType) -> None:
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
        plan = replace(self._asked, read=replace(read, pushed=self._pushed)).plan()
        return [InputPartition(FilesToRead(part, self._schema, self._asked.if_gone)) for part in _packed(plan.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one task.

        Raises:
            Unavailable: a file was cleaned away since the query was planned.
            Corrupt: a file is lost.
        """
        if partition is None:  # there are no files, but Spark calls this all the same
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


def _packed(tasks: Sequence[FileTask | SliceTask]) -> list[tuple[FileTask | SliceTask, ...]]:
    packed: list[list[FileTask | SliceTask]] = []
    size = TASK_BYTES
    for task in tasks:
        if isinstance(task, SliceTask):
            packed.append([task])
            size = TASK_BYTES  # a slice with logs fills a task: merging is enough work
            continue
        cost = task.size_bytes + FILE_COST_BYTES
        if size + cost > TASK_BYTES:
            packed.append([])
            size = 0
        packed[-1].append(task)
        size += cost
    return [tuple(part) for part in packed]


def _pushed(one: Any, schema: pa.Schema) -> Condition | None:
    """Return our condition for a filter of Spark; None if none surely selects the same rows."""
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
    column, literals = Operand.of(schema.field(name)), [literal_of(value) for value in values]
    if kind == "In":
        return among(column, literals)
    return compared(column, _COMPARISONS[kind], literals[0]) if kind in _COMPARISONS else None


def _is_alike(value: Any, kind: pa.DataType) -> bool:
    """Return whether Spark and Arrow order such values alike; Spark orders NaN of floats last."""
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
