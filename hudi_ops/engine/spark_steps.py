"""Steps of an engine as Spark's workers run them, over Arrow IPC bytes.

A task's own errors are returned as values: Spark would retry them and wrap their text.
"""

from __future__ import annotations

import gc
import pickle
import struct
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_ops.engine.protocol import Produced
from hudi_ops.errors import Conflict, HudiOpsError, Internal, Unavailable

Made: TypeAlias = tuple[tuple[int, int], bool, Any, list[tuple[str, int, bytes]]]
"""Piece of a task's result: its position, success, its summary or error, and (key, rows, bytes) of its chunks."""


class GuardedTask:
    """Task whose errors are values, since Spark would retry them and wrap their text."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def __call__(self, value: Any) -> tuple[bool, Any]:
        """Return success, and result or error.

        Raises:
            Unavailable: an error that Spark shall retry.
        """
        _tame_worker()
        try:
            return True, self._task(value)
        except Unavailable:
            raise
        except HudiOpsError as error:
            return False, error


class Produce:
    """First step: result pieces (position, success, summary or error, chunks as bytes)."""

    def __init__(self, produce: Callable[[Any], Iterable[Produced]]) -> None:
        self._produce = produce

    def __call__(self, numbered: tuple[int, Any]) -> Iterator[Made]:
        """Yield the result of the task on one numbered input."""
        number, value = numbered
        return made_of(number, self._produce(value))


class Chunks:
    """(position of the task, (position of the chunk, bytes)) for each chunk that a task wants."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def __call__(self, made: Made) -> Iterator[tuple[int, Any]]:
        """Yield the wanted chunks of one piece of a task's result."""
        places = self._wanted.value
        for key, _, body in made[3]:
            if key in places:
                yield places[key], (made[0], body)


class Keyed:
    """Pairs for the shuffle: slice number, then the pair, pickled as a batch of one."""

    def __init__(self, slices: int) -> None:
        self._slices = slices

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
        """Yield the bytes of each pair, after those of its slice."""
        for pair in pairs:
            yield struct.pack("!q", pair[0] % self._slices)
            yield pickle.dumps([pair], pickle.HIGHEST_PROTOCOL)


class Consume:
    """Second step over one slice: sort each key's chunks, run its task."""

    def __init__(self, consume: Callable[[Any, list[pa.Table]], Any], inputs: Any) -> None:
        self._consume = consume
        self._inputs = inputs

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, tuple[bool, Any]]]:
        """Yield position and outcome of each task of the slice."""
        for place, value, rows, tables in _in_order(pairs, self._inputs.value):
            yield place, GuardedTask(partial(self._consume_whole, tables, rows))(value)

    def _consume_whole(self, tables: list[pa.Table], rows: int, value: Any) -> Any:
        _refuse_other_rows(tables, rows)
        return self._consume(value, tables)


class ProduceOfGroups:
    """Middle step over one slice: each task's result on its key's chunks, in pieces."""

    def __init__(self, produce: Callable[[Any, list[pa.Table]], Iterable[Produced]], inputs: Any) -> None:
        self._produce = produce
        self._inputs = inputs

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[Made]:
        """Yield the results of the slice's tasks, one after the other."""
        for place, value, rows, tables in _in_order(pairs, self._inputs.value):
            yield from made_of(place, self._produce_whole(tables, rows, value))

    def _produce_whole(self, tables: list[pa.Table], rows: int, value: Any) -> Iterator[Produced]:
        _refuse_other_rows(tables, rows)
        yield from self._produce(value, tables)


def _in_order(
    pairs: Iterable[tuple[int, Any]], inputs: Sequence[tuple[Any, int]]
) -> Iterator[tuple[int, Any, int, list[pa.Table]]]:
    """Yield (position, input, rows it shall get, its chunks in order) of each task of a slice."""
    chunks: dict[int, list[tuple[tuple[int, int], bytes]]] = {}
    for place, chunk in pairs:
        chunks.setdefault(place, []).append(chunk)
    for place in sorted(chunks):
        value, rows = inputs[place]
        tables = [_from_bytes(body) for _, body in sorted(chunks.pop(place), key=lambda chunk: chunk[0])]
        yield place, value, rows, tables


def _refuse_other_rows(tables: Sequence[pa.Table], rows: int) -> None:
    found = sum(table.num_rows for table in tables)
    if found != rows:
        raise Conflict(
            "incoming rows were lost with an executor, and differed when they were read again",
            expected=f"{rows} rows for one file group",
            found=str(found),
            next_step="run it again; store a DataFrame first if it returns other rows each time",
        )


def made_of(number: int, produced: Iterable[Produced]) -> Iterator[Made]:
    """Yield the result of a first task, with its own errors as values.

    Raises:
        Unavailable: an error that Spark shall retry.
    """
    _tame_worker()
    run = 0
    try:
        for piece in produced:
            yield (
                (number, run),
                True,
                piece.summary,
                [(c.key, c.rows.num_rows, _to_bytes(c.rows)) for c in piece.chunks],
            )
            run += 1
    except Unavailable:
        raise
    except HudiOpsError as error:
        yield (number, run), False, error, []


def unpacked(row: Any) -> Made:
    """Return the value that a worker pickled into a row of one column."""
    made: Made = pickle.loads(row[0])  # noqa: S301 - our own task on the executor wrote it
    return made


def summary_of(made: Made) -> tuple[tuple[int, int], bool, Any, list[tuple[str, int, int]]]:
    """Replace the bytes of each chunk by their number, for the driver."""
    place, ok, value, chunks = made
    return place, ok, value, [(key, rows, len(body)) for key, rows, body in chunks]


def unwrap(results: Iterable[tuple[bool, Any]]) -> list[Any]:
    """Return the results of tasks, or raise the first error.

    Raises:
        HudiOpsError: a task's own.
        Internal: a task returned something else.
    """
    values = []
    for ok, value in results:
        if not ok:
            raise value if isinstance(value, HudiOpsError) else Internal(f"a task returned {value!r}")
        values.append(value)
    return values


def _tame_worker() -> None:
    """Remove overhead of a Python worker, three times the work on small inputs (measured)."""
    # Spark runs one task a core; pyarrow's own pool would only compete with them.
    if pa.cpu_count() != 1:
        pa.set_cpu_count(1)
    # A reused worker collects garbage after every task, over everything that was ever imported, unless that is frozen.
    if not gc.get_freeze_count():
        gc.freeze()
    # Before every task it also invalidates import caches, so each zip on the path, pyspark's own among them, is read again. A new
    # importer takes the listing of its zip from a cache of `zipimport` that is not invalidated.
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
