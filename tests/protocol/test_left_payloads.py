"""Payloads of completed instants whose process died before it deleted them.

The next recovery deletes them, except those that the COMPLETE names.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultPlan, FaultyStorage
from hudi_ops.timeline.log.commit_log import FOLDER, payload_folder
from hudi_ops.timeline.log.entries import Complete
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, DiesBehind, MoveBefore
from tests.protocol.log_actors import whole_log
from tests.services.clean.cleaned import judged
from tests.tables import DEFINITION, NOW_MS, WITH_METADATA, by_key, made, rows, table_of

PUT, DELETE = (f"{operation}:{FOLDER}/payload/" for operation in ("put", "delete"))
ROWS = rows(("k0", "p0", 0, 0, None), ("k1", "p1", 1, 0, None))
NEWER = rows(("k0", "p0", 10, 1, None))


def dies(storage: Storage, clock: ManualClock, plan: FaultPlan, move: Callable[[Table], object]) -> None:
    """Let a process die amid a move, and its lease expire."""
    with pytest.raises(Crash):
        move(table_of(FaultyStorage(storage, plan), clock, "dies"))
    clock.advance_ms(EXPIRY_MS + 1_000)


def assert_recovery_leaves_named(storage: MemoryStorage, clock: ManualClock, count: int) -> None:
    """Recover a table whose newest COMPLETE's instant has `count` payloads: those that the COMPLETE names are left."""
    newest = [entry for entry in whole_log(storage).entries if isinstance(entry, Complete)][-1]
    folder = payload_folder(newest.instant)
    assert len(storage.list(folder)) == count
    shown = by_key(table_of(storage, clock, "reader"))
    table_of(storage, clock, "next").recover()
    assert {info.path for info in storage.list(folder)} == newest.notes
    assert by_key(table_of(storage, clock, "reader")) == shown
    assert verify_table(storage, deep=True, clock=clock).findings == ()


def test_the_plan_of_a_restore_goes_whose_process_died_after_its_complete() -> None:
    storage, clock = made(DEFINITION, ROWS), ManualClock(NOW_MS, tick_ms=1)
    table = table_of(storage, clock, "writer")
    table.savepoints.create()
    table.ingest(NEWER)
    # The first payload that it deletes is that of the write.
    dies(storage, clock, DiesBefore(DELETE, 2), lambda table: table.savepoints.restore())
    assert_recovery_leaves_named(storage, clock, 2)


def test_the_records_of_an_executor_go_if_its_successor_died_after_its_complete() -> None:
    """Each executor of a clean puts records for the metadata table; the second one names its own."""
    table = judged(WITH_METADATA, 6)
    dies(table.storage, table.clock, DiesBehind("/metadata-", PUT), lambda table: table.clean.run(retain=2))
    dies(table.storage, table.clock, DiesBefore(DELETE), lambda table: table.clean.execute())
    assert_recovery_leaves_named(table.storage, table.clock, 4)


def test_the_payload_of_a_lost_slot_goes_whose_writer_died_after_the_next_one() -> None:
    storage, clock = made(DEFINITION, ROWS), ManualClock(NOW_MS, tick_ms=1)
    other = table_of(storage, clock, "other")
    before_slot = MoveBefore(f"put_if_absent:{FOLDER}/0", lambda: other.ingest(rows(("k1", "p1", 11, 1, None))))
    dies(FaultyStorage(storage, before_slot), clock, DiesBefore(DELETE), lambda table: table.ingest(NEWER))
    assert before_slot.moved
    assert_recovery_leaves_named(storage, clock, 2)
