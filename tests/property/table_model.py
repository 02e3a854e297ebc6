"""What a table must hold after a sequence of ingests: a dict of rows, one Python statement a rule, and sequences to try it with.

The model knows nothing of files, buckets or Arrow. A row's identity is its partition and its key: the same key in another
partition is another row, since rows do not move between partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hudi_ops.config.table import IndexKind
from hudi_ops.config.write_settings import FileSizes
from hudi_ops.context import TableContext
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.write.ingest import IngestResult
from hudi_ops.services.write.remove import RemovalResult
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.verify import verify_table
from tests.definitions import Definition, create_table
from tests.tables import START_MS

Row = dict[str, Any]
Identity = tuple[Any, ...]

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("n", pa.int32()),
    ("part", pa.string()),
    ("month", pa.int32()),
    ("value", pa.int64()),
    ("ts", pa.int64()),
    ("_hoodie_is_deleted", pa.bool_()),
])


@dataclass(frozen=True)
class Shape:
    """A table's definition, as far as it changes what rows mean or where they lie."""

    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: str | None
    buckets: int
    index: IndexKind = "simple_bucket"
    file_sizes: FileSizes = field(default_factory=FileSizes)

    def create(self, table: Table) -> None:
        """Makes the table."""
        definition = Definition("model", SCHEMA, self.keys, self.partitions, self.ordering, buckets=self.buckets)
        create_table(table._session, replace(definition, index=self.index))
        table._session.file_sizes = self.file_sizes


@dataclass(frozen=True)
class Step:
    """One ingest; `keys_only` leaves out every column that a delete does not need."""

    operation: str
    rows: tuple[tuple[Any, ...], ...]
    keys_only: bool = False

    def dicts(self) -> list[Row]:
        """The rows by column name."""
        return [dict(zip(SCHEMA.names, row, strict=True)) for row in self.rows]

    def table(self, shape: Shape) -> pa.Table:
        """The rows as they are delivered."""
        rows = pa.Table.from_pylist(self.dicts(), schema=SCHEMA)
        if self.operation == "delete" and self.keys_only:
            return rows.select(list(dict.fromkeys(shape.keys + shape.partitions)))
        return rows


REMOVING = frozenset({"delete_partition", "truncate"})


@dataclass
class TableModel:
    """Rows by identity, each with the instant that wrote it last; and the partitions with a file group, perhaps without rows."""

    shape: Shape
    rows: dict[Identity, tuple[str, Row]] = field(default_factory=dict)
    partitions: set[tuple[Any, ...]] = field(default_factory=set)

    def identity(self, row: Row) -> Identity:
        """What tells one row from another."""
        return tuple(row[name] for name in self.shape.partitions + self.shape.keys)

    def place(self, row: Row) -> tuple[Any, ...]:
        """The partition of a row."""
        return tuple(row[name] for name in self.shape.partitions)

    def path(self, row: Row) -> str:
        """The folder of a row."""
        texts = {
            name: "__HIVE_DEFAULT_PARTITION__" if row[name] is None else str(row[name])
            for name in self.shape.partitions
        }
        return "/".join(f"{name}={text.replace('/', '%2F')}" for name, text in texts.items())

    def refuses(self, operation: str, rows: Sequence[Row]) -> bool:
        """Whether the table must refuse the batch."""
        if operation == "truncate":
            return False
        if operation == "delete_partition":
            return not rows or not self.shape.partitions or any(self.place(row) not in self.partitions for row in rows)
        if operation == "insert_overwrite_table" and not rows:
            return True
        if operation != "delete" and self.shape.ordering and any(row[self.shape.ordering] is None for row in rows):
            return True
        names = [self.identity(row) for row in rows]
        return operation == "insert" and (len(set(names)) < len(names) or any(name in self.rows for name in names))

    def apply(self, operation: str, rows: Sequence[Row], instant: str) -> dict[str, int]:
        """Changes the rows as an accepted batch does; returns what the ingest must count."""
        counts = dict.fromkeys(("inserted", "updated", "deleted", "ignored"), 0)
        if operation in {"truncate", "insert_overwrite_table"}:
            self._drop(set(self.partitions))
        elif operation in {"delete_partition", "insert_overwrite"}:
            self._drop({self.place(row) for row in rows})
        if operation in REMOVING:
            return counts
        for name, row in self._winners(rows, operation).items():
            known = self.rows.get(name)
            is_delete = operation == "delete" or row["_hoodie_is_deleted"] is True
            if operation != "delete" and known is not None and self._is_newer(known[1], row):
                counts["ignored"] += 1
            elif is_delete:
                counts["deleted"] += known is not None
                self.rows.pop(name, None)
            else:
                counts["inserted" if known is None else "updated"] += 1
                self.rows[name] = (instant, row)
                self.partitions.add(self.place(row))
        return counts

    def _drop(self, places: set[tuple[Any, ...]]) -> None:
        self.partitions -= places
        self.rows = {name: held for name, held in self.rows.items() if self.place(held[1]) not in places}

    def only_new(self, step: Step) -> Step:
        """The step with rows that a bulk insert may bring without doubling any: new ones, each once."""
        kept = {self.identity(row): values for row, values in zip(step.dicts(), step.rows, strict=True)}
        return Step(step.operation, tuple(values for name, values in kept.items() if name not in self.rows))

    def snapshot(self) -> dict[Identity, tuple[str, Row]]:
        """The rows as they are now."""
        return dict(self.rows)

    def _winners(self, rows: Sequence[Row], operation: str) -> dict[Identity, Row]:
        winners: dict[Identity, Row] = {}
        for row in rows:
            name = self.identity(row)
            if name not in winners or operation == "delete" or not self._is_newer(winners[name], row):
                winners[name] = row
        return winners

    def _is_newer(self, one: Row, other: Row) -> bool:
        """Whether `one` beats a row that was delivered after it."""
        ordering = self.shape.ordering
        return ordering is not None and bool(one[ordering] > other[ordering])


def observed(table: Table, model: TableModel, as_of: str | None = None) -> dict[Identity, tuple[str, Row]]:
    """The rows that the table shows, in the model's form; an identity that shows twice is an error."""
    rows = table.read(as_of=as_of, meta_columns=True).to_pylist()
    shown = {
        model.identity(row): (row["_hoodie_commit_time"], {name: row[name] for name in SCHEMA.names}) for row in rows
    }
    assert len(shown) == len(rows), "an identity shows twice"
    return shown


def play(table: Table, shape: Shape, steps: Sequence[Step], engine: str = "local") -> list[IngestResult | None]:
    """Runs the steps on the table and beside it on the model, and compares them after each, and at the end as of every instant.

    Returns:
        The results; None for a batch that was refused, as the model says it must be.
    """
    model = TableModel(shape)
    history: dict[str, dict[Identity, tuple[str, Row]]] = {}
    results: list[IngestResult | None] = []
    for step in steps:
        if step.operation == "bulk_insert":
            step = model.only_new(step)
        before = files_of(table)
        if step.operation in REMOVING:
            instant = play_removal(table, model, step)
            if instant is not None:
                history[instant] = model.snapshot()
            continue
        if model.refuses(step.operation, step.dicts()):
            try:
                table.ingest(step.table(shape), step.operation, engine=engine)
            except InvalidRequest:
                assert files_of(table) == before, "a refused batch changed the table"
                results.append(None)
                continue
            raise AssertionError(f"not refused: {step}")
        result = table.ingest(step.table(shape), step.operation, engine=engine)
        results.append(result)
        counted = {name: getattr(result, name) for name in ("inserted", "updated", "deleted", "ignored")}
        assert counted == model.apply(step.operation, step.dicts(), result.instant or ""), f"counts of {step}"
        if result.instant is None:
            assert not step.rows
            assert files_of(table) == before, "a batch without rows changed the table"
            continue
        assert result.rows_in == len(step.rows)
        assert (result.file_groups > 0) == (result.inserted + result.updated + result.deleted > 0)
        assert (result.replaced > 0) <= (step.operation in {"insert_overwrite", "insert_overwrite_table"})
        history[result.instant] = model.snapshot()
        assert observed(table, model) == model.rows
    assert list(history) == sorted(history), "instants must rise"
    for instant, rows in history.items():
        assert observed(table, model, as_of=instant) == rows, f"as of {instant}"
    assert verify_table(table.context.storage, deep=True, clock=table.context.clock).findings == ()
    return results


def play_removal(table: Table, model: TableModel, step: Step) -> str | None:
    """Removes partitions of the step's rows, or all; returns the instant, None when nothing was to be removed."""
    paths = [model.path(row) for row in step.dicts()]
    before, held = files_of(table), len(model.rows)
    if model.refuses(step.operation, step.dicts()):
        try:
            table.delete_partition(paths)
        except InvalidRequest:
            assert files_of(table) == before, "a refused removal changed the table"
            return None
        raise AssertionError(f"not refused: {step}")
    is_empty = not model.partitions

    def call(dry_run: bool) -> RemovalResult:
        return (
            table.truncate(dry_run=dry_run)
            if step.operation == "truncate"
            else table.delete_partition(paths, dry_run=dry_run)
        )

    planned = call(True)
    assert files_of(table) == before, "a dry run changed the table"
    result = call(False)
    assert planned.partitions == result.partitions
    model.apply(step.operation, step.dicts(), result.instant or "")
    assert (result.rows, result.instant is None) == (held - len(model.rows), is_empty)
    assert observed(table, model) == model.rows
    return result.instant


def files_of(table: Table) -> dict[str, bytes]:
    """Every file of the table, byte for byte."""
    storage = table.context.storage
    return {info.path: storage.get(info.path) for info in storage.list()}


SHAPES = st.builds(
    Shape,
    keys=st.sampled_from([("id",), ("id", "n")]),
    partitions=st.sampled_from([(), ("part",), ("part", "month")]),
    ordering=st.sampled_from([None, "ts"]),
    buckets=st.integers(1, 3),
)
SMALL_FILES = FileSizes(target_bytes=100)
"""New groups take a row or two, and none takes any later: a base file is larger than that, however few rows it has."""

LOCATED_SHAPES = st.builds(
    replace,
    SHAPES,
    index=st.sampled_from(["bloom", "simple"]),
    file_sizes=st.sampled_from([FileSizes(), FileSizes(small_bytes=0), SMALL_FILES]),
)

# Few keys, so that they meet again; a null partition value, and one that a path must escape.
_ROWS = st.tuples(
    st.sampled_from(["a", "b", "c:1", "é", ","]),
    st.integers(0, 1),
    st.sampled_from(["x", "y/z", None]),
    st.integers(1, 2),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 4),
    st.sampled_from([None, False, False, True]),
)
_LATE_NULLS = st.tuples(_ROWS, st.just(None)).map(lambda pair: (*pair[0][:5], pair[1], pair[0][6]))

OTHERS = ("bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete_partition", "truncate")
BATCHES = st.lists(_ROWS, max_size=10) | st.lists(st.one_of(_ROWS, _ROWS, _ROWS, _LATE_NULLS), max_size=4)
STEPS = st.lists(
    st.builds(
        Step,
        operation=st.sampled_from(["upsert", "upsert", "upsert", "insert", "delete", *OTHERS]),
        rows=BATCHES.map(tuple),
        keys_only=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def new_table(folder: Path, engine: Engine) -> Table:
    """A table on disk, since executors are other processes; ids and clock are those of every other such table."""
    clock = ManualClock(START_MS, tick_ms=1)
    simulated = simulated_context(open_storage(str(folder)), clock, "writer")
    context = TableContext(
        simulated.storage, simulated.locks, clock, engine, simulated.ids, simulated.owner, simulated.beats
    )
    return Table(context)
