"""A delta is made from the metadata table's timeline as the last decision listed it, and never decided upon a stale one.

Goal: what another process changed since is found under the lock, and the delta is made again. Method: another process builds, drops
or compacts partitions between two commits of one session; the records of the second are compared with storage.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from tests.fault_plans import MoveBefore
from tests.protocol.metadata_table import LATER, faults_of, make_table, read_rows, table_of
from tests.tables import NOW_MS, rows

MORE = rows(("k6", "p0", 67, 5, None), ("n5", "p4", 5, 5, None))


def build(table: Table) -> None:
    table.indexing.run(partitions=["column_stats", "record_index"])


def drop_all(table: Table) -> None:
    drop_metadata(table._session, None)


def drop_and_build(table: Table) -> None:
    drop_metadata(table._session, None)
    table.indexing.run(partitions=["files", "record_index"])


def compact(table: Table) -> None:
    assert table.metadata.compact().instant


@pytest.mark.parametrize("change", [build, drop_all, drop_and_build, compact])
def test_a_commit_after_another_process_changed_the_metadata_table(change: Callable[[Table], None]) -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    writer = table_of(storage, clock, "writer")
    writer.ingest(LATER)
    kept = writer._session.memory.metadata_timeline
    assert kept is not None
    change(table_of(storage, clock, "other"))
    assert load_metadata_timeline(storage) != kept
    writer.ingest(MORE)
    assert faults_of(storage, clock) == []
    found = read_rows(storage, clock)
    assert (found["k6"], found["n5"]) == (67, 5)


@pytest.mark.parametrize("change", [build, drop_all, drop_and_build, compact])
def test_a_delta_is_made_again_when_the_metadata_table_changes_after_it_was_made(
    change: Callable[[Table], None],
) -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    table_of(storage, clock, "writer").ingest(LATER)
    move = MoveBefore("/metadata-", lambda: change(table_of(storage, clock, "other")))
    table_of(FaultyStorage(storage, move), clock, "slow").ingest(MORE)
    assert move.moved_at.startswith("put:.hoodie/.commit_log/payload/"), (
        "its records were made for the partitions before"
    )
    assert faults_of(storage, clock) == []
    found = read_rows(storage, clock)
    assert (found["k6"], found["n5"]) == (67, 5)


def test_one_listing_of_the_metadata_timeline_a_commit() -> None:
    storage, clock = make_table(), ManualClock(NOW_MS)
    writer = table_of(storage, clock, "writer")
    writer.ingest(LATER)
    listed: list[str] = []
    plain = storage.list_new

    def counted(prefix: str, known: frozenset[str]) -> object:
        listed.append(prefix)
        return plain(prefix, known)

    storage.list_new = counted  # type: ignore[method-assign, assignment]
    writer.ingest(MORE)
    assert listed.count(".hoodie/metadata/.hoodie/timeline") == 1
    assert isinstance(storage, MemoryStorage)
