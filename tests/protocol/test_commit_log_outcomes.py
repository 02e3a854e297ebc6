"""Outcomes that storage does not tell, and `hoodie.properties` under several hands: what the log says comes true."""

from __future__ import annotations

import pytest

from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.concurrency import transaction
from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.errors import Cancelled, OutcomeUnknown
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.log.entries import Complete, cancel_of
from hudi_ops.timeline.settings.properties_file import FOLDED_KEY, write_properties
from tests.fault_plans import MoveBefore
from tests.protocol.log_actors import (
    bare_table,
    commit,
    finish,
    properties_of,
    session_of,
    set_property,
    timeline_of,
    whole_log,
)
from tests.tables import NOW_MS


def test_a_sleepers_old_file_is_mended_by_whoever_loads_next() -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    old = properties_of(storage)
    set_property(session_of(storage, clock, "first"), "hoodie.a", "1")
    commit(session_of(storage, clock, "another"))
    set_property(session_of(storage, clock, "second"), "hoodie.b", "2", remove=("hoodie.table.create.schema",))
    commit(session_of(storage, clock, "another"))
    write_properties(storage, {**old, "hoodie.foreign": "kept"}, NOW_MS, first=False)
    recover(session_of(storage, clock, "helper"))
    held = properties_of(storage)
    assert (held["hoodie.a"], held["hoodie.b"], held["hoodie.foreign"]) == ("1", "2", "kept")
    assert "hoodie.table.create.schema" not in held


@pytest.mark.parametrize("keeps_unknown_keys", [True, False])
def test_what_hudi_changed_after_a_delta_was_applied_stays(keeps_unknown_keys: bool) -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    set_property(session_of(storage, clock, "first"), "hoodie.a", "1", remove=("hoodie.table.metadata.partitions",))
    theirs = {**properties_of(storage), "hoodie.a": "theirs", "hoodie.table.metadata.partitions": "files"}
    if not keeps_unknown_keys:  # as version 1.0 of it rewrites the file
        theirs.pop(FOLDED_KEY)
    write_properties(storage, theirs, NOW_MS, first=False)
    helper = session_of(storage, clock, "helper")
    recover(helper)
    assert properties_of(storage) == theirs


def test_a_foreign_key_written_between_look_and_put_of_a_delta_is_lost_only_with_the_lock() -> None:
    """The file is read again after each put of ours: what came between the two looks is kept."""
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)

    def foreign() -> None:
        write_properties(storage, {**properties_of(storage), "hoodie.foreign": "1"}, NOW_MS, first=False)

    faulty = FaultyStorage(storage, MoveBefore("delete:.hoodie/.hoodie.properties.crc", foreign))
    set_property(session_of(faulty, clock, "first"), "hoodie.a", "1")
    held = properties_of(storage)
    assert (held["hoodie.a"], held["hoodie.foreign"]) == ("1", "1")


def test_without_the_number_in_the_file_a_lost_delta_stays_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    old = properties_of(storage)
    set_property(session_of(storage, clock, "first"), "hoodie.a", "1")
    storage.put(PROPERTIES_PATH, b"")
    write_properties(storage, old, NOW_MS, first=False)
    monkeypatch.setattr(transaction, "folded_slot", lambda values: None)
    recover(session_of(storage, clock, "helper"))
    assert "hoodie.a" not in properties_of(storage)


class SlotsGoSilent:
    """Puts of slots are not answered, nor is anything found on reading back; `lands` says which of them reach the store."""

    def __init__(self, silent: int, lands: int) -> None:
        self.silent = silent
        self._lands = lands
        self.asked = 0

    def fault_at(self, number: int, point: str) -> Fault | None:
        if not point.startswith("put_if_absent:.hoodie/.commit_log/0"):
            return None
        self.asked += 1
        if self.asked > self.silent:
            return None
        return Fault.ERROR_AFTER if self.asked == self._lands else Fault.LANDS_LATER


def unanswered(silent: int, *, late: bool) -> tuple[MemoryStorage, FaultyStorage, ManualClock, Attempt, Session]:
    storage, clock = bare_table(), ManualClock(NOW_MS, tick_ms=1)
    faulty = FaultyStorage(storage, SlotsGoSilent(silent, 0), lag_operations=None if late else 3)
    session = session_of(faulty, clock, "writer")
    return storage, faulty, clock, begin(session.ctx, session.loader, "commit"), session


def test_an_unknown_outcome_is_settled_by_a_cancel_of_ones_own() -> None:
    storage, faulty, clock, attempt, session = unanswered(5, late=True)
    with pytest.raises(Cancelled, match="its own writer"):
        finish(session, attempt)
    while faulty.in_flight:  # the puts that were under way reach a slot that is taken
        faulty.land()
    log = whole_log(storage)
    assert cancel_of(log.fate(attempt.instant)) is not None
    assert cancel_of(log.fate("another instant")) is None
    assert not any(isinstance(entry, Complete) and entry.instant == attempt.instant for _, entry in log.since(0))
    commit(session_of(storage, clock, "next"))


def test_an_unknown_outcome_that_landed_after_all_is_a_success() -> None:
    storage, _, _, attempt, session = unanswered(5, late=False)
    assert finish(session, attempt).instant == attempt.instant
    assert timeline_of(storage).find(attempt.instant).is_completed  # type: ignore[union-attr]


def test_what_cannot_be_settled_is_reported_as_unknown() -> None:
    storage, faulty, clock, attempt, session = unanswered(1_000, late=True)
    with pytest.raises(OutcomeUnknown):
        finish(session, attempt)
    faulty.land()
    clock.advance_ms(EXPIRY_MS + 1_000)
    recover(session_of(storage, clock, "next"))
    found = timeline_of(storage).find(attempt.instant)
    assert found is not None
    assert found.is_completed, "the put that landed late decided"


def test_a_failure_is_not_reported_before_the_slot_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the CANCEL the failed attempt would be committed by its own late put."""
    storage, faulty, _, attempt, session = unanswered(5, late=True)
    monkeypatch.setattr(transaction, "is_cancellable", lambda entry: False)
    with pytest.raises(OutcomeUnknown):
        finish(session, attempt)
    faulty.land()
    fate = whole_log(storage).fate(attempt.instant)
    assert fate is not None
    assert cancel_of(fate) is None, "it completed"
