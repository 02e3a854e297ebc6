"""Input of an ingest, and its first step: reading, tagging and splitting the rows.

The first step runs once for all attempts as long as files and table stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from hudi_ops.commit.ledger import Ledger
from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.engine.progress import Tally, TellProgress
from hudi_ops.engine.protocol import Engine, Produced, Scattered
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.merging.merge import Operation, Ordering
from hudi_ops.services.write.operations import INSERT, WriteOperation
from hudi_ops.services.write.routing.known_rings import KnownRings
from hudi_ops.services.write.rows import GivenRows, limits_of
from hudi_ops.services.write.tasks.tag import SourceTask, TagSpec, read_and_tag
from hudi_ops.sources.limits import ReadLimits
from hudi_ops.sources.source import parts_of
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import row_schema


class KeptChunks:
    """Tagged chunks of source files for all attempts of an ingest; a context that frees them.

    A retry merges again and does not read again.
    """

    def __init__(self) -> None:
        self._held = ExitStack()
        self._made_of: tuple[object, ...] | None = None
        self._scattered: Scattered | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def tagged(self, engine: Engine, batch: Batch, spec: TagSpec) -> Scattered:
        """Return the files, tagged and split, once for as long as files and table are the same.

        Raises:
            InvalidRequest: a file does not fit the table.
        """
        made_of = (engine.name, batch.files, spec)
        if self._scattered is None or made_of != self._made_of:
            self._held.close()
            self._scattered = None
            tasks = source_tasks(batch, spec, limits_of(engine))
            self._scattered = self._held.enter_context(engine.scatter(_reader(engine, batch, tasks), tasks))
            self._made_of = made_of
        return self._scattered


@dataclass(frozen=True)
class Batch:
    """Input of an ingest: files of a source with their ledger, or given rows.

    `rows` that outlive one attempt are `GivenRows`; a table is tagged for this attempt only. `kept` holds the tagged files for
    later attempts. `evolve` lets the columns change. `progress` is called by the local engine, after each file and file group.
    """

    operation: WriteOperation
    source: Storage | None = None
    files: tuple[FileInfo, ...] = ()
    ledger: Ledger | None = None
    rows: GivenRows | pa.Table | None = None
    evolve: bool = False
    kept: KeptChunks | None = None
    progress: TellProgress | None = None


def _reader(engine: Engine, batch: Batch, tasks: Sequence[SourceTask]) -> Callable[[SourceTask], Iterable[Produced]]:
    """Return the function that reads one source; in this process it also tells the progress."""
    if batch.progress is None or engine.name != "local":
        return read_and_tag
    tally = Tally(batch.progress, "source files", len(tasks), sum(file.size_bytes for file in batch.files))

    def read(task: SourceTask) -> Iterator[Produced]:
        yield from read_and_tag(task)
        tally.add(task.file.size_bytes // task.part[1] if task.file is not None else 0)

    return read


def is_read_once(batch: Batch) -> bool:
    """Return whether the rows can be tagged only once, and so only for the newest state."""
    return isinstance(batch.rows, GivenRows) and batch.rows.is_read_once


@contextmanager
def tagged(
    engine: Engine, state: TableState, batch: Batch, schema: pa.Schema, rings: KnownRings | None = None
) -> Iterator[Scattered]:
    """Yield the batch, tagged and split by bucket.

    `schema` is that of the table's files, `rings` are the hash rings of the table.

    Raises:
        InvalidRequest: the batch does not fit the table.
        Conflict: the table changed, and rows that can be read only once would have to be tagged again.
        Unavailable: the disk is full of rows that do not fit into memory.
    """
    spec = replace(tag_spec(state, batch, schema), rings=rings)
    if isinstance(batch.rows, GivenRows):
        yield batch.rows.tagged(engine, spec)
        return
    if batch.rows is not None:
        with GivenRows(batch.rows) as rows:
            yield rows.tagged(engine, spec)
        return
    if batch.kept is not None:
        yield batch.kept.tagged(engine, batch, spec)
        return
    with KeptChunks() as kept:
        yield kept.tagged(engine, batch, spec)


def tag_spec(state: TableState, batch: Batch, schema: pa.Schema) -> TagSpec:
    """Return how rows are tagged for a table in a state; `schema` is that of its files."""
    schema, unstored = row_schema(state.config, schema), state.config.dropped_columns
    tagger = Tagger.of(state.config, state.log.properties.facts)
    facts = state.log.properties.facts
    looks_up: tuple[str, ...] = () if facts.has_buckets or not batch.operation.looks_keys_up else (RECORD_KEY,)
    ordering = next(iter(state.config.ordering_fields), None)
    # A lookup of keys numbers all rows.
    keeps_all = looks_up or batch.operation.kernel is Operation.APPEND
    folds = None if keeps_all else Ordering(state.config.merge_mode)
    if batch.operation.kernel is Operation.DELETE:
        # Only columns that route a row are required; others are checked and ignored.
        routing = tuple(dict.fromkeys(state.config.record_key_fields + state.config.partition_fields))
        return TagSpec(
            tagger, schema, routing, ordering, kept=routing, looks_up=looks_up, folds=folds, unstored=unstored
        )
    if looks_up and facts.index == "record_index" and ordering is not None:
        looks_up += (ordering,)  # of the rows of a key in several partitions, one stays
    required = tuple(schema.names)
    if batch.evolve:
        required = tuple(field.name for field in schema if not field.nullable or field.name in roles(state.config))
    return TagSpec(
        tagger,
        schema,
        required,
        ordering,
        fill=batch.evolve,
        looks_up=looks_up,
        folds=folds,
        keeps_second=batch.operation is INSERT,
        unstored=unstored,
    )


def source_tasks(batch: Batch, spec: TagSpec, limits: ReadLimits) -> list[SourceTask]:
    """Return the tasks that read a batch's files, in the order of their rows."""
    one = SourceTask(spec, batch.source, run_bytes=limits.run_bytes, value_bytes=limits.value_bytes)
    tasks = []
    for file in batch.files:
        parts = parts_of(file)
        tasks += [replace(one, file=file, part=(number, parts)) for number in range(parts)]
    return tasks


def roles(config: TableConfig) -> dict[str, str]:
    """Return the role of each ordering, partition and key column."""
    return {
        **dict.fromkeys(config.ordering_fields, "ordering"),
        **dict.fromkeys(config.partition_fields, "partition"),
        **dict.fromkeys(config.record_key_fields, "key"),
    }
