"""A table with a write that died in it, and moves that somebody else makes before one storage operation of an actor."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from tests.fault_plans import DiesBefore
from tests.protocol.crash_table import make_base
from tests.tables import NOW_MS, table_of

LATER_MS = EXPIRY_MS + 1_000


def make_dead(source: Path, point: str = "put_if_absent:.hoodie/.commit_log/0") -> tuple[MemoryStorage, str]:
    """The table of the crash tests after an ingest died before an operation, and the dead instant; its slot by default."""
    storage = make_base(source)
    with contextlib.suppress(Crash):
        table_of(FaultyStorage(storage, DiesBefore(point)), ManualClock(NOW_MS), "dead").ingest_folder(str(source))
    (pending,) = timeline(storage).pending
    return storage, pending.time


def late_clock(by_ms: int = LATER_MS) -> ManualClock:
    """A clock after the dead writer's lease has expired."""
    return ManualClock(NOW_MS + by_ms)


def timeline(storage: Storage) -> Timeline:
    return load_timeline(storage, load_config(storage))


def rollbacks(storage: Storage) -> list[str]:
    """Every rollback instant on the timeline, pending and completed."""
    return [str(one) for one in timeline(storage) if one.kind == "rollback"]


def snapshot(storage: MemoryStorage) -> dict[str, bytes]:
    """Every byte of the table."""
    return {info.path: storage.get(info.path) for info in storage.list()}


def kill_foreign(
    storage: MemoryStorage, heartbeat_ms: int | None, *, kind: str = "commit", markers: str = "direct"
) -> tuple[str, list[str]]:
    """What a killed writer of Apache Hudi leaves: an instant at `NOW_MS`, two data files, markers, an empty heartbeat.

    Args:
        storage: the table; its clock makes the heartbeat's change time.
        heartbeat_ms: when the heartbeat was made; None: there is none.
        kind: `commit`, or `deltacommit`, whose files are logs.
        markers: `direct`, `server` (one file of lines), or `none`.

    Returns:
        Its instant, and the paths of its data files.
    """
    instant = instant_of_ms(NOW_MS)
    names = [f"0000000{n}-1111-2222-3333-444444444444-0" for n in (0, 1)]
    files = [
        f"part=p{n}/.{name}_{instant}.log.1_{n}-5-9"
        if kind == "deltacommit"
        else f"part=p{n}/{name}_{n}-5-9_{instant}.parquet"
        for n, name in enumerate(names)
    ]
    storage.put(f".hoodie/timeline/{instant}.{kind}.requested", b"")
    inflight = f"{instant}.inflight" if kind == "commit" else f"{instant}.{kind}.inflight"
    storage.put(f".hoodie/timeline/{inflight}", b"")
    folder = f".hoodie/.temp/{instant}"
    for path in files:
        storage.put(path, b"rows that must never show")
        if markers == "direct":
            storage.put(f"{folder}/{path}.marker.CREATE", b"")
    if markers == "server":
        storage.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
        for number, path in zip((0, 2), files, strict=True):
            storage.put(f"{folder}/MARKERS{number}", f"{path}.marker.CREATE\n".encode())
    if heartbeat_ms is not None:
        clock, storage._clock = storage._clock, ManualClock(heartbeat_ms)
        storage.put(f".hoodie/.heartbeat/{instant}", b"")
        storage._clock = clock
    return instant, files
