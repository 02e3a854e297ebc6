"""A process that reads a table again and again as a new client of a timeline server, and judges each view that it gets.

Prints a JSON line at its end: reads, views by how they were found, and how questions to the server ended.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from hudi_ops import Table
from hudi_ops.config.tables_file import locate_table
from hudi_ops.read.current_view import storage_at
from hudi_ops.read.plan import Opened
from hudi_ops.view.columns.kept import view_source
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import view_of
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.remote import client
from hudi_ops.view.remote.served import Wish, served_view

client.PAUSE_S = 0.3  # so that the server is asked often
PARTS = ("p0", "p1")
PAUSE_S = 2.0
"""Between two rounds of a reader: sixteen readers without it would leave no time to Spark."""


def judge(location: object, found: Counter[str]) -> None:
    """Compare the view of the server with a listing at the same reading of the timeline."""
    storage = storage_at(location)  # type: ignore[arg-type]
    opened = Opened.of(storage)
    part = f"part={PARTS[found['judged'] % 2]}"
    wish = Wish(lambda paths: [path == part for path in paths], is_newest=True) if found["judged"] % 3 else Wish()
    view = served_view(storage, opened.config, opened.timeline, opened.commits, wish)
    found["judged"] += 1
    if view is None:
        found["not served"] += 1
        return
    found["served"] += 1
    listed = StorageListing(storage, is_partitioned=True).walk().files
    anew = newest_slices(view_of(opened.config, opened.timeline, opened.commits, listed)).objects()
    wanted = [one for one in anew if one.partition_path == part] if wish.wanted is not None else anew
    assert newest_slices(view).objects() == wanted, "an altered answer was used"


def read(location: object, committed: Path, rows: int, found: Counter[str]) -> None:
    """Read both partitions: all rows of a partition have the value of one commit, which is not older than the last known."""
    table = Table.at(location)  # type: ignore[arg-type]
    for part in PARTS:
        least = int(committed.read_text(encoding="ascii"))
        values = table.read(["id", "value"], where=f"part = '{part}'")["value"].to_pylist()
        assert len(values) == rows, f"{len(values)} rows, not {rows}"
        assert len(set(values)) == 1, set(values)
        assert values[0] >= least, f"rows of commit {values[0]}, after {least}"
    found[view_source(table.context.storage).partition(" ")[0] or "listed"] += 1
    found["reads"] += 1
    table.close()


def main(tables: str, name: str, committed: str, stop: str, rows: str) -> None:
    """Read until the file `stop` is there."""
    location = locate_table(name, tables)
    found: Counter[str] = Counter()
    until_s = time.monotonic() + 800
    pause = threading.Event()
    while not Path(stop).exists():
        pause.wait(PAUSE_S)
        assert time.monotonic() < until_s
        judge(location, found)
        read(location, Path(committed), int(rows), found)
    asked: Counter[str] = Counter()
    for one in client._clients.values():
        asked += one.counts
    print(json.dumps({"found": found, "asked": asked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
