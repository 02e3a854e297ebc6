"""Partitions of the metadata table that are there are built anew: crashed anywhere, the same call goes on."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.requests import IndexRequest
from hudi_ops.errors import Cancelled, HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.services.indexing import run as metadata_run
from hudi_ops.services.indexing.filling import build as metadata_build
from hudi_ops.services.indexing.run import build_indexes, plan_build
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.protocol.sweep import CRASHES, fault_sweep
from tests.tables import BY_RECORD_INDEX, NOW_MS, WITH_METADATA

EVERY = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")
AFTER = {"k6": 66, "n4": 4}


@pytest.fixture(scope="module")
def base():
    """A table whose index is its record index, with every partition."""
    storage = make_table(BY_RECORD_INDEX)
    table_of(storage, ManualClock(NOW_MS - 1_000), "builder").indexing.run(partitions=EVERY)
    return storage


def again(storage, clock, actor: str, names=None, **how):
    return build_indexes(table_of(storage, clock, actor)._session, IndexRequest(partitions=names, rebuild=True), **how)


def fall_behind(storage) -> None:
    """Lose the delta commit of the newest write: readers believe nothing of the metadata table then."""
    own, data = load_metadata_timeline(storage), load_timeline(storage, load_config(storage))
    newest = max(one.time for one in data.completed_writes)
    storage.delete(own.path(own.find(newest).file_name))
    assert MetadataInstants(load_metadata_timeline(storage), data, ArchivedTimes(storage)).missing == (newest,)


def damage(storage, partition: str = "record_index") -> None:
    """Lose a partition's file groups: the properties name it, and nothing can be read."""
    for info in storage.list(f"{FOLDER}/{partition}"):
        storage.delete(info.path)


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("names", [None, ("record_index",)], ids=["all", "one"])
def test_crash_at_every_change(base, names, fault: Fault) -> None:
    def harmed(clock: ManualClock) -> MemoryStorage:
        storage = base.copy(clock)
        (damage if names else fall_behind)(storage)
        return storage

    rows = read_rows(harmed(clock := ManualClock(NOW_MS)), clock)
    for left in fault_sweep(
        harmed,
        lambda storage, clock: again(storage, clock, "first", names),
        fault,
        "building again",
        points=20,
        step=1 if SOAK else 11,
        only_changes=True,
    ):
        storage, clock, story = left.storage, left.clock, left.story
        assert read_rows(storage, clock) == rows, story
        clock.advance_ms(EXPIRY_MS + 1_000)
        again(storage, clock, "second", names)
        assert load_config(storage).all_metadata_partitions == EVERY, story
        table = table_of(storage, clock, "writer")
        table.recover()
        assert faults_of(storage, clock) == [], story
        table.ingest(LATER)
        assert read_rows(storage, clock) == {**rows, **AFTER}, story
        assert faults_of(storage, clock) == [], story


@pytest.mark.parametrize("harm", [fall_behind, damage])
def test_a_refused_writer_is_told_what_helps(base, harm) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    harm(storage)
    with pytest.raises(Unsupported, match="which locates the rows of this table, cannot be read") as refused:
        table_of(storage, clock, "writer").ingest(LATER)
    assert "index TABLE run record_index --rebuild" in refused.value.next_step
    again(storage, clock, "builder", ["record_index"])
    table_of(storage, clock, "writer").ingest(LATER)
    assert faults_of(storage, clock) == []


def test_beside_writers_and_readers(base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is there again, rows are refused that go where it says; one that has looked before completes, and is in it."""
    from hudi_ops.commit.decide import completion as commit

    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    rows = read_rows(storage, clock)
    begin, decide = metadata_build.begin, commit._decide_once_started
    refused = []

    def beside(build):
        monkeypatch.setattr(metadata_build, "begin", begin)
        with pytest.raises(Unsupported, match="which locates the rows of this table, cannot be read"):
            table_of(storage, clock, "late").ingest(LATER)
        assert read_rows(storage, clock) == rows
        refused.append("late")
        begin(build)
        monkeypatch.setattr(commit, "_decide_once_started", decide)

    def later(*args):
        monkeypatch.setattr(commit, "_decide_once_started", decide)
        monkeypatch.setattr(metadata_build, "begin", beside)
        again(storage, clock, "builder", ["record_index"])
        return decide(*args)

    monkeypatch.setattr(commit, "_decide_once_started", later)
    table_of(storage, clock, "writer").ingest(LATER)
    assert refused == ["late"]
    assert read_rows(storage, clock) == {**rows, **AFTER}
    assert faults_of(storage, clock) == []


def test_what_completes_between_dropping_and_naming_is_in_it(base, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    decided = metadata_build.announce

    def beside(build):
        monkeypatch.setattr(metadata_build, "announce", decided)
        table_of(storage, clock, "writer").ingest(LATER.filter(pc.equal(LATER["id"], "n4")), "bulk_insert")
        decided(build)

    monkeypatch.setattr(metadata_build, "announce", beside)
    assert again(storage, clock, "builder").rounds == 1
    assert faults_of(storage, clock) == []


@pytest.mark.parametrize(
    ("names", "dropped"),
    [
        (None, EVERY),
        (("files",), EVERY),
        (("column_stats",), ("column_stats", "partition_stats")),
        (("bloom_filters", "record_index"), ("bloom_filters", "record_index")),
    ],
)
def test_what_is_built_anew(base, names, dropped) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    before = storage.list()
    told = plan_build(
        table_of(storage, clock, "first")._session, IndexRequest(partitions=names, rebuild=True, dry_run=True)
    )
    assert told.note.startswith(f"drops {', '.join(dropped)} first; builds ")
    assert storage.list() == before
    done = again(storage, clock, "first", names)
    assert (done.rebuilt, done.partitions) == (dropped, tuple(one.file_id for one in told.planned))
    assert load_config(storage).metadata_partitions == EVERY
    assert faults_of(storage, clock) == []


def test_one_partition_alone_does_not_put_right_what_is_behind(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    fall_behind(storage)
    assert again(storage, clock, "first", ["record_index"]).rebuilt == EVERY
    assert faults_of(storage, clock) == []


def test_a_table_without_a_metadata_table_gets_one(base) -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(replace(WITH_METADATA, metadata=False)).copy(clock)
    done = again(storage, clock, "first")
    assert (done.rebuilt, done.partitions) == ((), ("files", "column_stats", "partition_stats"))
    with pytest.raises(InvalidRequest, match="Unknown metadata partition"):
        again(storage, clock, "first", ["nonsense"])


def test_what_another_built_meanwhile_is_left_alone(base, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    drop = metadata_run.drop_metadata

    def beside(*args, **how):
        done = drop(*args, **how)
        monkeypatch.undo()
        assert again(storage, clock, "second", ["record_index"]).partitions == ("record_index",)
        return done

    monkeypatch.setattr(metadata_run, "drop_metadata", beside)
    done = again(storage, clock, "first", ["record_index"])
    assert (done.instant, done.partitions, done.rebuilt) == (None, (), ("record_index",))
    assert done.note.startswith("nothing to build, ")
    assert faults_of(storage, clock) == []


def test_partitions_that_came_meanwhile_are_not_dropped_unseen(base, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    table_of(storage, clock, "dropper").indexing.drop(["bloom_filters"])
    drop = metadata_run.drop_metadata

    def beside(session, names, **how):
        decide = session.decide
        monkeypatch.undo()

        def later(*args):
            table_of(storage, clock, "second").indexing.run(partitions=["bloom_filters"])
            return decide(*args)

        session.decide = later
        return drop(session, names, **how)

    monkeypatch.setattr(metadata_run, "drop_metadata", beside)
    with pytest.raises(HudiOpsError, match="got or lost partitions"):
        again(storage, clock, "first")
    assert load_config(storage).metadata_partitions == EVERY


class Stopped:
    """A progress callback that is asked to stop at its first call, as an application is."""

    def __call__(self, progress: object) -> None:
        raise Cancelled("stopped on request before the rest of the work", next_step="run it again when it is wanted")


def cancelled(base, names=None) -> tuple[MemoryStorage, ManualClock, Cancelled]:
    """A table whose rebuild was cancelled behind the drop, and the error of the rebuild."""
    clock = ManualClock(NOW_MS)
    storage = base.copy(clock)
    with pytest.raises(Cancelled) as stopped:
        again(storage, clock, "first", names, progress=Stopped())
    return storage, clock, stopped.value


def test_a_cancelled_rebuild_says_that_there_is_no_metadata_table_and_how_to_go_on(base) -> None:
    storage, clock, error = cancelled(base)
    assert load_config(storage).all_metadata_partitions == ()
    assert "the table has no metadata table now" in error.what
    assert "hudi-ops index" in error.next_step
    assert error.as_dict()["dropped"] == list(EVERY)
    (found,) = faults_of(storage, clock)
    assert (found.severity, found.invariant) == ("error", "metadata-dropped")
    assert "bloom_filters" in found.what
    assert not verify_table(storage, index=True, clock=clock).ok
    assert verify_table(storage, clock=clock).ok


@pytest.mark.parametrize("names", [None, ("column_stats",)], ids=["plain", "one by name"])
def test_a_build_after_a_cancelled_rebuild_restores_every_partition(base, names) -> None:
    storage, clock, _ = cancelled(base)
    done = table_of(storage, clock, "second").indexing.run(partitions=names)
    assert load_config(storage).all_metadata_partitions == EVERY
    assert tuple(sorted(done.partitions)) == EVERY
    assert "restores what a rebuild dropped" in done.note
    assert faults_of(storage, clock) == []
    assert table_of(storage, clock, "second").indexing.run(partitions=names).instant is None


def test_a_cancelled_rebuild_of_one_partition_restores_that_one(base) -> None:
    storage, clock, error = cancelled(base, ("bloom_filters",))
    assert "record_index now: the rebuild dropped bloom_filters" in error.what
    table_of(storage, clock, "second").indexing.run()
    assert load_config(storage).all_metadata_partitions == EVERY
    assert faults_of(storage, clock) == []


def test_what_a_rebuild_dropped_is_remembered_until_it_is_built_or_dropped_for_good() -> None:
    clock = ManualClock(NOW_MS)
    storage = make_table(WITH_METADATA).copy(clock)
    table = table_of(storage, clock, "builder")
    table.indexing.run(partitions=("bloom_filters",))
    with pytest.raises(Cancelled):
        again(storage, clock, "first", progress=Stopped())
    with pytest.raises(Cancelled, match="no metadata table now"):
        build_indexes(table_of(storage, clock, "second")._session, progress=Stopped())
    table_of(storage, clock, "third").ingest(LATER)
    assert [one.invariant for one in faults_of(storage, clock)] == ["metadata-dropped"]
    table_of(storage, clock, "fourth").indexing.drop()
    assert faults_of(storage, clock) == []
    assert table_of(storage, clock, "fifth").indexing.run().partitions == ("files", "column_stats", "partition_stats")
