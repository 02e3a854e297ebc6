"""Measure the anonymous memory that a view of many slices takes: `python -m tests.protocol.view_memory STORE SLICES FOLDER`.

The process is fresh. Names are those of archived commits of a small table, so that no data file is needed. Prints one JSON object:
the largest growth of RssAnon in each step, in MiB.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops import Table
from hudi_ops.config.write_settings import ViewSettings
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.kept import keep_view, keep_views, kept_view
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import view_of

IN_PARTITION = 100
ROWS = pa.table({"id": ["a"], "part": ["new"], "v": [1]})


def anonymous_kib() -> int:
    """Return the anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("this kernel tells no RssAnon")


@contextmanager
def growth(found: dict[str, float], step: str) -> Iterator[None]:
    """Measure the peak growth of a step, in MiB."""
    before = anonymous_kib()
    peak, is_done = before, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_done.wait(0.002):
            peak = max(peak, anonymous_kib())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()
    found[step] = round((max(peak, anonymous_kib()) - before) / 1024, 1)


def stand_ins(slices: int) -> FileColumns:
    """Return a listing with one base file for each slice, of an archived commit."""
    numbers = pc.cast(pa.array(np.arange(slices)), pa.string())
    padded = pc.utf8_lpad(numbers, 12, "0")
    head, tail = pa.scalar("5d3f2c1a-8b6e-4f7d-9a2b-"), pa.scalar("-0_1-2-3_20200101000000000.parquet")
    names = pc.binary_join_element_wise(head, padded, tail, "")
    partitions = [f"part={number:06d}" for number in range(-(-slices // IN_PARTITION))]
    counts = np.full(len(partitions), IN_PARTITION, np.int64)
    counts[-1] = slices - IN_PARTITION * (len(partitions) - 1)
    return FileColumns.of(partitions, counts, names, pa.array(np.full(slices, 1_000_000, np.int64)))


def measure(store: str, slices: int, folder: Path) -> dict[str, float]:
    """Build, continue and ask a view; return the growth of each step in MiB."""
    table = Table.create(
        str(folder / "table"), name="t", record_key=["id"], partition_by=["part"], schema=ROWS.schema,
        view=ViewSettings(store=store, folder=str(folder / "views")), metadata=False,
    )  # fmt: skip
    for _ in range(3):
        table.ingest(ROWS)
        table.read()
    storage, found = table.context.storage, {}
    keep_views(storage, ViewSettings(store=store, folder=str(folder / "views")))
    config = load_config(storage)
    with growth(found, "build"):
        view = view_of(config, load_timeline(storage, config), CommitReader(storage), stand_ins(slices), are_named=True)
        keep_view(storage, view)
        del view
    pa.default_memory_pool().release_unused()
    with growth(found, "syncs and partitions"):
        for number in range(12):
            table.ingest(ROWS)
            view = kept_view(storage, config, load_timeline(storage, config), CommitReader(storage))
            assert view is not None
            assert view.files.count >= slices
            assert len(newest_slices(view.of_partitions([f"part={number:06d}"]))) == IN_PARTITION
            del view
    with growth(found, "whole table"):
        view = kept_view(storage, config, load_timeline(storage, config), CommitReader(storage))
        assert view is not None
        assert len(newest_slices(view)) == slices + 1
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
