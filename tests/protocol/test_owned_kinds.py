"""The inventory of an instant: a kind of file costs one row, and each reason removes in one order."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from hudi_ops.commit.owned import kinds
from hudi_ops.commit.owned.kinds import KINDS, Part, Reason, kind_in_folder
from hudi_ops.commit.owned.remove import checksum_of, remove_paths
from hudi_ops.commit.recover.recover import recover
from hudi_ops.errors import Internal
from hudi_ops.services.create import create
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.protocol.compaction_table import make_logged
from tests.protocol.crash_table import FIRST, SECOND
from tests.protocol.dead_writers import LATER_MS, late_clock, make_dead, timeline
from tests.tables import BY_HAND, MERGE_ON_READ, NOW_MS, made, table_of

FOLDER = ".hoodie/.toys"
TOY = kind_in_folder("toy", Part.CONTENT, set(Reason) - {Reason.LEFT_OUT, Reason.COMPLETED}, FOLDER, "toy-left")
NEVER = "20261121101500123"
"""An instant of no writer, above all others."""

ORDERS = {
    Reason.CANCELLED: "data file, ring, ledger, payload, metadata delta, inflight file, requested file, queue file, lease",
    Reason.WITHDRAWN: "requested file",
    Reason.NOT_CANCELLED: "queue file",
    Reason.COMPLETED: "data file, payload, marker, note of a second sweep, lease",
    Reason.TAKEN_OVER: "data file, inflight file",
    Reason.LEFT_OUT: "data file",
    Reason.LOST: "payload",
    Reason.VOIDED: "completed file",
    Reason.VANISHED: "data file, ledger, payload, metadata delta, inflight file, requested file, note of a second sweep",
    Reason.ARCHIVED: "completed file, ledger, payload, inflight file, requested file, record of a cancelled plan, "
    "mark of a swept plan",
    Reason.RESTORED: "completed file, data file, ring, ledger, payload, inflight file, requested file",
    Reason.UNPROTECTED: "completed file, inflight file",
    Reason.REPAIRED: "data file, ledger, payload, inflight file, requested file, marker",
    Reason.BUILD_WITHDRAWN: "data file, checkpoint of a build",
}


@pytest.fixture
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "KINDS", (*KINDS[:3], TOY, *KINDS[3:]))


def left(storage: MemoryStorage) -> list[str]:
    return [info.path for info in storage.list(FOLDER)]


def give_toy(storage: MemoryStorage, instant: str) -> None:
    storage.put(f"{FOLDER}/{instant}/of/any/name", b"toy")


def recovered(storage: MemoryStorage, by_ms: int = LATER_MS) -> None:
    recover(table_of(storage, late_clock(by_ms), "recoverer")._session)


@pytest.mark.usefixtures("_toys")
def test_a_new_kind_is_rolled_back_and_swept(tmp_path: Path) -> None:
    storage, instant = make_dead(tmp_path / "source")
    give_toy(storage, instant)
    give_toy(storage, NEVER)
    recovered(storage)
    assert left(storage) == [f"{FOLDER}/{NEVER}/of/any/name"], "that of another instant stays"
    give_toy(storage, instant)  # by a task that outlived its write
    recovered(storage, 3 * LATER_MS)
    assert left(storage) == [f"{FOLDER}/{NEVER}/of/any/name"]


@pytest.mark.usefixtures("_toys")
def test_a_new_kind_is_taken_over() -> None:
    storage = make_logged()
    instant = table_of(storage, ManualClock(NOW_MS), "planner").compaction.plan().instant
    with contextlib.suppress(Crash):
        dying = FaultyStorage(storage, DiesBefore("put:part="))
        table_of(dying, ManualClock(NOW_MS), "dead").compaction.execute(instant=instant)
    give_toy(storage, instant)
    table_of(storage, late_clock(), "second").compaction.execute(instant=instant)
    assert timeline(storage).find(instant, "compaction").is_completed
    assert left(storage) == []


@pytest.mark.usefixtures("_toys")
def test_a_new_kind_is_verified_and_repaired() -> None:
    storage = made(MERGE_ON_READ, FIRST)
    give_toy(storage, NEVER)
    assert [(one.invariant, one.where) for one in verify_table(storage).findings] == [("toy-left", f"{FOLDER}/{NEVER}")]
    (repair,) = table_of(storage, late_clock(), "repairer").repair("toy-left", abandoned=True).repairs
    assert repair.is_done, repair
    assert left(storage) == []
    assert verify_table(storage).findings == ()


@pytest.mark.usefixtures("_toys")
def test_a_new_kind_is_restored() -> None:
    storage = made(MERGE_ON_READ, FIRST)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
    table.savepoints.create()
    instant = table.ingest(SECOND).instant
    give_toy(storage, instant)
    assert table.savepoints.restore().undone == (instant,)
    assert left(storage) == []


def test_each_reason_has_its_order() -> None:
    orders = {reason: ", ".join(kind.name for kind in KINDS if reason in kind.reasons) for reason in Reason}
    print("\n".join(f"{reason.name}: {order}" for reason, order in orders.items()))
    assert orders == ORDERS


def test_a_timeline_of_another_name_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = create.new_table_properties
    monkeypatch.setattr(create, "new_table_properties", lambda *words: usual(*words) | {"hoodie.timeline.path": "tl"})
    storage = made(MERGE_ON_READ, FIRST, SECOND)
    assert storage.list(".hoodie/tl")
    assert not storage.list(".hoodie/timeline")
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=BY_HAND)
    table.savepoints.delete(table.savepoints.create().instant)
    table.cancel(table.compaction.plan().instant, force=True)
    for _ in range(4):
        table.ingest(SECOND)
    assert table.archive.run(keep_min=2, keep_max=3).instants > 0
    recovered(storage, 3 * LATER_MS)
    assert verify_table(storage).findings == ()


def test_checksum_files_of_a_copied_table_go_with_their_files() -> None:
    storage = made(MERGE_ON_READ, FIRST, *[SECOND] * 4)
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer", upkeep=BY_HAND)
    plan = table.compaction.plan().instant
    kept = [info.path for folder in (kinds.PAYLOADS, ".hoodie/.ingest") for info in storage.list(folder)]
    for path in kept:
        storage.put(checksum_of(path), b"crc\0")
    table.compaction.execute(instant=plan)
    assert storage.list(".hoodie/.heartbeat") == []
    for _ in range(4):
        table.ingest(SECOND)
    assert table.archive.run(keep_min=2, keep_max=3).payloads > 0
    assert not [path for path in kept if storage.head(path) is None and storage.head(checksum_of(path)) is not None]


def test_a_path_of_no_row_stays() -> None:
    storage, path = MemoryStorage("t"), f"{kinds.PAYLOADS}/odd/file"
    storage.put(path, b"")
    with pytest.raises(Internal, match="no kind of such files"):
        remove_paths(storage, Reason.ARCHIVED, [path])
    assert [info.path for info in storage.list()] == [path]
