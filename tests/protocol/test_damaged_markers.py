"""A damaged line among the markers of a dead writer of Apache Hudi stops nobody, and leads nobody out of the table."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest

from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.recover.rollback_bodies import plan_bytes
from hudi_ops.concurrency.markers import read_markers
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.protocol.crash_table import NEW, OLD, SECOND, make_base, unaccounted, visible
from tests.protocol.dead_writers import LATER_MS, kill_foreign, late_clock, rollbacks, timeline
from tests.tables import NOW_MS, table_of

INSTANT = instant_of_ms(NOW_MS)
NAME = f"00000000-1111-2222-3333-444444444444-0_0-5-9_{INSTANT}.parquet"
LINES = {
    "two slashes": f"part=p0//{NAME}.marker.CREATE".encode(),
    "a zero byte": f"part=p0/\0{NAME}.marker.CREATE".encode(),
    "a way out": f"../../outside/{NAME}.marker.CREATE".encode(),
    "no UTF-8": b"part=p0/\xff\xfe" + NAME.encode() + b".marker.CREATE",
    "half a line": f"part=p0/{NAME[:20]}".encode(),
    "the timeline": f".hoodie/timeline/{NAME}.marker.CREATE".encode(),
}
PATHS = ["part=p0//{}", "part=p0/\0{}", "../../outside/{}", "part=p0/../../{}"]


@pytest.fixture
def storage(tmp_path: Path) -> MemoryStorage:
    storage = make_base(tmp_path / "source", None)
    storage._clock = late_clock()
    return storage


def damage(storage: MemoryStorage, line: bytes) -> list[str]:
    """A writer of Apache Hudi died, one of whose two marker lines is damaged; its files."""
    instant, files = kill_foreign(storage, NOW_MS, markers="server")
    assert instant == INSTANT
    storage.put(f".hoodie/.temp/{instant}/MARKERS0", line + b"\n")
    return files


def plan_of(storage: MemoryStorage, path: str) -> bytes:
    """The plan of a rollback with a path as it is."""
    return plan_bytes(storage, Instant(INSTANT, "commit", State.INFLIGHT), [path.format(NAME)])


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_damaged_line_is_set_aside_and_named_and_the_files_are_found(
    storage: MemoryStorage, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    files = damage(storage, line)
    findings = verify_table(storage, clock=late_clock()).findings
    assert [one.invariant for one in findings] == ["marker-unusable", "pending-dead"]
    with caplog.at_level(logging.WARNING):
        table_of(storage, late_clock(), "ours").ingest(SECOND)
    assert f"line 1 of .hoodie/.temp/{INSTANT}/MARKERS0" in caplog.text
    assert not any(storage.head(path) for path in files)
    assert visible(storage, late_clock()) == NEW
    assert timeline(storage).pending == ()
    assert len(rollbacks(storage)) == 1
    assert unaccounted(storage) == []
    assert verify_table(storage, deep=True, clock=late_clock()).findings == ()


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_writer_without_a_heartbeat_and_with_a_damaged_line_is_rolled_back_on_a_word(
    storage: MemoryStorage, line: bytes
) -> None:
    files = damage(storage, line)
    storage.delete(f".hoodie/.heartbeat/{INSTANT}")
    table = table_of(storage, late_clock(), "ours")
    assert list(table.rollback(INSTANT, abandoned=True).files) == files
    table.ingest(SECOND)
    assert visible(storage, late_clock()) == NEW
    assert timeline(storage).pending == ()


@pytest.mark.parametrize("path", PATHS)
def test_the_plan_of_a_rollback_that_names_such_a_path_is_replaced_before_it_is_executed(
    storage: MemoryStorage, path: str
) -> None:
    files = damage(storage, LINES["two slashes"])
    rollback = instant_of_ms(NOW_MS + 10)
    storage.put(f".hoodie/timeline/{rollback}.rollback.requested", plan_of(storage, path))
    storage.put(f".hoodie/timeline/{rollback}.rollback.inflight", b"")
    assert "rollback-plan-path" in {one.invariant for one in verify_table(storage, clock=late_clock()).findings}
    # Without a lease it is Apache Hudi's to execute. What it will find is harmless.
    recover(table_of(storage, late_clock(), "ours")._session)
    (found,) = [one for one in timeline(storage).pending if one.kind == "rollback"]
    assert found.time == rollback
    plan = read_plan(storage, timeline(storage), found)
    assert isinstance(plan, RollbackPlan)
    assert plan.strange == ()
    assert {f"{part}/{name}" for part, names in plan.files.items() for name in names} == set(files)
    assert "rollback-plan-path" not in {one.invariant for one in verify_table(storage, clock=late_clock()).findings}


@pytest.mark.parametrize("path", PATHS)
def test_a_rollback_of_ours_that_died_on_such_a_path_is_finished(storage: MemoryStorage, path: str) -> None:
    files = damage(storage, LINES["a way out"])
    with contextlib.suppress(Crash):
        recover(table_of(FaultyStorage(storage, DiesBefore("delete:part=")), late_clock(), "dead")._session)
    (begun,) = [one for one in timeline(storage).pending if one.kind == "rollback"]
    storage.put(f".hoodie/timeline/{begun.time}.rollback.requested", plan_of(storage, path))
    clock = late_clock(2 * LATER_MS)
    (undone,) = recover(table_of(storage, clock, "ours")._session)
    assert undone.rollback == begun.time
    assert list(undone.files) == files
    assert visible(storage, clock) == OLD
    assert timeline(storage).pending == ()
    assert unaccounted(storage) == []


def test_a_partition_whose_name_holds_a_line_separator_keeps_its_markers(tmp_path: Path) -> None:
    """Java ends lines with a newline alone; Python takes ten other characters for the end of one."""
    storage = LocalStorage(tmp_path)
    path = f"part=a\u2028b\x85c/{NAME}"
    storage.put(f".hoodie/.temp/{INSTANT}/MARKERS0", f"{path}.marker.CREATE\n".encode())
    announced = read_markers(storage, INSTANT)
    assert [one.data_path for one in announced.markers] == [path]
    assert announced.set_aside == ()
