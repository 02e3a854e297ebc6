"""Tables in which writers ended without a completion."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.names import instant_of_ms
from tests.fault_plans import DiesBefore
from tests.tables import BY_HAND, DEFINITION, table_of
from tests.unit.health.aged import Aged, batch


def writers_missed(tmp_path: Path) -> str:
    """A writer of ours that died an hour ago before its slot, and a write of Apache Hudi without a heartbeat."""
    aged = Aged(tmp_path, DEFINITION, batch("p0", 1))
    dies = FaultyStorage(open_storage(aged.path), DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    with suppress(Crash):
        table_of(dies, aged.clock, "dead", upkeep=BY_HAND).ingest(batch("p0", 2))
    (dead,) = load_timeline(open_storage(aged.path), aged.table("reader").config).pending
    aged.date_back(dead.time)
    silent_write(aged)
    return aged.path


def silent_write(aged: Aged) -> str:
    """Begin a write as Apache Hudi does that makes no heartbeats; return its instant."""
    instant = instant_of_ms(aged.clock.now_ms())
    for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
        aged.put(f".hoodie/timeline/{name}")
    return instant
