"""Cancelled plans that Apache Hudi completed after all: they count (docs/protocol §26, step 10); no second look undoes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.commit.recover.recover import recover
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.tables import BY_HAND, NOW_MS, WITH_METADATA, made, rows, table_of

TIMELINE = ".hoodie/timeline/"
ROWS = rows(*((f"k{n}", f"p{n % 2}", n, 0, None) for n in range(8)))


def files_of_an_execution(storage: MemoryStorage, instant: str) -> dict[str, bytes]:
    """Return what Apache Hudi puts that executes a plan: a real execution, without slot and pointer."""
    twin = storage.copy()
    before = {info.path for info in twin.list()}
    table_of(twin, ManualClock(NOW_MS + 1_000, tick_ms=1), "hudi").clustering.execute(instant=instant, engine="local")
    ours = ("commit_log", ".heartbeat", ".hudi_ops_tmp")
    found = {}
    for path in sorted(info.path for info in twin.list() if info.path not in before):
        body = twin.get(path)
        if path.startswith(TIMELINE) and "_" in path.rpartition("/")[2]:
            metadata = CommitMetadata.from_bytes(body)
            extra = {key: value for key, value in metadata.extra.items() if key != POINTER_KEY}
            body = replace(metadata, extra=extra).to_bytes()
        if not any(part in path for part in ours):
            found[path] = body
    return found


def test_the_second_look_leaves_files_and_metadata_delta_of_a_plan_that_apache_hudi_completed() -> None:
    storage, clock = made(WITH_METADATA, ROWS), ManualClock(NOW_MS, tick_ms=1)
    instant = str(table_of(storage, clock, "planner").clustering.plan(sort_by="id").instant)
    theirs = files_of_an_execution(storage, instant)
    dying = FaultyStorage(storage, DiesBefore("put:part="))
    with pytest.raises(Crash):
        table_of(dying, clock, "executor").clustering.execute(instant=instant, engine="local")
    clock.advance_ms(EXPIRY_MS + 10_000)
    assert table_of(storage, clock, "user").cancel(instant, reason="its executor died").state == "aborted"
    assert any("/sweep" in info.path for info in storage.list(".hoodie/.temp")), "a second look is due"
    # Apache Hudi began the plan before its requested file went; its completed file comes last.
    for path, body in sorted(theirs.items(), key=lambda one: one[0].startswith(TIMELINE)):
        storage.put(path, body)
    for info in storage.list(f".hoodie/.temp/{instant}"):
        storage.delete(info.path)
    clock.advance_ms(EXPIRY_MS + 10_000)
    recover(table_of(storage, clock, "anyone", upkeep=BY_HAND)._session)
    assert not any("/sweep" in info.path for info in storage.list(".hoodie/.temp")), "the second look was taken"
    assert all(storage.get(path) == body for path, body in theirs.items() if f"/{instant}" in path or "_" in path)
    for listing in ("metadata", "storage"):
        assert len(table_of(storage, clock, "reader").read(["id"], listing=listing)) == len(ROWS)
    assert verify_table(storage, deep=True, clock=clock).errors == ()
