"""What to ingest, and the first step over it, which is done once for all attempts as long as files and table stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from hudi_ops.commit.ledger import Ledger
from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.engine.protocol import Engine, Scattered
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.merging.merge import Operation
from hudi_ops.services.write.operations import WriteOperation
from hudi_ops.services.write.rows import GivenRows
from hudi_ops.services.write.tasks.tag import SourceTask, TagSpec, read_and_tag
from hudi_ops.sources.source import parts_of
from hudi_ops.storage.protocol import FileInfo, Storage
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import row_schema


class KeptChunks:
    """What the first step made of a source's files, for the attempts of one ingest: a retry merges again, it does not read again.

    A context that gives back what it holds.
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
        """The files, tagged and split: those of the attempt before, unless other files are offered or the table has changed.

        Raises:
            InvalidRequest: a file does not fit the table.
        """
        made_of = (engine.name, batch.files, spec)
        if self._scattered is None or made_of != self._made_of:
            self._held.close()
            self._scattered = None
            self._scattered = self._held.enter_context(engine.scatter(read_and_tag, source_tasks(batch, spec)))
            self._made_of = made_of
        return self._scattered


@dataclass(frozen=True)
class Batch:
    """What to ingest: files of a source with the ledger they belong to, or rows that a program gave.

    `rows` that outlive one attempt are `GivenRows`; a table is tagged for this attempt only. `kept` holds what was made of files
    for the attempts after this one. `evolve` lets the columns change.
    """

    operation: WriteOperation
    source: Storage | None = None
    files: tuple[FileInfo, ...] = ()
    ledger: Ledger | None = None
    rows: GivenRows | pa.Table | None = None
    evolve: bool = False
    kept: KeptChunks | None = None


def is_read_once(batch: Batch) -> bool:
    """Whether its rows cannot be tagged anew: what they are tagged for has to be the table as it is now."""
    return isinstance(batch.rows, GivenRows) and batch.rows.is_read_once


@contextmanager
def tagged(engine: Engine, state: TableState, batch: Batch, schema: pa.Schema) -> Iterator[Scattered]:
    """The batch, tagged and split by bucket; `schema` is that of the table's files, without meta columns.

    Raises:
        InvalidRequest: the batch does not fit the table.
        Conflict: the table changed so that rows which can be read only once would have to be tagged again.
        Unavailable: no room for rows that do not fit into memory.
    """
    spec = tag_spec(state, batch, schema)
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
    """How rows are tagged for a table as it is now; `schema` is that of its files."""
    schema, unstored = row_schema(state.config, schema), state.config.dropped_columns
    tagger = Tagger.of(state.config, state.log.properties.facts)
    facts = state.log.properties.facts
    looks_up: tuple[str, ...] = () if facts.has_buckets or not batch.operation.looks_keys_up else (RECORD_KEY,)
    ordering = next(iter(state.config.ordering_fields), None)
    if batch.operation.kernel is Operation.DELETE:
        # Only what routes a row must be there; other columns may be, and are checked, but say nothing.
        routing = tuple(dict.fromkeys(state.config.record_key_fields + state.config.partition_fields))
        return TagSpec(tagger, schema, routing, ordering, kept=routing, looks_up=looks_up, unstored=unstored)
    if looks_up and facts.index == "record_index" and ordering is not None:
        looks_up += (ordering,)  # of rows of one key in several partitions one stays
    required = tuple(schema.names)
    if batch.evolve:
        required = tuple(field.name for field in schema if not field.nullable or field.name in roles(state.config))
    return TagSpec(tagger, schema, required, ordering, fill=batch.evolve, looks_up=looks_up, unstored=unstored)


def source_tasks(batch: Batch, spec: TagSpec) -> list[SourceTask]:
    """The tasks that read a batch's files, in the order of their rows."""
    tasks = []
    for file in batch.files:
        parts = parts_of(file)
        tasks += [SourceTask(spec, batch.source, file, (number, parts)) for number in range(parts)]
    return tasks


def roles(config: TableConfig) -> dict[str, str]:
    """What the columns are for that keys, folders and order follow from."""
    return {
        **dict.fromkeys(config.ordering_fields, "ordering"),
        **dict.fromkeys(config.partition_fields, "partition"),
        **dict.fromkeys(config.record_key_fields, "key"),
    }
