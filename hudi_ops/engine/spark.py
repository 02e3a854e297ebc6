"""Engine of a cluster: Spark runs the tasks, and carries incoming rows as bytes.

Incoming rows pass the one shuffle as a few large binary values of Arrow IPC, not as rows: nothing is converted, so every Arrow type
survives, and the JVM only moves bytes. Base files never pass through it: tasks open them with pyarrow on the executor.

No value is larger than a run of rows, about 32 MB: the JVM and Python cannot exchange one of 2 GiB.
"""

from __future__ import annotations

import logging
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow as pa

from hudi_ops.engine.classic_spark import require_classic_spark
from hudi_ops.engine.protocol import I, Produced, R
from hudi_ops.engine.spark_steps import (
    Chunks,
    Consume,
    GuardedTask,
    Keyed,
    Produce,
    ProduceOfGroups,
    made_of,
    summary_of,
    unpacked,
    unwrap,
)
from hudi_ops.engine.stopping import StopSignal
from hudi_ops.errors import Internal, Unavailable

logger = logging.getLogger(__name__)

_TAGS = count()
_CANCEL_S = 0.1
_CANCELS_MAX = 5
"""Cancels of a job, `_CANCEL_S` apart, before the driver goes on without its end."""
_SLICE_BYTES = 64 << 20
"""Target of compressed incoming rows for one task of the second step; one key may have more."""


def use_this_python(session: Any) -> None:
    """Let a local master start its workers with this Python, unless another one is configured.

    By default they are started by name from PATH, which may be a Python without our packages.
    """
    context = getattr(session, "sparkContext", None)  # a session of Spark Connect has none
    if context is not None and context.master.startswith("local") and context.pythonExec == "python3":
        context.pythonExec = sys.executable


class SparkEngine:
    """Engine that runs tasks as Spark jobs of `session`.

    Args:
        session: a classic `SparkSession`; `hudi_ops` must be importable on its executors.
        tasks_per_core: slices per core; more balances uneven inputs, each costs tens of milliseconds.
    """

    name = "spark"

    def __init__(self, session: Any, tasks_per_core: int = 2) -> None:
        self._context = session.sparkContext
        use_this_python(session)
        self._slices = max(1, self._context.defaultParallelism * tasks_per_core)

    @classmethod
    def of_new_session(cls, app_name: str) -> SparkEngine:
        """Create an engine over the active session, or a new one from Spark's configuration.

        Raises:
            Unsupported: pyspark is not installed, or only pyspark-client is.
        """
        require_classic_spark("engine spark")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(app_name)
        if not sys.stderr.isatty():
            builder = builder.config("spark.ui.showConsoleProgress", "false")
        return cls(builder.getOrCreate())

    def map(self, task: Callable[[I], R], inputs: Sequence[I], *, stop: StopSignal | None = None) -> list[R]:
        """Run the tasks in the order of the inputs; raise a task's own error, not Spark's.

        A stop signal cancels the job. Spark ends the Python workers of running tasks up to four seconds later.
        """
        if not inputs:
            return []
        run = GuardedTask(task)
        slices = min(len(inputs), self._slices)
        job = self._context.parallelize(list(inputs), slices).map(run)
        return unwrap(self._collect(job) if stop is None else self._collect_until(job, stop))

    @contextmanager
    def scatter(self, produce: Callable[[I], Iterable[Produced]], inputs: Iterable[I]) -> Iterator[SparkScattered]:
        """Run the first step and hold its chunks until the context ends.

        They are in the executors' block managers. Inputs that hold rows pass through the driver, whose memory bounds them.
        """
        numbered = list(enumerate(inputs))
        if not numbered:
            yield SparkScattered(self, None, [], {})
            return
        slices = min(len(numbered), self._slices)
        with self._kept(self._context.parallelize(numbered, slices).flatMap(Produce(produce))) as scattered:
            yield scattered

    @contextmanager
    def scatter_frame(
        self, produce: Callable[[Iterator[pa.RecordBatch], str], Iterable[Produced]], frame: Any
    ) -> Iterator[SparkScattered]:
        """Run the first step over the partitions of a DataFrame.

        Rows go from the JVM to Python once, as Arrow. A lost executor's part of the frame is evaluated again.
        """
        with failing():
            made = frame.mapInArrow(_ProduceOfFrame(produce), "made binary").rdd.map(unpacked)
        with self._kept(made) as scattered:
            yield scattered

    @contextmanager
    def _kept(self, made: Any) -> Iterator[SparkScattered]:
        from pyspark import StorageLevel

        made = made.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            summaries = sorted(self._collect(made.map(summary_of)), key=lambda piece: piece[0])
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

    def _collect_until(self, rdd: Any, stop: StopSignal) -> list[Any]:
        """Collect in a thread of its own; a stop signal cancels the job.

        The job has a tag, not a job group: those belong to the application.
        """
        from pyspark import InheritableThread

        tag = f"hudi-ops-{next(_TAGS)}"
        done: Future[list[Any]] = Future()

        def run() -> None:
            try:
                self._context.addJobTag(tag)
                self._context.setInterruptOnCancel(True)
                done.set_result(self._collect(rdd))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                done.set_exception(error)

        InheritableThread(target=run, name=tag, daemon=True).start()
        stop.wait_for(done)
        for _ in range(_CANCELS_MAX):
            if done.done():
                break
            # Cancel again until the call has ended: the job may not have been submitted yet.
            try:
                with failing():
                    self._context.cancelJobsWithTag(tag)
            except Unavailable as error:
                logger.warning("the Spark job %s was not cancelled: %s", tag, error)
            wait([done], _CANCEL_S)
        stop.check()
        return done.result()

    def _collect(self, rdd: Any) -> list[Any]:
        with failing():
            return list(rdd.collect())

    def _shuffled(self, chunks: Any, slices: int) -> Any:
        """Partition as `RDD.partitionBy` does, but without its batches of a thousand pairs."""
        from pyspark import RDD
        from pyspark.serializers import BatchedSerializer, CPickleSerializer

        jvm = self._context._jvm
        keyed = chunks.mapPartitions(Keyed(slices), preservesPartitioning=True)
        keyed._bypass_serializer = True
        pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
        moved = jvm.PythonRDD.valueOfPair(pairs.partitionBy(jvm.PythonPartitioner(slices, 0)))
        return RDD(moved, self._context, BatchedSerializer(CPickleSerializer()))


class SparkScattered:
    """Chunks of a first step on the executors.

    `engine` runs the second step on `made`, an RDD (None without input); `sizes` are rows and bytes of each key's chunks.
    """

    def __init__(self, engine: SparkEngine, made: Any, summaries: list[Any], sizes: dict[str, tuple[int, int]]) -> None:
        self._engine = engine
        self._made = made
        self.summaries = summaries
        self._sizes = sizes

    def gather(self, consume: Callable[[I, list[pa.Table]], R], tasks: Sequence[tuple[str, I]]) -> list[R]:
        """Shuffle the chunks by key once, then run one task a key, in the order of `tasks`.

        Raises:
            Internal: a task's chunks are missing.
        """
        if not tasks or self._made is None:
            return []
        with self._grouped(tasks) as (grouped, inputs):
            results = dict(self._engine._collect(grouped.mapPartitions(Consume(consume, inputs))))
        lost = [key for place, (key, _) in enumerate(tasks) if place not in results]
        if lost:
            raise Internal(f"{len(lost)} tasks received no rows, the first is {lost[0]}")
        return unwrap(results[place] for place in range(len(tasks)))

    @contextmanager
    def regroup(
        self, produce: Callable[[I, list[pa.Table]], Iterable[Produced]], tasks: Sequence[tuple[str, I]]
    ) -> Iterator[SparkScattered]:
        """Run a step between the first and the second: a shuffle whose chunks stay on executors."""
        if not tasks or self._made is None:
            yield SparkScattered(self._engine, None, [], {})
            return
        with (
            self._grouped(tasks) as (grouped, inputs),
            self._engine._kept(grouped.mapPartitions(ProduceOfGroups(produce, inputs))) as scattered,
        ):
            yield scattered

    @contextmanager
    def _grouped(self, tasks: Sequence[tuple[str, I]]) -> Iterator[tuple[Any, Any]]:
        """Return the shuffle of chunks by key, and the tasks' inputs with their rows."""
        context = self._engine._context
        sizes = [self._sizes.get(key, (0, 0)) for key, _ in tasks]
        # A task holds the chunks of its slice: more rows mean more slices, at most one a key.
        slices = min(len(tasks), max(self._engine._slices, sum(size for _, size in sizes) // _SLICE_BYTES))
        index = {key: place for place, (key, _) in enumerate(tasks)}
        wanted = context.broadcast(index)
        inputs = context.broadcast([(value, rows) for (_, value), (rows, _) in zip(tasks, sizes, strict=True)])
        try:
            yield self._engine._shuffled(self._made.flatMap(Chunks(wanted)), slices), inputs
        finally:
            wanted.unpersist()
            inputs.unpersist()


@contextmanager
def failing() -> Iterator[None]:
    """Convert Spark's errors inside the context.

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


class _ProduceOfFrame:
    """First step over one partition of a DataFrame; each result piece is one pickled value."""

    def __init__(self, produce: Callable[[Iterator[pa.RecordBatch], str], Iterable[Produced]]) -> None:
        self._produce = produce

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        for made in made_of(number, self._produce(batches, f"partition {number} of the given DataFrame")):
            yield pa.record_batch({"made": pa.array([pickle.dumps(made, pickle.HIGHEST_PROTOCOL)], pa.binary())})


def _cause(error: BaseException) -> str:
    """Return the Python error of a failed task, which Spark buries between stack traces."""
    found = re.findall(r"^[\w.]+(?:Error|Exception|Interrupt)\b.*$", str(error), flags=re.MULTILINE)
    lines = [line for line in found if "PythonException" not in line and "SparkException" not in line]
    return lines[0] if lines else str(error).splitlines()[0]
