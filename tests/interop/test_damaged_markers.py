"""A damaged marker line of a dead writer of Apache Hudi: our writers and its own go on, and nothing outside the table changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.commit.recover.rollback_bodies import plan_bytes
from hudi_ops.context import Owner
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from tests.fault_plans import DiesBefore
from tests.interop.apache_hudi import HudiPeer
from tests.interop.dead_writes import LAZY, kill_newest, plain_line, timeline
from tests.interop.game import Script
from tests.tables import VERSIONED

LINES: dict[str, Callable[[str], bytes]] = {
    "two slashes": lambda file: plain_line(file.replace("/", "//")),
    "a zero byte": lambda file: plain_line(file.replace("/", "/\0")),
    "a way out": lambda file: plain_line(f"../outside/{file.rpartition('/')[2]}"),
    "no UTF-8": lambda file: plain_line(file).replace(b"/", b"/\xff\xfe"),
}


class Damaged(Script):
    """A table of ours, and a folder beside it that no rollback may touch."""

    def __init__(self, folder: Path, version: int, peer: HudiPeer) -> None:
        super().__init__(folder / "t", peer)
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.table = Table.create(
            str(self.path),
            name="t",
            record_key=["id"],
            schema=VERSIONED,
            partition_by=["part"],
            ordering="ts",
            buckets=2,
            version=9 if version == 9 else 8,
            metadata=False,
        )
        self.ours(0, 20)

    def ours(self, first: int, last: int) -> None:
        # A session that wrote a moment ago does not look for the dead.
        self.table = Table.open(str(self.path))
        self.table.ingest(self.next(first, last))

    def theirs(self, first: int, last: int, *, counts: bool = True) -> None:
        self.peer.write(self.path, self.next(first, last, counts=counts), buckets=2, options=LAZY)

    def dies(self, line_of: Callable[[str], bytes]) -> tuple[str, list[str]]:
        """A write of Apache Hudi's dies; what its markers seem to name lies outside, too."""
        self.theirs(5, 25, counts=False)
        instant, files = kill_newest(self.path, line_of)
        for file in files:
            (self.outside / file.rpartition("/")[2]).write_bytes(b"of another program")
        return instant, files

    def same(self) -> None:
        self.check(self.table)
        assert all(file.read_bytes() == b"of another program" for file in self.outside.iterdir())


def begin_rollback_and_die(path: Path, instant: str, files: list[str]) -> str:
    """A process of ours that is gone published a rollback's plan with a way out of the table; its instant."""
    context = Table.open(str(path)).context
    gone = replace(Owner.of_this_process(), started="1")
    faulty = FaultyStorage(open_storage(str(path)), DiesBefore("delete:part="))
    with contextlib.suppress(Crash):
        Table(replace(context, storage=faulty, owner=gone)).recover()
    (rollback,) = [one for one in timeline(path).pending if one.kind == "rollback"]
    put_bad_plan(path, rollback.time, instant, files)
    return rollback.time


def put_bad_plan(path: Path, rollback: str, instant: str, files: list[str]) -> None:
    target = timeline(path).find(instant)
    assert target is not None
    names = [file.rpartition("/")[2] for file in files]
    bad = [f"../outside/{name}" for name in names] + [f"part=p0//{name}" for name in names]
    plan = plan_bytes(open_storage(str(path)), target, bad)
    (path / ".hoodie" / "timeline" / f"{rollback}.rollback.requested").write_bytes(plan)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("version", [9, 8])
def test_writers_go_on_past_damaged_markers_and_plans(
    tmp_path: Path, request: pytest.FixtureRequest, version: int
) -> None:
    game = Damaged(tmp_path, version, request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0"))
    for line_of in LINES.values():
        _, files = game.dies(line_of)
        game.ours(10, 15)
        game.theirs(12, 22)
        assert not [one for one in files if (game.path / one).exists()]
        game.same()

    # The plan of a rollback of ours, whose process ended before it had deleted anything.
    instant, files = game.dies(LINES["a way out"])
    begin_rollback_and_die(game.path, instant, files)
    game.ours(0, 3)
    game.theirs(1, 4)
    assert not [one for one in files if (game.path / one).exists()]
    game.same()

    # One without an owner, which Apache Hudi executes: by then its plan is another one.
    instant, files = game.dies(LINES["two slashes"])
    rollback = instant_of_ms(ms_of_instant(instant) + 50)
    put_bad_plan(game.path, rollback, instant, files)
    (game.path / ".hoodie" / "timeline" / f"{rollback}.rollback.inflight").touch()
    game.table.recover()
    game.theirs(2, 6)
    assert not [one for one in files if (game.path / one).exists()]
    game.same()
