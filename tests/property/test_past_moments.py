"""A table as of an instant shows the model's rows, or says which clean removed a file that the instant needs.

The model is a dict for each instant. The oracle of which instants are readable: all files that they read before it are there.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hudi_ops.errors import InvalidRequest
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.definitions import create_table
from tests.protocol.archived_history import archive
from tests.protocol.cleaning import Told, clean
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import table_of
from tests.tables import DEFINITION, START_MS, TIMELINE, rows

Moments = dict[str, dict[str, int]]
SEEDS = range(bound(6, 12, 60))
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")


class Played:
    """A table after random writes, and what it shows at each instant."""

    def __init__(self, seed: int, kind: str) -> None:
        self.dice, self.clock = random.Random(seed), ManualClock(START_MS, tick_ms=1)
        self.storage = MemoryStorage("past", self.clock)
        self.table = table_of(self.storage, self.clock, "writer")
        create_table(self.table._session, replace(DEFINITION, table_type=kind))
        self.rows: dict[str, tuple[str, int]] = {}
        self.moments: Moments = {}
        for version in range(1, 9):
            self.step(version, kind)
        self.files = {instant: self.read_files(instant) for instant in self.moments}

    def step(self, version: int, kind: str) -> None:
        choice = self.dice.choice(["upsert", "upsert", "upsert", "delete_partition", "compact"])
        instant = None
        if choice == "compact" and kind == "MERGE_ON_READ":
            instant = self.table.compaction.run().instant
        elif choice == "delete_partition" and len({part for part, _ in self.rows.values()}) > 1:
            part = self.dice.choice(sorted({part for part, _ in self.rows.values()}))
            instant = self.table.delete_partition([f"part={part}"]).instant
            self.rows = {key: one for key, one in self.rows.items() if one[0] != part}
        else:
            numbers = self.dice.sample(range(8), 3)
            batch = {f"k{number}": (f"p{number % 2}", 10 * version + number) for number in numbers}
            instant = self.table.ingest(
                rows(*((key, part, value, version, None) for key, (part, value) in batch.items()))
            ).instant
            self.rows |= batch
        if instant is not None:
            self.moments[instant] = {key: value for key, (_, value) in self.rows.items()}
        self.clock.advance_ms(1_000)

    def read_files(self, instant: str) -> frozenset[str]:
        found = set()
        for task in plan_read(self.storage, request_of(None, None, instant, None)).tasks:
            found |= {getattr(task, "path", None) or getattr(task, "base", None)}
            found |= {path for path, _ in getattr(task, "logs", ())}
        return frozenset(found - {None})

    def superseded(self) -> list[str]:
        kept = self.files[max(self.files)]
        return sorted(frozenset().union(*self.files.values()) - kept)

    def check(self, cleaned: dict[str, str]) -> dict[str, int]:
        """Every instant shows its rows or names the clean of one of its files."""
        present = {info.path for info in self.storage.list()}
        start = timeline_of(self.storage).start
        counts = {"read": 0, "refused": 0}
        for instant, model in self.moments.items():
            lost = self.files[instant] - present
            if instant < start:
                continue
            found = self.shown(instant)
            if isinstance(found, str):
                assert lost, f"{instant} needs nothing that is gone: {found}"
                assert instant in found
                assert any(clean in found for path, clean in cleaned.items() if path in lost)
                counts["refused"] += 1
            else:
                assert not lost, f"{instant} lacks {sorted(lost)} and was read"
                assert found == model
                counts["read"] += 1
        return counts

    def shown(self, instant: str) -> dict[str, int] | str:
        """The rows as of an instant, or what the refusal says."""
        try:
            found = table_of(self.storage, self.clock, "reader").read(["id", "value"], as_of=instant)
        except InvalidRequest as error:
            return error.what
        return dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_instant_shows_its_rows_or_names_the_clean_that_took_its_files(kind: str) -> None:
    total = {"read": 0, "refused": 0}
    for seed in SEEDS:
        played = Played(seed, kind)
        cleaned: dict[str, str] = {}
        for told in played.dice.sample(["deleted", "failed", "planned", "pending"], 2):
            left = [path for path in played.superseded() if path not in cleaned]
            if not left:
                continue
            gone = played.dice.sample(left, played.dice.randint(1, len(left)))
            earliest = played.dice.choice(["", max(played.moments)])
            time = clean(played.storage, played.clock, gone, earliest=earliest, told=told)
            cleaned |= dict.fromkeys(gone, time)
        for name, count in played.check(cleaned).items():
            total[name] += count
    assert min(total.values()) > len(SEEDS), total


@pytest.mark.parametrize("told", ["deleted", "failed", "planned", "pending"])
def test_whatever_way_the_clean_tells_of_it(told: Told) -> None:
    played = Played(1, "COPY_ON_WRITE")
    gone = played.superseded()
    time = clean(played.storage, played.clock, gone, told=told)
    assert played.check(dict.fromkeys(gone, time))["refused"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_clean_that_was_archived_counts(kind: str) -> None:
    played = Played(2, kind)
    gone = played.superseded()
    time = clean(played.storage, played.clock, gone)
    archive(played.storage, TIMELINE, [one for one in timeline_of(played.storage) if one.kind == "clean"])
    assert played.check(dict.fromkeys(gone, time))["refused"] > 0
    found = verify_table(played.storage, deep=True, clock=played.clock).findings
    assert [one for one in found if one.severity == "error"] == []


def test_the_newest_clean_that_removed_nothing_hides_no_older_one() -> None:
    played = Played(1, "COPY_ON_WRITE")
    gone = played.superseded()
    time = clean(played.storage, played.clock, gone)
    clean(played.storage, played.clock, [])
    assert played.check(dict.fromkeys(gone, time))["refused"] > 0


def test_an_instant_whose_files_a_savepoint_kept_stays_readable() -> None:
    played = Played(3, "COPY_ON_WRITE")
    kept = sorted(played.moments)[2]
    gone = [path for path in played.superseded() if path not in played.files[kept]]
    time = clean(played.storage, played.clock, gone, earliest=max(played.moments))
    assert played.check(dict.fromkeys(gone, time))["refused"] > 0
    assert table_of(played.storage, played.clock, "reader").read(as_of=kept).num_rows == len(played.moments[kept])


def test_a_replacement_that_was_archived_still_explains_the_files_of_its_groups() -> None:
    """The groups were replaced before every instant that can be asked for: no instant needs their files."""
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("replaced", clock)
    table = table_of(storage, clock, "writer")
    create_table(table._session, DEFINITION)
    table.ingest(rows(("a", "p0", 1, 1, None), ("b", "p1", 1, 1, None)))
    old = {info.path for info in storage.list("part=p0") if info.path.endswith(".parquet")}
    table.delete_partition(["part=p0"])
    later = table.ingest(rows(("b", "p1", 2, 2, None))).instant
    table.ingest(rows(("b", "p1", 3, 3, None)))
    clean(storage, clock, old)
    timeline = timeline_of(storage)
    archive(storage, TIMELINE, [one for one in timeline.completed_writes if one.time < str(later)])
    assert table_of(storage, clock, "reader").read(["id", "value"], as_of=later).to_pylist() == [
        {"id": "b", "value": 2}
    ]


def test_only_wanted_partitions_and_files_are_asked_for() -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("wanted", clock)
    table = table_of(storage, clock, "writer")
    create_table(table._session, DEFINITION)
    first = table.ingest(rows(("a", "p0", 1, 1, None), ("b", "p1", 1, 1, None))).instant
    old = {info.path for info in storage.list("part=p0") if info.path.endswith(".parquet")}
    table.ingest(rows(("a", "p0", 2, 2, None)))
    clean(storage, clock, old)
    reader = table_of(storage, clock, "reader")
    assert reader.read(["id"], where="part = 'p1'", as_of=first).to_pylist() == [{"id": "b"}]
    for where in (None, "part = 'p0'"):
        with pytest.raises(InvalidRequest, match=f"as of {first}: clean"):
            reader.read(["id"], where=where, as_of=first)


def test_a_read_of_base_files_alone_needs_no_log_files() -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("bases", clock)
    table = table_of(storage, clock, "writer")
    create_table(table._session, replace(DEFINITION, table_type="MERGE_ON_READ"))
    table.ingest(rows(("a", "p0", 1, 1, None)))
    second = table.ingest(rows(("a", "p0", 2, 2, None))).instant
    logs = {info.path for info in storage.list("part=p0") if ".log." in info.path}
    table.compaction.run()
    clean(storage, clock, logs)
    reader = table_of(storage, clock, "reader")
    assert reader.read(["value"], as_of=second, query="read_optimized").to_pylist() == [{"value": 1}]
    with pytest.raises(InvalidRequest, match="removed part=p0/"):
        reader.read(["value"], as_of=second)


def test_verify_takes_a_file_that_a_clean_found_gone_for_cleaned() -> None:
    played = Played(1, "COPY_ON_WRITE")
    clean(played.storage, played.clock, played.superseded(), told="failed")
    found = verify_table(played.storage, deep=True, clock=played.clock).findings
    assert [one for one in found if one.invariant == "file-missing"] == []


def test_verify_still_knows_what_the_other_cleans_removed_where_one_cannot_be_read() -> None:
    played = Played(1, "COPY_ON_WRITE")
    gone = played.superseded()
    clean(played.storage, played.clock, gone[1:])
    broken = clean(played.storage, played.clock, gone[:1])
    (path,) = [info.path for info in played.storage.list(TIMELINE) if info.name.startswith(f"{broken}_")]
    played.storage.put(path, b"?")
    found = verify_table(played.storage, deep=True, clock=played.clock).findings
    assert {one.where for one in found if one.invariant == "file-missing"} <= set(gone[:1])
    assert [one.where for one in found if one.invariant == "completed-undecodable"] == [path]
