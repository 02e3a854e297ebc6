"""Two writers on one table, one of which replaces partitions: one runs whole before each storage operation of the other.

Every row must then be as if the writes had run one after the other, in the order in which the timeline says they completed. Where
both touch a partition, the one that was overtaken starts again; where they do not, it must not have to.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.errors import Conflict
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import DELETE_PARTITION, TRUNCATE, parse_operation
from hudi_ops.services.write.remove import remove
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import OLD, make_base, unaccounted, visible
from tests.tables import DEFINITION, NOW_MS, rows, table_of

Rows = dict[str, int]


@dataclass(frozen=True)
class Writer:
    """One write: an operation with the values that it writes, by key; a key's name tells its partition, see `_home`."""

    operation: str
    values: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return "-".join((self.operation, *(key for key, _ in self.values)))

    @property
    def partitions(self) -> set[str]:
        """Partitions that it touches, by name."""
        return {_home(key) for key, _ in self.values}

    def attempt(self, table: Table) -> str:
        """Run it once, a conflict is not tried again; returns its instant."""
        session = table._session
        if self.operation == "truncate":
            return str(remove(session, TRUNCATE, (), 0.0).instant)
        if self.operation == "delete_partition":
            return str(
                remove(session, DELETE_PARTITION, [f"part={one}" for one in sorted(self.partitions)], 0.0).instant
            )
        data = rows(*[(key, _home(key), value, 5, None) for key, value in self.values])
        batch = Batch(parse_operation(self.operation), rows=data)
        return str(ingest(session, batch, table.context.engine, "", 0.0).instant)

    def applied(self, held: Mapping[str, int]) -> Rows:
        """The rows after it."""
        if self.operation in {"truncate", "insert_overwrite_table"}:
            held = {}
        elif self.operation in {"delete_partition", "insert_overwrite"}:
            held = {key: value for key, value in held.items() if _home(key) not in self.partitions}
        return {**held, **dict(self.values)} if self.operation not in {"truncate", "delete_partition"} else dict(held)


def _home(key: str) -> str:
    """Partition of a key. There are two buckets; rows of p0 lie in bucket 0 only until `fresh2` comes, and p7 is new."""
    return "p7" if key.startswith("new") else f"p{int(key[-1]) % 2}"


UPSERT_P0, UPSERT_P1 = Writer("upsert", (("k0", 100), ("k8", 108))), Writer("upsert", (("k1", 201), ("k9", 209)))
FRESH_P0 = Writer("upsert", (("fresh2", 1),))
UPSERT_NEW, OVERWRITE_NEW = Writer("upsert", (("new1", 2),)), Writer("insert_overwrite", (("new0", 5),))
OVERWRITE_P0 = Writer("insert_overwrite", (("k0", 300), ("k4", 304)))
OVERWRITE_ALL = Writer("insert_overwrite_table", (("k2", 402), ("k3", 403)))
DELETE_P0 = Writer("delete_partition", (("k0", 0),))
TRUNCATE_ALL = Writer("truncate")
BULK_P0 = Writer("bulk_insert", (("k8", 508),))

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
STEP = 1 if SOAK else 2
"""Between two operations before which the other writer comes: a plain run has it before every second one, of either order."""
SAME = [
    (OVERWRITE_P0, UPSERT_P0),
    (OVERWRITE_P0, FRESH_P0),
    (OVERWRITE_P0, OVERWRITE_P0),
    (OVERWRITE_P0, DELETE_P0),
    (OVERWRITE_NEW, UPSERT_NEW),
    (OVERWRITE_ALL, UPSERT_NEW),
    (OVERWRITE_ALL, TRUNCATE_ALL),
    (DELETE_P0, FRESH_P0),
    (TRUNCATE_ALL, UPSERT_NEW),
]
OTHER = [(OVERWRITE_P0, UPSERT_P1), (DELETE_P0, OVERWRITE_NEW)]
if SOAK:
    SAME += [
        (OVERWRITE_P0, BULK_P0),
        (OVERWRITE_ALL, UPSERT_P1),
        (OVERWRITE_ALL, OVERWRITE_NEW),
        (TRUNCATE_ALL, BULK_P0),
    ]
    OTHER += [(OVERWRITE_P0, UPSERT_NEW), (DELETE_P0, UPSERT_P1)]
ALL = SAME + OTHER
BOTH_ORDERS = list(dict.fromkeys(pair for one, two in ALL for pair in ((one, two), (two, one))))


def run_again_on_conflict(writer: Writer, table: Table) -> tuple[str, int]:
    """As `Table` does it; returns the instant, and how many conflicts there were."""
    for conflicts in itertools.count():
        try:
            return writer.attempt(table), conflicts
        except Conflict:
            assert conflicts < 3
    raise AssertionError


def in_order_of_completion(storage: MemoryStorage, writers: Mapping[str, Writer]) -> Rows:
    """The rows after the writers, by instant, in the order in which the timeline says they completed."""
    held: Rows = dict(OLD)
    left = dict(writers)
    timeline = load_timeline(storage, load_config(storage))
    for instant in sorted(timeline.completed_writes, key=lambda one: one.completion_time):
        writer = left.pop(instant.time, None)
        held = writer.applied(held) if writer is not None else held
    assert not left, "a write that reported success is not on the timeline"
    return held


def test_the_fresh_keys_lie_in_buckets_of_their_own() -> None:
    keys = ["k0", "k2", "k4", "k6", "k8", "fresh2", "new0", "new1"]
    buckets = bucket_ids(bucket_hash_values(pa.array(keys), DEFINITION.record_key), DEFINITION.buckets).tolist()
    assert (buckets[:5], buckets[5], buckets[6] != buckets[7]) == ([0] * 5, 1, True)


@pytest.mark.parametrize(("outer", "inner"), BOTH_ORDERS, ids=str)
def test_one_writer_between_any_two_steps_of_the_other(tmp_path: Path, outer: Writer, inner: Writer) -> None:
    base = make_base(tmp_path / "source", None)
    pair = (outer, inner) if (outer, inner) in ALL else (inner, outer)
    overtaken = 0
    for number in itertools.count(1, STEP):
        storage, clock = base.copy(), ManualClock(NOW_MS, tick_ms=1)

        writers: dict[str, Writer] = {}

        def move(
            storage: MemoryStorage = storage, clock: ManualClock = clock, writers: dict[str, Writer] = writers
        ) -> None:
            instant, conflicts = run_again_on_conflict(inner, table_of(storage, clock, "inner"))
            assert conflicts == 0, "nobody overtakes the inner writer"
            writers[instant] = inner

        plan = MoveBefore.at(number, move)
        table = table_of(FaultyStorage(storage, plan), clock, "outer")
        instant, conflicts = run_again_on_conflict(outer, table)
        writers[instant] = outer
        if not plan.moved_at:
            break
        overtaken += conflicts
        assert conflicts == 0 or pair in SAME, f"{plan.moved_at}: they have nothing to do with each other"
        assert visible(storage, clock) == in_order_of_completion(storage, writers), plan.moved_at
        assert unaccounted(storage) == [], plan.moved_at
        assert verify_table(storage, deep=True, clock=clock).findings == (), plan.moved_at
    assert number > 24
    if pair in SAME:
        assert overtaken > (10 if SOAK else 3), (
            "the outer writer was never overtaken between its beginning and its decision"
        )
