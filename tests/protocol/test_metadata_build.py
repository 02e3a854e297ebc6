"""Building the metadata table, crashed, failed and raced: readers use it whole or not at all, and the same call finishes it."""

from __future__ import annotations

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import IndexRequest
from hudi_ops.errors import Busy, Cancelled, Conflict, InvalidRequest
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.services.indexing import execute as metadata_execute
from hudi_ops.services.indexing.filling import (
    build as metadata_build,
    catch_up as metadata_catch_up,
    diff as metadata_diff,
)
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from hudi_ops.timeline.settings.properties_file import load_config
from tests.bounds import SOAK
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.tables import DEFINITION, MERGE_ON_READ, NOW_MS, START_MS, WITH_METADATA, rows

EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")
ERROR_POINTS = 5
"""Of each kind of error in the plain run, spread over all operations that can fail so; the soak has every one."""


def step_of(fault: Fault, plain: int) -> int:
    """Between two changes at which the builder dies. Before one it leaves what it left after the one before that."""
    if SOAK:
        return 1
    return plain if fault is Fault.CRASH_AFTER else 3 * plain


def build(storage, clock, actor: str, partitions=EVERY):
    return build_indexes(table_of(storage, clock, actor)._session, IndexRequest(partitions=partitions))


def errors_of(storage, clock):
    return [one for one in faults_of(storage, clock) if one.severity == "error"]


def finish(storage, clock, story: str) -> None:
    """Another process writes, builds, and writes again: the metadata table says all there is."""
    rows = read_rows(storage, clock)
    # A decision that was not applied yet is applied by the next write.
    assert [one for one in errors_of(storage, clock) if one.invariant != "properties-fold"] == [], story
    table = table_of(storage, clock, "writer")
    table.ingest(LATER)
    assert errors_of(storage, clock) == [], story
    clock.advance_ms(EXPIRY_MS + 1_000)
    build(storage, clock, "second")
    assert load_config(storage).metadata_partitions == EVERY, story
    table.recover()
    assert faults_of(storage, clock) == [], story
    table.ingest(LATER)
    assert read_rows(storage, clock) == {**rows, "k6": 66, "n4": 4}, story
    assert faults_of(storage, clock) == [], story


def first(storage, clock) -> None:
    build(storage, clock, "first")


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", CRASHES)
def test_crash_at_every_change(fault: Fault) -> None:
    base, step = make_table(DEFINITION), step_of(fault, 3)
    for left in fault_sweep(base, first, fault, "building a metadata table", points=40, step=step, only_changes=True):
        finish(left.storage, left.clock, left.story)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", CRASHES)
def test_crash_while_partitions_are_added(fault: Fault) -> None:
    base, step = make_table(WITH_METADATA), step_of(fault, 4)
    for left in fault_sweep(base, first, fault, "adding partitions", points=30, step=step, only_changes=True):
        finish(left.storage, left.clock, left.story)


@pytest.mark.parametrize("fault", ERRORS)
def test_an_error_leaves_a_table_that_is_right(fault: Fault) -> None:
    base, most = make_table(DEFINITION), ERROR_POINTS
    for left in fault_sweep(base, first, fault, "building a metadata table", points=40, runs=ERROR_POINTS, most=most):
        left.land()
        finish(left.storage, left.clock, left.story)


@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ], ids=lambda one: one.table_type)
@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite", "delete", "insert_overwrite_table"])
def test_what_completes_meanwhile_is_added(definition, operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(definition).copy(clock)
    begin = metadata_build.begin

    def beside(build):
        begin(build)
        table_of(storage, clock, "writer").ingest(LATER, operation)

    monkeypatch.setattr(metadata_build, "begin", beside)
    assert build(storage, clock, "first").rounds == 1
    monkeypatch.undo()
    assert faults_of(storage, clock) == []
    finish(storage, clock, operation)


def test_a_compaction_that_completes_meanwhile_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(MERGE_ON_READ).copy(clock)
    begin = metadata_build.begin

    def beside(build):
        begin(build)
        assert table_of(storage, clock, "compactor").compaction.run().instant is not None

    monkeypatch.setattr(metadata_build, "begin", beside)
    assert build(storage, clock, "first").rounds == 1
    assert faults_of(storage, clock) == []


def test_a_write_that_began_before_and_decides_after_has_its_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    from hudi_ops.commit.decide import completion as commit

    clock = ManualClock(NOW_MS)
    storage = make_table(DEFINITION).copy(clock)
    decide = commit._decide_once_started

    def later(*args):
        monkeypatch.setattr(commit, "_decide_once_started", decide)
        build(storage, clock, "builder", ("files", "column_stats", "partition_stats"))
        return decide(*args)

    monkeypatch.setattr(commit, "_decide_once_started", later)
    table_of(storage, clock, "writer").ingest(LATER)
    assert faults_of(storage, clock) == []


@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ], ids=lambda one: one.table_type)
def test_writes_without_a_gap_do_not_hold_up_the_build(definition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write completes between every snapshot of the build and the decision that follows it."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(definition).copy(clock)
    look = metadata_diff.snapshot
    written: list[int] = []

    def beside(*given):
        seen = look(*given)
        number = len(written)
        written.append(number)
        table_of(storage, clock, "writer").ingest(
            rows((f"w{number}", f"p{number % 3}", number, number, None), ("w", "p0", number, number, None))
        )
        return seen

    for module in (metadata_build, metadata_execute, metadata_catch_up):
        monkeypatch.setattr(module, "snapshot", beside)
    done = build(storage, clock, "first")
    monkeypatch.undo()
    assert done.rounds == 3, "two before the announcement, one after it"
    assert len(written) == 4
    assert load_config(storage).metadata_partitions == EVERY
    assert faults_of(storage, clock) == []
    finish(storage, clock, "without a gap")


def test_a_second_builder_is_told_who_is_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(DEFINITION).copy(clock)
    begin = metadata_build.begin

    def beside(built):
        monkeypatch.undo()
        with pytest.raises(Busy, match="simulated-first"):
            build(storage, clock, "second")
        begin(built)

    monkeypatch.setattr(metadata_build, "begin", beside)
    assert build(storage, clock, "first").instant is not None
    finish(storage, clock, "two builders")


def test_a_builder_that_was_taken_for_dead_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(DEFINITION).copy(clock)
    begin = metadata_build.begin

    def slept(built):
        monkeypatch.undo()
        begin(built)
        clock.advance_ms(EXPIRY_MS + 1_000)
        table_of(storage, clock, "writer").recover()
        build(storage, clock, "second")

    monkeypatch.setattr(metadata_build, "begin", slept)
    with pytest.raises((Cancelled, Conflict)):
        build(storage, clock, "first")
    finish(storage, clock, "slept")


def test_partitions_that_are_there_are_not_built_again() -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(WITH_METADATA).copy(clock)
    before = storage.list()
    assert build(storage, clock, "first", None).instant is None
    assert storage.list() == before
    assert build(storage, clock, "first", ["record_index"]).partitions == ("record_index",)
    assert faults_of(storage, clock) == []


def test_a_dry_run_changes_nothing() -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(DEFINITION).copy(clock)
    before = storage.list()
    told = table_of(storage, clock, "first").indexing.explain()
    assert [one.file_id for one in told.planned] == ["files", "column_stats", "partition_stats"]
    assert storage.list() == before


@pytest.mark.parametrize("names", [["secondary_index_x"], ["nonsense"]])
def test_an_unknown_partition_is_refused(names) -> None:
    clock = ManualClock(NOW_MS)
    with pytest.raises(InvalidRequest) as refused:
        build(make_table(DEFINITION).copy(clock), clock, "first", names)
    assert (refused.value.table, bool(refused.value.next_step)) == ("crash", True)


def test_its_instant_is_none_of_the_data_table() -> None:
    clock = ManualClock(START_MS)
    storage = make_table(DEFINITION).copy(clock)
    done = build(storage, clock, "first", None)
    # The clock stands still, so that times rise by single milliseconds.
    instants = [table_of(storage, clock, "writer").ingest(LATER).instant for _ in range(3)]
    assert done.built_at not in instants
    times = [one.time for one in load_metadata_timeline(storage)]
    assert len(times) == len(set(times))
    assert faults_of(storage, clock) == []
