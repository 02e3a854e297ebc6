"""The process that renews leases: it goes on while its parent computes, not while its parent stands still, and never after it."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hudi_ops.concurrency.lease.heartbeat_client import ProcessBeats, _Process, is_shareable
from hudi_ops.concurrency.lease.heartbeat_process import KeptLease, is_stopped
from hudi_ops.concurrency.lease.heartbeat_threads import ThreadBeats
from hudi_ops.concurrency.lease.lease import Renewal, drop_lease, lease_path, list_leases, read_lease, take_lease
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from tests.signals import freeze, thaw

INSTANT = "20260101000000000"
DEADLINE_S = 180.0
PARENT = """
import os, sys, threading, time
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.concurrency.lease.lease import Renewal, take_lease
from hudi_ops.concurrency.lease.heartbeat_client import process_beats
from hudi_ops.context import TableContext
from hudi_ops.storage.local import LocalStorage

storage = LocalStorage(sys.argv[1])
ctx = TableContext(storage=storage, locks=in_process_lock(storage.uri))
take_lease(ctx, sys.argv[2])
with process_beats().every(0.1, Renewal(ctx, sys.argv[2], "write", time.monotonic())):
    if sys.argv[3:] == ["fork"] and os.fork() == 0:
        os.write(1, b"%d\\n" % os.getpid())  # in one piece: two processes write to this pipe
        threading.Event().wait(60)
        os._exit(0)
    os.write(1, b"%d\\n" % process_beats().process_id)
    threading.Event().wait()
"""


def eventually(condition: Callable[[], object], what: str = "the condition") -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not come true within {DEADLINE_S} s"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ignores_interrupts(pid: int) -> bool:
    """What the program does first, after the Python that runs it has started."""
    (mask,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def beaten_ms(storage: Storage) -> int:
    """The last beat, as its content says."""
    return int(json.loads(storage.get(lease_path(INSTANT)))["beaten_ms"])


def beats_on(storage: Storage) -> None:
    for _ in range(2):
        before_ms = beaten_ms(storage)
        eventually(lambda: beaten_ms(storage) > before_ms, "another beat")  # noqa: B023 - called at once


@pytest.fixture
def beats() -> Iterator[ProcessBeats]:
    one = ProcessBeats()
    yield one
    one.close()


@pytest.fixture
def ctx(tmp_path: Path) -> TableContext:
    storage = LocalStorage(tmp_path / "t")
    made = TableContext(storage=storage, locks=in_process_lock(storage.uri))
    take_lease(made, INSTANT)
    return made


def renewal_of(ctx: TableContext) -> Renewal:
    return Renewal(ctx, INSTANT, "write", ctx.clock.monotonic_s())


def test_a_step_that_holds_the_global_lock_starves_no_lease(ctx: TableContext, beats: ProcessBeats) -> None:
    libc = ctypes.PyDLL(None)  # its calls keep the lock: no other thread of this process runs meanwhile
    renewal = renewal_of(ctx)
    with beats.every(0.1, renewal):
        beats_on(ctx.storage)
        held_ms, begun_s = time.time_ns() // 1_000_000, time.monotonic()
        while time.monotonic() - begun_s < 2:
            libc.usleep(2_000_000)
        assert beaten_ms(ctx.storage) > held_ms + 1_000
        longest_s = renewal.longest_gap_s
    assert longest_s < 60


def test_it_learns_nothing_of_ours_before_the_first_beat_is_due(ctx: TableContext, beats: ProcessBeats) -> None:
    """What it costs a write that is over by then: a Python without anything. And it holds no file but its connections."""
    with beats.every(30, renewal_of(ctx)):
        pid = beats.process_id
        assert pid is not None
        eventually(lambda: "heartbeat_process.py" in Path(f"/proc/{pid}/cmdline").read_text())
        eventually(lambda: ignores_interrupts(pid), "the end of its start")
        assert "arrow" not in Path(f"/proc/{pid}/maps").read_text()
        open_files = {str(link.readlink()).partition(":")[0] for link in Path(f"/proc/{pid}/fd").iterdir()}
    assert open_files == {"socket", "/dev/null"}, "one to its parent, and one for each lease"
    beaten = beaten_ms(ctx.storage)
    with beats.every(30, renewal_of(ctx)):
        assert beats.process_id == pid, "one a process, kept for the next lease"
    assert beaten_ms(ctx.storage) == beaten


def test_a_look_at_a_lease_does_not_wait_for_the_process(
    ctx: TableContext, beats: ProcessBeats, caplog: pytest.LogCaptureFixture
) -> None:
    renewal = renewal_of(ctx)
    with beats.every(60.0, renewal):
        begun_s = time.monotonic()
        for _ in range(20):
            assert not renewal.is_lost
        # A look that waited for the time limit of the connection took two seconds, and took the process for dead.
        assert time.monotonic() - begun_s < 20.0
    assert caplog.messages == []


def test_without_a_free_descriptor_threads_do_it(
    ctx: TableContext, beats: ProcessBeats, caplog: pytest.LogCaptureFixture
) -> None:
    with beats.every(60.0, renewal_of(ctx)):
        pass
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        renewing = beats.every(0.1, renewal_of(ctx))
        renewing.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    beats_on(ctx.storage)
    renewing.__exit__(None, None, None)
    assert "threads do it" in caplog.text


@pytest.mark.parametrize("beats_of", [ProcessBeats, ThreadBeats])
def test_without_a_free_thread_the_work_goes_on(
    ctx: TableContext, beats_of: Callable[[], ProcessBeats | ThreadBeats], caplog: pytest.LogCaptureFixture
) -> None:
    beats, before_ms = beats_of(), beaten_ms(ctx.storage)
    threading.stack_size(1 << 46)  # no machine has room for it: no thread starts
    try:
        with beats.every(0.01, renewal_of(ctx)):
            assert "no thread can renew" in caplog.text
    finally:
        threading.stack_size(0)
    assert beaten_ms(ctx.storage) == before_ms
    with beats.every(0.05, renewal_of(ctx)):
        beats_on(ctx.storage)
    if isinstance(beats, ProcessBeats):
        beats.close()


def test_every_lease_has_the_newest_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_OPS_TEST_KEY", "as it was")
    for number, key in enumerate(("first", "second")):
        ours, theirs = socket.socketpair()
        told = {"uri": "memory://t", "due_s": time.monotonic() + 60.0, "interval_s": 60.0}
        ours.sendall(json.dumps({**told, "environment": {"HUDI_OPS_TEST_KEY": key}}).encode() + b"\n")
        ours.shutdown(socket.SHUT_WR)
        KeptLease(theirs, os.getpid()).keep()
        ours.close()
        assert os.environ["HUDI_OPS_TEST_KEY"] == key, number


def test_a_lease_that_somebody_removed_is_not_made_again(ctx: TableContext, beats: ProcessBeats) -> None:
    renewal = renewal_of(ctx)
    with beats.every(0.1, renewal):
        beats_on(ctx.storage)
        drop_lease(ctx, INSTANT)
        # A beat that had looked already may still make it again, as if it had come before: removed once more, it stays away.
        eventually(lambda: renewal.is_lost or drop_lease(ctx, INSTANT))
        assert list_leases(ctx.storage) == []


def test_many_leases_at_a_time_and_none_after_its_end(ctx: TableContext, beats: ProcessBeats) -> None:
    """Of hundreds of ends at any moment of a beat, none leaves a lease behind."""
    for _ in range(30):
        renewal = renewal_of(ctx)
        take_lease(ctx, INSTANT)
        with beats.every(0.02, renewal_of(ctx)), beats.every(0.01, renewal):
            beats_on(ctx.storage)
        renewal.settle()
        drop_lease(ctx, INSTANT)
        assert list_leases(ctx.storage) == []
    with beats.every(0.01, renewal_of(ctx)):
        assert list_leases(ctx.storage) == []


def test_a_beat_that_hangs_undoes_itself(ctx: TableContext, beats: ProcessBeats) -> None:
    """The storage hangs while the lease is read (it is a pipe); meanwhile the instant is settled."""
    lease = Path(ctx.storage.root) / lease_path(INSTANT)  # type: ignore[attr-defined]
    body = lease.read_bytes()
    renewal = renewal_of(ctx)
    lease.unlink()
    os.mkfifo(lease)
    writers: list[int] = []

    def hangs() -> bool:
        with suppress(OSError):  # nobody reads yet
            writers.append(os.open(lease, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    begun_s = time.monotonic()
    with beats.every(0.1, renewal):
        eventually(hangs)
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 10, "the end of the work waits for it a little, not for ever"
    renewal.settle()
    drop_lease(ctx, INSTANT)
    told = []
    renewal.beaten = lambda *times: told.append(times)  # type: ignore[method-assign]
    for writer in writers:
        os.write(writer, body)
        os.close(writer)
    eventually(lambda: renewal.longest_gap_s and told, "the beat that hung")
    eventually(lambda: list_leases(ctx.storage) == [])


def test_threads_take_over_when_it_is_killed(
    ctx: TableContext, beats: ProcessBeats, caplog: pytest.LogCaptureFixture
) -> None:
    with beats.every(0.1, renewal_of(ctx)):
        beats_on(ctx.storage)
        assert beats.process_id is not None
        os.kill(beats.process_id, signal.SIGKILL)
        eventually(lambda: beats.process_id is None)
        beats_on(ctx.storage)
    assert "threads go on" in caplog.text
    with beats.every(0.1, renewal_of(ctx)):
        assert beats.process_id is not None, "the next lease starts another"
        beats_on(ctx.storage)


def test_a_lease_that_is_begun_just_as_it_is_lost_is_renewed_all_the_same(
    ctx: TableContext, beats: ProcessBeats
) -> None:
    with beats.every(0.1, renewal_of(ctx)):
        lost = beats._process
        assert lost is not None
        os.kill(lost.process_id, signal.SIGKILL)
        eventually(lambda: lost.is_gone)
    kept = lost.keep(0.05, renewal_of(ctx), ThreadBeats())
    try:
        beats_on(ctx.storage)
    finally:
        kept.end()


def test_what_it_cannot_renew_threads_renew(ctx: TableContext, beats: ProcessBeats) -> None:
    before_ms = beaten_ms(ctx.storage)
    process = beats._process = _Process()
    kept = process.keep(600.0, renewal_of(ctx), ThreadBeats())
    try:
        kept._take_in({"failed": "Unavailable: no key for the store"})
        eventually(lambda: beaten_ms(ctx.storage) > before_ms)
        assert beats.process_id is not None
    finally:
        kept.end()


def test_without_a_python_to_start_threads_do_it(
    ctx: TableContext, beats: ProcessBeats, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    for _ in range(2):
        with beats.every(0.05, renewal_of(ctx)):
            assert beats.process_id is None
            beats_on(ctx.storage)
    assert caplog.text.count("threads do it") == 1


def test_what_no_other_process_can_open_is_renewed_by_threads(beats: ProcessBeats) -> None:
    storage = MemoryStorage("alone")
    ctx = TableContext(storage=storage, locks=in_process_lock(storage.uri))
    take_lease(ctx, INSTANT)
    assert not is_shareable(renewal_of(ctx))
    with beats.every(0.05, renewal_of(ctx)):
        assert beats.process_id is None
        beats_on(storage)


def test_signals_for_the_group_do_not_end_it(ctx: TableContext, beats: ProcessBeats) -> None:
    with beats.every(0.1, renewal_of(ctx)):
        beats_on(ctx.storage)
        pid = beats.process_id
        assert pid is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            os.kill(pid, number)
        beats_on(ctx.storage)
        assert beats.process_id == pid


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PARENT, str(tmp_path / "t"), INSTANT, *options]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_parent_that_stands_still_is_not_beaten_for(parent, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "t")
    process = parent()
    beater = int(process.stdout.readline())
    beats_on(storage)
    freeze(process.pid)
    assert is_stopped(process.pid)
    begun_s = time.monotonic()
    eventually(lambda: time.monotonic() - begun_s > 1.0)  # a beat may have been under way
    before_ms, begun_s = beaten_ms(storage), time.monotonic()
    eventually(lambda: time.monotonic() - begun_s > 2.0)
    assert beaten_ms(storage) == before_ms
    assert is_running(beater)
    thaw(process.pid)
    beats_on(storage)
    process.kill()
    process.wait()
    eventually(lambda: not is_running(beater), "the end of the process whose parent is gone")
    lease = read_lease(storage, INSTANT)
    assert lease is not None
    assert lease.owner is not None
    assert lease.owner.is_gone()


def test_it_ends_with_its_parent_though_a_fork_of_it_lives(parent, tmp_path: Path) -> None:
    process = parent("fork")
    child, beater = (int(process.stdout.readline()) for _ in range(2))
    if not is_running(beater) or Path(f"/proc/{child}/cmdline").read_bytes().find(b"heartbeat_process.py") >= 0:
        child, beater = beater, child
    beats_on(LocalStorage(tmp_path / "t"))
    process.kill()
    process.wait()
    eventually(lambda: not is_running(beater))
    assert is_running(child)
    os.kill(child, signal.SIGKILL)


def test_a_fork_closes_the_way_to_the_process_of_its_parent(tmp_path: Path) -> None:
    fork = """
    way = process_beats()._process._outbox.fileno()
    if os.fork() == 0:
        try:
            os.fstat(way)
            os.write(1, b"open")
        except OSError:
            os.write(1, b"closed")
        os._exit(0)
    os.wait()
"""
    program = PARENT[: PARENT.index("    if sys.argv[3:]")] + fork
    command = [sys.executable, "-c", program, str(tmp_path / "t"), INSTANT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (ended.returncode, ended.stdout) == (0, "closed"), ended.stderr


def test_a_process_ends_at_once_and_takes_it_along(tmp_path: Path) -> None:
    program = PARENT.replace("    threading.Event().wait()\n", "")
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "t"), INSTANT]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (ended.returncode, ended.stderr) == (0, "")
    eventually(lambda: not is_running(int(ended.stdout)))
