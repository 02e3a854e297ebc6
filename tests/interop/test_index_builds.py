"""Apache Hudi writes in each phase of our index builds, and each executes the plans of the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.errors import Busy, Conflict
from hudi_ops.services.indexing.filling import build as building
from hudi_ops.services.indexing.filling.catch_up import CatchUp
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer, HudiPeerError, table_options
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.tables import SCHEMA, rows

KEYS = ("bloom_filters", "record_index")
EVERY = ("files", "column_stats", "partition_stats", *KEYS)
FIRST = ("column_stats", "files", "partition_stats")
"""What a table with a metadata table has before the build."""
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
RECORDS = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
NAMED = {**RECORDS, "hoodie.metadata.index.bloom.filter.enable": "true"}
ASYNC = {"hoodie.metadata.index.async": "true"}
STATISTICS = {"hoodie.metadata.index.column.stats.enable": "true"}
WITHOUT_STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
WRITERS = {
    "silent": {},
    "carrying": {**NAMED, **ASYNC, **STATISTICS},
    "building by itself": NAMED,
    "without a metadata table": {"hoodie.metadata.enable": "false"},
}
"""Options of a writer beside the build, by what it does to announced partitions."""


@dataclass
class Shared:
    """A table that both write, and its rows: (partition, value, time) of each key."""

    path: Path
    peer: HudiPeer
    version: int
    kind: str = "cow"
    model: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    time: int = 0

    def create(self, *, metadata: bool) -> Table:
        table = Table.create(
            str(self.path),
            name="shared",
            record_key=["id"],
            schema=SCHEMA,
            partition_by=["part"],
            ordering="ts",
            table_type=self.kind,
            index="simple",
            metadata=metadata,
            version=self.version,
        )
        table.ingest(self.batch({f"k{n:02d}": n for n in range(20)}))
        table.ingest(self.batch({f"k{n:02d}": n + 100 for n in range(0, 20, 3)}))
        return table

    def batch(self, values: dict[str, int]):
        self.time += 1
        parts = {key: f"p{int(key[1:]) % 2}" for key in values}
        self.model |= {key: (parts[key], value, self.time) for key, value in values.items()}
        return rows(*((key, parts[key], value, self.time, None) for key, value in values.items()))

    def theirs(self, options: dict[str, str], index: str = "SIMPLE") -> None:
        """Apache Hudi updates two rows and adds one."""
        values = {"k01": self.time + 1_000, "k04": self.time + 1_000, f"k{20 + self.time}": self.time}
        given = {**SHARED, **options, "hoodie.index.type": index}
        self.peer.write(self.path, self.batch(values), options=given)

    def check(self, hudi_rs: HudiRsReader) -> None:
        """All readers show the model, also where indexes leave files out; nothing is wrong."""
        want = rows(*((key, part, value, time, None) for key, (part, value, time) in self.model.items()))
        table = Table.open(str(self.path))
        assert_same_rows(table.read(), want)
        assert_same_rows(hudi_rs(self.path), want)
        assert_same_rows(self.peer.read(self.path, options=WITHOUT_METADATA), want)
        large = sorted(key for key, (_, value, _) in self.model.items() if value >= 1_000)
        for where, keys in (("value >= 1000", large), ("id = 'k01'", ["k01"]), ("id in ('k04', 'k99')", ["k04"])):
            found = self.peer.read(self.path, columns=["id"], where=where, options={**BELIEVED, **RECORDS})
            assert sorted(found["id"].to_pylist()) == keys, where
            assert sorted(table.read(columns=["id"], where=where)["id"].to_pylist()) == keys, where
        assert [*map(str, verify_table(table.context.storage, deep=True, index=True).errors)] == []

    def check_ended(self) -> None:
        """No part of a build is left on the timeline, or in the properties."""
        storage = Table.open(str(self.path)).context.storage
        config = load_config(storage)
        assert [one for one in load_timeline(storage, config).pending if one.kind == "indexing"] == []
        assert config.metadata_partitions_inflight == ()


def peer_of(request: pytest.FixtureRequest, version: int) -> HudiPeer:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    return peer


def before_each(patch: pytest.MonkeyPatch, moves: dict[str, Callable[[], None]]) -> None:
    """Make a move before the announcement, one before catch-up looks, and one once its delta is put and does not count yet."""
    announce, add, put = building.announce, CatchUp.add, CatchUp._put

    def announced(*given, **more) -> None:
        if "announcement" in moves:
            moves.pop("announcement")()
        announce(*given, **more)

    def added(*given) -> None:
        if "catch-up" in moves:
            moves.pop("catch-up")()
        add(*given)

    def was_put(*given, **more) -> object:
        delta = put(*given, **more)
        if "decision" in moves:
            moves.pop("decision")()
        return delta

    patch.setattr(building, "announce", announced)
    patch.setattr(CatchUp, "add", added)
    patch.setattr(CatchUp, "_put", was_put)


EACH = [(version, writer, kind) for version in (9, 8) for writer in WRITERS for kind in ("cow", "mor")]


@pytest.mark.rotate(shares=16)
@pytest.mark.parametrize(("version", "writer", "kind"), EACH)
def test_apache_hudi_writes_in_each_phase_of_a_build(
    tmp_path: Path,
    hudi_rs: HudiRsReader,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    writer: str,
    kind: str,
) -> None:
    options = WRITERS[writer]
    shared = Shared(tmp_path / "table", peer_of(request, version), version, kind)
    table = shared.create(metadata=True)
    planned = table.indexing.plan(partitions=KEYS)
    # A writer that names indexes builds those that are not announced.
    shared.theirs({} if writer in {"carrying", "building by itself"} else options)
    shared.check(hudi_rs)
    moves = {"announcement": lambda: shared.theirs({}), "catch-up": lambda: shared.theirs(options)}
    if writer != "building by itself":
        # Release 1.0 rolls back the delta of catch-up before it writes.
        moves["decision"] = lambda: shared.theirs(options)
    before_each(monkeypatch, moves)
    assert planned.instant is not None
    # A writer without a metadata table drops it, and the next one with it begins it again: the build says so and begins again, too.
    drops = writer == "without a metadata table"
    for _ in range(1 + len(moves) if drops else 1):
        refusals = (Conflict,) if drops and moves else ()
        with suppress(*refusals):
            Table.open(str(shared.path)).indexing.run(partitions=KEYS, timeout_s=60)
    assert moves == {}
    shared.check_ended()
    assert {*KEYS} <= {*load_config(table.context.storage).metadata_partitions}
    shared.check(hudi_rs)
    if drops:
        # A writer of Apache Hudi that builds column statistics right after an index build breaks them: see the next test.
        Table.open(str(shared.path)).ingest(shared.batch({"k05": 5}))
    for _ in range(2):
        shared.theirs({**NAMED, **STATISTICS}, index="RECORD_INDEX" if version == 9 or kind == "cow" else "SIMPLE")
        Table.open(str(shared.path)).ingest(shared.batch({"k02": shared.time, f"k{40 + shared.time}": 5}))
    shared.check(hudi_rs)
    assert {*KEYS} <= {*load_config(table.context.storage).metadata_partitions}


@pytest.mark.rotate(shares=4)
@pytest.mark.parametrize("builder", ["ours", "theirs"])
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow")])
def test_statistics_that_apache_hudi_broke_after_a_build_are_found_and_built_again(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, version: int, kind: str, builder: str
) -> None:
    """A writer that builds two partitions right after an index build, also one by its own indexer, loses the first of them."""
    peer = peer_of(request, version)
    shared = Shared(tmp_path / "table", peer, version, kind)
    shared.create(metadata=False)
    shared.theirs(WITHOUT_STATISTICS)
    if builder == "ours":
        Table.open(str(shared.path)).indexing.run(partitions=["record_index"])
    else:
        options = {**table_options(shared.path), **SHARED, **RECORDS, **WITHOUT_STATISTICS}
        indexer = {"path": str(shared.path), "table": "shared", "options": options}
        assert peer.call(
            "index", instant=peer.call("schedule_index", partitions=["record_index"], **indexer), **indexer
        )
    before = dict(shared.model)
    if version == 8:
        with pytest.raises(HudiPeerError, match="FileGroup count for MDT partition column_stats should be > 0"):
            shared.theirs({**RECORDS, **STATISTICS})
        shared.model = before
    else:
        shared.theirs({**RECORDS, **STATISTICS})
    table = Table.open(str(shared.path))
    assert verify_table(table.context.storage, deep=True, index=True).errors
    if version == 8:
        with pytest.raises(Busy, match="pending without a heartbeat") as raised:
            table.indexing.run(partitions=["column_stats"], rebuild=True)
        assert "column_stats" in load_config(table.context.storage).metadata_partitions, "nothing was dropped"
        table.rollback(raised.value.instant, abandoned=True)
    table.indexing.run(partitions=["column_stats"], rebuild=True)
    shared.check(hudi_rs)
    shared.theirs({**RECORDS, **STATISTICS})
    shared.check(hudi_rs)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("version", [9, 8])
def test_apache_hudi_makes_announced_files_anew_and_nothing_is_lost(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Its default writer builds `files` and statistics itself, announced or not, and adds nothing to the other partitions."""
    shared = Shared(tmp_path / "table", peer_of(request, version), version)
    shared.create(metadata=False)
    before_each(monkeypatch, {"catch-up": lambda: shared.theirs({})})
    Table.open(str(shared.path)).indexing.run(partitions=EVERY, timeout_s=60)
    shared.check_ended()
    assert {*EVERY} == {*load_config(Table.open(str(shared.path)).context.storage).metadata_partitions}
    shared.check(hudi_rs)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("version", [9, 8])
def test_each_executes_the_plans_of_the_other(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, version: int
) -> None:
    peer = peer_of(request, version)
    for number, planner in enumerate(("we", "they")):
        shared = Shared(tmp_path / f"table{number}", peer, version)
        table = shared.create(metadata=True)
        options = {**table_options(shared.path), **SHARED, **RECORDS}
        indexer = {"path": str(shared.path), "table": "shared", "options": options}
        if planner == "we":
            planned = table.indexing.plan(partitions=["record_index"])
            assert peer.call("index", instant=planned.instant, **indexer)
        else:
            instant = peer.call("schedule_index", partitions=["record_index"], **indexer)
            assert table.indexing.execute(instant=instant).partitions == ("record_index",)
        shared.check_ended()
        assert "record_index" in load_config(table.context.storage).metadata_partitions
        shared.check(hudi_rs)
        shared.theirs({**RECORDS, **STATISTICS}, index="RECORD_INDEX")
        shared.check(hudi_rs)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("end", ["finished", "removed"])
@pytest.mark.parametrize("version", [9])
def test_a_build_that_apache_hudi_left_inflight_is_finished_or_removed(
    tmp_path: Path, hudi_rs: HudiRsReader, request: pytest.FixtureRequest, version: int, end: str
) -> None:
    """Its indexer is made to fail by an empty schema, which that of 1.0.2 does not read."""
    peer = peer_of(request, version)
    shared = Shared(tmp_path / "table", peer, version)
    table = shared.create(metadata=True)
    options = {**table_options(shared.path), **SHARED, **RECORDS, **ASYNC}
    indexer = {"path": str(shared.path), "table": "shared", "options": options}
    instant = peer.call("schedule_index", partitions=["record_index"], **indexer)
    with pytest.raises(HudiPeerError, match="Failed to index partition"):
        peer.call("index", instant=instant, schema="", **indexer)
    storage = table.context.storage
    (left,) = (one for one in load_timeline(storage, load_config(storage)).pending if one.kind == "indexing")
    assert left.time == instant
    if end == "finished":
        assert table.indexing.execute(instant=instant, abandoned=True).partitions == ("record_index",)
        assert "record_index" in load_config(storage).metadata_partitions
    else:
        table.cancel(instant, reason="its program is gone", force=True)
        assert load_config(storage).metadata_partitions == FIRST
    shared.check_ended()
    shared.check(hudi_rs)
    table.ingest(shared.batch({"k03": 3_000}))
    shared.check(hudi_rs)


def test_a_writer_that_drops_an_index_is_named_and_nothing_builds_it_again(
    tmp_path: Path, hudi_rs: HudiRsReader, apache_hudi: HudiPeer
) -> None:
    shared = Shared(tmp_path / "table", apache_hudi, 9)
    table = shared.create(metadata=True)
    assert shown(shared) == ("absent", "")
    table.indexing.run(partitions=["record_index"])
    shared.theirs({**RECORDS, **STATISTICS})
    assert shown(shared) == ("listed", "")
    shared.theirs({})
    first = load_timeline(table.context.storage, table.config).completed_writes[-1].time
    shared.theirs({})
    want = f"another program dropped it: commit {first} is its first write without the index"
    assert shown(shared) == ("absent", want)
    Table.open(str(shared.path)).ingest(shared.batch({"k02": 7}))
    Table.open(str(shared.path)).indexing.run(partitions=["column_stats"])
    assert shown(shared) == ("absent", want)
    Table.open(str(shared.path)).indexing.run(partitions=["record_index"])
    assert shown(shared) == ("listed", "")
    shared.check(hudi_rs)
    Table.open(str(shared.path)).indexing.drop(["record_index"])
    assert shown(shared) == ("absent", "")


def shown(shared: Shared) -> tuple[str, str]:
    """State and note of the record index."""
    (found,) = (one for one in Table.open(str(shared.path)).indexing.show() if one.name == "record_index")
    return found.state, found.note
