"""A metadata table that lacks writes of other programs is dropped by the next write, which says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.errors import Unsupported
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.protocol.compaction_table import merged
from tests.protocol.crash_table import FIRST, OLD
from tests.tables import BY_RECORD_INDEX, DEFINITION, NOW_MS, made, rows, table_of

WITH_METADATA = replace(DEFINITION, metadata=True)
UPDATE, LATER = rows(("k0", "p0", 100, 2, None)), rows(("k1", "p1", 101, 3, None))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS, tick_ms=1)


def left_behind(storage: MemoryStorage, clock: ManualClock) -> str:
    """A completed write of which the metadata table has nothing; returns its instant."""
    done = table_of(storage, clock, "off").ingest(UPDATE)
    for info in storage.list(".hoodie/metadata"):
        if str(done.instant) in info.path:
            storage.delete(info.path)
    return str(done.instant)


def test_a_write_drops_a_metadata_table_that_is_behind(clock: ManualClock) -> None:
    storage = made(WITH_METADATA, FIRST)
    added = ("bloom_filters", "record_index", "secondary_index_by_value=value")
    table_of(storage, clock, "builder").indexing.run(partitions=added)
    listed = {*load_config(storage).metadata_partitions}
    writer = table_of(storage, clock, "writer")
    gap = left_behind(storage, clock)
    (line,) = writer.ingest(LATER).automatic
    assert f"lacks 1 completed writes, the first {gap}" in line
    assert "hoodie.metadata.enable=true" in line
    assert load_config(storage).metadata_partitions == ()
    assert storage.list(TIMELINE_FOLDER) == []
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()
    assert merged(storage, clock) == OLD | {"k0": 100, "k1": 101}
    assert writer.ingest(UPDATE).automatic == ()
    names = line.partition("`hudi-ops index TABLE run ")[2].partition("`")[0].split()
    assert {*added} <= {*names}
    table_of(storage, clock, "builder").indexing.run(partitions=names)
    assert {*load_config(storage).metadata_partitions} == listed
    assert verify_table(storage, deep=True, index=True, clock=clock).findings == ()


def test_without_a_gap_nothing_is_dropped(clock: ManualClock) -> None:
    storage = made(WITH_METADATA, FIRST)
    listed = load_config(storage).metadata_partitions
    for data in (UPDATE, LATER):
        assert table_of(storage, clock, "writer").ingest(data).automatic == ()
    assert load_config(storage).metadata_partitions == listed


def test_the_index_that_places_rows_is_not_dropped(clock: ManualClock) -> None:
    storage = made(BY_RECORD_INDEX, FIRST)
    left_behind(storage, clock)
    before = load_config(storage).metadata_partitions
    with pytest.raises(Unsupported, match="cannot be read"):
        table_of(storage, clock, "writer").ingest(LATER)
    (line,) = table_of(storage, clock, "writer").ingest(rows(("n1", "p1", 1, 3, None)), "bulk_insert").automatic
    assert "next: `hudi-ops index TABLE run --rebuild`" in line
    assert load_config(storage).metadata_partitions == before
