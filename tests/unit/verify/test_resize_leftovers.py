"""What `verify` reports of resizes: log files of buckets that were not made, rings that do not count, lost child logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.index.ring import initial_ring, renewed
from hudi_ops.index.ring_files import committed_path, ring_path
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.verify import Finding, verify_table
from tests.tables import BY_HAND, NOW_MS, table_of

PENDING, RESIZED = "20261121021917676", "20261121021926263"
CLOCK = ManualClock(NOW_MS, tick_ms=1)


def copied(root: Path) -> MemoryStorage:
    """A table of Apache Hudi with a commit log."""
    found, source = MemoryStorage(root.name, CLOCK), open_storage(str(root))
    for info in source.list():
        found.put(info.path, source.get(info.path))
    opened(found).adopt()
    return found


def opened(storage: MemoryStorage) -> Table:
    return table_of(storage, CLOCK, "tester", AdoptionOptions(timezone="UTC", services_only=True), upkeep=BY_HAND)


def found(storage: MemoryStorage) -> list[Finding]:
    return [one for one in verify_table(storage, deep=True, clock=CLOCK).findings if one.invariant != "foreign-plan"]


def ids(storage: MemoryStorage) -> set[tuple[str, str]]:
    return {(one.severity, one.invariant) for one in found(storage)}


@pytest.fixture
def storage(hudi_fixtures: Callable[[str], Path]) -> MemoryStorage:
    """A table with a pending resize, for which completed writes wrote twice."""
    return copied(hudi_fixtures("v9_bucket_consistent_pending_resize"))


def child_logs(storage: MemoryStorage) -> dict[str, bytes]:
    return {info.path: storage.get(info.path) for info in storage.list("p=a") if PENDING in info.name}


def test_a_log_file_that_an_aborted_resize_left_is_found_and_repaired(storage: MemoryStorage) -> None:
    path, body = next(iter(child_logs(storage).items()))
    opened(storage).cancel(PENDING, "not needed", force=True)
    assert found(storage) == []
    storage.put(path, body)
    (left,) = found(storage)
    assert (left.severity, left.invariant, left.where) == ("warning", "resize-log-left", path)
    assert left.what.startswith(f"the resize {PENDING} was undone")
    assert left.what.endswith("once the timeline starts later")
    (repaired,) = opened(storage).repair("resize-log-left").repairs
    assert repaired.is_done
    assert (storage.head(path), found(storage)) == (None, [])


def test_a_lost_log_file_of_a_pending_resize_is_damage_and_of_a_cancelled_one_is_not(storage: MemoryStorage) -> None:
    lost, *others = (path for path in child_logs(storage) if "653fdc28" in path)
    assert others == []  # the only file of its group
    storage.delete(lost)
    assert [(one.severity, one.invariant, one.where) for one in found(storage)] == [("error", "file-missing", lost)]
    opened(storage).cancel(PENDING, "not needed", force=True, request_only=True)
    assert ids(storage) == set()


@pytest.fixture
def resized(hudi_fixtures: Callable[[str], Path]) -> MemoryStorage:
    """A table that was resized twice."""
    storage = copied(hudi_fixtures("v9_bucket_consistent_resized"))
    assert found(storage) == []
    return storage


def test_a_log_file_of_a_bucket_that_a_completed_resize_left_out_is_an_error(resized: MemoryStorage) -> None:
    table = opened(resized)
    timeline, commits = table._session.loader.load().timeline, table._session.commits
    writer = next(one for one in reversed(timeline.completed_writes) if one.kind == "deltacommit")
    metadata = commits.metadata(timeline, writer)
    assert metadata is not None
    stat = next(one for one in metadata.stats if one.log_files)
    file_id = "00000000-0000-0000-0000-00000000abcd-0"
    path = f"{stat.partition_path}/.{file_id}_{RESIZED}.log.1_0-1-1"
    resized.put(path, resized.get(stat.path.lstrip("/")))
    child = replace(stat, file_id=file_id, path=path, log_files=(path.rpartition("/")[2],))
    resized.put(timeline.path(writer.file_name), replace(metadata, stats=[*metadata.stats, child]).to_bytes())
    (left,) = found(resized)
    assert (left.severity, left.invariant, left.where) == ("error", "resize-log-left", path)
    assert left.what.endswith("readers may show its rows twice")


def test_a_ring_of_an_instant_that_never_completed_is_clutter(resized: MemoryStorage) -> None:
    aborted = instant_of_ms(NOW_MS - 5_000_000)
    path = ring_path("p=a", aborted)
    resized.put(path, renewed(initial_ring("p=a", 2), aborted).to_bytes())
    assert [(one.severity, one.invariant, one.where) for one in found(resized)] == [("info", "ring-left", path)]


def test_a_ring_that_counts_although_its_resize_was_undone_is_an_error(storage: MemoryStorage) -> None:
    opened(storage).cancel(PENDING, "not needed", force=True)
    storage.put(
        ring_path("p=b", PENDING), initial_ring("p=b", 2).to_bytes().replace(b"00000000000000", PENDING.encode(), 1)
    )
    assert ids(storage) == {("info", "ring-left")}
    storage.put(committed_path("p=b", PENDING), b"")
    assert [(one.severity, one.where) for one in found(storage)] == [("error", committed_path("p=b", PENDING))]


def test_a_resize_that_apache_hudi_planned_is_named(storage: MemoryStorage) -> None:
    (plan,) = [one for one in verify_table(storage, clock=CLOCK).findings if one.invariant == "foreign-plan"]
    assert (plan.severity, f"hudi-ops resize TABLE execute --instant {PENDING}" in plan.next_step) == ("info", True)
