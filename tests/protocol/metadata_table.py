"""Tables with a metadata table, for the tests that disturb its services; and what has to hold of both afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.files.names import parse_data_file
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import Finding, verify_table
from tests import tables
from tests.definitions import Definition
from tests.protocol.crash_table import FIRST, SECOND
from tests.tables import WITH_METADATA, by_key, made, rows

THIRD = rows(("k4", "p0", 44, 3, None), ("k0", "p0", 101, 3, None), ("n3", "p1", 9, 3, None))
LATER = rows(("k6", "p0", 66, 4, None), ("n4", "p3", 4, 4, None))
NEVER = 1 << 30
"""After so many deltas: the metadata table is compacted by the test alone."""


def table_of(storage: Storage, clock: ManualClock, actor: str, after: int = NEVER) -> Table:
    """A process's table."""
    table = tables.table_of(storage, clock, actor)
    table._session.metadata_compact_after = after
    return table


def make_table(
    definition: Definition = WITH_METADATA, batches: Sequence[pa.Table] = (FIRST, SECOND, THIRD), after: int = NEVER
) -> MemoryStorage:
    """The table after its first ingests."""
    return made(definition, *batches, after=after)


def read_rows(storage: Storage, clock: ManualClock) -> dict[str, int]:
    """Rows as a reader sees them, by key; no key twice."""
    return by_key(table_of(storage, clock, "reader"))


def faults_of(storage: Storage, clock: ManualClock) -> list[Finding]:
    """What a verification of table, metadata table and the one against the other finds, clutter left out."""
    found = verify_table(storage, deep=True, index=True, clock=clock).findings
    own = MemoryStorage("metadata", clock)
    for info in storage.list(FOLDER):
        own.put(info.path.removeprefix(f"{FOLDER}/"), storage.get(info.path))
    is_table = own.head(PROPERTIES_PATH) is not None
    inner = verify_table(own, clock=clock).findings if is_table else ()
    return [one for one in (*found, *inner) if one.severity != "info"]


def metadata_files(storage: Storage, suffix: str) -> list[str]:
    """Names of the metadata table's data files that end so."""
    return [info.name for info in storage.list(FOLDER) if info.name.endswith(suffix) or f"{suffix}." in info.name]


def uncounted_bases(storage: Storage) -> list[str]:
    """Base files of the metadata table that no completed instant of it names in theirs."""
    own = load_metadata_timeline(storage)
    done = {one.time for one in own if one.is_completed}
    parsed = {name: parse_data_file(name) for name in metadata_files(storage, ".hfile")}
    return [name for name, said in parsed.items() if said is not None and said.instant not in done]
