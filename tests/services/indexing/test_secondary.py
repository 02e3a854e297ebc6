"""Secondary indexes: what each operation of a table leaves in them, what readers leave out by them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from hudi_ops.commit.apply import metadata_delta
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.errors import Busy, InvalidRequest, Unsupported
from hudi_ops.metadata.index_definitions import IndexDefinition, encode_index_definitions
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.read.plan import Opened
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import POINTER_KEY, Pointer
from hudi_ops.timeline.settings.properties_file import load_config
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
        self.table.metadata.compact()


@each_definition
@pytest.mark.full("repeats what quick proves with a like case")
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
                scan = reader.scan(["id"], where=f"city = '{quoted}'", listing="metadata")
                assert {*scan.to_arrow()["id"].to_pylist()} == {
                    key for key, row in changes.rows.items() if row[2] == name
                }, (steps, name)
                asked += scan.explain().located_by == INDEX
            for value in range(5):
                found = reader.read(["id"], where=f"value = {value}", listing="metadata")["id"].to_pylist()
                assert {*found} == {key for key, row in changes.rows.items() if row[1] == value}, (steps, value)
            assert by_key(reader) == {key: row[1] for key, row in changes.rows.items()}, steps
    assert asked > 10


def test_reads_are_led_to_the_file_groups_of_a_value() -> None:
    storage = indexed()
    scan = table_of(storage, ManualClock(AFTER_MS), "reader").scan(["id"], where="city = 'Bergen'", listing="metadata")
    told = scan.explain()
    assert (told.located_by, told.files_read, told.partitions_skipped) == (INDEX, 1, 1)
    assert "1 by secondary_index_city" in str(told)
    for where in ("city is null", "city > 'A'", "city = 'Oslo' or value = 2"):
        assert (
            table_of(storage, ManualClock(AFTER_MS), "reader")
            .scan(["id"], where=where, listing="metadata")
            .explain()
            .located_by
            == ""
        )


def test_base_files_alone_are_read_without_the_index() -> None:
    """Its entries tell of merged rows: a base file may hold an older value."""
    storage = indexed(LOGGED)
    writer = table_of(storage, ManualClock(AFTER_MS, tick_ms=1), "writer")
    writer.ingest(cities(("k1", "a", 1, 9, "Bergen")))
    table = table_of(storage, ManualClock(AFTER_MS * 2), "reader")
    assert sorted(table.read(["id"], where="city = 'Bergen'")["id"].to_pylist()) == ["k1", "k2"]
    old = table.read(["id"], where="city = 'Oslo'", query="read_optimized")
    assert sorted(old["id"].to_pylist()) == ["k$4", "k1"]


def test_an_earlier_moment_is_read_without_the_index() -> None:
    storage = indexed()
    writer = table_of(storage, ManualClock(AFTER_MS, tick_ms=1), "writer")
    before = table_of(storage, ManualClock(AFTER_MS), "reader").read(["id"], where="city = 'Bergen'")
    done = writer.ingest(cities(("k2", "a", 1, 9, "Oslo")))
    assert done.instant is not None
    table = table_of(storage, ManualClock(AFTER_MS * 2), "reader")
    assert table.read(["id"], where="city = 'Bergen'").num_rows == 0
    newest = load_timeline(storage, load_config(storage)).completed_writes[-2].time
    assert table.read(["id"], where="city = 'Bergen'", as_of=newest).equals(before)


def test_a_table_that_another_program_has_written_is_read_without_the_index() -> None:
    """Apache Hudi leaves entries out at times; what it did stays in doubt for good."""
    storage = indexed()
    newest = load_timeline(storage, load_config(storage)).newest_first[0]
    path = f".hoodie/timeline/{newest.file_name}"
    metadata = CommitMetadata.from_bytes(storage.get(path), path)
    ours = {key: value for key, value in metadata.extra.items() if key != POINTER_KEY}
    storage.put(path, replace(metadata, extra=ours).to_bytes())
    where = "city = 'Bergen'"
    foreign = table_of(storage, ManualClock(AFTER_MS), "reader").scan(["id"], where=where, listing="metadata")
    assert (foreign.explain().located_by, foreign.to_arrow()["id"].to_pylist()) == ("", ["k2"])
    pointer = Pointer.decode(metadata.extra)
    assert pointer is not None
    assert pointer.shared is False
    for shared, asked in ((False, INDEX), (True, "")):
        said = {**ours, POINTER_KEY: replace(pointer, shared=shared).encode()}
        storage.put(path, replace(metadata, extra=said).to_bytes())
        told = (
            table_of(storage, ManualClock(AFTER_MS), "reader").scan(["id"], where=where, listing="metadata").explain()
        )
        assert told.located_by == asked
        # The next write hands it on.
        copied = storage.copy(ManualClock(AFTER_MS, tick_ms=1))
        table_of(copied, ManualClock(AFTER_MS, tick_ms=1), "writer").ingest(cities(("k9", "a", 1, 5, "Paris")))
        again = (
            table_of(copied, ManualClock(AFTER_MS * 2), "reader")
            .scan(["id"], where=where, listing="metadata")
            .explain()
        )
        assert again.located_by == asked


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a missing column": (("secondary_index_x=none", "record_index"), "no column none"),
    "no such name": (("secondary_index_none",), "no column none"),
    "a nested column": (("secondary_index_x=place.city",), "nested"),
    "a column of another type": (("secondary_index_x=_hoodie_is_deleted",), "type bool"),
    "an expression index": (("expr_index_x",), "Unknown metadata partition"),
    "no name": (("secondary_index_",), "Unknown metadata partition"),
}


@pytest.mark.parametrize(("names", "said"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("door", ["run", "plan", "dry run"])
def test_an_index_that_cannot_be_is_refused_and_changes_nothing(names: tuple[str, ...], said: str, door: str) -> None:
    storage = made(WHOLE, FIRST)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "indexer")
    before = {info.path: storage.get(info.path) for info in storage.list()}
    call = table.indexing.run if door == "run" else table.indexing.plan
    with pytest.raises(InvalidRequest, match=said):
        call(partitions=names, dry_run=door == "dry run")
    assert {info.path: storage.get(info.path) for info in storage.list()} == before


def test_an_index_without_a_record_index_is_refused() -> None:
    storage = made(replace(WHOLE, index="bloom"), FIRST)
    with pytest.raises(InvalidRequest, match="no record index") as refused:
        table_of(storage, ManualClock(NOW_MS, tick_ms=1), "indexer").indexing.run(partitions=(INDEX,))
    assert "run record_index secondary_index_city" in refused.value.next_step
    built = table_of(storage, ManualClock(AFTER_MS, tick_ms=1), "indexer").indexing.run(
        partitions=(INDEX, "record_index")
    )
    assert {INDEX, "record_index"} <= {*built.partitions}
    reader = table_of(storage, ManualClock(AFTER_MS * 2), "reader")
    told = reader.scan(where="city = 'Bergen'", listing="metadata").explain()
    assert (told.located_by, "the table's index is bloom" in told.record_index_unused) == ("", True)


def test_a_plan_keeps_the_column_and_a_cancel_forgets_it() -> None:
    storage = made(WHOLE, FIRST)
    clock = ManualClock(NOW_MS, tick_ms=1)
    planned = table_of(storage, clock, "planner").indexing.plan(partitions=(f"{BY_VALUE}=value",))
    assert planned.instant is not None
    assert load_index_definitions(storage)[BY_VALUE].source_fields == ("value",)
    # Another call for the same name does not change the column of a plan.
    with pytest.raises(Busy):
        table_of(storage, clock, "other").indexing.plan(partitions=(f"{BY_VALUE}=city",))
    assert load_index_definitions(storage)[BY_VALUE].source_fields == ("value",)
    table_of(storage, clock, "user").cancel(planned.instant)
    assert BY_VALUE not in load_index_definitions(storage)
    assert storage.list(f"{FOLDER}/{BY_VALUE}") == []
    table_of(storage, clock, "planner").indexing.plan(partitions=(f"{BY_VALUE}=city",))
    done = table_of(storage, clock, "executor").indexing.execute()
    assert done.partitions == (BY_VALUE,)
    assert "Oslo$k1" in entries(storage, BY_VALUE)


def test_a_drop_forgets_the_index_and_a_rebuild_keeps_its_column() -> None:
    storage = indexed(WHOLE, f"{BY_VALUE}=value")
    clock = ManualClock(AFTER_MS, tick_ms=1)
    with pytest.raises(InvalidRequest, match="others need it"):
        table_of(storage, clock, "user").indexing.drop(["record_index"])
    again = table_of(storage, clock, "user").indexing.run(partitions=("record_index",), rebuild=True)
    assert {*again.rebuilt} == {"record_index", INDEX, BY_VALUE}
    assert entries(storage, BY_VALUE) == sorted(["1$k1", "2$k2", "3$k3", "4$k\\$4"])
    table_of(storage, clock, "user").indexing.drop([BY_VALUE])
    assert BY_VALUE not in load_index_definitions(storage)
    assert INDEX in load_index_definitions(storage)
    assert faults_of(storage, ManualClock(AFTER_MS * 2)) == []


def test_a_write_beside_a_build_is_in_the_index() -> None:
    """One before the announcement, one after it, and one that deletes a row that the build had read."""
    storage = made(WHOLE, FIRST)
    clock = ManualClock(NOW_MS, tick_ms=1)
    batches = [cities(("k1", "a", 1, 5, "Paris")), cities(("n1", "b", 1, 6, "Oslo"), ("k2", "a", 1, 6, None))]

    class Writes:
        """Writes a batch at each of two operations of the build."""

        def fault_at(self, number: int, point: str) -> Fault | None:
            if batches and number in {20, 60}:
                table_of(storage, clock, "writer").ingest(batches.pop(0))
            return None

    faulty = FaultyStorage(storage, Writes())
    table_of(faulty, clock, "indexer").indexing.run(partitions=(INDEX,))
    assert batches == []
    assert entries(storage) == sorted(["Paris$k1", "\x00$k2", "\x00$k3", "Oslo$k\\$4", "Oslo$n1"])
    assert faults_of(storage, ManualClock(AFTER_MS)) == []


FOREIGN = {
    "without a definition": None,
    "of an expression": IndexDefinition(INDEX, "expr_index", "lower", ("city",), version="V1"),
    "of a missing column": IndexDefinition(INDEX, "secondary_index", "identity", ("gone",), version="V2"),
    "of a flag": IndexDefinition(INDEX, "secondary_index", "identity", ("_hoodie_is_deleted",), version="V2"),
    "of another version": IndexDefinition(INDEX, "secondary_index", "identity", ("city",), version="V1"),
}


@pytest.mark.parametrize("definition", FOREIGN.values(), ids=FOREIGN)
def test_an_index_that_is_not_kept_is_refused_by_name_and_can_be_dropped(definition: IndexDefinition | None) -> None:
    storage = indexed()
    held = {name: one for name, one in load_index_definitions(storage).items() if name != INDEX}
    held |= {INDEX: definition} if definition is not None else {}
    storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions(held))
    clock = ManualClock(AFTER_MS, tick_ms=1)
    with pytest.raises(Unsupported, match=INDEX) as refused:
        table_of(storage, clock, "writer").ingest(cities(("k1", "a", 1, 5, "Paris")))
    assert f"drop {INDEX}" in refused.value.next_step
    # Readers do without it.
    found = table_of(storage, clock, "reader").read(["id"], where="city = 'Bergen'")["id"].to_pylist()
    assert found == ["k2"]
    table_of(storage, clock, "user").indexing.drop([INDEX])
    table_of(storage, clock, "writer").ingest(cities(("k1", "a", 1, 5, "Paris")))
    assert faults_of(storage, ManualClock(AFTER_MS * 2)) == []


def test_verify_reports_rows_without_entries_and_entries_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = indexed()
    monkeypatch.setattr(metadata_delta, "entries_of_write", lambda *given: {})
    table_of(storage, ManualClock(AFTER_MS, tick_ms=1), "writer").ingest(cities(("k1", "a", 1, 5, "Paris")))
    found = {(one.severity, one.invariant) for one in faults_of(storage, ManualClock(AFTER_MS * 2))}
    assert found == {("error", "metadata-secondary-index-city"), ("warning", "metadata-secondary-index-city")}
    monkeypatch.undo()
    table_of(storage, ManualClock(AFTER_MS * 2, tick_ms=1), "user").indexing.run(partitions=(INDEX,), rebuild=True)
    assert faults_of(storage, ManualClock(AFTER_MS * 3)) == []


def test_show_and_explain_tell_of_secondary_indexes() -> None:
    storage = indexed()
    table = table_of(storage, ManualClock(AFTER_MS), "user")
    (shown,) = (one for one in table.indexing.show() if one.name == INDEX)
    assert (shown.state, shown.file_groups, shown.lag) == ("listed", 10, 0)
    (cost,) = table.indexing.costs([f"{BY_VALUE}=value"])
    assert (cost.name, cost.is_supported, cost.exists, cost.file_groups) == (BY_VALUE, True, False, 10)
