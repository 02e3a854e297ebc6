"""Secondary indexes: what each operation of a table leaves in them, what readers leave out by them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from hudi_ops.metadata.index_definitions import IndexDefinition
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.plan import Opened
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from tests.bounds import bound
from tests.protocol.metadata_table import faults_of
from tests.tables import BY_RECORD_INDEX, NOW_MS, SCHEMA, by_key, made, of_schema, table_of

CITIES = pa.schema([*SCHEMA, ("city", pa.string())])
LOGGED = replace(BY_RECORD_INDEX, schema=CITIES, table_type="MERGE_ON_READ")
WHOLE = replace(BY_RECORD_INDEX, schema=CITIES)
EACH = {"copy-on-write": WHOLE, "merge-on-read": LOGGED}
each_definition = pytest.mark.parametrize("definition", EACH.values(), ids=EACH)

AFTER_MS = NOW_MS + 3_600_000
INDEX = "secondary_index_city"
BY_VALUE = "secondary_index_by_value"
NAMES = ("Oslo", "a$b", "c\\d", "", "\x00", "ü$\\", None)
Row = tuple[str, int, str | None]
"""Partition, value and city."""


def cities(*values: tuple[str, str, int, int, str | None]) -> pa.Table:
    """Rows: key, partition, value, time and city."""
    return of_schema(CITIES, [(key, part, value, ts, None, city) for key, part, value, ts, city in values])


FIRST = cities(
    ("k1", "a", 1, 1, "Oslo"), ("k2", "a", 2, 1, "Bergen"), ("k3", "b", 3, 1, None), ("k$4", "b", 4, 1, "Oslo")
)


def indexed(definition: object = WHOLE, *names: str, batches: tuple[pa.Table, ...] = (FIRST,)) -> MemoryStorage:
    """A table with a secondary index of its cities."""
    storage = made(definition, *batches, after=10**6)
    table_of(storage, ManualClock(NOW_MS, tick_ms=1), "indexer").indexing.run(partitions=(INDEX, *names))
    return storage


def entries(storage: Storage, name: str = INDEX) -> list[str]:
    """The entries of an index, as any reader of the metadata table sees them."""
    opened = Opened.of(storage)
    metadata = open_metadata(storage, opened.config, opened.timeline)
    assert metadata is not None
    return sorted(metadata.read(name).keys.to_pylist())


@each_definition
def test_a_build_has_an_entry_of_each_row(definition: object) -> None:
    storage = indexed(definition)
    assert entries(storage) == sorted(["Oslo$k1", "Bergen$k2", "\x00$k3", "Oslo$k\\$4"])
    assert load_index_definitions(storage)[INDEX] == IndexDefinition(
        INDEX, "secondary_index", "identity", ("city",), version="V2"
    )
    assert faults_of(storage, ManualClock(AFTER_MS)) == []


class Changes:
    """Makes random changes of a table, and of the rows that it should have."""

    def __init__(self, table: Table, random: Random) -> None:
        self.table = table
        self.random = random
        self.rows: dict[str, Row] = {
            row["id"]: (row["part"], row["value"], row["city"])
            for row in table.read(["id", "part", "value", "city"]).to_pylist()
        }
        self._time = 10

    def any(self) -> str:
        step = self.random.choice((
            self.upsert,
            self.upsert,
            self.upsert,
            self.delete,
            self.overwrite,
            self.remove,
            self.serve,
        ))
        step()
        return step.__name__

    def _row(self, part: str | None = None) -> Row:
        return part or self.random.choice("ab"), self.random.randrange(5), self.random.choice(NAMES)

    def upsert(self) -> None:
        """New rows, changed rows, and rows that stay as they are."""
        self._time += 1
        known = self.random.sample(sorted(self.rows), min(len(self.rows), 3))
        new = [f"n{self._time}{mark}" for mark in ("", "$", "\\")[: self.random.randrange(4)]]
        batch = {key: self._row(self.rows[key][0]) for key in known}
        batch |= {key: self._row() for key in new}
        batch |= {key: self.rows[key] for key in known[:1]}
        if batch:
            self.table.ingest(
                cities(*((key, part, value, self._time, city) for key, (part, value, city) in batch.items()))
            )
        self.rows |= batch

    def delete(self) -> None:
        self._time += 1
        gone = self.random.sample(sorted(self.rows), min(len(self.rows), 2))
        rows = [(key, self.rows[key][0], 0, self._time, True, None) for key in gone]
        if rows:
            self.table.ingest(of_schema(CITIES, rows), operation="delete")
        for key in gone:
            del self.rows[key]

    def overwrite(self) -> None:
        """Replace one partition."""
        self._time += 1
        part = self.random.choice("ab")
        batch = {f"o{self._time}-{number}": self._row(part) for number in range(2)}
        rows = [(key, part, value, self._time, city) for key, (_, value, city) in batch.items()]
        self.table.ingest(cities(*rows), operation="insert_overwrite")
        self.rows = {key: row for key, row in self.rows.items() if row[0] != part} | batch

    def remove(self) -> None:
        """Remove one partition."""
        part = self.random.choice("ab")
        if any(row[0] == part for row in self.rows.values()):
            self.table.delete_partition([f"part={part}"])
            self.rows = {key: row for key, row in self.rows.items() if row[0] != part}

    def serve(self) -> None:
        """Services, which change no row."""
        if self.table.config.table_type == "MERGE_ON_READ":
            self.table.compaction.run()
        self.table.clustering.run(sort_by=["value"])
        self.table.compact_metadata()


@each_definition
def test_reads_by_value_give_what_a_model_has_after_any_changes(definition: object) -> None:
    asked = 0
    for seed in range(bound(2, 5, 60)):
        storage = indexed(definition, f"{BY_VALUE}=value")
        changes = Changes(table_of(storage, ManualClock(AFTER_MS, tick_ms=1), f"writer{seed}"), Random(seed))
        steps = []
        for _ in range(bound(6, 8, 20)):
            steps.append(changes.any())
            reader = table_of(storage, ManualClock(AFTER_MS), "reader")
            assert faults_of(storage, ManualClock(AFTER_MS * 2)) == [], steps
            for name in NAMES[:-1]:
                quoted = name.replace("'", "''")
                scan = reader.scan(["id"], where=f"city = '{quoted}'")
                assert {*scan.to_arrow()["id"].to_pylist()} == {
                    key for key, row in changes.rows.items() if row[2] == name
                }, (steps, name)
                asked += scan.explain().located_by == INDEX
            for value in range(5):
                found = reader.read(["id"], where=f"value = {value}")["id"].to_pylist()
                assert {*found} == {key for key, row in changes.rows.items() if row[1] == value}, (steps, value)
            assert by_key(reader) == {key: row[1] for key, row in changes.rows.items()}, steps
    assert asked > 10
