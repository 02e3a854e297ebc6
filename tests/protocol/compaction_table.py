"""A merge-on-read table with log files, for the tests that disturb its compaction; and what its readers see."""

from __future__ import annotations

import pyarrow as pa

from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask
from hudi_ops.services.base.slices import live_slices
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.view.schema import table_schema
from tests.protocol.crash_table import FIRST
from tests.tables import MERGE_ON_READ, made, rows, table_of

# Updates, a late row that loses, a delete, a new key; then a second layer on one group, and a group with log files alone cannot be.
SECOND = rows(
    ("k0", "p0", 100, 2, None),
    ("k1", "p1", 0, 0, None),
    ("k2", "p0", 2, 2, True),
    ("n1", "p1", 7, 2, None),
)
THIRD = rows(("k4", "p0", 44, 3, None), ("k0", "p0", 101, 3, None), ("n2", "p1", 8, 3, None))
FOURTH = rows(("k6", "p0", 66, 4, None), ("k1", "p1", 11, 4, None), ("k3", "p1", 3, 4, True))

MODEL = {f"k{i}": i for i in range(8)} | {"k0": 101, "n1": 7, "k4": 44, "n2": 8}
del MODEL["k2"]
AFTER_FOURTH = {key: value for key, value in MODEL.items() if key != "k3"} | {"k6": 66, "k1": 11}


def make_logged(definition=MERGE_ON_READ, *batches: pa.Table) -> MemoryStorage:
    """The table after its first ingests: base files, and log files upon some of them."""
    return made(definition, *(batches or (FIRST, SECOND, THIRD)))


def merged(storage: Storage, clock: ManualClock) -> dict[str, int]:
    """Rows as readers who merge see them, by key; no key twice."""
    session = table_of(storage, clock, "reader")._session
    state = session.loader.load()
    schema = table_schema(state.config, state.timeline, session.commits)
    names = ("id", "value")
    found: list[pa.Table] = []
    needed = pa.schema([schema.field(name) for name in names])
    for one in live_slices(session, state):
        if not one.logs:
            found.append(FileScan(FileTask(storage, one.base.path, one.base.size_bytes, needed, names)).table())
            continue
        merging = MergeRules.of(state.config, schema), BlockInstants.of(state.config, state.timeline)
        found.append(SliceScan(SliceTask.of(storage, one, *merging, needed)).table())
    table = pa.concat_tables([needed.empty_table(), *found])
    keys = table["id"].to_pylist()
    assert len(set(keys)) == len(keys), sorted(keys)
    return dict(zip(keys, table["value"].to_pylist(), strict=True))


def log_files(storage: Storage, clock: ManualClock) -> int:
    """How many log files readers still have to merge."""
    session = table_of(storage, clock, "reader")._session
    return sum(len(one.logs) for one in live_slices(session, session.loader.load()))
