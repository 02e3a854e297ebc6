"""Rows that a program gives to an ingest: tagged once, and kept until the ingest is over, however often it has to try.

A stream or a Spark DataFrame cannot be read a second time, or must not be: it may cost hours, or give other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from hudi_ops.engine.frames import frame_as_table, frame_schema, is_spark_frame
from hudi_ops.engine.protocol import Engine, FrameEngine, Scattered
from hudi_ops.errors import Conflict
from hudi_ops.services.write.tasks.tag import GIVEN, BatchTagger, SourceTask, TagSpec, read_and_tag
from hudi_ops.sources.row_stream import RowStream, open_rows
from hudi_ops.sources.runs import RUN_BYTES
from hudi_ops.sources.source import fit_rows


class GivenRows:
    """Rows of any shape, for one ingest; a context that gives back what it holds.

    Args:
        data: as `open_rows` takes it, or a PySpark DataFrame.

    Raises:
        InvalidRequest: nothing that has rows. Raised by `open_rows`.
    """

    def __init__(self, data: Any) -> None:
        self.frame = data if is_spark_frame(data) else None
        self._stream = None if self.frame is not None else open_rows(data)
        self._held = ExitStack()
        self._spec: TagSpec | None = None
        self._tagged: Scattered | None = None
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failure = None
        self._held.close()

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None when an empty iterable said nothing of them."""
        return frame_schema(self.frame) if self._stream is None else self._stream.schema

    @property
    def size_bytes(self) -> int | None:
        """Arrow bytes; None when only reading the rows could tell."""
        return None if self._stream is None else self._stream.size_bytes

    @property
    def is_read_once(self) -> bool:
        """A stream or a DataFrame, and no table in memory."""
        return self._stream is None or self._stream.table is None

    def tagged(self, engine: Engine, spec: TagSpec) -> Scattered:
        """The rows, tagged and split; the same for every attempt as long as the table asks for the same.

        Raises:
            InvalidRequest: the rows do not fit the table.
            Conflict: the table asks for something else now, and the rows can be read only once.
            BaseException: whatever their generator raised, at every attempt: what is left of it is not the rows that were given.
        """
        if self._failure is not None and (spec == self._spec or self.is_read_once):
            raise self._failure
        if self._tagged is not None and spec == self._spec:
            return self._tagged
        if self._tagged is not None and self.is_read_once:
            raise Conflict(
                "the table's columns, keys or buckets changed while rows were written that can be read only once",
                next_step="run the same call again, with rows to be read from the start",
                final=True,
            )
        self._held.close()
        self._tagged = self._failure = None
        self._spec = spec
        try:
            self._tagged = self._held.enter_context(self._scatter(engine, spec))
        except BaseException as error:
            self._failure = error
            raise
        return self._tagged

    def _scatter(self, engine: Engine, spec: TagSpec) -> Any:
        if self._stream is None and isinstance(engine, FrameEngine):
            columns = frame_schema(self.frame)
            # Before hours of work are spent on it.
            fit_rows(columns.empty_table(), spec.schema, spec.required, GIVEN, fill=spec.fill)
            return engine.scatter_frame(BatchTagger(spec), self.frame)
        if self._stream is None:
            table = frame_as_table(self.frame)
            self._stream = RowStream(table.schema, table=table)
        return engine.scatter(read_and_tag, _tasks(self._stream, spec))


def _tasks(stream: RowStream, spec: TagSpec) -> Iterator[SourceTask]:
    if stream.schema is None:
        return
    for first, rows in stream.runs(RUN_BYTES):
        yield SourceTask(spec, rows=rows, first_row=first)
