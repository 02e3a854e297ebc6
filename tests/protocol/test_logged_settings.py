"""`hoodie.properties` that contradicts the commit log: no wrong row is read or written, and a slot records a person's choice."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops.config.key_generators import TimePartition
from hudi_ops.config.logged_settings import SettingsSource
from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.formats import properties
from hudi_ops.formats.properties import table_checksum
from hudi_ops.services.recovery.properties import PropertiesRepair
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY, read_properties
from hudi_ops.verify import verify_table
from tests.definitions import create_table
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import FIRST, NEW, OLD, SECOND, make_base, visible
from tests.protocol.foreign_table import PROPERTIES, make_foreign, opened, set_properties
from tests.protocol.sweep import fault_sweep
from tests.tables import DEFINITION, START_MS, table_of

CLOCK = ManualClock(START_MS + 60_000)
BACKUP = f"{PROPERTIES}.backup"
HIVE = "hoodie.datasource.write.hive_style_partitioning"
ORDERING = "hoodie.table.ordering.fields"
TYPE = "hoodie.table.type"
DAMAGED = [
    (HIVE, "false"),
    (HIVE, None),
    ("hoodie.datasource.write.partitionpath.urlencode", "false"),
    ("hoodie.datasource.write.drop.partition.columns", "true"),
    ("hoodie.table.recordkey.fields", "value"),
    ("hoodie.table.recordkey.fields", None),
    ("hoodie.table.partition.fields", "prat"),
    ("hoodie.table.partition.fields", None),
    ("hoodie.table.keygenerator.type", "TIMESTAMP"),
    (ORDERING, "tz"),
    (ORDERING, None),
    ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
    ("hoodie.record.merge.mode", "EVENT_TIME"),
    ("hoodie.populate.meta.fields", "false"),
    ("hoodie.table.base.file.format", "ORC"),
    ("hoodie.table.base.file.format", "HFILE"),
    ("hoodie.timeline.path", "timelin"),
]
"""Keys of which every value but the logged one makes wrong rows; None: the line is gone."""


def damage(storage: Storage, key: str, value: str | None) -> None:
    """Change one line of the file past the log."""
    values = {one: held for one, held in read_properties(storage).items() if one != key}
    storage.put(PROPERTIES, properties.dumps({**values, **({key: value} if value else {})}, comment="Edited", now_ms=0))


def write(storage: Storage) -> None:
    """The second batch, by a writer that opens the table."""
    opened(storage, CLOCK, "writer").ingest(SECOND)


def repair(
    storage: Storage, source: SettingsSource, *, dry_run: bool = False, clock: ManualClock = CLOCK
) -> PropertiesRepair:
    """By a process that opens the table."""
    return opened(storage, clock, "person").repair_properties(source, dry_run=dry_run)


def refuse_everything(storage: MemoryStorage, key: str, logged: str, found: str) -> None:
    """Reads, changes and writes end with both values and the command, and leave the table as it is."""
    before = {info.path: storage.get(info.path) for info in storage.list()}
    for call in (
        lambda: visible(storage, CLOCK),
        lambda: opened(storage, CLOCK, "reader").changes().to_arrow(),
        lambda: write(storage),
        lambda: opened(storage, CLOCK, "reader").read(as_of="2031-01-01"),
        lambda: opened(storage, CLOCK, "recoverer").recover(),
        lambda: opened(storage, CLOCK, "adopter").adopt(),
        lambda: opened(storage, CLOCK, "remover").truncate(),
        lambda: opened(storage, CLOCK, "builder").indexing.run(),
    ):
        with pytest.raises(Corrupt, match=key) as caught:
            call()
        assert logged in caught.value.expected
        assert found in caught.value.found
        assert "hudi-ops repair-properties" in caught.value.next_step
    assert {info.path: storage.get(info.path) for info in storage.list()} == before


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    return make_base(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def adopted(made: MemoryStorage) -> MemoryStorage:
    found = make_foreign(made)
    opened(found, CLOCK, "adopter").adopt()
    return found


@pytest.fixture(params=["made", "adopted"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    found: MemoryStorage = request.getfixturevalue(request.param)
    return found.copy()


@pytest.mark.parametrize(("key", "value"), DAMAGED)
def test_a_damaged_value_is_refused_by_readers_and_writers_until_it_is_repaired_from_the_log(
    storage: MemoryStorage, key: str, value: str | None
) -> None:
    said = read_properties(storage)[key]
    damage(storage, key, value)
    refuse_everything(storage, key, said, value or "")
    assert "properties-fold" in {
        one.invariant for one in verify_table(storage, clock=CLOCK).findings if key in one.what
    }
    done = repair(storage, "log")
    assert [(one.key, one.logged, one.found) for one in done.differences] == [(key, said, value or "")]
    assert read_properties(storage)[key] == said
    assert visible(storage, CLOCK) == OLD
    write(storage)
    assert visible(storage, CLOCK) == NEW
    assert verify_table(storage, deep=True, clock=CLOCK).findings == ()


def test_a_changed_table_type_stops_writers_and_not_readers(storage: MemoryStorage) -> None:
    damage(storage, TYPE, "MERGE_ON_READ")
    assert visible(storage, CLOCK) == OLD
    with pytest.raises(Corrupt, match=TYPE) as caught:
        write(storage)
    assert "COPY_ON_WRITE" in caught.value.expected
    assert "--accept-file" in caught.value.next_step
    repair(storage, "file")
    write(storage)
    assert read_properties(storage)[TYPE] == "MERGE_ON_READ"
    assert visible(storage, CLOCK) == NEW


def test_a_table_type_that_is_none_names_the_repair(storage: MemoryStorage) -> None:
    damage(storage, TYPE, "MERGE_ON_WRITE")
    refuse_everything(storage, TYPE, "COPY_ON_WRITE", "MERGE_ON_WRITE")
    repair(storage, "log")
    assert visible(storage, CLOCK) == OLD


def test_names_and_versions_follow_the_file(storage: MemoryStorage) -> None:
    """Apache Hudi renames tables and upgrades them; version 8 has another name for the ordering fields."""
    values = read_properties(storage)
    values |= {
        "hoodie.table.name": "renamed",
        "hoodie.table.checksum": table_checksum("renamed", values.get("hoodie.database.name", "")),
        "hoodie.table.version": "8",
        "hoodie.table.precombine.field": values.pop(ORDERING),
    }
    storage.put(PROPERTIES, properties.dumps(values, comment="Edited", now_ms=0))
    write(storage)
    assert visible(storage, CLOCK) == NEW
    assert table_of(storage, CLOCK, "reader").config.name == "renamed"


def test_a_renamed_table_is_whole(storage: MemoryStorage) -> None:
    name = {"hoodie.table.name": "renamed", "hoodie.table.checksum": table_checksum("renamed")}
    set_properties(storage, name)
    write(storage)
    assert verify_table(storage, deep=True, clock=CLOCK).findings == ()


def test_ordering_fields_are_repaired_under_the_name_of_the_file_s_version(storage: MemoryStorage) -> None:
    values = read_properties(storage)
    values |= {"hoodie.table.version": "8", "hoodie.table.precombine.field": "value"}
    del values[ORDERING]
    storage.put(PROPERTIES, properties.dumps(values, comment="Edited", now_ms=0))
    repair(storage, "log")
    found = read_properties(storage)
    assert (found["hoodie.table.precombine.field"], found.get(ORDERING)) == ("ts", None)
    write(storage)
    assert visible(storage, CLOCK) == NEW


def test_what_a_person_accepts_is_what_the_file_is_held_against_from_then_on(storage: MemoryStorage) -> None:
    damage(storage, ORDERING, "value")
    assert repair(storage, "file", dry_run=True).slot is None
    refuse_everything(storage, ORDERING, "ts", "value")
    done = repair(storage, "file")
    assert done.slot is not None
    entry = read_slot(storage, done.slot)
    assert isinstance(entry, Properties)
    assert (entry.set, entry.settings[ORDERING]) == ({}, "value")
    assert visible(storage, CLOCK) == OLD
    # The file as it was before is what contradicts the log now, whether or not it still has its number.
    damage(storage, ORDERING, "ts")
    refuse_everything(storage, ORDERING, "value", "ts")
    damage(storage, FOLDED_KEY, None)
    with pytest.raises(Corrupt, match=ORDERING):
        write(storage)


def test_a_number_in_the_file_that_no_slot_has_misleads_nobody(storage: MemoryStorage) -> None:
    damage(storage, FOLDED_KEY, "977")
    assert visible(storage, CLOCK) == OLD
    damage(storage, HIVE, "false")
    refuse_everything(storage, HIVE, "true", "false")
    repair(storage, "log")
    assert read_properties(storage)[HIVE] == "true"
    assert visible(storage, CLOCK) == OLD


def test_fields_that_are_no_columns_are_not_accepted(storage: MemoryStorage) -> None:
    damage(storage, "hoodie.table.partition.fields", "prat")
    before = storage.get(PROPERTIES)
    with pytest.raises(InvalidRequest, match="prat"):
        repair(storage, "file")
    assert storage.get(PROPERTIES) == before


def test_a_repair_that_nobody_needs_changes_nothing(storage: MemoryStorage) -> None:
    before = {info.path: storage.get(info.path) for info in storage.list()}
    for source in ("log", "file"):
        done = repair(storage, source)  # type: ignore[arg-type]
        assert (done.slot, done.differences) == (None, ())
    assert {info.path: storage.get(info.path) for info in storage.list()} == before


class _Rewritten(MemoryStorage):
    """Apache Hudi rewrites the file while it is read: so many times its beginning is all that is there."""

    def begin(self, lines: int, times: int) -> None:
        self.whole, self.left = self.get(PROPERTIES), times
        self.part = b"\n".join(self.whole.splitlines()[:lines]) + b"\n"

    def get(self, path: str) -> bytes:
        if path == PROPERTIES and getattr(self, "left", 0) > 0:
            self.left -= 1
            return self.part
        return super().get(path)


@pytest.mark.parametrize("with_backup", [True, False])
def test_a_file_that_is_just_being_rewritten_is_read_again(made: MemoryStorage, *, with_backup: bool) -> None:
    for lines in range(3, 25):
        storage = _Rewritten("rewritten", CLOCK)
        for info in made.list():
            storage.put(info.path, made.get(info.path))
        if with_backup:
            storage.put(BACKUP, made.get(PROPERTIES))
        storage.begin(lines, 1)
        assert visible(storage, CLOCK) == OLD
        storage.begin(lines, 1)
        opened(storage, CLOCK, "recoverer").recover()


def test_a_file_that_was_cut_short_while_it_was_rewritten_is_read_from_its_backup(made: MemoryStorage) -> None:
    whole = made.get(PROPERTIES)
    for lines in range(3, len(whole.splitlines())):
        storage = made.copy()
        storage.put(BACKUP, whole)
        storage.put(PROPERTIES, b"\n".join(whole.splitlines()[:lines]) + b"\n")
        assert visible(storage, CLOCK) == OLD


def test_a_decided_repair_that_was_not_applied_is_folded_by_the_next_writer(storage: MemoryStorage) -> None:
    damage(storage, FOLDED_KEY, "0")
    damage(storage, HIVE, "false")
    damaged = storage.get(PROPERTIES)
    repair(storage, "log")
    storage.put(PROPERTIES, damaged)  # as an applier that slept puts it back
    assert visible(storage, CLOCK) == OLD
    write(storage)
    assert visible(storage, CLOCK) == NEW
    assert read_properties(storage)[HIVE] == "true"


def test_a_table_that_was_made_anew_is_read_by_a_session_that_knew_the_old_one(made: MemoryStorage) -> None:
    storage = made.copy()
    table = opened(storage, CLOCK, "reader")
    assert table.read().num_rows == len(OLD)
    for info in storage.list():
        storage.delete(info.path)
    create_table(opened(storage, CLOCK, "creator")._session, replace(DEFINITION, hive_style=False))
    opened(storage, CLOCK, "creator").ingest(FIRST)
    assert table.read().num_rows == len(OLD)


def test_options_of_the_time_based_generator_are_compared(tmp_path: Path) -> None:
    storage = MemoryStorage("timed", CLOCK)
    table = opened(storage, CLOCK, "creator")
    time = TimePartition(input="EPOCHMILLISECONDS", output="yyyy-MM-dd")
    create_table(table._session, replace(DEFINITION, partition_by=("ts",), key_generator="timestamp", time=time))
    opened(storage, CLOCK, "creator").ingest(FIRST)
    damage(storage, "hoodie.keygen.timebased.output.dateformat", "yyyyMMdd")
    refuse_everything(storage, "hoodie.keygen.timebased.output.dateformat", "yyyy-MM-dd", "yyyyMMdd")


def test_a_session_reads_one_slot_more_and_reads_it_once(storage: MemoryStorage) -> None:
    counted = FaultyStorage(storage)
    table = opened(counted, CLOCK, "reader")
    table.read()
    of_log = [call for call in counted.history if "/.commit_log/" in call]
    assert len(of_log) == 1
    table.read()
    assert [call for call in counted.history if "/.commit_log/" in call] == of_log


def test_metadata_partitions_follow_the_file(storage: MemoryStorage) -> None:
    set_properties(storage, {"hoodie.table.metadata.partitions": "", "hoodie.table.metadata.partitions.inflight": ""})
    write(storage)
    assert visible(storage, CLOCK) == NEW


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ERROR_AFTER])
@pytest.mark.parametrize("source", ["log", "file"])
def test_a_repair_that_dies_anywhere_leaves_a_table_that_is_refused_or_right(
    storage: MemoryStorage, source: SettingsSource, fault: Fault
) -> None:
    damage(storage, ORDERING, "value")
    base, what = storage, f"a repair from the {source}"
    for left in fault_sweep(base, lambda storage, clock: repair(storage, source, clock=clock), fault, what, points=1):
        with contextlib.suppress(Corrupt):
            assert visible(left.storage, left.clock) == OLD, left.story
        opened(left.storage, left.clock, "second").repair_properties(source)
        assert visible(left.storage, left.clock) == OLD, left.story
        assert read_properties(left.storage)[ORDERING] == ("ts" if source == "log" else "value"), left.story


def test_of_two_repairs_the_first_one_decides(storage: MemoryStorage) -> None:
    damage(storage, ORDERING, "value")
    slots: list[int | None] = []
    plan = MoveBefore("put_if_absent:.hoodie/.commit_log", lambda: slots.append(repair(storage, "log").slot))
    done = opened(FaultyStorage(storage, plan), CLOCK, "other").repair_properties("file")
    assert plan.moved
    assert (len(slots), done.slot) == (1, None)
    assert read_properties(storage)[ORDERING] == "ts"
    assert visible(storage, CLOCK) == OLD
