"""Slices that are kept from one write to the next equal those that a look at all files finds, errors included."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from hudi_ops.config.table import TableConfig
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import Corrupt, HudiOpsError
from hudi_ops.files.names import base_file_name, log_file_name
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.names import completed_name, inflight_name, requested_name
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.kept_slices import KeptSlices, _Kept
from hudi_ops.view.known_files import Listed
from hudi_ops.view.listing import StorageListing
from hudi_ops.view.moment import Moment
from hudi_ops.view.slices import Slice
from tests.bounds import bound

FOLDER = ".hoodie/timeline"
CONFIG = TableConfig(name="t", version=9, layout=2, timeline_folder=FOLDER, raw={})
GROUPS = ("00000000-aaaa-0", "00000001-bbbb-0", "00000002-cccc-0")
PARTITIONS = ("p", "q")


class CountedSlices(KeptSlices):
    """Slices that tell how often they were continued, with files, and found anew."""

    def __init__(self, storage: MemoryStorage, commits: CommitReader) -> None:
        super().__init__(storage, commits)
        self.ways = Counter[str]()

    def _continued(
        self, config: TableConfig, timeline: Timeline, listed: Mapping[str, Listed]
    ) -> dict[str, _Kept] | None:
        before = sum(one.count for one in self._kept.values())
        found = super()._continued(config, timeline, listed)
        grew = sum(one.count for one in self._kept.values()) > before
        self.ways["anew" if found is None else "longer" if grew else "same"] += 1
        return found


class Table:
    """A table of two partitions, and what writers, services and foreign programs do to it."""

    def __init__(self, seed: int = 0) -> None:
        self.chance, self.storage, self.time = random.Random(seed), MemoryStorage(), 20260101000000000
        self.commits, self.plain = CommitReader(self.storage), CommitReader(self.storage)
        self.kept = CountedSlices(self.storage, self.commits)
        self.pending: list[tuple[str, str, list[str]]] = []
        self.engine = LocalEngine()

    def now(self) -> str:
        self.time += 10
        return str(self.time)

    def put(self, name: str, body: bytes = b"") -> None:
        self.storage.put(f"{FOLDER}/{name}", body)

    def begin(self, action: str, files: Iterable[str], time: str) -> None:
        self.put(requested_name(time, action))
        self.put(inflight_name(time, action))
        files = list(files)
        for path in files:
            self.storage.put(path, b"x")
        self.pending.append((time, action, files))

    def complete(
        self, *, at: int = -1, lost: str = "", replaced: tuple[str, ...] = (), completion: str = "", unnamed: int = 0
    ) -> None:
        time, action, files = self.pending.pop(at)
        named = [*files[: len(files) - unnamed], *([lost] if lost else [])]
        stats = tuple(WriteStat(file_id="", path=path, partition_path=path[0]) for path in named)
        body = CommitMetadata(
            operation="UPSERT", stats=stats, replaced={"p": replaced} if replaced else None, extra={POINTER_KEY: "{}"}
        )
        self.put(completed_name(time, action, completion or self.now()), body.to_bytes())

    def write(self, *, action: str = "deltacommit", time: str = "", completion: str = "") -> None:
        """A delta commit of one log file for a group."""
        time = time or self.now()
        self.begin(action, [f"p/{log_file_name(GROUPS[0], time, 1, '0-0-0')}"], time)
        self.complete(completion=completion)

    def create(self, group: str = GROUPS[0]) -> None:
        """A delta commit that makes a group."""
        time = self.now()
        self.begin("deltacommit", [f"p/{base_file_name(group, 0, 0, time)}"], time)
        self.complete()

    def slices(self) -> list[Slice]:
        timeline = load_timeline(self.storage, CONFIG)
        return self.kept.of(CONFIG, timeline, PARTITIONS, self.engine)

    def fresh(self) -> list[Slice]:
        timeline = load_timeline(self.storage.copy(), CONFIG)
        files = StorageListing(self.storage, is_partitioned=True).files(PARTITIONS)
        return Moment(self.storage, CONFIG, timeline, self.plain, is_writing=True).slices(files, "storage").objects()

    def move(self) -> None:
        chance = self.chance
        moves = {
            self.random_begin: 5,
            self.random_write: 14,
            self.random_complete: 6,
            self.compact: 2,
            self.replace: 1,
            self.lose_file: 1,
            self.undo: 1,
            self.archive: 1,
            self.savepoint: 1,
            self.service: 1,
            self.read: 1,
        }
        chance.choices([*moves], [*moves.values()])[0]()

    def random_time(self) -> str:
        now = self.now()
        return self.chance.choice((now, now, now, now, f"{self.time - 75}"))  # a clock that is behind

    def random_files(self, time: str) -> list[str]:
        files = []
        for group in self.chance.sample(GROUPS, self.chance.choice((1, 1, 1, 2))):
            partition = self.chance.choice("pppq")
            if self.chance.random() < 0.1 or not any(group in info.path for info in self.storage.list(partition)):
                files.append(f"{partition}/{base_file_name(group, 0, 0, time)}")
            else:
                version, suffix = self.chance.choice((1, 1, 2)), self.chance.choice(("", "", "", "", ".cdc"))
                files.append(f"{partition}/{log_file_name(group, time, version, '0-0-0')}{suffix}")
        return files

    def random_begin(self) -> None:
        time = self.random_time()
        self.begin("deltacommit", self.random_files(time), time)

    def random_complete(self) -> None:
        if self.pending:
            chance = self.chance
            lost = f"p/{log_file_name(GROUPS[0], self.pending[0][0], 7, '0-0-0')}" if chance.random() < 0.03 else ""
            completion = f"{self.time - 55}" if chance.random() < 0.1 else ""
            at = chance.randrange(len(self.pending)) if not lost else 0
            self.complete(at=at, lost=lost, completion=completion, unnamed=int(chance.random() < 0.1))

    def random_write(self) -> None:
        time = self.random_time()
        self.begin("deltacommit", self.random_files(time), time)
        self.complete(unnamed=int(self.chance.random() < 0.05))

    def compact(self) -> None:
        time = self.now()
        files = [f"p/{base_file_name(self.chance.choice(GROUPS), 1, 0, time)}"]
        self.begin("compaction", files, time)
        if self.chance.random() < 0.5:
            self.random_write()
            self.pending.append(self.pending.pop(-1))
        self.complete()

    def replace(self) -> None:
        time = self.now()
        self.begin("replacecommit", [f"p/{base_file_name(self.chance.choice(GROUPS), 2, 0, time)}"], time)
        self.complete(replaced=(self.chance.choice(GROUPS),))

    def lose_file(self) -> None:
        files = [info.path for folder in PARTITIONS for info in self.storage.list(folder)]
        if files:
            self.storage.delete(self.chance.choice(files))

    def undo(self) -> None:
        names = [info.name for info in self.storage.list(FOLDER)]
        time = self.chance.choice(names[-9:])[:17] if names else "none"
        for info in self.storage.list(FOLDER):
            if info.name.startswith(time):
                self.storage.delete(info.path)
        if self.chance.random() < 0.7:
            for folder in PARTITIONS:
                for info in self.storage.list(folder):
                    if time in info.path:
                        self.storage.delete(info.path)
        self.pending = [one for one in self.pending if one[0] != time]

    def archive(self) -> None:
        times = sorted({info.name[:17] for info in self.storage.list(FOLDER)} - {one[0] for one in self.pending})
        for time in times[: self.chance.randrange(3)]:
            for info in self.storage.list(FOLDER):
                if info.name.startswith(time):
                    self.storage.delete(info.path)

    def savepoint(self) -> None:
        done = load_timeline(self.storage.copy(), CONFIG).completed_writes
        if done:
            time = self.chance.choice(done).time
            self.put(f"{time}.savepoint.inflight")
            if self.chance.random() < 0.5:
                self.put(completed_name(time, "savepoint", self.now()))

    def service(self) -> None:
        time = self.now()
        self.put(requested_name(time, self.chance.choice(("rollback", "clean", "clustering", "compaction"))))

    def read(self) -> None:
        """Read a commit for another purpose: from then on its files are held against each listing."""
        timeline = load_timeline(self.storage, CONFIG)
        if timeline.completed_writes:
            one = self.chance.choice(timeline.completed_writes)
            for commits in (self.commits, self.plain):
                commits.metadata(timeline, one)


def outcome(look) -> object:  # type: ignore[no-untyped-def]
    try:
        return look()
    except HudiOpsError as error:
        return type(error)


def test_kept_slices_equal_those_that_a_look_at_all_files_finds() -> None:
    ways, errors = Counter[str](), 0
    for seed in range(bound(quick=30, full=200, soak=20_000)):
        table = Table(seed)
        table.create()
        for step in range(50):
            table.move()
            if table.chance.random() < 0.7:
                found, expected = outcome(table.slices), outcome(table.fresh)
                assert found == expected, f"seed {seed}, step {step}"
                errors += isinstance(expected, type)
        ways += table.kept.ways
    assert min(ways["longer"], ways["same"], ways["anew"], errors) > bound(quick=30, full=200, soak=20_000), ways


def test_a_log_file_lengthens_the_slice_without_a_look_at_those_before() -> None:
    table = Table()
    table.create()
    table.slices()
    for number in range(1, 6):
        table.write()
        (found,) = table.slices()
        assert len(found.logs) == number
    assert table.kept.ways == {"anew": 1, "longer": 5}


def held_anew(table: Table) -> list[Slice]:
    """Slices that were found anew, and equal what a look at all files finds."""
    before = table.kept.ways["anew"]
    found = table.slices()
    assert table.kept.ways["anew"] > before
    assert found == table.fresh()
    return found


def grown() -> Table:
    table = Table()
    table.create()
    for _ in range(3):
        table.write()
    table.slices()
    return table


def test_a_compaction_that_completes_is_seen() -> None:
    table = grown()
    time = table.now()
    table.begin("compaction", [f"p/{base_file_name(GROUPS[0], 1, 0, time)}"], time)
    table.write()
    assert len(table.slices()[0].logs) == 4
    table.pending[-1], table.pending[0] = table.pending[0], table.pending[-1]
    table.complete()
    (found,) = held_anew(table)
    assert (found.base is not None and found.base.instant == time, len(found.logs)) == (True, 1)


def test_a_replaced_group_is_seen_no_more() -> None:
    table = grown()
    time = table.now()
    table.begin("replacecommit", [], time)
    table.complete(replaced=(GROUPS[0],))
    assert held_anew(table) == []


def test_an_undone_write_is_seen_no_more_though_its_file_is_there() -> None:
    table = grown()
    newest = load_timeline(table.storage, CONFIG).completed_writes[-1]
    for info in table.storage.list(FOLDER):
        if info.name.startswith(newest.time):
            table.storage.delete(info.path)
    assert len(held_anew(table)[0].logs) == 2


def test_a_write_whose_completed_file_is_gone_is_seen_no_more() -> None:
    table = grown()
    newest = load_timeline(table.storage, CONFIG).completed_writes[-1]
    table.storage.delete(f"{FOLDER}/{newest.file_name}")
    assert len(held_anew(table)[0].logs) == 2


def test_a_write_that_was_undone_and_made_again_is_seen_though_its_file_was_there() -> None:
    table = grown()
    newest = load_timeline(table.storage, CONFIG).completed_writes[-1]
    gone = {info.path: table.storage.get(info.path) for info in table.storage.list(FOLDER) if newest.time in info.path}
    for path in gone:
        table.storage.delete(path)
    # A session that has not read the write.
    table.commits = CommitReader(table.storage)
    table.kept = CountedSlices(table.storage, table.commits)
    assert len(table.slices()[0].logs) == 2
    for path, body in gone.items():
        table.storage.put(path, body)
    assert len(held_anew(table)[0].logs) == 3


def test_a_file_of_a_write_that_left_the_timeline_is_seen() -> None:
    table = grown()
    table.storage.put(f"p/{base_file_name(GROUPS[1], 0, 0, '20250101000000000')}", b"x")
    assert [one.file_id for one in held_anew(table)] == list(GROUPS[:2])


def test_a_write_that_moves_the_start_of_the_timeline_hides_what_is_above_it() -> None:
    table = Table()
    early = table.now()
    table.create(GROUPS[1])
    archived = load_timeline(table.storage, CONFIG).completed_writes[0]
    table.create()
    table.slices()
    for info in table.storage.list(FOLDER):
        if archived.time in info.path:
            table.storage.delete(info.path)
    assert [one.file_id for one in table.slices()] == list(GROUPS[:2])
    table.begin("deltacommit", [], early)
    table.complete()
    assert [one.file_id for one in held_anew(table)] == [GROUPS[0]]


def test_another_action_at_the_time_of_a_write_is_seen() -> None:
    table = grown()
    first = load_timeline(table.storage, CONFIG).completed_writes[0]
    table.put(requested_name(first.time, "clean"))
    held_anew(table)


def test_a_log_file_that_no_commit_names_is_not_seen() -> None:
    table = grown()
    time = table.now()
    names = [f"p/{log_file_name(GROUPS[0], time, version, '0-0-0')}" for version in (1, 2)]
    table.begin("deltacommit", names, time)
    table.complete(unnamed=1)
    assert [file.path for file in held_anew(table)[0].logs][3:] == names[:1]


def test_a_log_file_that_was_requested_earlier_is_merged_in_its_place() -> None:
    table = grown()
    time = f"{table.time - 25}"
    table.begin("deltacommit", [f"p/{log_file_name(GROUPS[0], time, 1, '0-0-0')}"], time)
    table.write()
    table.slices()
    table.complete()
    assert [file.instant for file in held_anew(table)[0].logs].index(time) == 2


def test_a_log_file_that_completed_below_its_base_file_is_not_seen() -> None:
    table = Table()
    table.create()
    early = table.now()
    table.write()
    time = table.now()
    table.begin("compaction", [f"p/{base_file_name(GROUPS[0], 1, 0, time)}"], time)
    table.complete()
    table.slices()
    table.write(time=early, completion=f"{int(early) + 1}")  # by a clock that is behind
    assert held_anew(table)[0].logs == ()


def test_a_named_log_file_that_is_not_there_is_lost() -> None:
    table = grown()
    time = table.now()
    table.begin("deltacommit", [f"p/{log_file_name(GROUPS[0], time, 1, '0-0-0')}"], time)
    table.complete(lost=f"p/{log_file_name(GROUPS[0], time, 2, '0-0-0')}")
    with pytest.raises(Corrupt, match="is missing"):
        table.slices()


def test_a_commit_read_meanwhile_may_name_a_file_that_is_lost() -> None:
    table = grown()
    reader = CommitReader(table.storage)
    again = KeptSlices(table.storage, reader)
    timeline = load_timeline(table.storage, CONFIG)
    (lost,) = [info for info in table.storage.list("p") if timeline.completed_writes[-1].time in info.path]
    table.storage.delete(lost.path)
    assert len(again.of(CONFIG, timeline, PARTITIONS, table.engine)[0].logs) == 2  # it was not read
    reader.metadata(timeline, timeline.completed_writes[-1])
    with pytest.raises(Corrupt, match="is missing"):
        again.of(CONFIG, timeline, PARTITIONS, table.engine)
