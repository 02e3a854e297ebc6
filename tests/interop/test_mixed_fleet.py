"""Our writers and Apache Hudi's, together on one table over one ZooKeeper lock, killed on both sides: nobody loses a commit.

Apache Hudi runs with optimistic concurrency and lazy cleaning of failed writes, as docs/protocol §10 asks for. Method: that of
tests/e2e/test_many_writers.py: the table equals the serial replay of what completed, and every acknowledged commit is among it. A
dead writer's heartbeat is made to look old instead of waiting for two minutes. To repeat a seed: HUDI_OPS_SEED=7 bin/test FILE -s
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.storage.local import LocalStorage
from hudi_ops.table.table import Table
from hudi_ops.timeline.log.commit_log import load_log
from hudi_ops.timeline.log.entries import Void
from hudi_ops.verify import verify_table
from tests.e2e.fleet import Fleet, Member, check_order, check_rows, landed, make_table, replay, settle
from tests.e2e.fleet_writer import BASE_PATH
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import read_with_hudi_rs
from tests.interop.mixed_fleet import (
    SESSION_S,
    SMALL,
    HudiWriter,
    age_leases,
    fleet_options,
    left_over,
    strays,
    timeline_of,
    told_by,
)

pytestmark = pytest.mark.timeout(3600)
IS_SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
SEED = int(os.environ.get("HUDI_OPS_SEED", "3"))
OURS, ROUNDS, KILLS_OF_OURS, KILLS_OF_HUDI = (3, 25, 15, 6) if IS_SOAK else (2, 3, 1, 1)
ROUND_S = 600.0
EXPECTED_FINDINGS = {"foreign-instant", "foreign-archived", "payload-left"}
"""That another program writes and archives here is said, and true. Of an instant that was decided and voided, the bytes of what
would have been its completed file stay beside the slot that names them."""


@dataclass
class Place:
    """A table, its lock and its writers."""

    root: Path
    fleet: Fleet
    hudi: HudiWriter
    peer: HudiPeer

    def lock(self) -> ZooKeeperLock:
        """The table lock, for the test itself."""
        return ZooKeeperLock(self.fleet.hosts, BASE_PATH, self.fleet.lock_key, owner="the test")

    def ours(self, name: str) -> None:
        """One commit of a writer of ours that comes now."""
        member = self.fleet.add(name, 1, session_s=SESSION_S)
        await_that(lambda: not self.fleet.look(), f"a commit of {name}", ROUND_S)
        assert member.acknowledged == 1

    def check(self, *, archives: bool = IS_SOAK) -> None:
        """Check that nothing is lost, doubled or left over and that all readers agree; then once more after archiving.

        Args:
            archives: Apache Hudi archives the timeline first, for a second check. Costs about ten seconds.
        """
        lock = self.lock()
        table = make_table(self.root, lock)
        settle(table)
        told, order = told_by(self.fleet.diaries), landed(self.root)
        check_order(told, order)
        expected = replay(order, told.rows)
        check_rows(table.read(meta_columns=True), expected)
        assert strays(self.root) == []
        assert left_over(self.root) == []
        self.read_equal(table)
        if archives:
            self._check_archived(table, order)
        report = verify_table(table.context.storage, deep=True)
        # Heartbeats are made to look old, so rollbacks that are still on the timeline seem to be too early.
        expected = EXPECTED_FINDINGS if archives else {*EXPECTED_FINDINGS, "eager-rollback"}
        found = [str(one) for one in report.findings if one.invariant not in expected]
        # A process of Apache Hudi that is killed between a put and its rename leaves the temporary file.
        assert [one for one in found if "temporary file that a killed process" not in one] == []
        lock.close()

    def _check_archived(self, table: Table, order: list[tuple[str, str]]) -> None:
        for _ in range(4):
            assert self.hudi.attempt(**SMALL), self.hudi.last
        assert self.peer.timeline(self.root)["archived"] > 0, "nothing was archived"
        told = told_by(self.fleet.diaries)
        before = {attempt for _, attempt in order}
        last = sorted((instant, one) for one, instant in told.acknowledged.items() if one not in before)
        check_rows(table.read(meta_columns=True), replay([*order, *last], told.rows))
        self.read_equal(table)
        self.ours("after-archiving")
        told = told_by(self.fleet.diaries)
        newest = next(one for one in told.acknowledged if one.startswith("after"))
        check_rows(
            table.read(meta_columns=True), replay([*order, *last, (told.acknowledged[newest], newest)], told.rows)
        )

    def read_equal(self, table: Table) -> None:
        """Apache Hudi and the `hudi` package read what we read."""
        for read in (self.peer.read, read_with_hudi_rs):
            assert_same_rows(read(self.root), table.read(meta_columns=True), with_meta=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture(scope="module")
def victim() -> Iterator[HudiPeer]:
    """A session of Apache Hudi that tests may kill."""
    with HudiPeer(timeout_s=ROUND_S) as peer:
        yield peer


@pytest.fixture
def place(tmp_path: Path, server: EmbeddedZooKeeper, victim: HudiPeer) -> Iterator[Place]:
    key, root = f"fleet-{tmp_path.name}", tmp_path / "table"
    with Fleet(root, server.hosts, key, tmp_path / "diaries", SEED) as fleet:
        options = fleet_options(server.hosts, key)
        hudi = HudiWriter(victim, root, options, fleet.diaries / "hudi.jsonl", SEED)
        make_table(root)
        yield Place(root, fleet, hudi, victim)


def await_that(condition: Callable[[], object], what: str, timeout_s: float = ROUND_S) -> None:
    """Waits for a condition, and fails when it does not come true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s"
        threading.Event().wait(0.005)


def kill_hudi(place: Place) -> None:
    """Ends Apache Hudi as a crash would, and long ago."""
    with place.peer.guard:
        place.hudi.kills += 1
        place.peer.kill()
    age_leases(place.root, of_hudi=True)


def test_nobody_loses_a_commit(place: Place) -> None:
    dice = random.Random(SEED)
    print(f"\nseed {SEED}: {OURS} of ours and Apache Hudi, {ROUNDS} rounds; again: HUDI_OPS_SEED={SEED}")
    place.hudi.turn()  # its first one is slow
    members = [place.fleet.add(f"w{number}", ROUNDS, in_turns=True, session_s=SESSION_S) for number in range(OURS)]
    deaths = dict.fromkeys(range(ROUNDS), "")
    chosen = dice.sample(range(ROUNDS), KILLS_OF_OURS + KILLS_OF_HUDI)
    deaths.update({one: "ours" if index < KILLS_OF_OURS else "hudi" for index, one in enumerate(chosen)})
    with ThreadPoolExecutor(1) as pool:
        for number in range(ROUNDS):
            play(place, members, pool.submit(place.hudi.turn), number, deaths[number], dice)
    await_that(lambda: not place.fleet.look(), "the end of our writers")
    told = told_by(place.fleet.diaries)
    kinds = {kind: list(told.refused.values()).count(kind) for kind in set(told.refused.values())}
    theirs = [one for one in told.acknowledged if one.startswith("hudi")]
    print(
        f"  {len(told.acknowledged)} commits, {len(theirs)} of Apache Hudi; cut off {len(told.silent)}; refused {kinds}"
    )
    assert len(told.acknowledged) == (OURS + 1) * ROUNDS + 1
    assert "HudiPeerError" not in kinds, place.hudi.last
    place.check(archives=True)


def play(
    place: Place, members: list[Member], theirs: Future[None], number: int, death: str, dice: random.Random
) -> None:
    """One round: a commit of everybody, at the same time, and perhaps a death."""
    for member in members:
        place.fleet.tell(member)
    moment = threading.Event()
    if death == "ours":
        member = dice.choice(members)
        moment.wait(dice.random() * 0.3)
        is_done, pid = member.acknowledged > number, member.process.pid if member.process is not None else 0
        place.fleet.kill(member)
        if dice.random() < 0.5:
            age_leases(place.root, of_hudi=False, of_pid=pid)
        place.fleet.revive(member)
        if not is_done and member.acknowledged <= number:
            place.fleet.tell(member)
    elif death == "hudi":
        moment.wait(dice.random() * 1.5)
        kill_hudi(place)
    await_that(lambda: all(one.acknowledged > number for one in members), f"round {number}")
    theirs.result(ROUND_S)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("heartbeat", ["old", "fresh"])
def test_killed_between_slot_and_completed_instant(place: Place, heartbeat: str) -> None:
    """Apache Hudi knows no slots: it commits and cleans first, and what was decided without being seen is voided."""
    place.ours("first")
    member = place.fleet.add("dead", 1, session_s=SESSION_S, stop_at=r"\.commit_log/0")
    place.fleet.await_stop(member)
    (pending,) = timeline_of(place.root).pending
    place.fleet.kill(member)
    member.is_done = True
    if heartbeat == "old":
        assert age_leases(place.root, of_hudi=False) == [pending.time]
    place.hudi.turn()
    rolled_back = [one for one in timeline_of(place.root) if one.action == "rollback" and one.is_completed]
    assert len(rolled_back) == (1 if heartbeat == "old" else 0), "by Apache Hudi's clean, or by nobody yet"
    place.ours("next")
    log = load_log(LocalStorage(place.root), None)
    assert log is not None
    assert any(isinstance(entry, Void) for entry in log.entries)
    assert timeline_of(place.root).find(pending.time) is None
    place.check(archives=True)


def test_apache_hudi_rolls_back_what_our_killed_writer_left(place: Place) -> None:
    place.ours("first")
    member = place.fleet.add("dead", 1, session_s=SESSION_S, stop_at=r"\.parquet$")
    place.fleet.await_stop(member)
    (pending,) = timeline_of(place.root).pending
    place.fleet.kill(member)
    member.is_done = True
    left = strays(place.root)
    assert left
    assert age_leases(place.root, of_hudi=False) == [pending.time]
    place.hudi.turn()
    assert timeline_of(place.root).find(pending.time) is None
    assert strays(place.root) == []
    place.ours("next")
    place.check()


def caught_in_the_act(place: Place, pool: ThreadPoolExecutor) -> tuple[Future[bool], str]:
    """Freezes Apache Hudi when it has begun to write data files and has not completed; returns its call, and its instant."""
    for _ in range(10):
        known = timeline_of(place.root).known_times
        future = pool.submit(place.hudi.attempt)
        while not future.done():
            for instant in timeline_of(place.root).pending:
                if instant.time not in known and list(place.root.glob(f"part=*/*_{instant.time}.parquet")):
                    place.peer.pause()
                    found = timeline_of(place.root).find(instant.time)
                    if found is not None and not found.is_completed:
                        return future, instant.time
                    place.peer.resume()
                    break
            threading.Event().wait(0.002)
        future.result()
    raise AssertionError("Apache Hudi was always faster than the test")


def test_we_roll_back_what_a_killed_writer_of_apache_hudi_left(place: Place) -> None:
    place.ours("first")
    place.hudi.turn()
    with ThreadPoolExecutor(1) as pool:
        future, pending = caught_in_the_act(place, pool)
        place.hudi.kills += 1
        place.peer.kill()
        assert not future.result(ROUND_S)
    assert strays(place.root), "it had written no file yet"
    # While its heartbeat is fresh nobody may say that it is dead.
    place.ours("early")
    assert timeline_of(place.root).find(pending) is not None
    assert age_leases(place.root, of_hudi=True) == [pending]
    place.ours("next")
    assert timeline_of(place.root).find(pending) is None
    assert strays(place.root) == []
    place.check()


def test_we_leave_a_living_writer_of_apache_hudi_alone(place: Place) -> None:
    place.ours("first")
    place.hudi.turn()
    with ThreadPoolExecutor(1) as pool:
        future, pending = caught_in_the_act(place, pool)
        files = strays(place.root)
        place.ours("meanwhile")
        assert timeline_of(place.root).find(pending) is not None
        # Stopped in the middle of a write, it may have had another file on its way when the first listing was made.
        assert set(files) <= set(strays(place.root))
        place.peer.resume()
        future.result(ROUND_S)  # it commits, or finds that ours was faster
    place.hudi.turn()
    place.check()
