"""Rows that a program gives to an ingest, tagged once for all its attempts.

A stream cannot be read a second time. A Spark DataFrame must not be: it may cost hours, or give other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from hudi_ops.engine.frames import frame_as_table, frame_schema, is_spark_frame
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.memory import run_bytes_of
from hudi_ops.engine.protocol import Engine, FrameEngine, Scattered
from hudi_ops.errors import Conflict
from hudi_ops.services.base.service import EXECUTOR_TASK_BYTES
from hudi_ops.services.write.tasks.tag import GIVEN, BatchTagger, SourceTask, TagSpec, read_and_tag
from hudi_ops.sources.limits import VALUE_BYTES_MAX, ReadLimits
from hudi_ops.sources.row_stream import RowStream, open_rows
from hudi_ops.sources.runs import RUN_BYTES
from hudi_ops.sources.source import fit_rows


class GivenRows:
    """Rows of any shape, for one ingest; a context that frees its tagged chunks.

    Args:
        data: input of `open_rows`, or a PySpark DataFrame.

    Raises:
        InvalidRequest: the data has no rows. Raised by `open_rows`.
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
        """Return the columns; None for an empty iterable, which has none."""
        return frame_schema(self.frame) if self._stream is None else self._stream.schema

    @property
    def size_bytes(self) -> int | None:
        """Return the Arrow bytes; None if the rows have to be read for that."""
        return None if self._stream is None else self._stream.size_bytes

    @property
    def is_read_once(self) -> bool:
        """Return whether this is a stream or a DataFrame, not a table in memory."""
        return self._stream is None or self._stream.table is None

    def tagged(self, engine: Engine, spec: TagSpec) -> Scattered:
        """Return the rows, tagged and split; the same for every attempt with an equal spec.

        Raises:
            InvalidRequest: the rows do not fit the table.
            Conflict: the spec has changed, and the rows can be read only once.
            BaseException: the error of the rows' generator, raised again at every attempt: its other rows are not the whole input.
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
            # Refuses wrong columns before hours of work.
            fit_rows(columns.empty_table(), spec.schema, spec.required, GIVEN, fill=spec.fill)
            return engine.scatter_frame(BatchTagger(spec), self.frame)
        if self._stream is None:
            table = frame_as_table(self.frame)
            self._stream = RowStream(table.schema, table=table)
        return engine.scatter(read_and_tag, _tasks(self._stream, spec, limits_of(engine)))


def limits_of(engine: Engine) -> ReadLimits:
    """Return how many decoded bytes of a source a task holds at a time on an engine."""
    if not isinstance(engine, LocalEngine):
        return ReadLimits(RUN_BYTES, EXECUTOR_TASK_BYTES)
    run_bytes = run_bytes_of(engine.memory_bytes, engine.threads, RUN_BYTES)
    return ReadLimits(run_bytes, min(engine.memory_bytes, VALUE_BYTES_MAX))


def _tasks(stream: RowStream, spec: TagSpec, limits: ReadLimits) -> Iterator[SourceTask]:
    if stream.schema is None:
        return
    for first, rows in stream.runs(limits.run_bytes):
        yield SourceTask(spec, rows=rows, first_row=first, run_bytes=limits.run_bytes, value_bytes=limits.value_bytes)
