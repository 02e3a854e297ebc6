"""The archived timeline as Apache Hudi's archiver leaves it, and a table of which an acknowledged write lies in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.instant import Instant
from tests.definitions import Definition, create_table
from tests.fault_plans import MoveBefore
from tests.protocol.crash_table import FIRST
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import table_of
from tests.tables import DEFINITION, START_MS, TIMELINE, rows

PLAIN = replace(DEFINITION, table_type="MERGE_ON_READ", partition_by=(), buckets=1)
MODEL = {f"k{i}": i for i in range(8)} | {"k0": 99, "k1": 11, "k2": 22}

_SCHEMA = pa.schema([
    ("instantTime", pa.string()),
    ("completionTime", pa.string()),
    ("action", pa.string()),
    ("metadata", pa.binary()),
    ("plan", pa.binary()),
    pa.field("version", pa.int32(), nullable=False),
])


def put_history(storage: Storage, folder: str, instants: Sequence[tuple[Instant, bytes]]) -> None:
    """Put one history file with these completed instants, their manifest and version file."""
    found = [
        {
            "instantTime": one.time,
            "completionTime": one.completion_time,
            "action": one.kind,
            "metadata": body,
            "plan": None,
            "version": 1,
        }
        for one, body in instants
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(found, schema=_SCHEMA), sink)
    name = f"{instants[0][0].time}_{instants[-1][0].time}_0.parquet"
    storage.put(f"{folder}/{name}", sink.getvalue())
    storage.put(f"{folder}/manifest_1", json.dumps({"files": [{"fileName": name, "fileLen": 1}]}).encode())
    storage.put(f"{folder}/_version_", b"1")


def archive(storage: Storage, folder: str, instants: Sequence[Instant]) -> None:
    """Move completed instants of a timeline of layout 2 into its history, as an archiver does."""
    put_history(storage, f"{folder}/history", [(one, storage.get(f"{folder}/{one.file_name}")) for one in instants])
    for one in instants:
        for info in storage.list_folder(folder).files:
            if info.name.startswith((f"{one.time}.", f"{one.time}_")):
                storage.delete(info.path)


def made(definition: Definition) -> tuple[MemoryStorage, ManualClock, Instant]:
    """A table in which a write was requested, a compaction planned and executed, and then the write completed; and that write."""
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("archived", clock)
    table = table_of(storage, clock, "creator")
    create_table(table._session, definition)
    table.ingest(FIRST)
    table.ingest(rows(("k1", "p1", 11, 2, None)))
    clock.advance_ms(1_000)
    compactor = table_of(storage, clock, "compactor")
    between = MoveBefore(".log.", lambda: compactor.compaction.run())
    late = table_of(FaultyStorage(storage, between), clock, "late")
    written = late.ingest(rows(("k0", "p0", 99, 3, None)))
    assert between.moved
    table.ingest(rows(("k2", "p0", 22, 3, None)))
    timeline = timeline_of(storage)
    writer = timeline.find(written.instant or "")
    (compaction,) = (one for one in timeline if one.kind == "commit")
    assert writer is not None
    assert writer.time < compaction.time < writer.completion_time
    return storage, clock, writer


def archived(definition: Definition) -> tuple[MemoryStorage, ManualClock, Instant]:
    """The same after an archiver: nothing before the compaction is on the timeline any more."""
    storage, clock, writer = made(definition)
    leaving = [one for one in timeline_of(storage) if one.time <= writer.time]
    archive(storage, TIMELINE, leaving)
    return storage, clock, writer
