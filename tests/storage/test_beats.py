"""Leases in a bucket, renewed by another process: with keys that came into the environment after it had been started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.heartbeat_client import ProcessBeats
from hudi_ops.concurrency.lease.lease import Renewal, read_lease, take_lease
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage

INSTANT = "20260101000000000"
DEADLINE_S = 180.0


def renewal_in(storage: Storage) -> Renewal:
    ctx = TableContext(storage=storage, locks=in_process_lock(storage.uri))
    take_lease(ctx, INSTANT)
    return Renewal(ctx, INSTANT, "write", time.monotonic())


def test_leases_in_a_bucket(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    beats = ProcessBeats()
    with beats.every(30, renewal_in(LocalStorage(tmp_path))):
        pid = beats.process_id
    storage = request.getfixturevalue("make_s3")()
    renewal = renewal_in(storage)
    first = read_lease(storage, INSTANT)
    assert first is not None
    deadline_s = time.monotonic() + DEADLINE_S
    with beats.every(0.1, renewal):
        while read_lease(storage, INSTANT) == first:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert beats.process_id == pid
    beats.close()
