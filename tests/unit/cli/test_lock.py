"""`lock`: a lock within a process cannot be seen from outside, leases can; over ZooKeeper: `tests/zookeeper/test_cli_lock.py`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS, lease_path, take_lease
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import Owner, TableContext
from hudi_ops.storage.local import LocalStorage

INSTANT = "20260101000000000"


@pytest.fixture
def work(trips: Path) -> TableContext:
    """Somebody of another machine who works on an instant."""
    storage = LocalStorage(trips)
    owner = Owner("far-away#boot#pid", 7, "1", "dag/task/run")
    ctx = TableContext(storage=storage, locks=in_process_lock(storage.uri), owner=owner)
    assert take_lease(ctx, INSTANT, "rollback")
    return ctx


def test_a_table_at_rest(trips: Path, call: Callable[..., Any], tree: Callable[..., Any]) -> None:
    before = tree(trips)
    answer = call("lock", "trips", "--json").json
    assert answer == {"table": "trips", "lock": "in-process", "is_visible": False, "line": [], "leases": []}
    said = call("lock", "trips").out
    assert "cannot be seen from outside" in said
    assert "No instant is worked on." in said
    assert tree(trips) == before


def test_who_works_on_what(trips: Path, work: TableContext, call: Callable[..., Any]) -> None:
    (lease,) = call("lock", "trips", "--json").json["leases"]
    assert (lease["instant"], lease["role"], lease["owner"]) == (INSTANT, "rollback", "far-away:7")
    assert (lease["run"], lease["is_live"]) == ("dag/task/run", True)
    assert lease["lock"].startswith("in-process:")
    assert lease["beaten"] < lease["expires"]
    said = call("lock", "trips").out
    assert all(word in said for word in (INSTANT, "rollback", "far-away:7", "dag/task/run", "live"))
    assert "Warning" not in said


def test_the_dead_and_strangers_are_told_apart(trips: Path, work: TableContext, call: Callable[..., Any]) -> None:
    lease = trips / lease_path(INSTANT)
    said = json.loads(lease.read_text())
    long_ago = {"beaten_ms": 1, "expires_ms": 1, "lock": "zookeeper://a:1/b/trips"}
    lease.write_text(json.dumps(said | long_ago))
    os.utime(lease, ns=(time.time_ns() - 2 * EXPIRY_MS * 1_000_000,) * 2)
    (trips / lease_path("20260101000000001")).write_bytes(b"")
    dead, foreign = call("lock", "trips", "--json").json["leases"]
    assert (dead["is_live"], foreign["is_live"]) == (False, True)
    assert (foreign["owner"], foreign["role"], foreign["lock"]) == ("Apache Hudi", None, None)
    answer = call("lock", "trips").out
    assert "What is dead is finished or rolled back by the next write." in answer
    assert "Warning" not in answer
    lease.write_text(json.dumps(said | {"lock": "zookeeper://a:1/b/trips"}))
    assert "under another lock, zookeeper://a:1/b/trips" in call("lock", "trips").out


def test_no_table(home: Path, call: Callable[..., Any]) -> None:
    answer = call("lock", "riders", "--json")
    assert answer.code == 2
    assert answer.json["error"] == "InvalidRequest"
    assert call("lock", "nobody").code == 2


def test_there_is_no_way_to_break_a_lock_and_the_help_says_what_to_do(call: Callable[..., Any]) -> None:
    said = " ".join(call("lock", "--help").out.split())
    assert "no option that breaks a lock" in said
    assert "end its process" in said
