"""What a merge-on-read table must show after a sequence of writes, compactions and dead writers: base rows and a log, in dicts.

Unlike `table_model`, this model knows which rows lie in base files and which in logs, since that is what a read-optimized query
shows, and since a row that comes after a delete is folded with it before either meets the base (docs/format §11.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.table.table import Table
from hudi_ops.timeline.active import load_timeline
from hudi_ops.verify import verify_table
from tests.definitions import Definition
from tests.tables import SCHEMA

Row = dict[str, Any]
Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """A table's definition, as far as it changes what rows mean or where they lie."""

    partitions: tuple[str, ...]
    ordering: str | None
    buckets: int
    log_format: str = "parquet"
    meta_fields: bool = True

    def definition(self) -> Definition:
        """Of the table."""
        return Definition(
            "model",
            SCHEMA,
            ("id",),
            self.partitions,
            self.ordering,
            "MERGE_ON_READ",
            buckets=self.buckets,
            meta_fields=self.meta_fields,
        )


@dataclass(frozen=True)
class Step:
    """One call: `upsert`, `insert`, `delete`, `insert_overwrite`, `compact`, or `die`, an upsert whose writer ends too early."""

    operation: str
    rows: tuple[tuple[Any, ...], ...] = ()

    def dicts(self) -> list[Row]:
        """The rows by column name."""
        return [dict(zip(SCHEMA.names, row, strict=True)) for row in self.rows]

    def table(self) -> pa.Table:
        """The rows as they are delivered."""
        return pa.Table.from_pylist(self.dicts(), schema=SCHEMA)


@dataclass(frozen=True)
class Held:
    """One row of a base file, or one entry of a log: a row, a delete with an ordering value, or one without (`row` None)."""

    instant: str
    row: Row | None
    ordering: int | None = None


@dataclass(frozen=True)
class Event:
    """What one instant did: entries that went to base files or to logs, groups that got a base file anew, and what was dropped."""

    instant: str
    base: dict[Identity, Held] = field(default_factory=dict)
    log: dict[Identity, Held] = field(default_factory=dict)
    renewed: frozenset[tuple[Any, ...]] = frozenset()
    dropped: frozenset[Identity] = frozenset()


@dataclass
class MergeOnReadModel:
    """Base rows and log entries by identity; a file group is (partition, bucket)."""

    shape: Shape
    bucket_of: Callable[[Row], int]
    base: dict[Identity, Held] = field(default_factory=dict)
    log: dict[Identity, Held] = field(default_factory=dict)
    groups: set[tuple[Any, ...]] = field(default_factory=set)
    homes: dict[Identity, tuple[Any, ...]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    planned: dict[Identity, Held] | None = None
    since: dict[Identity, Held] = field(default_factory=dict)

    def identity(self, row: Row) -> Identity:
        """What tells one row from another."""
        return (*(row[name] for name in self.shape.partitions), row["id"])

    def group(self, row: Row) -> tuple[Any, ...]:
        """The file group of a row."""
        return (*(row[name] for name in self.shape.partitions), self.bucket_of(row))

    def snapshot(self) -> dict[Identity, tuple[str, Row]]:
        """What a snapshot query shows."""
        return _shown(self.base, self.log)

    def changes(self, since: str) -> dict[Identity, tuple[str, Row]]:
        """What an incremental query shows of the instants after one: their log entries, folded, and their rows of base files.

        They are merged with each other, never with rows of older base files (docs/format §9.7).
        """
        base: dict[Identity, Held] = {}
        log: dict[Identity, Held] = {}
        covered = {one.instant for one in self.events if one.instant > since}
        for event in self.events:
            if event.instant not in covered:
                continue
            for name in event.dropped | {one for one in base.keys() | log.keys() if self.homes[one] in event.renewed}:
                base.pop(name, None)
                log.pop(name, None)
            base |= {name: held for name, held in event.base.items() if held.instant in covered}
            for name, held in event.log.items():
                log[name] = _folded(log.get(name), held)
        return _shown(base, log)

    def read_optimized(self) -> dict[Identity, tuple[str, Row]]:
        """What a read-optimized query shows."""
        return {name: (held.instant, held.row) for name, held in self.base.items() if held.row is not None}

    def refuses(self, operation: str, rows: Sequence[Row]) -> bool:
        """Whether the table must refuse the batch."""
        names = [self.identity(row) for row in rows]
        return operation == "insert" and (len(set(names)) < len(names) or bool(self.snapshot().keys() & set(names)))

    def apply(self, operation: str, rows: Sequence[Row], instant: str) -> None:
        """Changes base and log as an accepted batch does."""
        dropped: frozenset[Identity] = frozenset()
        if operation == "insert_overwrite":
            gone = {self.group(row)[:-1] for row in rows}
            dropped = frozenset(name for name, home in self.homes.items() if home[:-1] in gone)
            self._drop(dropped)
            self.groups = {one for one in self.groups if one[:-1] not in gone}
        event = Event(instant, dropped=dropped)
        self.events.append(event)
        known = set(self.groups)
        for name, row in self._winners(rows, operation).items():
            home = self.group(row)
            entry = self._entry(operation, row, instant)
            self.homes[name] = home
            if home in known:
                self.log[name] = _folded(self.log.get(name), entry)
                self.since[name] = _folded(self.since.get(name), entry)
                event.log[name] = entry
            elif entry.row is not None:
                self.base[name] = event.base[name] = entry
                self.groups.add(home)

    def plan(self) -> None:
        """A compaction of what the logs hold now is planned, and not executed yet."""
        self.planned, self.since = dict(self.log), {}

    def compact(self, instant: str) -> None:
        """Every group with a log, or with one when it was planned, gets a base file that holds what the two showed by then."""
        planned = self.log if self.planned is None else self.planned
        since = {} if self.planned is None else self.since
        touched = {self.homes[name] for name in planned}
        names = [name for name in self.base.keys() | planned.keys() if self.homes[name] in touched]
        merged = {name: _merged(self.base.get(name), planned.get(name)) for name in names}
        kept = {name: held for name, held in merged.items() if held is not None and held.row is not None}
        later = {name: held for name, held in since.items() if self.homes[name] in touched}
        self._drop(frozenset(names) | later.keys())
        self.base |= kept
        self.log |= later
        self.planned, self.since = None, {}
        self.events.append(Event(instant, base=kept, renewed=frozenset(touched)))

    def _drop(self, names: frozenset[Identity]) -> None:
        for name in names:
            for held in (self.base, self.log, self.since, self.planned or {}):
                held.pop(name, None)

    def _entry(self, operation: str, row: Row, instant: str) -> Held:
        value = row["ts"] if self.shape.ordering else None
        if operation == "delete":
            return Held(instant, None)
        return Held(instant, None if row["_hoodie_is_deleted"] else row, value)

    def _winners(self, rows: Sequence[Row], operation: str) -> dict[Identity, Row]:
        winners: dict[Identity, Row] = {}
        for row in rows:
            name = self.identity(row)
            held = winners.get(name)
            if held is None or operation == "delete" or not self.shape.ordering or row["ts"] >= held["ts"]:
                winners[name] = row
        return winners


def _folded(old: Held | None, new: Held) -> Held:
    """Fold two entries of one key in a log (docs/format §11.3).

    An unconditional delete gives way to any row that follows, but to no other delete: rows that delete are in delete blocks, too.
    """
    if old is not None and old.row is None and old.ordering is None and new.row is None:
        return old
    if old is None or old.ordering is None or new.ordering is None:
        return new
    return new if new.ordering >= old.ordering else old


def _merged(base: Held | None, entry: Held | None) -> Held | None:
    """What is left of a base row and of what its key's log came to."""
    if entry is None or base is None:
        return entry or base
    is_late = entry.ordering is not None and base.ordering is not None and entry.ordering < base.ordering
    return base if is_late else entry


def _shown(base: dict[Identity, Held], log: dict[Identity, Held]) -> dict[Identity, tuple[str, Row]]:
    shown = {}
    for name in base.keys() | log.keys():
        held = _merged(base.get(name), log.get(name))
        if held is not None and held.row is not None:
            shown[name] = (held.instant, held.row)
    return shown


def _stored(row: Row) -> Row:
    """Without the meta columns."""
    return {name: row[name] for name in SCHEMA.names}


def observed(table: Table, model: MergeOnReadModel, **query: Any) -> dict[Identity, tuple[str, Row]]:
    """The rows that the table shows, in the model's form; an identity that shows twice is an error."""
    return _by_identity(table.read(**query, meta_columns=True), model)


def _by_identity(found: pa.Table, model: MergeOnReadModel) -> dict[Identity, tuple[str, Row]]:
    rows = found.to_pylist()
    shown = {model.identity(row): (row.get("_hoodie_commit_time", ""), _stored(row)) for row in rows}
    assert len(shown) == len(rows), "an identity shows twice"
    return shown


def play(table: Table, shape: Shape, steps: Sequence[Step], engine: str, die: Callable[[pa.Table], None]) -> list[str]:
    """Runs the steps on the table and on the model, and compares snapshot and read-optimized rows after each.

    At the end also: the table as of every instant, and all changes since the beginning.

    Args:
        table: an empty one.
        shape: how it was made.
        steps: what is done.
        engine: runs ingestion and compaction.
        die: begins an upsert into the table, and ends before it completes; the next writer clears it away.

    Returns:
        Instants of the steps that completed.
    """
    facts = table._session.loader.load().log.properties.facts
    tagger = Tagger.of(table.config, facts)

    def bucket_of(row: Row) -> int:
        ((_, bucket, _),) = tagger.split(pa.Table.from_pylist([row], schema=SCHEMA))
        return int(bucket)

    model = MergeOnReadModel(shape, bucket_of)
    history: dict[str, dict[Identity, tuple[str, Row]]] = {}

    def plain(rows: dict[Identity, tuple[str, Row]]) -> dict[Identity, tuple[str, Row]]:
        return rows if shape.meta_fields else {name: ("", row) for name, (_, row) in rows.items()}

    for step in steps:
        instant = _one(table, model, step, engine, die)
        if instant is not None:
            history[instant] = plain(model.snapshot())
        assert observed(table, model) == plain(model.snapshot()), f"after {step}"
        assert observed(table, model, query="read_optimized") == plain(model.read_optimized()), f"after {step}"
    for instant, rows in history.items():
        assert observed(table, model, as_of=instant) == rows, f"as of {instant}"
    if shape.meta_fields:
        completed = {one.time: one.completion_time for one in load_timeline(table.context.storage, table.config)}
        for instant in history:
            found = table.changes(completed[instant], meta_columns=True).to_arrow()
            assert _by_identity(found, model) == model.changes(instant), f"changes since {instant}"
    table.recover()
    findings = verify_table(table.context.storage, deep=True, clock=table.context.clock).findings
    assert [one for one in findings if one.severity != "info"] == []
    return list(history)


def _one(table: Table, model: MergeOnReadModel, step: Step, engine: str, die: Callable[[pa.Table], None]) -> str | None:
    rows = step.dicts()
    if step.operation == "die":
        die(step.table())
        return None
    if step.operation == "compact":
        result = table.compaction.run(engine=engine)
        if result.instant is None:
            # Deletes of keys that a base file's filter rules out are not written.
            assert all(held.row is None and name not in model.base for name, held in model.log.items())
        else:
            model.compact(result.instant)
        return result.instant
    if model.refuses(step.operation, rows):
        try:
            table.ingest(step.table(), step.operation, engine=engine)
        except InvalidRequest:
            return None
        raise AssertionError(f"not refused: {step}")
    ingested = table.ingest(step.table(), step.operation, engine=engine)
    if ingested.instant is not None:
        model.apply(step.operation, rows, ingested.instant)
    return ingested.instant


SHAPES = st.builds(
    Shape,
    partitions=st.sampled_from([(), ("part",)]),
    ordering=st.sampled_from([None, "ts", "ts"]),
    buckets=st.integers(1, 2),
    log_format=st.sampled_from(["parquet", "avro"]),
    meta_fields=st.sampled_from([True, True, False]),
)

_ROWS = st.tuples(
    st.sampled_from(["a", "b", "é,:"]),
    st.sampled_from(["x", "x", None]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 4),
    st.sampled_from([None, False, False, True]),
)
_BATCHES = st.lists(_ROWS, min_size=1, max_size=8).map(tuple)
STEPS = st.lists(
    st.builds(
        Step,
        operation=st.sampled_from([
            "upsert",
            "upsert",
            "upsert",
            "upsert",
            "delete",
            "delete",
            "insert",
            "die",
            "insert_overwrite",
        ]),
        rows=_BATCHES,
    )
    | st.just(Step("compact")),
    min_size=1,
    max_size=10,
)
