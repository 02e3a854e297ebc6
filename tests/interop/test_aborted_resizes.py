"""Apache Hudi counts the rows after cancels of resizes that died, once it has archived everything and updated every key.

A file of such a resize that stayed would be rows for Apache Hudi as soon as the instants around it are archived. Each round plans a
resize, lets two writers write beside it and a third die, and crashes its cancel after one of the operations that change something.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.definitions import create_table
from tests.fault_plans import DiesBefore
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer, bucket_options
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.protocol.log_actors import timeline_of
from tests.services.resize.hand_plans import Wanted, child_logs, plan_of_nodes, run_plan
from tests.services.resize.ringed_tables import CONSISTENT, opened
from tests.tables import rows

KEYS = range(40)
DAY_MS = 24 * 3600 * 1000
"""So long ago ours wrote: Apache Hudi writes now, after all leases that ours left would have expired."""
POINTS = range(1, 40, 2) if SOAK else (2, 9, 20)
"""After which of its changes a cancel dies; it makes about 35."""
ARCHIVING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.archive.automatic": "true",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": "16",
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    "hoodie.datasource.write.recordkey.field": "id",
}
UPDATES = 4
"""Writes of Apache Hudi, of every key: the third archives, the last finds rows that appeared then."""


def batch(value: int) -> pa.Table:
    return rows(*((f"k{n:02d}", f"p{n % 2}", value + n, value, None) for n in KEYS))


class Rounds:
    """A table in memory, and rounds of cancelled resizes, by processes at simulated times."""

    def __init__(self, version: int, metadata: bool) -> None:
        self.clock = ManualClock(int(time.time() * 1000) - DAY_MS, tick_ms=1)
        self.storage = MemoryStorage("resized", self.clock)
        create_table(self.open("creator")._session, replace(CONSISTENT, metadata=metadata, version=version))
        self.open("creator").ingest(batch(1))
        self.value = 1
        self.cancelled: list[str] = []

    def open(self, actor: str, faults: Any = None) -> Table:
        return opened(FaultyStorage(self.storage, faults) if faults is not None else self.storage, actor, self.clock)

    def write(self) -> None:
        self.value += 100
        self.open("writer").ingest(batch(self.value))

    def cancel_and_die(self, number: int) -> bool:
        """Cancel a resize, and die after a change; another process ends it. Return whether the cancel makes so many changes."""
        instant = plan_of_nodes(self.open("planner"), Wanted((0,)), Wanted((1, 2)), Wanted((3, 0), "part=p1"))
        self.cancelled.append(instant)
        self.write()
        for actor, point in (("dead", "put:.hoodie/.commit_log/payload"), ("executor", "^put:part=p0")):
            with contextlib.suppress(Crash):
                table = self.open(actor, DiesBefore(point, 1 if actor == "dead" else 2))
                run_plan(table, instant) if actor == "executor" else table.ingest(batch(9_000))
        self.write()
        self.later()
        assert len(child_logs(self.storage, instant)) >= 10
        faulty = FaultyStorage(self.storage, FaultPlan.at(number, Fault.CRASH_AFTER), only_mutations=True)
        with contextlib.suppress(Crash):
            opened(faulty, "user", self.clock).cancel(instant, "not needed", wait_s=0)
        self.later()
        self.open("second").cancel(instant, "not needed", wait_s=0)
        for _ in range(3):  # a rollback is finished, the plan removed, then the second look is due
            self.later()
            self.open("second").recover()
        return bool(faulty.fired)

    def later(self) -> None:
        self.clock.advance_ms(EXPIRY_MS + 1_000)

    def left(self) -> list[str]:
        """Files that carry a cancelled instant, but for what stays of it."""
        kept = (".aborted", ".aborted.swept", *(f"/cancelled/{one}" for one in self.cancelled))
        paths = [info.path for info in self.storage.list()]
        return [path for path in paths if any(one in path for one in self.cancelled) and not path.endswith(kept)]


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(("version", "metadata"), [(9, True), (8, False), (9, False), (8, True)])
def test_apache_hudi_counts_the_rows_after_cancels_that_died(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, version: int, metadata: bool
) -> None:
    path = tmp_path / "table"
    rounds = Rounds(version, metadata)
    died = [rounds.cancel_and_die(number) for number in POINTS]
    assert sum(died) >= len(died) * 3 // 4, "cancels came to their end"
    assert rounds.left() == []
    rounds.storage.dump(path)
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    options = {**bucket_options(4, "id"), **ARCHIVING, "hoodie.metadata.enable": str(metadata).lower()}
    reading = BELIEVED if metadata else WITHOUT_METADATA

    def check(want: pa.Table) -> None:
        assert_same_rows(peer.read(path, options=reading), want)
        assert_same_rows(hudi_rs(path), want)
        assert_same_rows(Table.open(str(path)).read(), want)

    check(batch(rounds.value))
    storage = open_storage(str(path))
    for number in range(UPDATES):
        peer.write(path, batch(20_000 + number), options=options)
    assert all(one.time > rounds.cancelled[-1] for one in timeline_of(storage)), "Apache Hudi archived the rest"
    check(batch(20_000 + UPDATES - 1))
    errors = verify_table(storage, deep=True, index=True).errors
    assert [*map(str, errors)] == []
