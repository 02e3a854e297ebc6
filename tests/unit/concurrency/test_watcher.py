"""The watcher of a commit log: one probe an interval for all instants, which a CANCEL or a TAKEOVER of theirs stops."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.monitor import LeaseMonitor
from hudi_ops.concurrency.lease.watcher import LogWatcher
from hudi_ops.context import TableContext
from hudi_ops.errors import Cancelled, Unavailable
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Takeover, encode_entry
from tests.definitions import create_table
from tests.tables import DEFINITION, START_MS

INTERVAL_S = 0.02
DEADLINE_S = 20.0
WATCHER = "hudi-ops-watcher"


class Probed(MemoryStorage):
    """Counts the probes of a watcher, and can be silent to it."""

    probes = 0
    refused = 0
    is_silent = False

    def get(self, path: str) -> bytes:
        if threading.current_thread().name == WATCHER:
            if self.is_silent:
                self.refused += 1
                raise Unavailable(f"no answer, try {self.refused}")
            self.probes += 1
        return super().get(path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS, tick_ms=1)


@pytest.fixture
def storage(clock: ManualClock) -> Probed:
    return Probed("watched", clock)


@pytest.fixture
def ours(storage: Probed, clock: ManualClock) -> Session:
    session = Session(simulated_context(storage, clock, "ours"))
    create_table(session, DEFINITION)
    return session


@pytest.fixture
def theirs(storage: Probed, clock: ManualClock) -> Session:
    return Session(simulated_context(storage, clock, "theirs"))


@contextmanager
def attempts_watched(session: Session, watcher: LogWatcher, count: int = 1) -> Iterator[list[LeaseMonitor]]:
    """So many attempts of one process, each with the log as it knows it when it begins."""
    monitors = []
    for _ in range(count):
        attempt = begin(session.ctx, session.loader, "commit")
        session.loader.load()
        with session.keep(attempt.instant) as monitor:
            watcher.add(monitor)
            monitors.append(monitor)
    try:
        yield monitors
    finally:
        for monitor in monitors:
            watcher.remove(monitor)


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.002)


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == WATCHER]


def stopped(monitor: LeaseMonitor) -> bool:
    assert monitor.stop is not None
    return monitor.stop.is_given


def test_a_cancel_stops_the_instant_that_it_names_and_no_other(ours: Session, theirs: Session, storage: Probed) -> None:
    with attempts_watched(ours, LogWatcher(storage, INTERVAL_S), 3) as monitors:
        assert len(watchers()) == 1, "one thread for all instants"
        assert cancel_write(theirs, monitors[1].renewal.instant, "not needed any more")
        until(lambda: stopped(monitors[1]))
        with pytest.raises(Cancelled, match="not needed any more"):
            monitors[1].check()
        assert not stopped(monitors[0])
        assert not stopped(monitors[2])
        monitors[0].check()
        # The watcher goes on for the others.
        assert cancel_write(theirs, monitors[2].renewal.instant, "neither")
        until(lambda: stopped(monitors[2]))
    assert watchers() == []


def test_only_a_takeover_with_a_higher_epoch_stops(ours: Session, theirs: Session, storage: Probed) -> None:
    def take_over(session: Session, instant: str, epoch: int) -> None:
        state = session.loader.load()
        entry = Takeover(**session.entry(state, f"takeover {instant} {epoch}"), instant=instant, epoch=epoch)
        session.ctx.storage.put(slot_path(state.log.head + 1), encode_entry(entry))

    attempt = begin(ours.ctx, ours.loader, "rollback")
    ours.loader.load()
    watcher = LogWatcher(storage, INTERVAL_S)
    with ours.keep(attempt.instant, "rollback", epoch=1) as monitor:
        watcher.add(monitor)
        take_over(ours, attempt.instant, 1)
        until(lambda: monitor.head == ours.loader.load().log.head)
        assert not stopped(monitor)
        take_over(theirs, attempt.instant, 2)
        until(lambda: stopped(monitor))
        with pytest.raises(Cancelled) as ended:
            monitor.check()
        watcher.remove(monitor)
    assert ended.value.details["taken_over"] is True


def test_one_probe_an_interval_for_all_instants_and_none_by_checks(ours: Session, storage: Probed) -> None:
    with attempts_watched(ours, LogWatcher(storage, 0.05), 3) as monitors:
        until(lambda: len({monitor.head for monitor in monitors}) == 1)
        first, started_s = storage.probes, time.monotonic()
        until(lambda: storage.probes >= first + 5)
        for monitor in monitors:
            monitor.check()
        found, passed_s = storage.probes - first, time.monotonic() - started_s
    assert found <= passed_s / 0.05 + 1


def test_storage_errors_do_not_end_the_watch(ours: Session, theirs: Session, storage: Probed) -> None:
    with attempts_watched(ours, LogWatcher(storage, INTERVAL_S)) as (monitor,):
        storage.is_silent = True
        assert cancel_write(theirs, monitor.renewal.instant, "not needed")
        until(lambda: storage.refused >= 3)
        assert not stopped(monitor)
        monitor.check()
        storage.is_silent = False
        until(lambda: stopped(monitor))


def test_the_thread_ends_with_the_last_instant_and_starts_again(
    ours: Session, theirs: Session, storage: Probed
) -> None:
    watcher = LogWatcher(storage, INTERVAL_S)
    for _ in range(3):
        with attempts_watched(ours, watcher) as (monitor,):
            assert cancel_write(theirs, monitor.renewal.instant, "not needed")
            until(lambda monitor=monitor: stopped(monitor))
        assert watchers() == []
        assert not watcher.is_alive


def test_simulated_time_and_own_beats_have_no_thread(ours: Session, storage: Probed) -> None:
    attempt = begin(ours.ctx, ours.loader, "commit")
    for ctx in (ours.ctx, replace(ours.ctx, clock=SystemClock()), replace(ours.ctx, beats=None)):
        session = Session(ctx)
        session.loader.load()
        with session.keep(attempt.instant, "execute") as monitor:
            assert watchers() == []
            assert monitor.stop is None


@pytest.fixture
def on_disk(tmp_path: Path) -> Session:
    from hudi_ops.concurrency.lock.in_process import in_process_lock

    storage = LocalStorage(tmp_path / "t")
    session = Session(TableContext(storage, in_process_lock(storage.uri)))
    create_table(session, DEFINITION)
    return session


def test_two_tables_of_one_path_share_a_thread(on_disk: Session) -> None:
    other = Session(replace(on_disk.ctx, storage=LocalStorage(on_disk.ctx.storage.uri.removeprefix("file://"))))
    first, second = (begin(session.ctx, session.loader, "commit") for session in (on_disk, other))
    with on_disk.keep(first.instant, "execute"), other.keep(second.instant, "execute") as monitor:
        assert len(watchers()) == 1
        assert monitor.stop is not None
        assert watchers()[0].daemon, "it never keeps the process alive"
    with on_disk.keep(first.instant):  # a write looks at each beat
        assert watchers() == []


def looks_by_itself(session: Session, monitor: LeaseMonitor, said: Connection) -> None:
    assert cancel_write(session, monitor.renewal.instant, "not needed")
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        try:
            monitor.check()
        except Cancelled:
            said.send("stopped")
            break
        time.sleep(0.01)
    said.close()


def test_a_forked_child_looks_by_itself_and_watches_anew(on_disk: Session) -> None:
    attempt = begin(on_disk.ctx, on_disk.loader, "commit")
    on_disk.loader.load()
    heard, said = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        with on_disk.keep(begin(on_disk.ctx, on_disk.loader, "commit").instant, "execute") as own:
            assert own.stop is not None
            assert len(watchers()) == 1, "a thread of the child"
            looks_by_itself(on_disk, monitor, said)

    with on_disk.keep(attempt.instant, "execute") as monitor:
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        said.close()
        try:
            assert heard.poll(DEADLINE_S)
            assert heard.recv() == "stopped"
            process.join(DEADLINE_S)
            assert process.exitcode == 0
        finally:
            process.kill()
    assert os.getpid() != process.pid
