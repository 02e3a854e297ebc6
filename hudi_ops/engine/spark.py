"""The engine of a cluster: Spark runs the same tasks, and carries the incoming rows as Arrow IPC bytes.

Incoming rows pass the one shuffle as a few large binary values, not as rows: nothing is converted, so every Arrow type survives,
and the JVM only moves bytes. Base files never come near it: tasks open them with pyarrow on the executor.

No value is larger than a run of rows, about 32 MB: between the JVM and Python one of 2 GiB cannot pass.
"""

from __future__ import annotations

import gc
import pickle
import re
import struct
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_ops.engine.protocol import I, Produced, R
from hudi_ops.errors import Conflict, HudiOpsError, Internal, Unavailable

_Made: TypeAlias = tuple[tuple[int, int], bool, Any, list[tuple[str, int, bytes]]]

_SLICE_BYTES = 64 << 20
"""Compressed incoming rows that one task of the second step should hold at most, unless one key has more."""


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
    def scatter(self, produce: Callable[[I], Iterable[Produced]], inputs: Iterable[I]) -> Iterator[SparkScattered]:
        """Chunks stay in the executors' block managers, on disk where memory ends, until the context ends.

        Inputs that hold rows pass through the driver, and its memory bounds them.
        """
        numbered = list(enumerate(inputs))
        if not numbered:
            yield SparkScattered(self, None, [], {})
            return
        slices = min(len(numbered), self._slices)
        with self._kept(self._context.parallelize(numbered, slices).flatMap(_Produce(produce))) as scattered:
            yield scattered

    @contextmanager
    def scatter_frame(
        self, produce: Callable[[Iterator[pa.RecordBatch], str], Iterable[Produced]], frame: Any
    ) -> Iterator[SparkScattered]:
        """As `scatter`; rows go from the JVM to Python once, as Arrow, in the tasks that make them.

        An executor that is lost takes its chunks along, and its part of the frame is then evaluated again.
        """
        with failing():
            made = frame.mapInArrow(_ProduceOfFrame(produce), "made binary").rdd.map(_unpacked)
        with self._kept(made) as scattered:
            yield scattered

    @contextmanager
    def _kept(self, made: Any) -> Iterator[SparkScattered]:
        from pyspark import StorageLevel

        made = made.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            summaries = sorted(self._collect(made.map(_summary)), key=lambda one: one[0])
            failed = [value for _, ok, value, _ in summaries if not ok]
            if failed:
                raise failed[0]
            sizes: dict[str, tuple[int, int]] = {}
            for _, _, _, chunks in summaries:
                for key, rows, size_bytes in chunks:
                    known = sizes.get(key, (0, 0))
                    sizes[key] = (known[0] + rows, known[1] + size_bytes)
            yield SparkScattered(self, made, [value for _, _, value, _ in summaries], sizes)
        finally:
            made.unpersist()

    def _collect(self, rdd: Any) -> list[Any]:
        with failing():
            return list(rdd.collect())

    def _shuffled(self, chunks: Any, slices: int) -> Any:
        """As `RDD.partitionBy`, but every pair travels alone: that one gathers up to a thousand for one value."""
        from pyspark import RDD
        from pyspark.serializers import BatchedSerializer, CPickleSerializer

        jvm = self._context._jvm
        keyed = chunks.mapPartitions(_Keyed(slices), preservesPartitioning=True)
        keyed._bypass_serializer = True
        pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
        moved = jvm.PythonRDD.valueOfPair(pairs.partitionBy(jvm.PythonPartitioner(slices, 0)))
        return RDD(moved, self._context, BatchedSerializer(CPickleSerializer()))


class SparkScattered:
    """Chunks of a first step on the executors.

    Args:
        engine: runs the second step.
        made: what the first step made, an RDD; None when it had no input.
        summaries: of the first step.
        sizes: of each key, rows and bytes of its chunks.
    """

    def __init__(self, engine: SparkEngine, made: Any, summaries: list[Any], sizes: dict[str, tuple[int, int]]) -> None:
        self._engine = engine
        self._made = made
        self.summaries = summaries
        self._sizes = sizes

    def gather(self, consume: Callable[[I, list[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """One shuffle of the chunks by key, then one task a key; results in the order of `tasks`.

        Raises:
            Internal: a task's chunks are not there.
        """
        if not tasks or self._made is None:
            return []
        context = self._engine._context
        sizes = [self._sizes.get(key, (0, 0)) for key, _ in tasks]
        # A task holds the chunks of its slice: more rows mean more slices, down to one a key.
        slices = min(len(tasks), max(self._engine._slices, sum(size for _, size in sizes) // _SLICE_BYTES))
        index = {key: place for place, (key, _) in enumerate(tasks)}
        wanted = context.broadcast(index)
        inputs = context.broadcast([(value, rows) for (_, value), (rows, _) in zip(tasks, sizes, strict=True)])
        try:
            grouped = self._engine._shuffled(self._made.flatMap(_Chunks(wanted)), slices)
            results = dict(self._engine._collect(grouped.mapPartitions(_Consume(consume, inputs))))
            lost = [key for key, place in index.items() if place not in results]
            if lost:
                raise Internal(f"no rows came for {len(lost)} tasks, the first {lost[0]}")
            return _unwrap(results[place] for place in range(len(tasks)))
        finally:
            wanted.unpersist()
            inputs.unpersist()


@contextmanager
def failing() -> Iterator[None]:
    """Spark's own errors inside as ours.

    Raises:
        Unavailable: a Spark job failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise Unavailable(
            f"a Spark job failed: {_cause(error)}",
            next_step="see the executors' log; the same call can be tried again",
        ) from error


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
    """First step: what a task makes, bit by bit: (place, whether it went well, summary or error, chunks as IPC bytes)."""

    def __init__(self, produce: Callable[[Any], Iterable[Produced]]) -> None:
        self._produce = produce

    def __call__(self, numbered: tuple[int, Any]) -> Iterator[_Made]:
        number, value = numbered
        return _made(number, self._produce(value))


class _ProduceOfFrame:
    """First step over the batches of one partition of a DataFrame; each bit is one pickled value."""

    def __init__(self, produce: Callable[[Iterator[pa.RecordBatch], str], Iterable[Produced]]) -> None:
        self._produce = produce

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        for made in _made(number, self._produce(batches, f"the DataFrame given, partition {number}")):
            yield pa.record_batch({"made": pa.array([pickle.dumps(made, pickle.HIGHEST_PROTOCOL)], pa.binary())})


class _Chunks:
    """(place of the task, (place of the chunk, bytes)) for each chunk that a task wants."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def __call__(self, made: _Made) -> Iterator[tuple[int, Any]]:
        places = self._wanted.value
        for key, _, body in made[3]:
            if key in places:
                yield places[key], (made[0], body)


class _Keyed:
    """Pairs as the shuffle takes them: number of the slice, then the pair, pickled as a batch of one."""

    def __init__(self, slices: int) -> None:
        self._slices = slices

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
        for pair in pairs:
            yield struct.pack("!q", pair[0] % self._slices)
            yield pickle.dumps([pair], pickle.HIGHEST_PROTOCOL)


class _Consume:
    """Second step over one slice: sort each key's chunks, run its task."""

    def __init__(self, consume: Callable[[Any, list[pa.Table]], Any], inputs: Any) -> None:
        self._consume = consume
        self._inputs = inputs

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, tuple[bool, Any]]]:
        chunks: dict[int, list[tuple[tuple[int, int], bytes]]] = {}
        for place, chunk in pairs:
            chunks.setdefault(place, []).append(chunk)
        for place in sorted(chunks):
            value, rows = self._inputs.value[place]
            tables = [_from_bytes(body) for _, body in sorted(chunks.pop(place), key=lambda chunk: chunk[0])]
            yield place, _Guarded(partial(self._consume_in_order, tables, rows))(value)

    def _consume_in_order(self, tables: list[pa.Table], rows: int, value: Any) -> Any:
        found = sum(table.num_rows for table in tables)
        if found != rows:
            raise Conflict(
                "incoming rows were lost with an executor, and came out otherwise when they were read again",
                expected=f"{rows} rows for one file group",
                found=str(found),
                next_step="run it again; a DataFrame that gives other rows each time is better stored first",
            )
        return self._consume(value, tables)


def _made(number: int, produced: Iterable[Produced]) -> Iterator[_Made]:
    """What a first task makes, with its own errors as values: Spark would retry them and wrap their text.

    Raises:
        Unavailable: worth another try, which is Spark's business.
    """
    _tame_worker()
    run = 0
    try:
        for one in produced:
            yield (number, run), True, one.summary, [(c.key, c.rows.num_rows, _to_bytes(c.rows)) for c in one.chunks]
            run += 1
    except Unavailable:
        raise
    except HudiOpsError as error:
        yield (number, run), False, error, []


def _unpacked(row: Any) -> _Made:
    made: _Made = pickle.loads(row[0])  # noqa: S301 - our own task on the executor wrote it
    return made


def _summary(made: _Made) -> tuple[tuple[int, int], bool, Any, list[tuple[str, int, int]]]:
    place, ok, value, chunks = made
    return place, ok, value, [(key, rows, len(body)) for key, rows, body in chunks]


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
