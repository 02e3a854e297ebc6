"""The first cancellable plan of a table records the fact `cancellable`: releases that do not know such plans refuse the table."""

from __future__ import annotations

import json

import pytest
from pydantic import ConfigDict, ValidationError

from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.table import TableFacts
from hudi_ops.errors import Corrupt
from hudi_ops.services.base import publish
from hudi_ops.services.base.planned.capability import record_cancellable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.log.commit_log import Log, slot_path
from hudi_ops.timeline.log.entries import Plan, Properties, decode_entry
from hudi_ops.timeline.log.unique_keys import newest_count
from hudi_ops.timeline.state import CommitReader, StateLoader
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.compaction_table import make_logged, merged
from tests.protocol.log_actors import whole_log
from tests.services.cancel.planned import planned
from tests.tables import BY_RECORD_INDEX, NOW_MS, made, rows, table_of

CHANGE = rows(("k2", "p0", 22, 5, None))


@pytest.fixture
def storage() -> MemoryStorage:
    return make_logged()


def facts_of(storage: MemoryStorage) -> list[bool]:
    """Whether each PROPERTIES says that plans may be cancelled, in order."""
    return [entry.facts.cancellable for entry in whole_log(storage).entries if isinstance(entry, Properties)]


def kinds(storage: MemoryStorage) -> list[str]:
    return [entry.kind for entry in whole_log(storage).entries]


def test_the_first_cancellable_plan_records_it_and_later_ones_do_not(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    before = kinds(storage)
    first = planned(storage)
    assert kinds(storage) == [*before, "PROPERTIES", "PLAN"]
    table_of(storage, clock, "user").cancel(first, reason="again")
    known = kinds(storage)
    planned(storage)
    assert kinds(storage) == [*known, "PLAN"]
    assert facts_of(storage) == [False, True]
    assert verify_table(storage, deep=True, clock=clock).findings == ()


def test_a_plan_that_is_not_cancellable_records_nothing(storage: MemoryStorage) -> None:
    planned(storage, cancel="never")
    assert facts_of(storage) == [False]


def test_later_properties_keep_the_fact(storage: MemoryStorage) -> None:
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "user")
    table.cancel(planned(storage), reason="again")
    table.indexing.run(partitions=("files",))
    assert facts_of(storage)[1:] == [True] * (len(facts_of(storage)) - 1)
    assert len(facts_of(storage)) > 2


def test_the_count_of_doubled_keys_outlives_the_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier release counted them with a build, before it knew the fact."""
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = made(BY_RECORD_INDEX, rows(("k1", "p0", 1, 1, None), ("k2", "p1", 2, 2, None)))
    with monkeypatch.context() as earlier:
        earlier.setattr(publish, "record_cancellable", lambda session, begun: None)
        table_of(storage, clock, "builder").indexing.run(partitions=("record_index",), rebuild=True)
    counted = newest_count(loaded(storage))
    assert counted is not None
    record_cancellable(table_of(storage, clock, "planner")._session, StateLoader(storage, CommitReader(storage)).load())
    for _ in range(3):
        table_of(storage, clock, "ingest").ingest(CHANGE)
    again = newest_count(loaded(storage))
    assert again is not None
    assert (again.doubled_keys, again.counted_until) == (counted.doubled_keys, counted.counted_until)


def loaded(storage: MemoryStorage) -> Log:
    """Return the log as a new process loads it."""
    return StateLoader(storage, CommitReader(storage)).load().log


def test_a_crash_after_the_fact_leaves_a_table_that_plans_again(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    dying = FaultyStorage(storage, DiesBefore("^put:.hoodie/.commit_log/payload"))
    with pytest.raises(Crash):
        table_of(dying, clock, "planner").compaction.plan(cancel="cancellable")
    assert kinds(storage)[-1] == "PROPERTIES"
    table_of(storage, clock, "ingest").ingest(CHANGE)
    planned(storage)
    assert facts_of(storage) == [False, True]
    assert [entry.cancellable for entry in whole_log(storage).entries if isinstance(entry, Plan)] == [True]


def test_of_two_planners_the_one_that_loses_the_slot_finds_the_fact(storage: MemoryStorage) -> None:
    slot = len(kinds(storage))
    clock = ManualClock(NOW_MS, tick_ms=1)

    def other() -> None:
        planned(storage, partitions=("part=p1",))

    moved = FaultyStorage(storage, MoveBefore(f"^put_if_absent:{slot_path(slot)}", other))
    made = table_of(moved, clock, "slow").compaction.plan(cancel="cancellable", partitions=("part=p0",))
    assert made.instant is not None
    assert kinds(storage)[slot:] == ["PROPERTIES", "PLAN", "PLAN"]


def test_a_write_that_read_its_source_before_the_fact_is_no_conflict(storage: MemoryStorage) -> None:
    clock = ManualClock(NOW_MS, tick_ms=1)
    moved = FaultyStorage(storage, MoveBefore("^put_if_absent:.hoodie/.heartbeat", lambda: planned(storage)))
    done = table_of(moved, clock, "ingest", conflicts=ConflictSettings(retries=0)).ingest(CHANGE)
    assert facts_of(storage) == [False, True]
    assert done.instant is not None
    assert merged(storage, clock)["k2"] == 22


def test_a_release_that_does_not_know_the_fact_stops_and_names_the_cure(storage: MemoryStorage) -> None:
    class Earlier(TableFacts):
        """Facts of a release without cancellable plans."""

        model_config = ConfigDict(frozen=True, extra="forbid")
        cancellable: None = None  # type: ignore[assignment]

    before = storage.get(slot_path(0))
    assert "cancellable" not in json.loads(before)["facts"], "tables without such plans stay readable"
    planned(storage)
    (slot,) = [number for number, kind in enumerate(kinds(storage)) if kind == "PROPERTIES" and number]
    said = json.loads(storage.get(slot_path(slot)))
    with pytest.raises(ValidationError):
        Earlier.model_validate(said["facts"])
    said["facts"]["of_a_later_release"] = True
    with pytest.raises(Corrupt, match="commit log entry") as refused:
        decode_entry(json.dumps(said).encode())
    assert "upgrade" in refused.value.next_step
