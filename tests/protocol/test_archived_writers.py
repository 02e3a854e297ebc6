"""Log files whose writer began before a compaction, completed after it, and was archived: their rows stay where they are.

Source: docs/format §9.2.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.read.scan import Scan
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.verify import Finding, verify_table
from tests import tables
from tests.definitions import Definition
from tests.protocol.archived_history import MODEL, PLAIN, archive, archived, made
from tests.protocol.crash_table import FIRST
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import table_of
from tests.tables import START_MS, TIMELINE, by_key, rows

WITH_METADATA = replace(PLAIN, metadata=True)
BOTH = pytest.mark.parametrize("definition", [PLAIN, WITH_METADATA], ids=["listed", "metadata"])


def shown(storage: MemoryStorage, clock: ManualClock, listing: str = "auto") -> dict[str, int]:
    return by_key(table_of(storage, clock, "reader"), listing=listing)


def errors_of(storage: MemoryStorage, clock: ManualClock) -> list[Finding]:
    found = verify_table(storage, deep=True, index=True, clock=clock).findings
    return [one for one in found if one.severity != "info"]


@BOTH
@pytest.mark.parametrize("listing", ["auto", "storage"])
def test_an_archived_update_that_completed_after_a_compaction_is_read(definition: Definition, listing: str) -> None:
    storage, clock, _ = archived(definition)
    assert shown(storage, clock, listing) == MODEL


@BOTH
def test_the_next_compaction_keeps_it(definition: Definition) -> None:
    storage, clock, _ = archived(definition)
    assert table_of(storage, clock, "compactor").compaction.run().instant is not None
    assert shown(storage, clock) == MODEL
    assert shown(storage, clock, "storage") == MODEL
    assert errors_of(storage, clock) == []


@BOTH
def test_a_log_file_whose_completion_nobody_knows_belongs_to_the_newest_slice(definition: Definition) -> None:
    storage, clock, _ = archived(definition)
    for info in storage.list(f"{TIMELINE}/history"):
        storage.delete(info.path)
    assert shown(storage, clock) == MODEL


def test_what_completed_before_the_compaction_stays_below_it() -> None:
    """The first log file was merged; if it were read once more, the update that came later would be lost."""
    definition = replace(PLAIN, ordering=None)
    clock = ManualClock(START_MS, tick_ms=1)
    storage = tables.made(definition, FIRST, clock=clock)
    table = table_of(storage, clock, "creator")
    table.ingest(rows(("k0", "p0", 50, 2, None)))
    table.ingest(rows(("k0", "p0", None, 2, True)))
    table.compaction.run()
    table.ingest(rows(("k7", "p1", 77, 2, None)))
    first = timeline_of(storage).completed_writes
    archive(storage, TIMELINE, [one for one in first if one.kind == "deltacommit"][:-2])
    assert shown(storage, clock) == {f"k{i}": i for i in range(1, 7)} | {"k7": 77}


def test_changes_give_the_archived_update() -> None:
    storage, clock, _ = archived(PLAIN)
    found = table_of(storage, clock, "reader").changes("00000000000000000", columns=["id", "value"]).to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == MODEL


@BOTH
def test_one_table_handle_reads_the_history_once_and_only_where_it_is_needed(definition: Definition) -> None:
    for make, times in ((made, 0), (archived, 1)):
        storage, clock, _ = make(definition)
        counted = FaultyStorage(storage)
        table = table_of(counted, clock, "reader")
        for _ in range(3):
            table.read()
        table.read(listing="storage")
        manifests = [point for point in counted.history if "/manifest_" in point]
        assert len(manifests) == times, make.__name__


def test_a_history_that_cannot_be_read_is_named() -> None:
    storage, clock, _ = archived(PLAIN)
    (path,) = (info.path for info in storage.list(f"{TIMELINE}/history") if info.path.endswith(".parquet"))
    storage.put(path, b"PAR1")
    with pytest.raises(Corrupt, match=path):
        shown(storage, clock)


@BOTH
def test_a_reader_on_executors_plans_the_same(definition: Definition) -> None:
    storage, _, _ = archived(definition)
    found = Scan(plan_read(storage, request_of(["id", "value"], None, None, None))).to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == MODEL
