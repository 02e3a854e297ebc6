"""Dropping the metadata table or partitions of it: readers do without them first, and only then their folders go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.errors import Busy, InvalidRequest
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.fault_plans import DiesBefore
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import DEFINITION, NOW_MS

EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")


@pytest.fixture(scope="module")
def base():
    storage = make_table(DEFINITION)
    table_of(storage, ManualClock(NOW_MS - 1_000), "builder").indexing.run(partitions=EVERY)
    return storage


def errors_of(storage, clock):
    """Of the table. Its metadata table may still lie there in parts, where nobody looks."""
    found = verify_table(storage, deep=True, index=True, clock=clock).findings
    # A decision that was not applied yet is applied by the next write.
    return [one for one in found if one.severity == "error" and one.invariant != "properties-fold"]


def drop(storage, clock, actor: str, names=None, **how):
    return drop_metadata(table_of(storage, clock, actor)._session, names, **how)


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("names", [None, ("record_index", "bloom_filters")], ids=["all", "some"])
def test_crash_at_every_change(base, names, fault: Fault) -> None:
    left = tuple(name for name in EVERY if names and name not in names)
    for wreck in fault_sweep(
        base,
        lambda storage, clock: drop(storage, clock, "first", names),
        fault,
        "dropping a metadata table",
        points=10,
        step=1 if SOAK else 4,
        only_changes=True,
    ):
        storage, clock, story = wreck.storage, wreck.clock, wreck.story
        rows = read_rows(storage, clock)
        table = table_of(storage, clock, "writer")
        table.ingest(LATER)
        assert errors_of(storage, clock) == [], story
        # What readers still used at the end of the first call is dropped by the second, and leftovers with it.
        lying = [name for name in names or () if storage.list(f"{FOLDER}/{name}")]
        drop(storage, clock, "second", lying if names else None)
        assert load_config(storage).all_metadata_partitions == left, story
        held = {info.path.split("/")[2] for info in storage.list(FOLDER)} - {".hoodie"}
        assert held == set(left), story
        assert read_rows(storage, clock) == {**rows, "k6": 66, "n4": 4}, story
        table.ingest(LATER)
        assert errors_of(storage, clock) == [], story


@pytest.mark.parametrize("names", [None, ("record_index", "bloom_filters")], ids=["all", "some"])
def test_what_a_killed_drop_left_is_shown_and_a_recovery_deletes_it(base, names) -> None:
    storage, clock = base.copy(), ManualClock(NOW_MS)
    with pytest.raises(Crash):
        drop(FaultyStorage(storage, DiesBefore(f"delete:{FOLDER}")), clock, "killed", names)
    table = table_of(storage, clock, "user")
    gone = sorted(names or EVERY)
    assert [one.name for one in table.indexing.show() if one.state == "partly dropped"] == gone
    assert table.recover().metadata_files > 0
    held = {info.path.split("/")[2] for info in storage.list(FOLDER)} - {".hoodie"}
    assert held == (set(EVERY) - set(gone) if names else set())
    assert (table.recover().metadata_files, verify_table(storage, clock=clock).findings) == (0, ())


def test_a_dropped_partition_can_be_built_again(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    table = table_of(storage, clock, "first")
    done = table.indexing.drop(["record_index"])
    assert (done.dropped, done.left) == (("record_index",), EVERY[:4])
    table.ingest(LATER)
    assert table.indexing.run(partitions=["record_index"]).partitions == ("record_index",)
    table.ingest(LATER)
    assert faults_of(storage, clock) == []


@pytest.mark.parametrize(
    ("names", "what"),
    [(["files"], "need it"), (["column_stats"], "partition_stats"), (["nothing"], "no partition nothing")],
)
def test_what_others_need_stays(base, names, what: str) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    before = storage.list()
    with pytest.raises(InvalidRequest) as refused:
        drop(storage, clock, "first", names)
    assert what in str(refused.value)
    assert (refused.value.table, bool(refused.value.next_step)) == ("crash", True)
    assert storage.list() == before


def test_a_dry_run_changes_nothing(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    before = storage.list()
    told = drop(storage, clock, "first", dry_run=True)
    assert (told.dropped, told.files) == (EVERY, len(storage.list(FOLDER)))
    assert drop(storage, clock, "first", ["record_index"], dry_run=True).left == EVERY[:4]
    assert storage.list() == before


def test_no_names_are_not_all_names(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    assert drop(storage, clock, "first", []).dropped == ()
    assert load_config(storage).metadata_partitions == EVERY


def test_dropping_it_twice_says_that_there_was_nothing(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    assert drop(storage, clock, "first").dropped == EVERY
    assert drop(storage, clock, "first").note == "there was nothing to drop"


def test_an_index_that_is_being_built_is_waited_for(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    storage.put(".hoodie/timeline/20990101000000000.indexing.requested", b"")
    with pytest.raises(Busy, match="being built"):
        drop(storage, clock, "first")


@pytest.fixture
def indexed(hudi_fixtures, tmp_path: Path) -> Table:
    """A table of Apache Hudi with a secondary index."""
    path = tmp_path / "table"
    shutil.copytree(hudi_fixtures("v9_async_index"), path)
    return Table.open(str(path), services_only=True, timezone="UTC")


def test_an_index_that_is_not_kept_goes_and_is_not_built_again(indexed: Table) -> None:
    storage = indexed.context.storage
    assert "secondary_index_idx_nm" in load_index_definitions(storage)
    done = indexed.indexing.drop(["secondary_index_idx_nm"])
    assert done.dropped == ("secondary_index_idx_nm",)
    assert "secondary_index_idx_nm" not in load_index_definitions(storage)
    assert "record_index" in load_index_definitions(storage)
    assert storage.list(f"{FOLDER}/secondary_index_idx_nm") == []
    assert indexed.metadata.compact().instant is not None
    found = verify_table(storage, index=True).findings
    assert [one for one in found if one.severity == "error"] == []


def test_a_record_index_stays_while_a_secondary_one_is_made_of_it(indexed: Table) -> None:
    with pytest.raises(InvalidRequest, match="need it") as refused:
        indexed.indexing.drop(["record_index"])
    assert "secondary_index_idx_nm" in refused.value.expected
    assert indexed.context.storage.head(INDEX_DEFINITIONS_PATH) is not None
