"""Tables with hash rings: every key lies in one visible group, beside overwrites, crashes and other writers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Conflict, Corrupt, HudiOpsError, Unsupported
from hudi_ops.index.ring import INITIAL, Ring, merge, with_children
from hudi_ops.index.ring_files import RINGS_FOLDER, RingReader, committed_path, put_initial, ring_path
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.verify import verify_table
from tests.definitions import create_table
from tests.fault_plans import MoveBefore
from tests.protocol.sweep import fault_sweep
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, TIMELINE, by_key, made, rows, table_of

CONSISTENT = replace(MERGE_ON_READ, bucket_engine="consistent", buckets=4)
EXTENDIBLE = replace(MERGE_ON_READ, bucket_engine="extendible", buckets=4)


def batch(keys: range, value: int) -> Any:
    return rows(*[(f"k{n}", f"p{n % 2}", value + n, value, None) for n in keys])


def model(keys: range, value: int) -> dict[str, int]:
    return {f"k{n}": value + n for n in keys}


def in_p0(found: dict[str, int]) -> dict[str, int]:
    return {key: value for key, value in found.items() if int(key[1:]) % 2 == 0}


def opened(storage: Any, clock: ManualClock | None = None, actor: str = "writer") -> Table:
    return table_of(storage, clock or ManualClock(NOW_MS, tick_ms=1), actor, upkeep=BY_HAND)


def ring_of(table: Table, partition: str) -> Ring:
    session = table._session
    found = RingReader.of(session.ctx.storage, session.loader.load(), session.commits).read(partition)
    assert found is not None
    return found


def assert_whole(storage: MemoryStorage, clock: ManualClock | None = None) -> None:
    assert verify_table(storage, deep=True, clock=clock or ManualClock(NOW_MS)).findings == ()


@pytest.mark.parametrize("definition", [CONSISTENT, EXTENDIBLE], ids=lambda one: one.bucket_engine)
def test_rows_are_found_again_by_the_ring(definition: Any) -> None:
    storage = made(definition, batch(range(40), 100))
    table = opened(storage)
    result = table.ingest(batch(range(20, 60), 200))
    assert by_key(table) == model(range(20), 100) | model(range(20, 60), 200)
    assert result.inserted == 0, "all nodes have their groups, which get log files"
    bases = [info.name for info in storage.list("part=p0") if info.name.endswith(".parquet")]
    assert {name.split("_")[0] for name in bases} == {f"{one}-0" for one in ring_of(table, "part=p0").prefixes}
    table.ingest(rows(("k1", "p1", 0, 300, True), ("k2", "p0", 0, 300, True)))
    assert by_key(table).keys() == {f"k{n}" for n in range(60)} - {"k1", "k2"}
    assert_whole(storage)


@pytest.mark.parametrize("nodes", [1, 3, 8])
def test_rings_that_differ_from_the_first_split_and_join_the_lanes(nodes: int) -> None:
    storage = made(CONSISTENT)
    put_initial(storage, "part=p0", nodes)
    table = opened(storage)
    table.ingest(batch(range(80), 100))
    table.ingest(batch(range(60), 200))
    assert by_key(table) == model(range(80), 100) | model(range(60), 200)
    groups = {info.name.lstrip(".").split("_")[0] for info in storage.list("part=p0") if "_" in info.name.lstrip(".")}
    assert len(groups - {"hoodie"}) == nodes
    assert_whole(storage)


def test_overwrites_and_removals_renew_the_rings() -> None:
    storage = made(CONSISTENT, batch(range(40), 100))
    table = opened(storage)
    first = ring_of(table, "part=p0")
    overwrite = table.ingest(rows(("k0", "p0", 7, 200, None)), operation="insert_overwrite")
    second = ring_of(table, "part=p0")
    assert (second.instant, second.seq_no, second.values.tolist()) == (overwrite.instant, 1, first.values.tolist())
    assert not {*first.prefixes} & {*second.prefixes}
    assert storage.head(committed_path("part=p0", second.instant)) is None, "the completed instant is the only proof"
    assert ring_of(table, "part=p1").instant == INITIAL
    expected = {"k0": 7} | {key: value for key, value in model(range(40), 100).items() if int(key[1:]) % 2}
    assert by_key(table) == expected
    table.ingest(batch(range(40), 300))
    assert by_key(table) == model(range(40), 300)
    table.delete_partition(["part=p1"])
    table.ingest(batch(range(10), 400))
    assert by_key(table) == in_p0(model(range(40), 300)) | model(range(10), 400)
    table.truncate()
    assert by_key(table) == {}
    table.ingest(batch(range(10), 500))
    table.ingest(batch(range(5), 600), operation="insert_overwrite_table")
    table.ingest(batch(range(4), 700))
    assert by_key(table) == model(range(5), 600) | model(range(4), 700)
    assert_whole(storage)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_crash_of_an_overwrite_leaves_rings_that_fit_the_groups(fault: Fault) -> None:
    base = made(CONSISTENT, batch(range(8), 100))

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        opened(storage, clock, "first").ingest(rows(("k0", "p0", 7, 200, None)), operation="insert_overwrite")

    old = model(range(8), 100)
    new = {"k0": 7} | {key: value for key, value in old.items() if int(key[1:]) % 2}
    seen = set()
    for left in fault_sweep(base, run, fault, "an overwrite", points=8):
        table = Table(left.resume(), upkeep=BY_HAND)
        table.recover()
        found = by_key(table)
        assert found in (old, new), left.story
        seen.add(len(found))
        for number in (300, 400):
            table.ingest(batch(range(8), number))
            assert by_key(table) == model(range(8), number), left.story
        errors = [
            one for one in verify_table(left.storage, deep=True, clock=left.clock).findings if one.severity == "error"
        ]
        assert errors == [], left.story
    assert len(seen) == 2, "some crashes came before the decision, some after it"


def test_a_write_that_an_overwrite_overtook_routes_its_rows_again() -> None:
    storage = made(CONSISTENT, batch(range(8), 100))
    clock = ManualClock(NOW_MS, tick_ms=1)

    def overwrite() -> None:
        opened(storage, clock, "other").ingest(rows(("k0", "p0", 7, 900, None)), operation="insert_overwrite")

    plan = MoveBefore("part=p0/.", overwrite)
    table = opened(FaultyStorage(storage, plan), clock)
    table.ingest(rows(("k2", "p0", 5, 901, None), ("k1", "p1", 6, 901, None)))
    assert plan.moved
    expected = {key: value for key, value in model(range(8), 100).items() if int(key[1:]) % 2}
    assert by_key(table) == expected | {"k0": 7, "k2": 5, "k1": 6}
    assert_whole(storage, clock)


def test_a_write_into_a_new_group_follows_a_resize_that_replaced_another() -> None:
    storage = made(CONSISTENT, rows(("k0", "p0", 1, 100, None)))
    clock = ManualClock(NOW_MS, tick_ms=1)
    first = ring_of(opened(storage), "part=p0")
    held = first.prefixes.index(storage.list("part=p0")[-1].name.split("_")[0].removesuffix("-0"))

    def resize() -> None:
        """As Apache Hudi completes one: all nodes but that of k0 become one, of other groups than the write's."""
        instant, done = (f"{int(instant_of_ms(clock.now_ms())) + ahead:017d}" for ahead in (0, 1))
        nodes = [(held + step) % 4 for step in (1, 2, 3)]
        ring = with_children(first, merge(first, nodes, "merged"), instant)
        storage.put(ring_path("part=p0", instant), ring.to_bytes())
        body = CommitMetadata(operation="CLUSTER", replaced={"part=p0": ("00000000-other-0",)}).to_bytes()
        for name, content in (("clustering.requested", b""), ("clustering.inflight", b"")):
            storage.put(f"{TIMELINE}/{instant}.{name}", content)
        storage.put(f"{TIMELINE}/{instant}_{done}.replacecommit", body)

    plan = MoveBefore("part=p0/.", resize)
    table = opened(FaultyStorage(storage, plan), clock)
    table.ingest(batch(range(0, 40, 2), 300))
    assert plan.moved
    groups = {info.name.lstrip(".").split("_")[0] for info in storage.list("part=p0") if info.name.endswith(".parquet")}
    assert groups == {first.file_id(held), "merged-0"}
    assert by_key(table) == model(range(0, 40, 2), 300)


def test_a_restore_takes_renewed_rings_with_it() -> None:
    storage = made(CONSISTENT, batch(range(8), 100))
    table = opened(storage)
    saved = table.savepoints.create().instant
    table.ingest(rows(("k0", "p0", 7, 200, None)), operation="insert_overwrite")
    table.savepoints.restore(saved)
    assert ring_of(table, "part=p0").instant == INITIAL
    assert [info.name for info in storage.list(RINGS_FOLDER)] == [f"{INITIAL}.hashing_meta"] * 2
    table.ingest(batch(range(8), 300))
    assert by_key(table) == model(range(8), 300)


def test_a_process_that_slept_leaves_no_ring_of_a_restored_overwrite() -> None:
    storage, clock = made(CONSISTENT, batch(range(8), 100)), ManualClock(NOW_MS, tick_ms=1)
    saved = opened(storage, clock).savepoints.create().instant

    def restore() -> None:
        clock.advance_ms(EXPIRY_MS + 1_000)
        opened(storage, clock, "other").savepoints.restore(saved)

    plan = MoveBefore("", restore)
    plan._is_chosen = lambda _, found: f"put_if_absent:{TIMELINE}" in found and found.endswith(".replacecommit")
    overwrite = rows(("k0", "p0", 7, 200, None))
    opened(FaultyStorage(storage, plan), clock, "sleeper").ingest(overwrite, operation="insert_overwrite")
    assert plan.moved
    table = opened(storage, clock)
    table.ingest(batch(range(8), 300))
    assert by_key(table) == model(range(8), 300)
    assert_whole(storage, clock)


def test_an_archived_overwrite_keeps_its_ring() -> None:
    storage = made(CONSISTENT, batch(range(8), 100))
    table = opened(storage)
    instant = table.ingest(rows(("k0", "p0", 7, 200, None)), operation="insert_overwrite").instant
    assert instant is not None
    for number in range(300, 307):
        table.ingest(batch(range(8), number))
    table.clean.run(retain=1)  # replaced groups that are not cleaned keep their write on the timeline
    table.archive.run(keep_min=2, keep_max=3)
    assert table._session.loader.load().timeline.find(instant) is None
    assert storage.head(committed_path("part=p0", instant)) is not None
    assert ring_of(table, "part=p0").instant == instant
    assert by_key(table) == model(range(8), 306)


def test_a_group_outside_the_ring_stops_writes() -> None:
    storage = made(CONSISTENT, batch(range(8), 100))
    ring = ring_of(opened(storage), "part=p0")
    body = storage.get(ring_path("part=p0", INITIAL))
    storage.put(ring_path("part=p0", INITIAL), body.replace(ring.prefixes[0].encode(), b"0" * 36))
    before = {info.path: storage.get(info.path) for info in storage.list("part=p0")}
    with pytest.raises(Corrupt, match="belongs to no node"):
        opened(storage).ingest(batch(range(8), 200))
    assert {info.path: storage.get(info.path) for info in storage.list("part=p0")} == before


def test_a_record_index_is_refused_beside_rings() -> None:
    storage = made(replace(CONSISTENT, metadata=True), batch(range(8), 100))
    before = {info.path for info in storage.list()}
    with pytest.raises(Unsupported, match="later than the resize"):
        opened(storage).indexing.run(partitions=["record_index"])
    assert {info.path for info in storage.list()} == before
    opened(storage).ingest(batch(range(8), 200))
    assert by_key(opened(storage)) == model(range(8), 200)


@pytest.mark.parametrize(
    "changes",
    [
        {"table_type": "COPY_ON_WRITE"},
        {"index": "bloom"},
        {"buckets_min": 5},
        {"bucket_engine": "simple", "buckets_max": 8},
        {"bucket_engine": "extendible", "buckets": 6},
        {"meta_fields": False},
    ],
    ids=str,
)
def test_a_definition_that_contradicts_itself_makes_no_table(changes: dict[str, Any]) -> None:
    with pytest.raises((HudiOpsError, Conflict)) as raised:
        made(replace(CONSISTENT, **changes))
    assert "bucket" in str(raised.value)


def test_another_engine_is_another_definition() -> None:
    storage = made(CONSISTENT)
    with pytest.raises(
        HudiOpsError, match="index is consistent_bucket in the table and extendible_bucket in this call"
    ):
        create_table(opened(storage)._session, EXTENDIBLE)
