"""What Spark's workers run: the steps of an engine over Arrow IPC bytes, with a task's own errors as values.

Spark would retry such an error and wrap its text.
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
"""What a task made: its place, whether it went well, its summary or error, and (key, rows, bytes) of its chunks."""


class Guarded:
    """Returns a task's own errors as values: Spark would retry them and wrap their text."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def __call__(self, value: Any) -> tuple[bool, Any]:
        """Whether it went well, and result or error.

        Raises:
            Unavailable: worth another try, which is Spark's business.
        """
        _tame_worker()
        try:
            return True, self._task(value)
        except Unavailable:
            raise
        except HudiOpsError as error:
            return False, error


class Produce:
    """First step: what a task makes, bit by bit: (place, whether it went well, summary or error, chunks as IPC bytes)."""

    def __init__(self, produce: Callable[[Any], Iterable[Produced]]) -> None:
        self._produce = produce

    def __call__(self, numbered: tuple[int, Any]) -> Iterator[Made]:
        """What the task makes of one numbered input."""
        number, value = numbered
        return made_of(number, self._produce(value))


class Chunks:
    """(place of the task, (place of the chunk, bytes)) for each chunk that a task wants."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def __call__(self, made: Made) -> Iterator[tuple[int, Any]]:
        """Those of one bit of what a task made."""
        places = self._wanted.value
        for key, _, body in made[3]:
            if key in places:
                yield places[key], (made[0], body)


class Keyed:
    """Pairs as the shuffle takes them: number of the slice, then the pair, pickled as a batch of one."""

    def __init__(self, slices: int) -> None:
        self._slices = slices

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
        """Bytes of each pair, after those of its slice."""
        for pair in pairs:
            yield struct.pack("!q", pair[0] % self._slices)
            yield pickle.dumps([pair], pickle.HIGHEST_PROTOCOL)


class Consume:
    """Second step over one slice: sort each key's chunks, run its task."""

    def __init__(self, consume: Callable[[Any, list[pa.Table]], Any], inputs: Any) -> None:
        self._consume = consume
        self._inputs = inputs

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, tuple[bool, Any]]]:
        """Place and outcome of each task of the slice."""
        for place, value, rows, tables in _in_order(pairs, self._inputs.value):
            yield place, Guarded(partial(self._consume_whole, tables, rows))(value)

    def _consume_whole(self, tables: list[pa.Table], rows: int, value: Any) -> Any:
        _refuse_other_rows(tables, rows)
        return self._consume(value, tables)


class ProduceOfGroups:
    """A step between the two over one slice: what each task makes of its key's chunks, bit by bit."""

    def __init__(self, produce: Callable[[Any, list[pa.Table]], Iterable[Produced]], inputs: Any) -> None:
        self._produce = produce
        self._inputs = inputs

    def __call__(self, pairs: Iterable[tuple[int, Any]]) -> Iterator[Made]:
        """What the tasks of the slice make, one after the other."""
        for place, value, rows, tables in _in_order(pairs, self._inputs.value):
            yield from made_of(place, self._produce_whole(tables, rows, value))

    def _produce_whole(self, tables: list[pa.Table], rows: int, value: Any) -> Iterator[Produced]:
        _refuse_other_rows(tables, rows)
        yield from self._produce(value, tables)


def _in_order(
    pairs: Iterable[tuple[int, Any]], inputs: Sequence[tuple[Any, int]]
) -> Iterator[tuple[int, Any, int, list[pa.Table]]]:
    """(place, input, rows it shall get, its chunks in their order) of each task of a slice."""
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
            "incoming rows were lost with an executor, and came out otherwise when they were read again",
            expected=f"{rows} rows for one file group",
            found=str(found),
            next_step="run it again; a DataFrame that gives other rows each time is better stored first",
        )


def made_of(number: int, produced: Iterable[Produced]) -> Iterator[Made]:
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


def unpacked(row: Any) -> Made:
    """What a worker pickled into a row of one column."""
    made: Made = pickle.loads(row[0])  # noqa: S301 - our own task on the executor wrote it
    return made


def summary_of(made: Made) -> tuple[tuple[int, int], bool, Any, list[tuple[str, int, int]]]:
    """The same with numbers of bytes instead of the bytes, for the driver."""
    place, ok, value, chunks = made
    return place, ok, value, [(key, rows, len(body)) for key, rows, body in chunks]


def unwrap(results: Iterable[tuple[bool, Any]]) -> list[Any]:
    """Results of tasks; the first error is raised.

    Raises:
        HudiOpsError: a task's own.
        Internal: a task answered with something else.
    """
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
