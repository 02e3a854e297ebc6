"""Cleans of either side: each executes the other's plan, goes on incrementally after it, and keeps what savepoints name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import Busy, Corrupt
from hudi_ops.services.clean.earlier import HELD_BACK_KEY
from hudi_ops.timeline.content.plans import CleanResult, read_plan, read_result
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import read_with_hudi_rs
from tests.tables import VERSIONED, by_key, of_schema

PARTS = 6
NO_CLEAN = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
KINDS = pytest.mark.parametrize(("kind", "metadata"), [("cow", False), ("mor", True)])


def rows(version: int, *parts: int) -> pa.Table:
    return of_schema(VERSIONED, [(f"k{part}", f"p{part}", version, version) for part in parts])


class World:
    """A table of six partitions that both sides write, with a dict of its rows."""

    def __init__(self, peer: HudiPeer, folder: Path, kind: Any, metadata: bool, version: Literal[8, 9] = 9) -> None:
        self.peer, self.path, self.metadata, self.version = peer, folder / "table", metadata, 0
        self.kind = kind
        self.rows: dict[str, int] = {}
        Table.create(
            str(self.path),
            name="cleaned",
            record_key=["id"],
            schema=VERSIONED,
            partition_by=["part"],
            ordering="ts",
            table_type=kind,
            buckets=1,
            metadata=metadata,
            version=version,
            clean={"automatic": False},
            archive={"automatic": False},
        ).close()
        self.ours(*range(PARTS))

    @property
    def table(self) -> Table:
        return Table.open(str(self.path))

    def _next(self, parts: tuple[int, ...]) -> pa.Table:
        self.version += 1
        self.rows.update({f"k{part}": self.version for part in parts})
        return rows(self.version, *parts)

    def ours(self, *parts: int) -> None:
        self.table.ingest(self._next(parts))
        if self.kind == "mor":
            self.table.compaction.run()

    def theirs(self, *parts: int, **options: str) -> None:
        given = {**NO_CLEAN, "hoodie.metadata.enable": str(self.metadata).lower(), **options}
        if self.kind == "mor":
            given = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1", **given}
        self.peer.write(self.path, self._next(parts), buckets=1, options=given)

    def run_clean(self, retain: int, *, full: bool = False) -> None:
        incremental = f"hoodie.clean.incremental.enabled={str(not full).lower()}"
        options = f"{incremental},hoodie.metadata.enable={str(self.metadata).lower()}"
        self.peer.sql(
            f"call run_clean(table => 'cleaned', retain_commits => {retain}, options => '{options}')",
            tables={"cleaned": self.path},
        )

    def files(self) -> set[str]:
        return {
            str(file.relative_to(self.path))
            for file in self.path.glob("part=*/*")
            if not file.name.endswith(".crc") and not file.name.startswith(".hoodie_partition")
        }

    def check(self) -> None:
        """Rows are those of the dict in each reader, and the table is whole."""
        assert by_key(self.table) == self.rows
        options = {"hoodie.metadata.enable": str(self.metadata).lower()}
        told = self.peer.read(self.path, options=options)
        assert dict(zip(told["id"].to_pylist(), told["value"].to_pylist(), strict=True)) == self.rows
        package = read_with_hudi_rs(self.path)
        assert dict(zip(package["id"].to_pylist(), package["value"].to_pylist(), strict=True)) == self.rows
        errors = [
            one for one in verify_table(self.table._session.ctx.storage, deep=True).findings if one.severity == "error"
        ]
        assert errors == []

    def clean(self) -> CleanResult:
        """The newest completed clean."""
        state = self.table._session.loader.load()
        cleans = [one for one in state.timeline if one.kind == "clean" and one.is_completed]
        newest = max(cleans, key=lambda one: one.completion_time)
        result = read_result(self.table._session.ctx.storage, state.timeline, newest)
        assert isinstance(result, CleanResult)
        return result


@pytest.mark.rotate(shares=2)
@KINDS
def test_apache_hudi_executes_our_plan_and_that_counts(
    apache_hudi: HudiPeer, tmp_path: Path, kind: str, metadata: bool
) -> None:
    world = World(apache_hudi, tmp_path, kind, metadata)
    for _ in range(4):
        world.ours(0, 1)
    planned = world.table.clean.plan(retain=2)
    assert planned.instant is not None
    before = world.files()
    world.theirs(2, **{"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "50"})
    assert len(before - world.files()) == planned.counts["planned"]
    result = world.clean()
    assert sum(map(len, result.files.values())) == planned.counts["planned"]
    assert HELD_BACK_KEY in result.extra, "Apache Hudi copies the plan's extra metadata"
    assert world.table.clean.execute(instant=planned.instant).note == "it was completed before"
    world.check()
    world.ours(*range(PARTS))
    assert world.table.clean.run(retain=1).instant is not None
    world.check()


@pytest.mark.rotate(shares=2)
@KINDS
def test_our_executor_finishes_a_plan_of_apache_hudi(
    apache_hudi: HudiPeer, tmp_path: Path, kind: str, metadata: bool
) -> None:
    world = World(apache_hudi, tmp_path, kind, metadata)
    for _ in range(4):
        world.theirs(0, 1)
    twin = tmp_path / "before"
    shutil.copytree(world.path, twin)
    world.run_clean(2)
    (requested,) = (world.path / ".hoodie" / "timeline").glob("*.clean.requested")
    instant, body, left = requested.name.split(".")[0], requested.read_bytes(), world.files()
    shutil.rmtree(world.path)
    shutil.copytree(twin, world.path)
    requested.write_bytes(body)
    with pytest.raises(Busy, match=instant):
        world.table.clean.plan(retain=1)
    done = world.table.clean.run(retain=1)
    assert done.instant == instant
    assert done.deleted > 0
    assert world.files() == left
    world.check()
    # The same plan in a copy of the table names files of the original.
    shutil.copy(requested, twin / ".hoodie" / "timeline" / requested.name)
    with pytest.raises(Corrupt, match="no data file of its partition in this table"):
        Table.open(str(twin)).clean.execute(instant=instant)
    world.theirs(0, 1)
    world.check()


@pytest.mark.rotate(shares=2)
@KINDS
def test_incremental_cleans_after_each_other_leave_what_a_full_one_leaves(
    apache_hudi: HudiPeer, tmp_path: Path, kind: str, metadata: bool
) -> None:
    world = World(apache_hudi, tmp_path, kind, metadata)
    for _ in range(3):
        world.ours(0, 1, 2)
    assert world.table.clean.run(retain=2).deleted > 0
    for _ in range(2):
        world.theirs(2, 3)
        world.ours(3, 4)
    world.run_clean(2)
    found = world.table.clean.explain(retain=2).counts
    assert found["planned"] == 0, "Apache Hudi's incremental clean after ours left nothing to a full one"
    for _ in range(2):
        world.theirs(0, 4)
        world.ours(4, 5)
    assert world.table.clean.run(retain=2).deleted > 0
    before = world.files()
    world.run_clean(2, full=True)
    assert world.files() == before, "our incremental clean after theirs left nothing to its full one"
    world.check()


def test_savepoints_of_either_side_keep_their_files_in_both_cleans(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    world = World(apache_hudi, tmp_path, "cow", metadata=True)
    world.ours(0, 1)
    ours = world.table.savepoints.create().instant
    past = by_key(world.table)
    for _ in range(2):
        world.theirs(0, 1)
    theirs = world.table._session.loader.load().timeline.completed_writes[-1].time
    apache_hudi.sql(f"call create_savepoint(path => '{world.path}', commit_time => '{theirs}')")
    second = by_key(world.table)
    for _ in range(3):
        world.ours(0, 1)
    done = world.table.clean.run(retain=1)
    assert done.held_back == 4
    assert world.clean().extra["savepointed_timestamps"] == f"{ours},{theirs}"
    world.theirs(0, 1)
    world.ours(0, 1)
    world.run_clean(1)
    assert (by_key(world.table, as_of=ours), by_key(world.table, as_of=theirs)) == (past, second)
    apache_hudi.sql(f"call delete_savepoint(path => '{world.path}', instant_time => '{ours}')")
    world.table.savepoints.delete(theirs)
    world.ours(2)
    assert world.table.clean.run(retain=1).deleted >= 4, "the names of the held-back files lead to them"
    before = world.files()
    world.run_clean(1, full=True)
    assert world.files() == before
    world.check()


def test_our_empty_clean_is_where_apache_hudi_goes_on(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    world = World(apache_hudi, tmp_path, "cow", metadata=True)
    for part in range(1, PARTS):
        world.table.ingest(of_schema(VERSIONED, [(f"n{part}", f"n{part}", part, 1)]))
        world.rows[f"n{part}"] = part
    done = world.table.clean.run(retain=2)
    assert (done.deleted, done.earliest_retained != "") == (0, True)
    world.check()
    for _ in range(3):
        world.theirs(0, 1)
    world.run_clean(1)
    assert world.table.clean.explain(retain=1).counts["planned"] == 0
    state = world.table._session.loader.load()
    empty = next(one for one in state.timeline if one.kind == "clean")
    plan = read_plan(world.table._session.ctx.storage, state.timeline, empty)
    assert plan is not None
    world.check()


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("is_begun", [False, True], ids=["planned", "begun"])
def test_apache_hudi_1_0_executes_our_plan_on_a_table_of_version_8(
    apache_hudi_1_0: HudiPeer, tmp_path: Path, is_begun: bool
) -> None:
    """It deletes an empty inflight file of a clean; ours has the plan."""
    world = World(apache_hudi_1_0, tmp_path, "cow", metadata=True, version=8)
    for _ in range(4):
        world.ours(0, 1)
    planned = world.table.clean.plan(retain=2)
    assert planned.instant is not None
    if is_begun:
        timeline = world.path / ".hoodie" / "timeline"
        body = (timeline / f"{planned.instant}.clean.requested").read_bytes()
        (timeline / f"{planned.instant}.clean.inflight").write_bytes(body)
    before = world.files()
    world.theirs(2, **{"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "50"})
    assert len(before - world.files()) == planned.counts["planned"]
    assert world.table.clean.execute(instant=planned.instant).note == "it was completed before"
    world.check()
    world.ours(*range(PARTS))
    assert world.table.clean.run(retain=1).deleted > 0
    world.check()
