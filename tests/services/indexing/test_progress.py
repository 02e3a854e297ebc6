"""An index build says how far it is, how fast, when it ends, and what it waits for: in checkpoints, `show` and its result."""

from __future__ import annotations

import logging

import pytest

from hudi_ops.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hudi_ops.engine.progress import Progress
from hudi_ops.errors import Conflict
from hudi_ops.services.base.service import Execution
from hudi_ops.services.indexing.filling.pace import Pace
from hudi_ops.services.indexing.run import execute_build
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.builds.checkpoint import BuildCheckpoint, checkpoints_of
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.foreign_table import set_properties
from tests.protocol.metadata_table import make_table, table_of
from tests.services.indexing.built import (
    FOREIGN,
    KEYS,
    MORE,
    execute,
    foreign_ends,
    foreign_writer,
    late,
    operations,
    plan_build,
    slots,
    ticking,
)
from tests.tables import NOW_MS, WITH_METADATA


def completed(*after_ms: int) -> list[Instant]:
    """Writes that completed so long after the announcement."""
    times = [instant_of_ms(NOW_MS + each) for each in after_ms]
    return [Instant(time, "commit", State.COMPLETED, time) for time in times]


def test_the_end_is_estimated_from_both_rates() -> None:
    pace = Pace(instant_of_ms(NOW_MS))
    assert (pace.catch_up_per_s, pace.seconds_left(NOW_MS)) == (None, None)
    pace.left = 30
    pace.add_round(20, 5.0)
    pace.saw(completed(-10, 1_000, 2_000))
    pace.saw(completed(2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000))
    assert pace.facts(NOW_MS + 10_000) == {"catch_up_per_s": 4.0, "ingest_per_s": 1.0}
    assert pace.seconds_left(NOW_MS + 10_000) == 10.0


def test_no_end_is_estimated_where_other_writers_complete_as_fast_as_catch_up_adds() -> None:
    pace = Pace(instant_of_ms(NOW_MS), left=30)
    pace.add_round(10, 10.0)
    pace.saw(completed(*range(1_000, 11_000, 1_000)))
    assert pace.facts(NOW_MS + 10_000) == {"catch_up_per_s": 1.0, "ingest_per_s": 1.0}
    assert pace.seconds_left(NOW_MS + 10_000) is None
    assert pace.seconds_left(NOW_MS + 20_000) == 60.0


def test_the_first_write_after_the_announcement_is_not_thousands_a_second() -> None:
    pace = Pace(instant_of_ms(NOW_MS))
    pace.saw(completed(1))
    assert pace.ingest_per_s(NOW_MS + 2) == 1.0


class Slow:
    """Each operation takes a second, and two of them are preceded by moves."""

    def __init__(self, clock: ManualClock, moves) -> None:
        self._clock = clock
        self._moves = dict(moves)

    def fault_at(self, number: int, point: str) -> Fault | None:
        self._clock.advance_ms(1_000)
        if number in self._moves:
            self._moves.pop(number)()
        return None


def behind_once(storage: MemoryStorage, clock: ManualClock) -> None:
    """A writer completes that did not know of the announcement."""
    from hudi_ops.commit.apply.delta_maker import DeltaMaker

    named = load_config(storage).metadata_partitions_inflight
    set_properties(storage, {METADATA_PARTITIONS_INFLIGHT: ""})
    fits, DeltaMaker.partitions = DeltaMaker.partitions, property(lambda self: ())
    try:
        table_of(storage, clock, "stale").ingest(MORE)
    finally:
        DeltaMaker.partitions = fits
    set_properties(storage, {METADATA_PARTITIONS_INFLIGHT: ",".join(named)})


def test_checkpoints_and_the_result_have_both_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    base = make_table(WITH_METADATA).copy(ticking())
    plan_build(base, ticking())
    at = slots(operations(base, late(), lambda one: execute(one, late())))[2] - 8
    clock = late()
    storage = base.copy(clock)
    put: list[BuildCheckpoint] = []
    from hudi_ops.services.indexing.filling import build as building

    puts = building.put_checkpoint

    def keeps(into, checkpoint: BuildCheckpoint) -> None:
        put.append(checkpoint)
        puts(into, checkpoint)

    monkeypatch.setattr(building, "put_checkpoint", keeps)
    told: list[Progress] = []
    faulty = FaultyStorage(storage, Slow(clock, {at: lambda: behind_once(storage, clock)}))
    session = table_of(faulty, clock, "executor")._session
    done = execute_build(session, None, Execution("local", progress=told.append))
    assert done.rounds == 1
    assert done.verdicts["applied"] == 1
    assert done.catch_up_per_s is not None
    assert 0 < done.catch_up_per_s < 1
    assert done.ingest_per_s is not None
    assert 0 < done.ingest_per_s < 1
    assert done.waited_for == ()
    building_ones = [one for one in put if one.phase == "build"]
    assert {(one.catch_up_per_s, one.ingest_per_s) for one in building_ones} == {(None, None)}
    last = put[-1]
    assert (last.catch_up_per_s, last.seconds_left, last.phase) == (done.catch_up_per_s, 0.0, "catch-up")
    assert last.ingest_per_s is not None
    assert last.ingest_per_s > 0
    assert f"catch-up adds {last.catch_up_per_s:.2f} completions/s; other writers complete " in last.progress
    assert "about 0 s left" in last.progress
    assert any("other writers complete" in one.note for one in told), (
        "the progress of what catch-up reads says how fast it is"
    )


def test_a_wait_says_why_everywhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`show`, the progress, the log, the checkpoint and the result name the foreign writer."""
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    plan_build(storage, clock)
    foreign_writer(storage, clock)
    sleep, shown, noted = clock.sleep_s, [], []
    table = table_of(storage, clock, "builder")

    def sleeps(seconds: float) -> None:
        shown.append({one.name: one for one in table_of(storage, clock, "viewer").indexing.show()}["record_index"])
        noted.append(checkpoints_of(storage, shown[-1].plan)[-1])
        if len(shown) == 3:
            foreign_ends(storage)
        sleep(seconds)

    monkeypatch.setattr(clock, "sleep_s", sleeps)
    told: list[Progress] = []
    with caplog.at_level(logging.INFO, "hudi_ops"):
        done = execute_build(table._session, None, Execution("local", progress=told.append))
    why = f"commit {FOREIGN} of a foreign writer, which may not know the new partitions"
    assert len(shown) == 3
    assert all(f"waits for {why}; " in one.note and one.executor for one in shown)
    assert [one.verdicts for one in shown] == [{"waiting": 1}] * 3
    assert [one.ingest_per_s for one in shown] == [0.0] * 3
    assert all(one.note.startswith(f"waits for {why}; its heartbeat counts until") for one in noted)
    assert all(one.seconds_left is None for one in [*shown, *noted]), "nothing says when a foreign writer ends"
    assert f"the index build waits for {why}" in caplog.text
    waits = [one for one in told if one.what == "foreign writers that ended"]
    assert len(waits) == 3
    assert all(one.note.startswith(f"waits for {why}") for one in waits)
    assert done.waited_for == (f"waited for {why}",)
    assert "waiting" not in done.verdicts, "it has ended"


def test_a_build_that_timed_out_says_what_it_waited_for() -> None:
    """No process executes it then."""
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    foreign_writer(storage, clock)
    table = table_of(storage, clock, "builder")
    with pytest.raises(Conflict, match="gave up") as refused:
        table.indexing.run(partitions=KEYS, timeout_s=5)
    assert "other writers complete 0.00/s" in refused.value.found
    (one,) = {state.note for state in table.indexing.show() if state.name in KEYS}
    assert "no process executes the plan" in one
    assert f"its last executor waits for commit {FOREIGN} of a foreign writer" in one


def test_an_index_that_another_program_dropped_is_shown_with_the_write_that_lacks_it() -> None:
    clock = ticking()
    storage = make_table(WITH_METADATA).copy(clock)
    execute(storage, clock, plan_build(storage, clock))

    def notes() -> list[str]:
        shown = table_of(storage, clock, "reader").indexing.show()
        return [one.note for one in shown if one.name in KEYS]

    assert notes() == ["", ""]
    set_properties(storage, {METADATA_PARTITIONS: "column_stats,files,partition_stats,record_index"})
    assert notes() == ["another program dropped it", ""]
    completion = instant_of_ms(clock.now_ms())
    # Its commit has no records in the metadata table at all.
    storage.put(f".hoodie/timeline/{FOREIGN}.commit.requested", b"")
    storage.put(f".hoodie/timeline/{FOREIGN}.inflight", b"")
    metadata = CommitMetadata(operation="UPSERT")
    storage.put(f".hoodie/timeline/{FOREIGN}_{completion}.commit", metadata.to_bytes())
    assert notes() == [f"another program dropped it: commit {FOREIGN} is its first write without the index", ""]
