"""Leases: what they say, who counts as dead, and that no beat makes one again that was removed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from hudi_ops.concurrency.ended import ends_if_it_fails
from hudi_ops.concurrency.lease.heartbeat_threads import ThreadBeats
from hudi_ops.concurrency.lease.lease import (
    EXPIRY_MS,
    Renewal,
    drop_lease,
    inherit_lease,
    lease_path,
    list_leases,
    read_lease,
    take_lease,
)
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import Owner, TableContext
from hudi_ops.errors import Unavailable
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from tests.tables import START_MS

INSTANT = "20300317174640000"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def ctx(clock: ManualClock) -> TableContext:
    return simulated_context(MemoryStorage("t", clock), clock, "one")


def renewal_of(ctx: TableContext) -> Renewal:
    return Renewal(ctx, INSTANT, "write", ctx.clock.monotonic_s())


def test_a_lease_says_who_works_as_what_until_when_and_under_which_lock(ctx: TableContext) -> None:
    assert take_lease(ctx, INSTANT, "rollback")
    assert not take_lease(ctx, INSTANT)
    lease = read_lease(ctx.storage, INSTANT)
    assert lease is not None
    assert (lease.owner, lease.role) == (ctx.owner, "rollback")
    assert (lease.beaten_ms, lease.expires_ms) == (START_MS, START_MS + EXPIRY_MS)
    assert lease.lock.startswith("in-process:")
    assert list_leases(ctx.storage) == [INSTANT]


def test_its_expiry_is_the_later_of_its_word_and_its_file_time(ctx: TableContext, clock: ManualClock) -> None:
    take_lease(ctx, INSTANT)
    said = json.loads(ctx.storage.get(lease_path(INSTANT)))
    ctx.storage.put(lease_path(INSTANT), json.dumps(said | {"beaten_ms": 1, "expires_ms": 2}).encode())
    clock.advance_ms(EXPIRY_MS)
    assert not read_lease(ctx.storage, INSTANT).is_dead(clock), "its file is younger"
    clock.advance_ms(1)
    assert read_lease(ctx.storage, INSTANT).is_dead(clock)
    ctx.storage.put(lease_path(INSTANT), json.dumps(said | {"expires_ms": clock.now_ms() + 10 * EXPIRY_MS}).encode())
    clock.advance_ms(9 * EXPIRY_MS)
    assert not read_lease(ctx.storage, INSTANT).is_dead(clock), "its owner asked for longer"


@pytest.mark.parametrize("body", [b"", b"x", b"[1]", b"{}", b'{"owner": {"host": "h"}}', b'"text"'])
def test_a_heartbeat_of_apache_hudi_has_no_owner(body: bytes, ctx: TableContext, clock: ManualClock) -> None:
    ctx.storage.put(lease_path(INSTANT), body)
    lease = read_lease(ctx.storage, INSTANT)
    assert lease is not None
    assert (lease.owner, lease.role, lease.expires_ms) == (None, "", START_MS + EXPIRY_MS)


def test_the_lease_of_an_earlier_release_is_read(ctx: TableContext) -> None:
    take_lease(ctx, INSTANT)
    said = json.loads(ctx.storage.get(lease_path(INSTANT)))
    old = {"owner": said["owner"], "beaten_ms": START_MS, "taken": ""}
    ctx.storage.put(lease_path(INSTANT), json.dumps(old).encode())
    lease = read_lease(ctx.storage, INSTANT)
    assert lease is not None
    assert (lease.role, lease.expires_ms, lease.lock) == ("write", START_MS + EXPIRY_MS, "")


def test_who_inherits_a_lease_is_named_in_it(ctx: TableContext, clock: ManualClock) -> None:
    take_lease(ctx, INSTANT)
    other = simulated_context(ctx.storage, clock, "two")
    inherit_lease(other, INSTANT, "rollback")
    lease = read_lease(ctx.storage, INSTANT)
    assert lease is not None
    assert (lease.owner, lease.role) == (other.owner, "rollback")


def test_a_beat_renews_and_measures_the_gap(ctx: TableContext, clock: ManualClock) -> None:
    take_lease(ctx, INSTANT)
    renewal = renewal_of(ctx)
    clock.advance_ms(40_000)
    renewal()
    lease = read_lease(ctx.storage, INSTANT)
    assert lease is not None
    assert lease.beaten_ms == START_MS + 40_000
    assert renewal.longest_gap_s == 40.0
    clock.advance_ms(30_000)
    assert renewal.longest_gap_s == 40.0
    clock.advance_ms(15_000)
    assert renewal.longest_gap_s == 45.0, "the gap that is still open counts"
    clock.jump_ms(-3_600_000)
    assert renewal.longest_gap_s == 45.0, "the wall clock does not"


def test_a_beat_that_takes_long_counts_from_its_start(ctx: TableContext, clock: ManualClock) -> None:
    """When its file time was set nobody knows: the gap to the one before and to the next is the longest that it may be."""
    take_lease(ctx, INSTANT)
    renewal = renewal_of(ctx)
    renewal.beaten(10.0, 80.0)
    assert renewal.longest_gap_s == 80.0
    renewal.beaten(95.0, 96.0)
    assert renewal.longest_gap_s == 86.0


def test_a_beat_that_fails_is_no_end(ctx: TableContext, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(MemoryStorage):
        def put(self, path: str, body: object) -> None:
            raise Unavailable("no answer")

    take_lease(ctx, INSTANT)
    failing = Failing("t", clock)
    failing.put_if_absent(lease_path(INSTANT), ctx.storage.get(lease_path(INSTANT)))
    renewal = renewal_of(replace(ctx, storage=failing))
    clock.advance_ms(50_000)
    renewal()
    assert "was not renewed" in caplog.text
    assert not renewal.is_lost
    assert renewal.longest_gap_s == 50.0


@pytest.mark.parametrize("somebody", ["removed it", "took it"])
def test_a_lease_that_is_not_ours_any_more_is_left_alone(somebody: str, ctx: TableContext, clock: ManualClock) -> None:
    take_lease(ctx, INSTANT)
    renewal = renewal_of(ctx)
    if somebody == "removed it":
        drop_lease(ctx, INSTANT)
    else:
        inherit_lease(simulated_context(ctx.storage, clock, "two"), INSTANT, "rollback")
    before = [(info, ctx.storage.get(info.path)) for info in ctx.storage.list()]
    renewal()
    assert renewal.is_lost
    assert [(info, ctx.storage.get(info.path)) for info in ctx.storage.list()] == before


class Hanging(MemoryStorage):
    """Renewals hang until they are let go."""

    def __init__(self) -> None:
        super().__init__("hanging")
        self.hangs, self.go_on, self.landed = threading.Event(), threading.Event(), threading.Event()

    def put(self, path: str, body: bytes) -> None:
        self.hangs.set()
        assert self.go_on.wait(60)
        super().put(path, body)
        self.landed.set()

    def delete(self, path: str) -> None:
        super().delete(path)


def eventually(condition: Callable[[], object]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("the condition did not come true")


def threaded(storage: MemoryStorage) -> TableContext:
    ctx = TableContext(storage=storage, locks=in_process_lock(storage.uri), owner=Owner("h", 1, ""))
    take_lease(ctx, INSTANT)
    return ctx


@pytest.mark.full("waits for seconds")
def test_a_beat_that_hangs_keeps_neither_the_end_nor_a_lease_that_was_dropped() -> None:
    storage = Hanging()
    ctx = threaded(storage)
    renewal = renewal_of(ctx)
    with ThreadBeats().every(0.01, renewal):
        assert storage.hangs.wait(60)
    renewal.settle()
    drop_lease(ctx, INSTANT)
    storage.go_on.set()
    assert storage.landed.wait(60)
    eventually(lambda: list_leases(storage) == [])


def test_a_beat_that_hangs_does_not_stop_the_next_ones() -> None:
    class HangsOnce(MemoryStorage):
        beats = 0
        go_on = threading.Event()

        def put(self, path: str, body: bytes) -> None:
            self.beats += 1
            if self.beats == 1:
                assert self.go_on.wait(60)
            super().put(path, body)

    storage = HangsOnce("once")
    renewal = renewal_of(threaded(storage))
    with ThreadBeats().every(0.01, renewal):
        eventually(lambda: storage.beats >= 4)
        storage.go_on.set()


def test_no_more_than_a_few_beats_hang_at_a_time() -> None:
    called = []
    go_on = threading.Event()

    def beat() -> None:
        called.append(threading.current_thread())
        go_on.wait(60)

    with ThreadBeats().every(0.001, beat):
        eventually(lambda: len(called) == 4)
        begun = threading.active_count()
        threading.Event().wait(0.05)
        assert threading.active_count() == begun
        go_on.set()
        eventually(lambda: len(called) > 4)


def failed(ctx: TableContext) -> None:
    with pytest.raises(KeyboardInterrupt), ends_if_it_fails(ctx, INSTANT):
        raise KeyboardInterrupt


def test_the_lease_of_an_attempt_of_this_process_is_dead_once_it_failed(clock: ManualClock) -> None:
    storage = MemoryStorage("failed", clock)
    ctx = TableContext(storage=storage, locks=in_process_lock(storage.uri), clock=clock)
    take_lease(ctx, INSTANT)
    with ends_if_it_fails(ctx, INSTANT):
        assert not read_lease(storage, INSTANT).is_dead(clock), "it is at work"
    assert not read_lease(storage, INSTANT).is_dead(clock), "it ended well, and its lease is about to go"
    failed(ctx)
    assert read_lease(storage, INSTANT).is_dead(clock)
    # Whoever works at the instant next, in this process too, is alive.
    inherit_lease(ctx, INSTANT, "execute")
    assert not read_lease(storage, INSTANT).is_dead(clock)


def test_the_lease_of_another_process_is_dead_by_its_beats_alone(ctx: TableContext, clock: ManualClock) -> None:
    take_lease(ctx, INSTANT)
    failed(ctx)
    assert not read_lease(ctx.storage, INSTANT).is_dead(clock)
    clock.advance_ms(EXPIRY_MS + 1)
    assert read_lease(ctx.storage, INSTANT).is_dead(clock)
