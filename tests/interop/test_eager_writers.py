"""Writers of Apache Hudi that clean failed writes eagerly, as they do by default, beside ours.

A commit of theirs that fails leaves an inflight file without a heartbeat. What completes past it makes each of their later writes
fail. Ours stop before it, and the command that they name lets Apache Hudi go on, before and after it has tried.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.errors import Busy
from hudi_ops.storage.open import open_storage
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer, HudiPeerError
from tests.interop.dead_writes import timeline

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])
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


def rows(first: int, last: int, version: int) -> pa.Table:
    numbers = range(first, last)
    columns = [[f"k{n:02d}" for n in numbers], ["p0"] * len(numbers), [n * version for n in numbers]]
    return pa.table([*map(pa.array, columns), pa.array([version] * len(numbers))], schema=SCHEMA)


class Game:
    """A table of Apache Hudi, written in turn, and its rows by key."""

    def __init__(self, path: Path, version: int, kind: Kind, peer: HudiPeer) -> None:
        self.path, self.kind, self.peer, self.written = path, kind, peer, 0
        self.model: dict[str, dict[str, object]] = {}
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

    def next(self, first: int, last: int) -> pa.Table:
        self.written += 1
        made = rows(first, last, self.written)
        self.model |= {str(one["id"]): one for one in made.to_pylist()}
        return made

    def table(self, policy: Literal["busy", "pass"] = "busy") -> Table:
        settings = ConflictSettings(foreign_without_heartbeat=policy)
        return Table.open(str(self.path), index=self.kind.index, conflicts=settings)

    def theirs(self) -> None:
        """A write with the default policy."""
        self.peer.write(self.path, self.next(5, 25), options=self.options)

    def fails(self) -> str:
        """A commit of theirs fails; its instant."""
        with pytest.raises(HudiPeerError):
            self.peer.write(self.path, rows(10, 40, 99), options={**self.options, **FAILS})
        (instant,) = [one.time for one in timeline(self.path).pending]
        assert [one for one in self.files_of(instant) if one.parent.name == "p0"]
        return instant

    def files_of(self, instant: str) -> list[Path]:
        """Every file of an instant, on data and metadata table; not the marks of its cancellation and the second look."""
        notes = [self.path / ".hoodie" / name for name in (".commit_log", ".temp")]
        found = (one for one in self.path.rglob(f"*{instant}*") if one.is_file())
        return [one for one in found if not any(one.is_relative_to(folder) for folder in notes)]

    def check(self) -> None:
        wanted = [self.model[key] for key in sorted(self.model)]
        metadata = {"hoodie.metadata.enable": str(self.kind.metadata).lower()}
        for found in (self.peer.read(self.path, options=metadata), self.table().read()):
            assert found.select(SCHEMA.names).sort_by("id").to_pylist() == wanted
        assert timeline(self.path).pending == ()
        assert verify_table(open_storage(str(self.path)), deep=True).errors == ()


@pytest.mark.parametrize("kind", [COW, MOR], ids=lambda kind: kind.type)
@pytest.mark.parametrize("version", [9, 8])
def test_what_blocks_them_is_not_passed_and_the_command_that_we_name_unblocks_them(
    tmp_path: Path, request: pytest.FixtureRequest, version: int, kind: Kind
) -> None:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    game = Game(tmp_path / "eager", version, kind, peer)
    game.table().ingest(game.next(3, 8))

    # Ours stop, and name the command. Nothing is blocked yet.
    instant = game.fails()
    with pytest.raises(Busy, match=f"hudi-ops rollback TABLE {instant} --abandoned"):
        game.table().ingest(rows(0, 1, 1))
    assert [one.time for one in timeline(game.path).pending] == [instant], "no rollback happens unasked"
    game.table().rollback(instant, abandoned=True)
    assert not game.files_of(instant)
    game.theirs()
    game.check()

    # A table that is blocked: something was committed past it, and Apache Hudi has tried.
    instant = game.fails()
    if kind is COW:  # its markers are lost
        shutil.rmtree(game.path / ".hoodie" / ".temp" / instant)
    game.table("pass").ingest(game.next(0, 6))
    with pytest.raises(HudiPeerError, match="rollback greater commits first"):
        peer.write(game.path, rows(0, 1, 1), options=game.options)
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
    game.check()
