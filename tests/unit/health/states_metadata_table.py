"""Tables whose metadata table misses its targets."""

from __future__ import annotations

from pathlib import Path

from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER
from hudi_ops.timeline.names import instant_of_ms
from tests.tables import WITH_METADATA
from tests.unit.health.aged import Aged, batch

NEVER = 10**6


def metadata_table_missed(tmp_path: Path) -> str:
    """A metadata table that no writer compacted for more than twenty deltas."""
    aged = Aged(tmp_path, WITH_METADATA, batch("p0", 1))
    writer = aged.table("writer", metadata_compact_after=NEVER)
    for number in range(21):
        writer.ingest(batch("p0", 2 + number))
    return aged.path


def compaction_pending(tmp_path: Path) -> str:
    """A metadata table with a compaction of another program that no process executes."""
    aged = Aged(tmp_path, WITH_METADATA, batch("p0", 1))
    instant = instant_of_ms(aged.clock.now_ms())
    aged.put(f"{TIMELINE_FOLDER}/{instant}.compaction.requested")
    return aged.path


def delta_pending(tmp_path: Path) -> str:
    """A write of Apache Hudi without a heartbeat that began its delta of the metadata table, and ended."""
    aged = Aged(tmp_path, WITH_METADATA, batch("p0", 1))
    instant = instant_of_ms(aged.clock.now_ms())
    for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
        aged.put(f".hoodie/timeline/{name}")
    for name in (f"{instant}.deltacommit.requested", f"{instant}.deltacommit.inflight"):
        aged.put(f"{TIMELINE_FOLDER}/{name}")
    return aged.path
