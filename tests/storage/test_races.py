"""Goal: between real processes a name has one winner and a whole body, whoever is killed. Real ones race on a disk."""

import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hudi_ops.storage.local import LocalStorage

pytestmark = pytest.mark.full("starts, kills or measures processes")

RACER = Path(__file__).with_name("racer.py")
CLAIMERS, ROUNDS, KILLS, PRUNES = 8, 50, 20, 300


class Racers:
    """Starts racers and ends those it started."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, role: str, root: Path, *more: object) -> subprocess.Popen[str]:
        racer = subprocess.Popen(
            [sys.executable, str(RACER), role, str(root), *map(str, more)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(end, racer)
        return racer


def end(racer: subprocess.Popen[str]) -> None:
    racer.kill()
    racer.communicate()


def answer(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    line = racer.stdout.readline().strip()
    assert line, f"racer ended with {racer.wait()}"
    return line


def tell(racer: subprocess.Popen[str], line: str) -> None:
    assert racer.stdin is not None
    racer.stdin.write(line + "\n")
    racer.stdin.flush()


@pytest.fixture
def racers() -> Iterator[Racers]:
    with ExitStack() as stack:
        yield Racers(stack)


def is_whole(body: bytes) -> bool:
    return len(body) > 32 and hashlib.sha256(body[32:]).digest() == body[:32]


def test_one_winner_each_round_and_no_reader_sees_a_torn_file(tmp_path: Path, racers: Racers) -> None:
    root = tmp_path / "root"
    claimers = [racers.start("claim", root) for _ in range(CLAIMERS)]
    readers = [racers.start("read", root, ROUNDS) for _ in range(2)]
    for racer in claimers + readers:
        assert answer(racer) == "ready"
    for number in range(ROUNDS):
        for racer in claimers:
            tell(racer, f"race/{number // 10}/{number}")
        replies = [answer(racer) for racer in claimers]
        assert sorted(replies) == ["lost"] * (CLAIMERS - 1) + ["won"], (number, replies)
    torn = [int(answer(racer)) for racer in readers]
    print(f"races {ROUNDS} x {CLAIMERS} processes: one winner each; torn reads {torn} in {ROUNDS} each")
    assert torn == [0, 0]
    assert LocalStorage(root).sweep_temp(0, time.time_ns() // 1_000_000 + 1) == 0


def test_kill_9_leaves_whole_files_or_none(tmp_path: Path, racers: Racers) -> None:
    chance = random.Random(20260101)
    storage, temp = LocalStorage(tmp_path), tmp_path / ".hoodie/.hudi_ops_tmp"
    leftovers = 0
    for _ in range(KILLS):
        storage.sweep_temp(0, time.time_ns() // 1_000_000 + 1)
        racer = racers.start("write", tmp_path)
        finished = int(answer(racer))
        # Kill at a random moment within about two rounds of the writer, as long as it takes here and now.
        started = time.monotonic()
        announced = [finished, int(answer(racer))]
        kill_at = time.monotonic() + chance.uniform(0, 2) * (time.monotonic() - started)
        while time.monotonic() < kill_at:
            pass
        racer.kill()
        assert racer.stdout is not None
        announced += map(int, racer.stdout.read().split())
        mine = {found.path: found for found in storage.list(f"data/new={racer.pid}")}
        assert {f"data/new={racer.pid}/{number}" for number in announced} <= mine.keys()
        assert len(mine) - len(announced) in {0, 1}
        for path in [*mine, "data/replaced"]:
            assert is_whole(storage.get(path)), path
        for path in mine:
            storage.delete(path)
        leftovers += len(list(temp.iterdir()))
    storage.put("data/replaced", b"a new process goes on")
    assert storage.get("data/replaced") == b"a new process goes on"
    print(f"kill -9: {KILLS} kills, {leftovers} temp files left behind, 0 torn files")
    assert leftovers >= 1, "the kills did not hit an unfinished put"
    storage.sweep_temp(0, time.time_ns() // 1_000_000 + 1)
    assert list(temp.iterdir()) == []


def test_puts_survive_the_pruning_of_their_folders(tmp_path: Path, racers: Racers) -> None:
    pruners = [racers.start("prune", tmp_path, name, PRUNES) for name in "abc"]
    for racer in pruners:
        assert answer(racer) == "ready"
    for racer in pruners:
        tell(racer, "go")
    assert [answer(racer) for racer in pruners] == ["0"] * 3
    assert list(LocalStorage(tmp_path).list()) == []
    assert not (tmp_path / "deep").exists()
