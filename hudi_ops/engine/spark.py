"""The engine of a cluster: Spark runs the same tasks, and carries the incoming rows as Arrow IPC bytes.

Incoming rows pass the one shuffle as a few large binary values, not as rows: nothing is converted, so every Arrow type survives,
and the JVM only moves bytes. Base files never come near it: tasks open them with pyarrow on the executor.
"""

from __future__ import annotations

import gc
import re
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_ops.engine.protocol import I, Produced, R
from hudi_ops.errors import HudiOpsError, Internal, Unavailable


class SparkEngine:
    """Runs tasks as Spark jobs of `session`.

    Args:
        session: a classic `SparkSession`; `hudi_ops` must be importable on its executors.
        tasks_per_core: slices per core; more balances uneven inputs, each costs tens of milliseconds.
    """

    name = "spark"

    def __init__(self, session: Any, tasks_per_core: int = 2) -> None:
        self._context = session.sparkContext
        if self._context.master.startswith("local") and self._context.pythonExec == "python3":
            # Workers of a local master are started by name from PATH, which may be a Python without our packages.
            self._context.pythonExec = sys.executable
        self._slices = max(1, self._context.defaultParallelism * tasks_per_core)

    @classmethod
    def of_new_session(cls, app_name: str) -> SparkEngine:
        """An engine over the active session, or over a new one made from the process's Spark configuration."""
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(app_name)
        if not sys.stderr.isatty():
            builder = builder.config("spark.ui.showConsoleProgress", "false")
        return cls(builder.getOrCreate())

    def map(self, task: Callable[[I], R], inputs: Sequence[I]) -> list[R]:
        """Results in the order of the inputs; raises a task's own error, not Spark's wrapping of it."""
        if not inputs:
            return []
        run = _Guarded(task)
        slices = min(len(inputs), self._slices)
        return _unwrap(self._collect(self._context.parallelize(list(inputs), slices).map(run)))

    @contextmanager
    def scatter(self, produce: Callable[[I], Produced], inputs: Sequence[I]) -> Iterator[SparkScattered]:
        """Chunks stay in the executors' block managers until the context ends."""
        from pyspark import StorageLevel

        if not inputs:
            yield SparkScattered(self, None, [])
            return
        slices = min(len(inputs), self._slices)
        produced = (
            self._context
            .parallelize(list(enumerate(inputs)), slices)
            .map(_Produce(produce))
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            summaries = self._collect(produced.map(_summary))
            failed = [value for _, ok, value in summaries if not ok]
            if failed:
                raise failed[0]
            yield SparkScattered(self, produced, [value for _, _, value in sorted(summaries, key=lambda s: s[0])])
        finally:
            produced.unpersist()

    def _collect(self, rdd: Any) -> list[Any]:
        from py4j.protocol import Py4JError

        try:
            return list(rdd.collect())
        except Py4JError as error:
            raise Unavailable(
                f"a Spark job failed: {_cause(error)}",
                next_step="see the executors' log; the same call can be tried again",
            ) from error


class SparkScattered:
    """Chunks of a first step on the executors."""

    def __init__(self, engine: SparkEngine, produced: Any, summaries: list[Any]) -> None:
        self._engine = engine
        self._produced = produced
        self.summaries = summaries

    def gather(self, consume: Callable[[I, Sequence[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """One shuffle of the chunks by key, then one task a key; results in the order of `tasks`.

        Raises:
            Internal: a task's chunks are not there.
        """
        if not tasks or self._produced is None:
            return []
        context = self._engine._context
        slices = min(len(tasks), self._engine._slices)
        index = {key: place for place, (key, _) in enumerate(tasks)}
        wanted = context.broadcast(index)
        inputs = context.broadcast([value for _, value in tasks])
        try:
            grouped = self._produced.flatMap(_Chunks(wanted)).partitionBy(slices, _identity)
            results = dict(self._engine._collect(grouped.mapPartitions(_Consume(consume, inputs))))
            lost = [key for key, place in index.items() if place not in results]
            if lost:
                raise Internal(f"no rows came for {len(lost)} tasks, the first {lost[0]}")
            return _unwrap(results[place] for place in range(len(tasks)))
        finally:
            wanted.unpersist()
            inputs.unpersist()


class _Guarded:
    """Returns a task's own errors as values: Spark would retry them and wrap their text."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def __call__(self, value: Any) -> tuple[bool, Any]:
        _tame_worker()
        try:
            return True, self._task(value)
        except Unavailable:
            raise
        except HudiOpsError as error:
            return False, error


class _Produce:
    """First step: keeps chunks as (key, ordinal, IPC bytes) beside the summary."""

    def __init__(self, produce: Callable[[Any], Produced]) -> None:
        self._produce = _Guarded(produce)

    def __call__(self, numbered: tuple[int, Any]) -> tuple[int, bool, Any, list[tuple[str, int, bytes]]]:
        number, value = numbered
        ok, result = self._produce(value)
        if not ok:
            return number, False, result, []
        return number, True, result.summary, [(c.key, c.ordinal, _to_bytes(c.rows)) for c in result.chunks]


class _Chunks:
    """(place of the task, (ordinal, bytes)) for each chunk that a task wants."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def __call__(self, produced: tuple[int, bool, Any, list[tuple[str, int, bytes]]]) -> Iterator[tuple[int, Any]]:
        places = self._wanted.value
        for key, ordinal, body in produced[3]:
            if key in places:
                yield places[key], (ordinal, body)


class _Consume:
    """Second step over one slice: sort each key's chunks, run its task."""

    def __init__(self, consume: Callable[[Any, Sequence[pa.Table]], Any], inputs: Any) -> None:
        self._consume = consume
        self._inputs = inputs

    def __call__(self, rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, tuple[bool, Any]]]:
        chunks: dict[int, list[tuple[int, bytes]]] = {}
        for place, chunk in rows:
            chunks.setdefault(place, []).append(chunk)
        for place in sorted(chunks):
            tables = [_from_bytes(body) for _, body in sorted(chunks.pop(place), key=lambda c: c[0])]
            yield place, _Guarded(partial(self._consume_in_order, tables))(self._inputs.value[place])

    def _consume_in_order(self, tables: list[pa.Table], value: Any) -> Any:
        return self._consume(value, tables)


def _summary(produced: tuple[int, bool, Any, list[Any]]) -> tuple[int, bool, Any]:
    return produced[:3]


def _identity(place: int) -> int:
    return place


def _unwrap(results: Iterable[tuple[bool, Any]]) -> list[Any]:
    values = []
    for ok, value in results:
        if not ok:
            raise value if isinstance(value, HudiOpsError) else Internal(f"a task answered {value!r}")
        values.append(value)
    return values


def _tame_worker() -> None:
    """Take from a Python worker what it spends around each task, three times the work itself on small inputs (measured)."""
    # Spark runs one task a core; pyarrow's own pool on top of that only makes them fight.
    if pa.cpu_count() != 1:
        pa.set_cpu_count(1)
    # A reused worker collects garbage after every task: over everything that was ever imported, unless that is set apart.
    if not gc.get_freeze_count():
        gc.freeze()
    # And before every task it invalidates import caches, for which each zip on the path, pyspark's own among them, is
    # read again. Importers made anew find the listing that is kept apart from them.
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def _to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def _from_bytes(body: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_all()


def _cause(error: BaseException) -> str:
    """The Python error of a failed task out of Spark's text, which buries it between two stack traces."""
    found = re.findall(r"^[\w.]+(?:Error|Exception|Interrupt)\b.*$", str(error), flags=re.MULTILINE)
    lines = [line for line in found if "PythonException" not in line and "SparkException" not in line]
    return lines[0] if lines else str(error).splitlines()[0]
