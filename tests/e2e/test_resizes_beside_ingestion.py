"""Four processes upsert while a fifth splits and merges the buckets; writers and executors are killed: every row is there once.

Each writer writes keys of its own, and notes every attempt before and after it (`resize_player.py`). Of an attempt that a kill cut
off, a row of its own tells whether it completed. So the rows follow from the diaries. Who is killed when follows from the seed:

    HUDI_OPS_SEED=7 bin/test tests/e2e/test_resizes_beside_ingestion.py -s
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock
from hudi_ops.services.base.slices import live_slices
from hudi_ops.table.table import Table
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.e2e.fleet_writer import BASE_PATH, read_diary
from tests.e2e.resize_player import LOCK, MARK, SCHEMA, SIZES, Part
from tests.zookeeper.own_server import OwnServer

SEED = int(os.environ.get("HUDI_OPS_SEED", "20"))
WRITERS = 4
ALONE_S = bound(2.0, 4.0, 60.0)
"""So long the writers write before the first resize: what they do without resizes."""
RUN_S = float(os.environ.get("HUDI_OPS_RUN_S") or bound(5.0, 20.0, 600.0))
KILL_EVERY_S = bound(2.0, 5.0, 8.0)
SPLITS, KILLS = bound((1, 1), (4, 3), (50, 20))
"""Least numbers of completed splits and of kills: the run lasts until both are reached."""
DEADLINE_S = RUN_S + 240.0


@dataclass
class Player:
    """A process, through all its lives."""

    part: Part
    process: subprocess.Popen[str] | None = None
    noted_before: int = 0

    @property
    def is_at_work(self) -> bool:
        """Whether its present life has noted anything: a process that still starts is not worth a kill."""
        return Path(self.part.diary).stat().st_size > self.noted_before

    @property
    def diary(self) -> list[dict[str, Any]]:
        return list(read_diary(Path(self.part.diary)))

    @property
    def log(self) -> Path:
        return Path(self.part.diary).with_suffix(".log")

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])

    def start(self) -> None:
        Path(self.part.diary).touch()
        self.noted_before = Path(self.part.diary).stat().st_size
        with open(self.log, "a", encoding="utf-8") as log:
            command = [sys.executable, "-m", "tests.e2e.resize_player", json.dumps(asdict(self.part))]
            self.process = subprocess.Popen(command, stderr=log, text=True, cwd=Path(__file__).parents[2])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def look(self) -> None:
        assert self.process is not None
        code = self.process.poll()
        assert code in (None, 0), f"{self.part.name} ended with {code}:\n{self.last_words()}"


class Company:
    """The processes of one run. As a context manager it leaves none of them alive."""

    def __init__(self, folder: Path, hosts: str) -> None:
        self.folder, self.hosts = folder, hosts
        self.players: list[Player] = []
        self.stop = folder / "stop"
        self.kills: Counter[str] = Counter()
        self.splits_before = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for player in self.players:
            if player.process is not None and player.process.poll() is None:
                player.kill()

    def add(self, name: str, *, resizes: bool = False) -> None:
        diary = str(self.folder / f"{name}.jsonl")
        root, stop = str(self.folder / "table"), str(self.stop)
        self.players.append(Player(Part(root, self.hosts, name, 0, SEED, diary, stop, resizes)))
        self.players[-1].start()

    def play(self, seconds: float, dice: random.Random | None = None) -> None:
        """Let all of them play; with dice, kill one of them now and then, the resizing one in half of the cases."""
        started_s = time.monotonic()
        next_s = started_s + KILL_EVERY_S
        while (played_s := time.monotonic() - started_s) < seconds or (dice is not None and not self.has_enough()):
            assert played_s < DEADLINE_S, f"{self.splits} splits and {self.kills} in {DEADLINE_S:g} s"
            time.sleep(0.05)
            for player in self.players:
                player.look()
            if dice is not None and time.monotonic() >= next_s and self.strike(dice):
                next_s = time.monotonic() + KILL_EVERY_S * dice.uniform(0.5, 1.5)

    def strike(self, dice: random.Random) -> bool:
        """Kill a process amid its work, and start it again; return whether one was at work.

        Three of four executors have completed a resize since the last one was killed: on a slow machine there would be none.
        """
        resizing = [player for player in self.players if player.part.resizes]
        victim = dice.choice(resizing if dice.random() < 0.5 else self.players)
        if victim.part.resizes and self.splits == self.splits_before and dice.random() < 0.75:
            victim = dice.choice(self.writers)
        if not victim.is_at_work:
            return False
        time.sleep(dice.random() * 2)
        victim.kill()
        self.splits_before = self.splits if victim.part.resizes else self.splits_before
        self.kills["executor" if victim.part.resizes else "writer"] += 1
        victim.part = replace(victim.part, life=victim.part.life + 1)
        victim.start()
        return True

    def end(self) -> None:
        """Let all of them end by themselves."""
        self.stop.touch()
        for player in self.players:
            assert player.process is not None
            player.process.wait(60)
            player.look()

    def has_enough(self) -> bool:
        """Whether there were splits and kills enough to tell anything."""
        return self.kills.total() >= KILLS and self.splits >= SPLITS

    @property
    def splits(self) -> int:
        """Splits that completed."""
        resizing = (player for player in self.players if player.part.resizes)
        return sum(line["splits"] for player in resizing for line in player.diary if line.get("completed"))

    @property
    def writers(self) -> list[Player]:
        return [player for player in self.players if not player.part.resizes]


class Later(SystemClock):
    """A clock that is past the leases of the killed."""

    def now_ms(self) -> int:
        return super().now_ms() + EXPIRY_MS + 10_000


def make_table(root: Path, lock: ZooKeeperLock | None = None) -> Table:
    return Table.create(
        str(root), name="resized", record_key=["id"], schema=SCHEMA, partition_by=["part"], table_type="mor",
        bucket_engine="consistent", buckets=4, buckets_min=1, buckets_max=64, metadata=True, locks=lock,
        clean={"automatic": False},
    )  # fmt: skip


def model_of(company: Company, found: dict[str, str]) -> dict[str, str]:
    """The attempt that wrote each row last, by key: of those that were acknowledged, or whose own row is there."""
    model: dict[str, str] = {}
    for player in company.writers:
        acknowledged = {line["attempt"] for line in player.diary if "instant" in line}
        for line in player.diary:
            attempt = line["attempt"]
            if "rows" in line and (attempt in acknowledged or f"{attempt}{MARK}" in found):
                for row in line["rows"]:
                    if row["_hoodie_is_deleted"]:
                        model.pop(row["id"], None)
                    else:
                        model[row["id"]] = attempt
    return model


def rows_by_key(table: Table, listing: Any = "auto") -> dict[str, str]:
    found = table.read(["id", "attempt"], listing=listing)
    keys = found["id"].to_pylist()
    assert len(set(keys)) == len(keys), "a key shows twice"
    return dict(zip(keys, found["attempt"].to_pylist(), strict=True))


def sizes_of(table: Table) -> dict[tuple[str, str], int]:
    session = table._session
    return {one.key: one.bytes_in for one in live_slices(session, session.loader.load())}


def settle(table: Table) -> int:
    """Merge the log files and resize until nothing is left to do; returns the number of resizes."""
    for number in range(30):
        table.compaction.run()
        if table.resize.run(**SIZES).instant is None:
            return number
    raise AssertionError("resizes do not come to an end")


def print_figures(company: Company, from_s: float, resized_s: float, until_s: float) -> None:
    lines = [line for player in company.writers for line in player.diary if "instant" in line]
    before = [line for line in lines if from_s <= line["at"] < resized_s]
    beside = [line for line in lines if resized_s <= line["at"] <= until_s]
    for what, found, seconds in (("without", before, resized_s - from_s), ("beside", beside, until_s - resized_s)):
        waits = sorted(line["seconds"] for line in found)
        tries = Counter(line["tries"] for line in found)
        print(
            f"  {what} resizes: {len(found)} commits in {seconds:.0f} s, {len(found) / seconds:.2f}/s; tries {dict(tries)}; "
            f"seconds: median {waits[len(waits) // 2]:.2f}, p99 {waits[len(waits) * 99 // 100]:.2f}, longest {waits[-1]:.2f}"
        )
    (resizing,) = (player for player in company.players if player.part.resizes)
    done = [line for line in resizing.diary if line.get("completed")]
    counts = {kind: sum(line[kind] for line in done) for kind in ("splits", "merges", "left_out")}
    failed = Counter(line["failed"] for line in resizing.diary if "failed" in line)
    print(f"  resizes: {len(done)}, {counts}; not completed: {dict(failed)}; kills: {dict(company.kills)}")


@pytest.mark.timeout(2_400)
def test_no_row_is_lost_or_doubled_and_no_write_fails(tmp_path: Path) -> None:
    print(f"\nseed {SEED}: {WRITERS} writers, {ALONE_S:g} s alone, {RUN_S:g} s beside resizes")
    with OwnServer(tmp_path / "zookeeper") as server:
        lock = ZooKeeperLock(server.hosts, BASE_PATH, LOCK, owner="the last")
        table = make_table(tmp_path / "table", lock)
        with Company(tmp_path, server.hosts) as company:
            for number in range(WRITERS):
                company.add(f"w{number}")
            while not all(any("instant" in line for line in player.diary) for player in company.players):
                company.play(0.1)
            from_s = time.time()
            company.play(ALONE_S)
            company.add("resizes", resizes=True)
            resized_s = time.time()
            company.play(RUN_S, random.Random(SEED))
            until_s = time.time()
            company.end()
        print_figures(company, from_s, resized_s, until_s)
        check(company, table)
        lock.close()


def check(company: Company, table: Table) -> None:
    """Every acknowledged row is there once, in every listing; after a last round of resizes every bucket has a wanted size."""
    failed = [line for player in company.writers for line in player.diary if "failed" in line]
    assert failed == [], "a write failed"
    logged = [line for player in company.writers for line in player.log.read_text(encoding="utf-8").splitlines()]
    assert [line for line in logged if "waiting for clustering" in line] == [], "a write waited for a resize"
    again = [line for line in logged if re.search(r"try \d+ of ", line)]
    waited = Counter(line.partition("waiting for ")[2].split(" ")[0] for line in logged if "waiting for " in line)
    print(f"  tries again: {len(again)}, such as {again[:1]}; waits for others: {dict(waited)}")
    found = rows_by_key(table)
    assert found == model_of(company, found)
    table.recover()
    rounds = settle(table)
    for listing in ("auto", "storage"):
        assert rows_by_key(table, listing) == found
    sizes = sizes_of(table)
    wrong = {key: size for key, size in sizes.items() if not SIZES["merge_bytes"] <= size <= SIZES["split_bytes"]}
    print(f"  {len(found)} rows in {len(sizes)} buckets after {rounds} more resizes")
    assert wrong == {}, "buckets outside the sizes"
    findings = verify_table(table.context.storage, deep=True, index=True, clock=Later()).findings
    assert [str(one) for one in findings if one.severity == "error"] == []
