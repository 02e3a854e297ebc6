"""Many writer processes on one table over a real ZooKeeper, killed, paused and cut off at random: no commit is lost or doubled.

Goal: what an acknowledged commit wrote is in the table, whoever else was killed meanwhile. Method: writers note every attempt
before and after it (`fleet_writer.py`), and the table must equal the serial replay of what completed (`fleet.py`). Who is disturbed
when follows from the seed; how processes meet does not, so that a failing seed is to be tried several times:

    HUDI_OPS_SEED=7 bin/test tests/e2e/test_many_writers.py -s
"""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.e2e.fleet import (
    Fleet,
    Member,
    Told,
    check_order,
    check_rows,
    check_slots,
    landed,
    make_table,
    replay,
    settle,
)
from tests.e2e.fleet_writer import BASE_PATH
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import read_with_hudi_rs
from tests.zookeeper.own_server import OwnServer

IS_SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
SEED = int(os.environ.get("HUDI_OPS_SEED", "5"))
WRITERS, COMMITS = (8, 50) if IS_SOAK else (4, 10)
KILLS, PAUSES, RESTARTS = (60, 8, 6) if IS_SOAK else (6, 1, 1)
SESSION_S = 3.0
STARVED_S = 90.0
"""So long nobody may commit: longer than the sessions of two dead in line, a restart of ZooKeeper and a wait for its connection."""


@dataclass(frozen=True)
class Blow:
    """One disturbance: after so many commits and a moment, of this kind."""

    after: int
    kind: str
    moment_s: float


def blows(dice: random.Random) -> list[Blow]:
    """When what happens; the last tenth of the commits is left in peace, so that all that was planned does happen."""
    kinds = ["kill"] * KILLS + ["pause"] * PAUSES + ["restart"] * RESTARTS
    dice.shuffle(kinds)
    last = WRITERS * COMMITS * 9 // 10
    return sorted(
        (Blow(dice.randint(0, last), kind, dice.random() * 0.15) for kind in kinds), key=lambda one: one.after
    )


class Storm:
    """Disturbs a fleet until it has done its work; without a server there is none to restart."""

    def __init__(self, fleet: Fleet, server: OwnServer | None, dice: random.Random) -> None:
        self.fleet, self.server, self.dice = fleet, server, dice
        self.done = dict.fromkeys(("kill", "pause", "restart"), 0)
        self.seconds = 0.0
        self._moment = threading.Event()
        self._paused: list[tuple[float, Member]] = []

    def rage(self) -> None:
        """Until every writer has ended by itself."""
        coming, best, started_s = blows(self.dice), 0, time.monotonic()
        progress_s = started_s
        while working := self.fleet.look():
            done = self.fleet.acknowledged()
            if done > best:
                best, progress_s = done, time.monotonic()
            assert time.monotonic() - progress_s < STARVED_S, (
                f"nobody committed for {STARVED_S:g} s, after {done} commits"
            )
            if coming and coming[0].after <= done and self._strike(coming[0], working):
                coming.pop(0)
            while self._paused and self._paused[0][0] <= time.monotonic():
                self.fleet.resume(self._paused.pop(0)[1])
            self._moment.wait(0.02)
        self.seconds = time.monotonic() - started_s

    def _strike(self, blow: Blow, working: list[Member]) -> bool:
        """Whether it could be done: only a writer with an attempt under way is worth a blow."""
        if blow.kind == "restart":
            if self.server is not None:
                self.server.kill()
                self.server.start()
                self.done["restart"] += 1
            return True
        paused = [member for _, member in self._paused]
        fit = [one for one in working if one not in paused and is_at_work(one)]
        if not fit:
            return False
        victim = self.dice.choice(fit)
        self._moment.wait(blow.moment_s)
        if blow.kind == "kill":
            self.fleet.kill(victim)
            self.fleet.revive(victim)
        else:
            self.fleet.pause(victim)
            self._paused.append((time.monotonic() + SESSION_S + 2, victim))
        self.done[blow.kind] += 1
        return True


def is_at_work(member: Member) -> bool:
    """Whether its present life has begun an attempt and not ended it."""
    diary = member.diary
    return bool(diary) and "rows" in diary[-1] and f"-{member.orders.life}-" in diary[-1]["attempt"]


@pytest.mark.timeout(3600 if IS_SOAK else 900)
def test_the_table_is_the_serial_replay_of_what_was_acknowledged(tmp_path: Path) -> None:
    root = tmp_path / "table"
    with OwnServer(tmp_path / "zookeeper") as server:
        storm = weather(tmp_path, server)
        assert storm.done["restart"] == RESTARTS
        lock = ZooKeeperLock(server.hosts, BASE_PATH, "fleet", owner="the last")
        check(tmp_path, storm, make_table(root, lock))
        lock.close()
    table = make_table(root)
    assert_same_rows(read_with_hudi_rs(root), table.read(meta_columns=True), with_meta=True)
    if IS_SOAK:  # in full, interop/test_mixed_fleet.py has Apache Hudi read what a fleet wrote
        with HudiPeer() as apache_hudi:
            assert_same_rows(apache_hudi.read(root), table.read(meta_columns=True), with_meta=True)


@pytest.mark.timeout(3600 if IS_SOAK else 900)
def test_without_a_lock_the_slots_alone_keep_every_commit(tmp_path: Path) -> None:
    storm = weather(tmp_path, None)
    table = make_table(tmp_path / "table")
    check(tmp_path, storm, table)
    assert_same_rows(read_with_hudi_rs(tmp_path / "table"), table.read(meta_columns=True), with_meta=True)


def weather(folder: Path, server: OwnServer | None) -> Storm:
    """Let a fleet commit through a storm; all its processes have ended afterwards."""
    print(f"\nseed {SEED}: {WRITERS} writers x {COMMITS} commits; again: HUDI_OPS_SEED={SEED}")
    make_table(folder / "table")
    hosts = server.hosts if server is not None else ""
    with Fleet(folder / "table", hosts, "fleet", folder / "diaries", SEED) as fleet:
        for number in range(WRITERS):
            fleet.add(f"w{number}", COMMITS, session_s=SESSION_S)
        storm = Storm(fleet, server, random.Random(SEED))
        storm.rage()
    assert storm.done["kill"] >= KILLS * 3 // 4, "too few kills to tell anything"
    return storm


def check(folder: Path, storm: Storm, table: Table) -> None:
    """One last recovery; then nothing is lost, doubled, or left over."""
    told = Told()
    for member in storm.fleet.members.values():
        told.take(member.diary)
    undone = len(settle(table))
    order = landed(folder / "table")
    print_figures(told, storm, order, undone)
    check_order(told, order)
    check_rows(table.read(meta_columns=True), replay(order, told.rows))
    assert len(told.acknowledged) == WRITERS * COMMITS
    print(f"  {check_slots(folder / 'table', told)} slots")
    report = verify_table(table.context.storage, deep=True)
    assert report.findings == (), [str(finding) for finding in report.findings]


def print_figures(told: Told, storm: Storm, order: list[tuple[str, str]], undone: int) -> None:
    """What happened, in figures."""
    there = {attempt for _, attempt in order}
    kinds = sorted(set(told.refused.values()))
    refused = ", ".join(f"{kind} {list(told.refused.values()).count(kind)}" for kind in kinds) or "none"
    print(f"  {len(told.acknowledged)} commits acknowledged in {storm.seconds:.0f} s; blows: {storm.done}")
    print(f"  attempts cut off: {len(told.silent)}, of which landed: {len(told.silent & there)}; refused: {refused}")
    unknown = [attempt for attempt, error in told.refused.items() if error == "OutcomeUnknown"]
    print(f"  outcome unknown: {len(unknown)}, of which landed: {len(set(unknown) & there)}")
    tries = sorted(told.tries)
    print(
        f"  instants begun for a commit: mean {statistics.mean(tries):.2f}, p95 {tries[len(tries) * 95 // 100]}, "
        f"max {tries[-1]}; seconds: median {statistics.median(told.seconds):.2f}, max {max(told.seconds):.1f}"
    )
    print(f"  the last recovery rolled back {undone}")
