"""Files that are put in groups: markers come first, and a crash at any change leaves the old rows or the new ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.markers import FOLDER
from hudi_ops.files.new_files import GROUPED_FROM, FilePuts, NewFile
from hudi_ops.storage.local import LocalStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from tests.protocol.crash_table import unaccounted
from tests.protocol.sweep import fault_sweep
from tests.tables import DEFINITION, MERGE_ON_READ, by_key, made, rows, table_of

PARTITIONS = range(GROUPED_FROM + 1)
INSTANT = "20260101000000000"


def batch(version: int, *partitions: int) -> pa.Table:
    """A row in each partition."""
    return rows(*[(f"k{number}", f"p{number}", version, version, None) for number in partitions])


@pytest.mark.parametrize("definition", [DEFINITION, MERGE_ON_READ], ids=["copy on write", "merge on read"])
def test_crash_at_every_change_of_a_grouped_write(definition: Any) -> None:
    old, new = batch(1, *PARTITIONS[1:]), batch(2, *PARTITIONS)
    shown = [{row["id"]: row["value"] for row in part.to_pylist()} for part in (old, new)]

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        table_of(storage, clock, "writer").ingest(new)

    seen = []
    for left in fault_sweep(
        lambda clock: made(definition, old, clock=clock),
        run,
        Fault.CRASH_AFTER,
        definition.table_type,
        points=2 * len(PARTITIONS),
        writes=2 * len(PARTITIONS),
        step=1,
        only_changes=True,
    ):
        seen.append(by_key(table_of(left.storage.copy(), left.clock, "reader")))
        assert seen[-1] in shown, left.story
        left.clock.advance_ms(EXPIRY_MS + 1_000)
        run(FaultyStorage(left.storage), left.clock)
        assert by_key(table_of(left.storage, left.clock, "reader")) == shown[1], left.story
        assert unaccounted(left.storage) == [], left.story
    assert all(rows in seen for rows in shown)


def test_what_a_group_puts_is_synced_markers_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "table"
    storage, synced = LocalStorage(root), dict[Path, bool]()

    def sync(descriptor: int) -> None:
        place = Path(f"/proc/self/fd/{descriptor}").resolve()
        synced[place] = any(root.glob("p*/*.parquet"))

    monkeypatch.setattr(os, "fsync", sync)
    puts = FilePuts(storage, INSTANT)
    files = [NewFile(f"p{number}/f{number}.parquet", pa.py_buffer(b"PAR1"), may_be_first=True) for number in range(3)]
    for file in files:
        puts.add(file)
    assert not synced, "a group was put before it was full"
    puts.flush()
    markers = root / FOLDER / INSTANT
    for file in files:
        data = root / file.path
        assert synced[markers / data.parent.name] is False, "a data file had its name before its marker was durable"
        assert {data, data.parent} <= synced.keys()
    # The content of a created file is synced under its first name, before others see it.
    assert len([place for place in synced if "hudi_ops_tmp" in place.parts[-2]]) == len(files)
    assert {root, markers, root / FOLDER, root / ".hoodie"} <= synced.keys()
