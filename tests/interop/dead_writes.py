"""A completed write of Apache Hudi made one that died before it completed: real bytes, in the state that a crash leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.storage.open import open_storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import CommitReader

LAZY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
"""Options of writers of Apache Hudi that leave pending instants of others alone; in a test no other process holds the lock."""


def timeline(path: Path) -> Timeline:
    """The table's, as it is now."""
    storage = open_storage(str(path))
    return load_timeline(storage, load_config(storage))


def newest_write(path: Path) -> tuple[Instant, list[str]]:
    """The newest completed write, and the paths of the files that it names."""
    found = timeline(path)
    newest = max(found.completed_writes, key=lambda one: one.time)
    metadata = CommitReader(open_storage(str(path))).metadata(found, newest)
    assert metadata is not None
    return newest, [stat.path for stat in metadata.stats]


def plain_line(file: str) -> bytes:
    """The line that announces a data file."""
    return f"{file}.marker.CREATE".encode()


def kill_newest(path: Path, line_of: Callable[[str], bytes] = plain_line) -> tuple[str, list[str]]:
    """Let the newest write have died, with a heartbeat that stopped; `line_of` makes the marker line of a file.

    Returns:
        Its instant, and the paths of its data files.
    """
    newest, files = newest_write(path)
    (path / ".hoodie" / "timeline" / newest.file_name).unlink()
    markers = path / ".hoodie" / ".temp" / newest.time
    markers.mkdir(parents=True)
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (markers / "MARKERS0").write_bytes(b"".join(line_of(one) + b"\n" for one in files))
    heartbeat = path / lease_path(newest.time)
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    os.utime(heartbeat, (time.time() - 600,) * 2)
    return newest.time, files
