"""Early detection (RFC-56): older live writers may finish first, others are noticed before work is wasted, the dead are ignored.

It costs nothing where nobody else writes, and decides nothing: whatever it misses is found when the write completes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.concurrency.early_conflicts import INTERVAL_S, POLL_MAX_S, ConflictWatch
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.markers import put_marker
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Conflict
from hudi_ops.services.write.attempt import begin_watched
from hudi_ops.services.write.operations import UPSERT
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.names import instant_of_ms
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import OLD, make_base, unaccounted
from tests.protocol.one_attempt import AT_DATA, P0, P0_TOO, P1, cancels, now, once, paused, process
from tests.tables import NOW_MS, TIMELINE, rows, table_of

OF_P0 = UPSERT.intent([("part=p0", "00000000")])


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    return make_base(tmp_path / "source", None)


def waited_s(table: Table) -> float:
    return table.context.clock.monotonic_s()


def test_an_idle_table_pays_nothing(storage: MemoryStorage) -> None:
    calls = []
    for early in (True, False):
        faulty = FaultyStorage(storage.copy())
        process(faulty, "writer", early_detection=early).ingest(P0)
        calls.append([point.partition(":")[0] for point in faulty.history])
    assert calls[0] == calls[1]


def test_others_on_the_table_cost_one_read_each(storage: MemoryStorage) -> None:
    paused(storage, P1)
    calls = []
    for early in (True, False):
        faulty = FaultyStorage(storage.copy())
        process(faulty, "writer", NOW_MS + 1_000, early_detection=early).ingest(P0)
        calls.append(faulty.operations)
    assert calls[0] == calls[1], (
        "its inflight file, which says that it is ours, and writes elsewhere, is read once by either"
    )


def test_an_older_live_writer_is_waited_for(storage: MemoryStorage) -> None:
    """It ends while the other one waits, which then begins, above it, and nothing was done in vain."""
    older = paused(storage, P0, "put_if_absent:.hoodie/.commit_log")
    clock = ManualClock(NOW_MS + 1_000, tick_ms=1)

    class Wakes:
        """The older one goes on when the waiting one looks for the third time."""

        looks = 0

        def fault_at(self, number: int, point: str) -> None:
            if point == "list_folder:.hoodie/timeline" and clock.monotonic_s() > 1:
                self.looks += 1
                if self.looks == 1:
                    storage.delete(f".hoodie/.heartbeat/{older}")

    table = table_of(FaultyStorage(storage, Wakes()), clock, "younger")
    result = table.ingest(P0_TOO)
    assert 1 < clock.monotonic_s() < 1 + 3 * POLL_MAX_S
    assert result.instant is not None
    assert result.instant > older
    assert cancels(storage) == 0
    assert now(storage) == {**OLD, "k0": 200}


def test_patience_ends_and_the_first_to_complete_wins(storage: MemoryStorage) -> None:
    paused(storage, P0)
    table = process(storage, "younger", NOW_MS + 1_000, wait_s=5.0)
    table.ingest(P0_TOO)
    assert 5 <= waited_s(table) < 6
    assert now(storage) == {**OLD, "k0": 200}


def test_a_stopped_writer_is_waited_for_once(storage: MemoryStorage) -> None:
    """Once in the process, whichever of its tables writes; again once the stopped writer has gone on."""
    stopped = paused(storage, P0)
    shared: dict[tuple[str, str], int] = {}

    def waits_s() -> float:
        table = process(storage, "younger", NOW_MS + 1_000 * (len(storage.list(TIMELINE)) - 1), wait_s=5.0)
        table._session.ctx = replace(table.context, vain_waits=shared)
        table.ingest(P0_TOO)
        return waited_s(table)

    assert 5 <= waits_s() < 6
    assert max(waits_s(), waits_s()) < 0.5
    put_marker(storage, stopped, "part=p0/other.parquet", replaces=False)
    assert 5 <= waits_s() < 6
    assert waits_s() < 0.5


def test_a_lost_try_is_no_warning(storage: MemoryStorage, caplog: pytest.LogCaptureFixture) -> None:
    """The next try succeeds: there is nothing that a person should look at."""
    move = MoveBefore(AT_DATA, lambda: process(storage, "fast", early_detection=False).ingest(P0) and None)
    with caplog.at_level(logging.INFO, logger="hudi_ops"):
        process(FaultyStorage(storage, move), "slow").ingest(P0_TOO)
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert any(level == "INFO" and text.startswith("rolled back ") for level, text in said), "one try was lost"
    assert [text for level, text in said if level == "WARNING"] == []


def test_a_dead_writer_is_no_reason_to_wait(storage: MemoryStorage) -> None:
    """A false positive would be its markers: they stay until somebody rolls it back."""
    dead = paused(storage, P0)
    assert storage.list(f".hoodie/.temp/{dead}")
    for at_ms, keeps_lease in ((NOW_MS + 2 * EXPIRY_MS, True), (NOW_MS + 1_000, False)):
        state = storage.copy()
        if not keeps_lease:
            state.delete(f".hoodie/.heartbeat/{dead}")
        table = process(state, "younger", at_ms)
        table.ingest(P0_TOO)
        assert waited_s(table) < 0.5
        assert now(state) == {**OLD, "k0": 200}


def test_a_writer_elsewhere_is_no_reason_to_wait(storage: MemoryStorage) -> None:
    paused(storage, P1)
    table = process(storage, "younger", NOW_MS + 1_000)
    table.ingest(P0)
    assert waited_s(table) < 0.5


@pytest.mark.parametrize(("partition", "waits"), [("part=p0", True), ("part=p1", False)])
def test_of_hudis_writers_the_markers_tell(storage: MemoryStorage, partition: str, waits: bool) -> None:
    theirs = instant_of_ms(NOW_MS - 1_000)
    storage.put(f"{TIMELINE}/{theirs}.commit.requested", b"")
    storage.put(f"{TIMELINE}/{theirs}.inflight", b"")
    storage.put(f".hoodie/.heartbeat/{theirs}", b"")
    storage.put(f".hoodie/.temp/{theirs}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    name = f"{partition}/00000000-theirs-0_0-1-1_{theirs}.parquet.marker.MERGE"
    storage.put(f".hoodie/.temp/{theirs}/MARKERS0", f"{name}\n".encode())
    table = process(storage, "ours", wait_s=2.0)
    table.ingest(P0)
    assert (waited_s(table) >= 2) == waits


def begun(table: Table) -> tuple[ConflictWatch, object]:
    """An attempt on p0 that is on the timeline and about to write, and its look-out."""
    session = table._session
    attempt, watch = begin_watched(session, session.loader.load().config, UPSERT, OF_P0)
    return watch, attempt


def test_of_two_that_began_the_younger_one_stops(storage: MemoryStorage) -> None:
    """Never both: the older one does not look at the younger."""
    table = process(storage, "younger", NOW_MS + 1_000)
    table._session.memory.gives_way = True
    older_watch, older = begun(process(storage, "older"))
    with pytest.raises(Conflict) as caught:
        _started(table)
    error = caught.value
    assert error.details["early"] is True
    assert error.details["other"] == older.instant  # type: ignore[attr-defined]
    assert error.details["other_owner"] == "simulated-older:1"
    assert error.details["setting"] == "conflicts.early_detection"
    older_watch.minds_running = True
    older_watch.begin(older)  # type: ignore[arg-type]


def _started(table: Table) -> None:
    watch, attempt = begun(table)
    watch.minds_running = True
    table.context.vain_waits.clear()
    watch.begin(attempt)  # type: ignore[arg-type]


def test_what_completed_before_data_is_written_is_noticed(storage: MemoryStorage) -> None:
    faulty = FaultyStorage(
        storage,
        MoveBefore("put_if_absent:.hoodie/timeline", lambda: once(process(storage, "fast", NOW_MS - 500), P0) and None),
    )
    table = process(faulty, "slow")
    with pytest.raises(Conflict) as caught:
        once(table, P0_TOO)
    assert caught.value.details["early"] is True
    assert not any(point.startswith(AT_DATA) for point in faulty.history), "not a byte was written in vain"
    assert unaccounted(storage) == []


def test_markers_that_vanish_between_two_polls(storage: MemoryStorage) -> None:
    """The other one was pending at one look; it has completed, and cleared its markers, at the next."""
    table = process(storage, "long")
    watch, attempt = begun(table)
    watch.begin(attempt)  # type: ignore[arg-type]
    watch.between()
    once(process(storage, "short", NOW_MS + 500), P0)
    assert not storage.list(".hoodie/.temp")
    watch.between()
    table.context.clock.sleep_s(INTERVAL_S)
    with pytest.raises(Conflict) as caught:
        watch.between()
    assert caught.value.details["other_owner"] == "simulated-short:1"


def test_markers_that_vanish_within_one_poll(storage: MemoryStorage) -> None:
    """Markers first, then the timeline: the other way round both looks would miss it."""
    session = process(storage, "long")._session
    attempt, watch = begin_watched(session, session.loader.load().config, UPSERT, OF_P0)
    watch.begin(attempt)
    session.ctx.clock.sleep_s(INTERVAL_S)
    in_between = MoveBefore(
        "list_folder:.hoodie/timeline", lambda: once(process(storage, "short", NOW_MS + 500), P0) and None
    )
    watch.ctx = replace(session.ctx, storage=FaultyStorage(storage, in_between))
    with pytest.raises(Conflict):
        watch.between()
    assert in_between.moved


def test_long_work_stops_between_two_tasks(storage: MemoryStorage) -> None:
    """Two groups are to be written; during the first one somebody completes the second."""
    clock = ManualClock(NOW_MS, tick_ms=1)

    def move() -> None:
        once(process(storage, "short", NOW_MS + 500), P1)
        clock.sleep_s(INTERVAL_S)

    faulty = FaultyStorage(storage, MoveBefore(AT_DATA, move))
    table = table_of(faulty, clock, "long")
    with pytest.raises(Conflict) as caught:
        once(table, pa.concat_tables([P0, P1]))
    assert caught.value.details["early"] is True
    assert sum(point.startswith("put:part=") and point.endswith(".parquet") for point in faulty.history) == 1


def test_it_can_be_switched_off(storage: MemoryStorage) -> None:
    paused(storage, P0)
    table = process(storage, "younger", NOW_MS + 1_000, early_detection=False)
    table.ingest(P0_TOO)
    assert waited_s(table) < 0.5


# Trying again ------------------------------------------------------------------------------------------------------------------


class Overtaken:
    """Somebody else completes the same group before each try of ours does, so many times."""

    def __init__(self, storage: MemoryStorage, times: int) -> None:
        self._storage = storage
        self._left = times
        self.times = 0

    def fault_at(self, number: int, point: str) -> None:
        if point.startswith("put:.hoodie/.temp") and ".marker." in point and self._left:
            self._left -= 1
            self.times += 1
            once(
                process(self._storage, f"other{self.times}", NOW_MS + 1_000 * self.times),
                rows(("k0", "p0", self.times, 9, None)),
            )


def test_a_write_that_loses_again_and_again_says_to_whom(storage: MemoryStorage) -> None:
    others = Overtaken(storage, 100)
    table = process(FaultyStorage(storage, others), "ours", retries=3)
    with pytest.raises(Conflict) as caught:
        table.ingest(rows(("k2", "p0", 7, 9, None)))
    error = caught.value
    assert others.times == 4
    assert error.details["tries"] == 4
    assert len(error.details["lost_to"]) == 4
    assert "That was try 4" in str(error)
    assert "simulated-other1:1" in str(error)
    assert "conflicts.retries" in error.next_step
    assert 0.05 < waited_s(table) < 0.5


def test_a_source_is_read_and_tagged_once_for_all_tries(storage: MemoryStorage, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from hudi_ops.storage.local import LocalStorage

    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(rows(("k2", "p0", 7, 9, None)), folder / "1.parquet")
    reads: list[str] = []
    opened = LocalStorage.open_input

    def counted(self: LocalStorage, path: str) -> pa.NativeFile:
        reads.append(path)
        return opened(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStorage, "open_input", counted)
        process(FaultyStorage(storage.copy(), Overtaken(storage.copy(), 0)), "alone").ingest_folder(str(folder))
        alone = len(reads)
        reads.clear()
        others = Overtaken(storage, 2)
        result = process(FaultyStorage(storage, others), "ours").ingest_folder(str(folder))
    assert others.times == 2
    assert len(reads) == alone
    assert result.files == 1
    assert now(storage) == {**OLD, "k0": 2, "k2": 7}


def test_settings_are_checked() -> None:
    from hudi_ops.errors import InvalidRequest

    with pytest.raises(InvalidRequest, match="unknown conflict strategy"):
        process(MemoryStorage("t", ManualClock(0)), "x", strategy="last-committer")
    with pytest.raises(InvalidRequest, match="cannot be made"):
        process(MemoryStorage("t", ManualClock(0)), "x", strategy="nowhere:Nothing")
    with pytest.raises(InvalidRequest, match="is not a conflict strategy"):
        process(MemoryStorage("t", ManualClock(0)), "x", strategy=ConflictSettings())
