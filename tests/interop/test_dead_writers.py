"""What a killed writer of either side leaves, the other one rolls back: real processes of Apache Hudi, real bytes of ours."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.context import Owner
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Cancel, Void
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.compare import assert_same_rows
from tests.interop.dead_writes import LAZY, timeline
from tests.tables import VERSIONED as SCHEMA

MANY = 100_000
DEADLINE_S = 240.0


def rows(first: int, last: int, version: int) -> pa.Table:
    numbers = range(first, last)
    columns = [[f"k{n}" for n in numbers], [f"p{n % 2}" for n in numbers], [n * version for n in numbers]]
    return pa.table([*map(pa.array, columns), pa.array([version] * len(numbers))], schema=SCHEMA)


def make(path: Path) -> Table:
    table = Table.create(
        str(path),
        name="killed",
        record_key=["id"],
        schema=SCHEMA,
        partition_by=["part"],
        ordering="ts",
        buckets=2,
        metadata=False,
    )
    table.ingest(rows(0, 20, 1))
    return table


def grow_old(path: Path, instant: str) -> None:
    """Let its heartbeat be five minutes old."""
    file, then = path / lease_path(instant), time.time() - 300
    os.utime(file, (then, then))


def files_of(path: Path, instant: str) -> list[str]:
    return [file.name for file in path.rglob("*.parquet") if instant in file.name]


def kill_while_it_writes(path: Path) -> str:
    """A real writer of Apache Hudi, killed once a data file of its instant has been announced and begun; its instant."""
    known = {one.time for one in timeline(path)}
    with HudiPeer() as peer:
        peer.call("ping")

        errors: list[Exception] = []

        def write() -> None:
            try:
                peer.write(path, rows(0, MANY, 2), buckets=2, options=LAZY)
            except (HudiPeerError, BrokenPipeError) as error:
                errors.append(error)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        deadline = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < deadline, "no data file was begun"
            writer.join(0.01)
            assert writer.is_alive(), f"it ended before it could be killed: {errors}"
            begun = [one.time for one in timeline(path).pending if one.time not in known]
            if begun and files_of(path, begun[0]):
                break
        peer.kill()
        writer.join(DEADLINE_S)
    assert not writer.is_alive()
    (instant,) = begun
    return instant


def die_in(
    path: Path,
    point: str,
    which: int = 1,
    crash: Fault = Fault.CRASH_BEFORE,
    work: Callable[[Table], object] | None = None,
) -> str:
    """Let a process of ours that is gone die at an operation; returns the pending write."""
    context = Table.open(str(path)).context
    gone = replace(Owner.of_this_process(), started="1")
    table = Table(
        replace(context, storage=FaultyStorage(open_storage(str(path)), DiesBefore(point, which, crash)), owner=gone)
    )
    with contextlib.suppress(Crash):
        table.ingest(rows(10, 30, 3)) if work is None else work(table)
    found = [one.time for one in timeline(path).pending if one.is_write]
    return found[0] if found else ""


def assert_equal_for_all(
    path: Path, expected: pa.Table, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]
) -> None:
    for reader in (apache_hudi.read, hudi_rs):
        assert_same_rows(reader(path), expected)
    report = verify_table(open_storage(str(path)), deep=True)
    assert report.errors == ()


def test_what_a_killed_apache_hudi_left_is_rolled_back_by_ours(
    tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]
) -> None:
    path = tmp_path / "killed"
    table = make(path)
    instant = kill_while_it_writes(path)
    left = files_of(path, instant)
    assert left
    assert (path / lease_path(instant)).stat().st_size == 0
    assert [one.time for one in timeline(path).pending] == [instant]
    assert table.recover().rolled_back == (), "its heartbeat is young"
    grow_old(path, instant)
    (undone,) = table.recover().rolled_back
    assert set(left) <= {file.rpartition("/")[2] for file in undone.files}
    assert files_of(path, instant) == []
    assert timeline(path).pending == ()
    log = load_log(open_storage(str(path)), None)
    assert log is not None
    assert isinstance((log.fate(instant) or (0, None))[1], Cancel)
    apache_hudi.write(path, rows(5, 25, 4), buckets=2, options=LAZY)
    assert_equal_for_all(path, pa.concat_tables([rows(0, 5, 1), rows(5, 25, 4)]), apache_hudi, hudi_rs)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("point", ["slot claimed", "cancel claimed"])
def test_what_our_killed_writer_left_apache_hudi_rolls_back_and_ours_voids(
    tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table], point: str
) -> None:
    """Killed between its slot and its completed file; Apache Hudi then commits, and its cleaning finds the dead heartbeat."""
    path = tmp_path / "killed"
    make(path)
    if point == "slot claimed":
        instant = die_in(path, "put_if_absent:.hoodie/timeline", which=3)
    else:
        instant = die_in(path, "put_if_absent:.hoodie/.commit_log/0")
    assert instant
    grow_old(path, instant)
    apache_hudi.write(path, rows(5, 25, 4), buckets=2, options=LAZY)
    assert timeline(path).find(instant) is None, "rolled back by Apache Hudi"
    Table.open(str(path)).ingest(rows(25, 26, 5))
    log = load_log(open_storage(str(path)), None)
    assert log is not None
    voided = [entry for entry in log.entries if isinstance(entry, Void)]
    assert len(voided) == (1 if point == "slot claimed" else 0)
    assert files_of(path, instant) == []
    expected = pa.concat_tables([rows(0, 5, 1), rows(5, 25, 4), rows(25, 26, 5)])
    assert_equal_for_all(path, expected, apache_hudi, hudi_rs)


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize(
    "point", ["rollback.inflight", "delete:part=", "delete:.hoodie/timeline", "put:.hoodie/.commit_log/payload"]
)
def test_a_rollback_of_ours_that_died_is_finished_by_apache_hudi(
    tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table], point: str
) -> None:
    path = tmp_path / "killed"
    make(path)
    instant = die_in(path, "put_if_absent:.hoodie/.commit_log/0")
    grow_old(path, instant)
    die_in(path, point, work=lambda table: table.recover())
    (rollback,) = [one for one in timeline(path).pending if one.kind == "rollback"]
    grow_old(path, rollback.time)
    for version in (4, 5):
        apache_hudi.write(path, rows(5, 25, version), buckets=2, options=LAZY)
    Table.open(str(path)).ingest(rows(25, 26, 6))
    assert timeline(path).pending == ()
    assert files_of(path, instant) == []
    expected = pa.concat_tables([rows(0, 5, 1), rows(5, 25, 5), rows(25, 26, 6)])
    assert_equal_for_all(path, expected, apache_hudi, hudi_rs)
