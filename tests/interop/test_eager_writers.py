"""Writers of Apache Hudi that clean failed writes eagerly, as they do by default, beside ours.

A commit of theirs that fails leaves an inflight file without a heartbeat. What completes past it makes each of their later writes
fail. Ours stop before it, and the command that they name lets Apache Hudi go on, before and after it has tried.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from hudi_ops import Table
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.dead_writes import timeline
from tests.interop.game import Script
from tests.tables import versioned

FAILS = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}


@dataclass(frozen=True)
class Kind:
    """A table: its type, its index, and whether it has a metadata table."""

    type: str
    index: Literal["simple", "bloom"]
    metadata: bool


COW, MOR = Kind("COPY_ON_WRITE", "simple", True), Kind("MERGE_ON_READ", "bloom", False)


class Eager(Script):
    """A table of Apache Hudi whose writers clean eagerly."""

    def __init__(self, path: Path, version: int, kind: Kind, peer: HudiPeer) -> None:
        super().__init__(path, peer)
        self.kind = kind
        self.options = {
            "hoodie.table.name": "eager",
            "hoodie.datasource.write.table.type": kind.type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.index.type": kind.index.upper(),
            "hoodie.metadata.enable": str(kind.metadata).lower(),
            "hoodie.write.table.version": str(version),
        }
        peer.write(path, self.next(0, 20), mode="overwrite", options=self.options)

    def table(self, policy: Literal["busy", "pass"] = "busy") -> Table:
        settings = ConflictSettings(foreign_without_heartbeat=policy)
        return Table.open(str(self.path), index=self.kind.index, conflicts=settings)

    def theirs(self) -> None:
        """A write with the default policy."""
        self.peer.write(self.path, self.next(5, 25), options=self.options)

    def fails(self) -> str:
        """A commit of theirs fails; its instant."""
        with pytest.raises(HudiPeerError):
            self.peer.write(self.path, versioned(10, 40, 99), options={**self.options, **FAILS})
        (instant,) = [one.time for one in timeline(self.path).pending]
        assert [one for one in self.files_of(instant) if one.parent.name == "p0"]
        return instant

    def files_of(self, instant: str) -> list[Path]:
        """Every file of an instant, on data and metadata table; not the marks of its cancellation and the second look."""
        notes = [self.path / ".hoodie" / name for name in (".commit_log", ".temp")]
        found = (one for one in self.path.rglob(f"*{instant}*") if one.is_file())
        return [one for one in found if not any(one.is_relative_to(folder) for folder in notes)]

    def same(self) -> None:
        """Both read the model, by the metadata table if there is one."""
        self.check(self.table(), {"hoodie.metadata.enable": str(self.kind.metadata).lower()})


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("kind", [COW, MOR], ids=lambda kind: kind.type)
@pytest.mark.parametrize("version", [9, 8])
def test_what_blocks_them_is_not_passed_and_the_command_that_we_name_unblocks_them(
    tmp_path: Path, request: pytest.FixtureRequest, version: int, kind: Kind
) -> None:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    game = Eager(tmp_path / "eager", version, kind, peer)
    game.table().ingest(game.next(3, 8))

    # Ours stop, and name the command. Nothing is blocked yet.
    instant = game.fails()
    with pytest.raises(Busy, match=f"hudi-ops rollback TABLE {instant} --abandoned"):
        game.table().ingest(versioned(0, 1, 1))
    assert [one.time for one in timeline(game.path).pending] == [instant], "no rollback happens unasked"
    game.table().rollback(instant, abandoned=True)
    assert not game.files_of(instant)
    game.theirs()
    game.same()

    # A table that is blocked: something was committed past it, and Apache Hudi has tried.
    instant = game.fails()
    if kind is COW:  # its markers are lost
        shutil.rmtree(game.path / ".hoodie" / ".temp" / instant)
    game.table("pass").ingest(game.next(0, 6))
    with pytest.raises(HudiPeerError, match="rollback greater commits first"):
        peer.write(game.path, versioned(0, 1, 1), options=game.options)
    pending = {one.time: one.kind for one in timeline(game.path).pending}
    (rollback,) = [time for time, kind_of in pending.items() if kind_of == "rollback"]
    game.table().recover()
    assert {one.time: one.kind for one in timeline(game.path).pending} == pending, "no rollback happens unasked"
    if kind is COW:
        assert game.table().rollback(instant, abandoned=True).rollback == rollback
    else:
        (undone,) = game.table().recover(abandoned=True).rolled_back
        assert undone.rollback == rollback
    assert not game.files_of(instant)
    game.theirs()
    game.table().ingest(game.next(4, 9))
    game.theirs()
    game.same()
