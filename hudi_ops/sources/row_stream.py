"""Rows given by a caller, as one stream of batches that is never in memory as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.runs import Run, runs_of

_UNNAMED_LEVEL = re.compile(r"__index_level_\d+__")
_EXPECTED = "a pyarrow.Table, anything with the Arrow C stream interface, or record batches of one schema"


@dataclass(frozen=True)
class RowStream:
    """Record batches of one schema, read once, or repeatedly if `table` holds them.

    Attributes:
        schema: of every batch; None when an iterable gave none.
        batches: the stream; to be used when there is no `table`.
        table: the rows, if they were in memory anyway.
    """

    schema: pa.Schema | None
    batches: Iterable[pa.RecordBatch] = ()
    table: pa.Table | None = None

    @property
    def size_bytes(self) -> int | None:
        """Arrow bytes; None if they are unknown before reading."""
        return self.table.nbytes if self.table is not None else None

    def runs(self, run_bytes: int) -> Iterator[Run]:
        """Yield the rows in runs.

        A stream that breaks off raises `InvalidRequest`; errors of a generator are not changed.
        """
        batches = self.table.to_batches() if self.table is not None else self.batches
        return runs_of(batches, self.schema or pa.schema([]), run_bytes)


def open_rows(data: Any) -> RowStream:
    """Open a stream of the given rows.

    Args:
        data: a `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`, a data frame of pandas or Polars (also a lazy one), a
            DuckDB relation, a scan of a table, anything else with the Arrow C stream interface; columns by name; or an
            iterable of record batches (or tables) of one schema.

    Raises:
        InvalidRequest: it is none of these, or one of its columns mixes types.
    """
    try:
        opened = _open(data)
    except (TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        raise InvalidRequest(
            f"the given rows are not Arrow data: {error}",
            expected=_EXPECTED,
            found=f"{type(data).__module__}.{type(data).__qualname__}",
            next_step="convert them to a table, for example with pyarrow.Table.from_pylist or pyarrow.Table.from_pandas",
        ) from error
    return opened if isinstance(opened, RowStream) else _joined(opened)


def _open(data: Any) -> RowStream | Iterable[Any]:
    """Return the stream, or the iterable itself."""
    if isinstance(data, pa.RecordBatchReader):
        return RowStream(data.schema, _read(data))
    package = type(data).__module__.partition(".")[0]
    if isinstance(data, pa.Table | pa.RecordBatch | dict) or package == "pandas":
        # A data frame of pandas is in memory, and its types are known only from a whole column.
        table = data if isinstance(data, pa.Table) else _of_pandas(data) if package == "pandas" else pa.table(data)
        return RowStream(table.schema, table=table)
    if package == "polars" and hasattr(data, "collect_batches"):
        frames: Iterable[Any] = data.collect_batches(maintain_order=True)
        return frames
    if package in {"duckdb", "_duckdb"} and hasattr(data, "to_arrow_reader"):
        # The stream interface of a relation computes the whole result first.
        return _open(data.to_arrow_reader())
    if hasattr(data, "__arrow_c_stream__"):
        return _open(pa.RecordBatchReader.from_stream(data))
    if isinstance(data, str | bytes) or hasattr(data, "__arrow_c_array__") or not isinstance(data, Iterable):
        return _open(pa.table(data))
    parts: Iterable[Any] = data
    return parts


def _of_pandas(frame: Any) -> pa.Table:
    """Convert the columns of a data frame and the named levels of its index."""
    if not hasattr(frame, "columns"):
        return pa.table(frame)
    # By default, Arrow writes an unnamed index as a column and leaves out a named one that counts evenly.
    has_names = any(name is not None for name in frame.index.names)
    table = pa.Table.from_pandas(frame, preserve_index=has_names)
    given = set(map(str, frame.columns))
    return table.select([name for name in table.column_names if name in given or not _UNNAMED_LEVEL.fullmatch(name)])


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    done = 0
    try:
        for batch in reader:
            yield batch
            done += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(
            f"the given stream broke off after {done} rows: {error}",
            expected="a stream that can be read to its end",
            next_step="correct the code that produces it; nothing was written",
        ) from error


def _joined(parts: Iterable[Any]) -> RowStream:
    """Return the batches of an iterable; the first one defines the columns of all.

    Raises:
        InvalidRequest: the first one is not Arrow data.
    """
    rest = iter(parts)
    first = next(rest, None)
    if first is None:
        return RowStream(None)
    schema = _part(first, 0).schema
    return RowStream(schema, _batches(chain([first], rest), schema))


def _batches(parts: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, part in enumerate(parts):
        rows = _part(part, number)
        if rows.schema != schema:
            raise InvalidRequest(
                f"batch {number} of the given rows has other columns than batch 0",
                expected=_columns(schema),
                found=_columns(rows.schema),
                next_step="give batches of one schema, types included",
                batch=number,
            )
        yield from rows.to_batches()


def _part(part: Any, number: int) -> pa.Table:
    if isinstance(part, pa.RecordBatch):
        return pa.Table.from_batches([part])
    if isinstance(part, pa.Table):
        return part
    if not (hasattr(part, "__arrow_c_stream__") or hasattr(part, "__arrow_c_array__")):
        raise InvalidRequest(
            f"the given rows are not Arrow data: item {number} of the iterable is {type(part).__qualname__}",
            expected=_EXPECTED,
            found=f"{type(part).__module__}.{type(part).__qualname__}",
            next_step="yield record batches; pyarrow.RecordBatch.from_pylist converts rows to one",
            batch=number,
        )
    return pa.table(part)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
