"""Data files that somebody deleted: a read shows the model's rows or names the file, and so does a write that needs it.

The model is a dict; which files a read needs is what it read before they were deleted. A handle that has followed the table knows
all its commits, and notices every lost file; a new one those of the commits that it reads to know which files count.

Source: docs/protocol §19.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hudi_ops.datasource.reader import FilesToRead
from hudi_ops.errors import Corrupt, Unavailable
from hudi_ops.files.names import parse_data_file
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.log.commit_log import FOLDER as LOG_FOLDER, slot_path
from tests.definitions import create_table
from tests.fault_plans import MoveBefore
from tests.protocol.archived_history import archive
from tests.protocol.cleaning import clean
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import table_of
from tests.tables import DEFINITION, START_MS, TIMELINE, by_key as values, rows

KINDS = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
Model = dict[str, int]


class Made:
    """A table after ingests into groups of two partitions, a compaction, and a replaced partition; and its rows at each instant."""

    def __init__(self, kind: str, *, metadata: bool = False) -> None:
        self.clock = ManualClock(START_MS, tick_ms=1)
        self.storage = MemoryStorage("lost", self.clock)
        self.model: Model = {}
        self.moments: dict[str, Model] = {}
        self.table, self.follower = self.handle("writer"), self.handle("follower")
        create_table(self.table._session, replace(DEFINITION, table_type=kind, metadata=metadata))
        self.ingest({"k0": ("p0", 1), "k1": ("p1", 1), "k2": ("p0", 1), "k3": ("p1", 1), "x0": ("p9", 1)})
        self.ingest({"k0": ("p0", 2), "k1": ("p1", 2)})
        if kind == "MERGE_ON_READ":
            self.keep(self.table.compaction.run().instant)
        self.ingest({"k0": ("p0", 3)})
        self.ingest({"k2": ("p0", 4), "k3": ("p1", 4)})
        self.model.pop("x0")
        self.keep(self.table.delete_partition(["part=p9"]).instant)
        self.ingest({"k0": ("p0", 6)})
        self.ingest({"k1": ("p1", 7)})

    def handle(self, actor: str = "reader") -> Table:
        return table_of(self.storage, self.clock, actor)

    def ingest(self, batch: dict[str, tuple[str, int]]) -> None:
        made = rows(*((key, part, value, value, None) for key, (part, value) in batch.items()))
        self.model |= {key: value for key, (_, value) in batch.items()}
        self.keep(self.table.ingest(made).instant)

    def keep(self, instant: str | None) -> None:
        assert instant is not None
        self.moments[instant] = dict(self.model)
        assert values(self.follower, listing="storage") == self.model
        self.clock.advance_ms(1_000)

    def data_files(self) -> list[str]:
        return [
            info.path for info in self.storage.list() if info.path.startswith("part=") and "/.hoodie_" not in info.path
        ]

    def needed(self, as_of: str | None = None, query: str = "snapshot") -> set[str]:
        """Files that a read opens."""
        found: set[str] = set()
        for task in plan_read(self.storage, request_of(None, None, as_of, None, query, "storage")).tasks:
            found |= {path for path in (getattr(task, "path", None), getattr(task, "base", None)) if path}
            found |= {path for path, _ in getattr(task, "logs", ())}
        return found


@KINDS
def test_whichever_file_is_deleted_a_read_shows_the_rows_or_names_it(kind: str) -> None:
    made, outcomes = Made(kind), {"read": 0, "refused": 0, "missed": 0}
    for as_of in (None, *made.moments):
        needed, model = made.needed(as_of), made.moments.get(as_of or "", made.model)
        for path in made.data_files():
            body = made.storage.get(path)
            made.storage.delete(path)
            for table in (made.follower, made.handle()):
                found = shown(table, as_of)
                if path not in needed:
                    assert found == model, path
                    outcomes["read"] += 1
                elif isinstance(found, Corrupt):
                    assert path in found.what
                    assert found.instant in path
                    assert "restore" in found.next_step
                    outcomes["refused"] += 1
                else:
                    assert table is not made.follower, path
                    assert not knows_writer(table, made.storage, path), path
                    outcomes["missed"] += 1
            made.storage.put(path, body)
    assert outcomes["refused"] > 30, outcomes
    assert outcomes["missed"] < outcomes["refused"] / 4, outcomes


def shown(table: Table, as_of: str | None) -> Model | Corrupt:
    try:
        return values(table, as_of=as_of, listing="storage")
    except Corrupt as error:
        return error


def knows_writer(table: Table, storage: MemoryStorage, path: str) -> bool:
    timeline = timeline_of(storage)
    named = parse_data_file(path.rpartition("/")[2])
    writer = timeline.find(named.instant) if named is not None else None
    return writer is not None and table._session.commits.known(timeline, writer) is not None


@KINDS
def test_the_only_file_of_a_commit_is_noticed_by_whoever_reads_the_whole_table(kind: str) -> None:
    made = Made(kind)
    for instant in sorted(made.moments):
        of_instant = [path for path in made.data_files() if instant in path]
        if len(of_instant) == 1 and of_instant[0] in made.needed():
            body = made.storage.get(of_instant[0])
            made.storage.delete(of_instant[0])
            with pytest.raises(Corrupt, match=of_instant[0]):
                made.handle().read(listing="storage")
            made.storage.put(of_instant[0], body)


@KINDS
def test_a_read_that_does_not_need_the_file_goes_on(kind: str) -> None:
    made = Made(kind)
    for lost in sorted(path for path in made.needed() if path.startswith("part=p0/")):
        body = made.storage.get(lost)
        made.storage.delete(lost)
        for table in (made.handle(), made.follower):
            assert values(table, where="part = 'p1'") == {key: made.model[key] for key in ("k1", "k3")}
        if ".log." in lost:
            assert made.follower.read(query="read_optimized").num_rows == 4
        with pytest.raises(Corrupt, match=lost):
            made.follower.read(where="part = 'p0'")
        made.storage.put(lost, body)


@KINDS
def test_a_write_that_needs_the_file_names_it_and_others_go_on(kind: str) -> None:
    made = Made(kind)
    lost = min(path for path in made.needed() if path.startswith("part=p0/"))
    made.storage.delete(lost)
    before = made.data_files(), [one.time for one in timeline_of(made.storage).completed_writes]
    with pytest.raises(Corrupt, match=lost):
        made.follower.ingest(rows(("k0", "p0", 9, 9, None), ("k2", "p0", 9, 9, None)))
    assert (made.data_files(), [one.time for one in timeline_of(made.storage).completed_writes]) == before
    made.follower.ingest(rows(("k1", "p1", 9, 9, None)))


def test_a_partition_without_its_metadata_file_is_named() -> None:
    made = Made("COPY_ON_WRITE")
    made.storage.delete("part=p0/.hoodie_partition_metadata")
    with pytest.raises(Corrupt, match="partition part=p0 was not listed"):
        made.handle().read()


@KINDS
def test_what_a_clean_removed_is_not_missing(kind: str) -> None:
    made = Made(kind)
    clean(made.storage, made.clock, set(made.data_files()) - made.needed())
    assert values(made.handle(), listing="storage") == made.model
    assert values(made.table, listing="storage") == made.model


@KINDS
def test_what_a_clean_takes_while_the_table_is_listed_is_read_again(kind: str) -> None:
    made = Made(kind)

    def move() -> None:
        old = made.needed()
        made.ingest({"k0": ("p0", 9), "k2": ("p0", 9)})
        if kind == "MERGE_ON_READ":
            made.keep(made.handle("compactor").compaction.run().instant)
        clean(made.storage, made.clock, old - made.needed())

    reader = table_of(FaultyStorage(made.storage, MoveBefore("list_folder:part=p0", move)), made.clock, "reader")
    with pytest.raises(Unavailable, match="was removed while the table was looked at"):
        reader.read(listing="storage")
    assert values(reader, listing="storage") == made.model


@KINDS
def test_a_clean_that_is_archived_while_the_table_is_listed_is_no_old_one(kind: str) -> None:
    """The reader has followed the table: it knows the commits that the archiver takes meanwhile."""
    made = Made(kind)

    def move() -> None:
        made.ingest({"k0": ("p0", 9), "k2": ("p0", 9)})
        if kind == "MERGE_ON_READ":
            made.keep(made.handle("compactor").compaction.run().instant)
        clean(made.storage, made.clock, set(made.data_files()) - made.needed())
        _archive_all_before_a_write(made)

    plan = MoveBefore("list_folder:part=p0", move)
    reader = table_of(FaultyStorage(made.storage, plan), made.clock, "reader")
    plan.moved_at = "not at the first read"
    reader.read(listing="storage")
    plan.moved_at = ""
    with pytest.raises(Unavailable, match="was removed while the table was looked at"):
        reader.read(listing="storage")
    assert values(reader, listing="storage") == made.model


def _cleaned(made: Made, path: str) -> None:
    made.ingest({"k0": ("p0", 9), "k2": ("p0", 9)})
    made.handle("compactor").compaction.run() if made.table.config.table_type == "MERGE_ON_READ" else None
    clean(made.storage, made.clock, [path])


def _replaced_and_cleaned(made: Made, path: str) -> None:
    made.handle("remover").delete_partition(["part=p0"])
    clean(made.storage, made.clock, [path])
    _archive_all_before_a_write(made)


def _archive_all_before_a_write(made: Made) -> None:
    before = list(timeline_of(made.storage))
    made.handle("writer").ingest(rows(("x1", "p8", 9, 9, None)))
    made.model |= {"x1": 9}
    archive(made.storage, TIMELINE, before)


@KINDS
@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize(
    ("gone", "error"),
    [
        (lambda made, path: made.storage.delete(path), Corrupt),
        (_cleaned, Unavailable),
        (_replaced_and_cleaned, Unavailable),
    ],
    ids=["lost", "cleaned", "replaced, cleaned and archived"],
)
def test_a_file_that_vanishes_after_the_plan_is_corrupt_unless_a_clean_took_it(
    kind: str, metadata: bool, gone: Callable[[Made, str], None], error: type[Exception]
) -> None:
    made = Made(kind, metadata=metadata)
    scan = made.handle().scan()
    path = next(path for path in sorted(made.needed()) if path.startswith("part=p0/"))
    gone(made, path)
    for use in (scan.to_arrow, scan.count_rows, lambda: list(scan.to_batches())):
        with pytest.raises(error, match=path):
            use()


def test_a_lost_file_that_the_metadata_table_lists_is_corrupt() -> None:
    made = Made("COPY_ON_WRITE", metadata=True)
    path = sorted(made.needed())[0]
    made.storage.delete(path)
    for listing in ("auto", "metadata", "storage"):
        with pytest.raises(Corrupt, match=path):
            made.handle().read(listing=listing)


def test_changes_name_a_lost_file() -> None:
    made = Made("COPY_ON_WRITE")
    changes = made.handle().changes("00000000000000000")
    path = sorted(made.needed())[0]
    made.storage.delete(path)
    with pytest.raises(Corrupt, match=path):
        changes.to_arrow()


@KINDS
def test_looking_for_lost_files_asks_storage_for_nothing_more_on_a_healthy_table(kind: str) -> None:
    """Without a commit log nothing is looked for, and all calls are the same: those of a first read, and those of a second one."""
    made = Made(kind)
    plain = made.storage.copy()
    for info in list(plain.list(LOG_FOLDER)):
        plain.delete(info.path)
    first, second = calls_of_two_reads(made.storage, made.clock)
    assert (first, second) == calls_of_two_reads(plain, made.clock)
    assert [call for call in first if call.startswith(f"get:{LOG_FOLDER}/")] == [f"get:{slot_path(0)}"]
    assert len(first) == len(set(first)), "nothing is asked for twice"
    assert sorted(set(first) - set(second)) == [
        call for call in first if call.startswith(("get:.hoodie/.c", "get:.hoodie/t"))
    ]
    assert set(second) < set(first)


def calls_of_two_reads(storage: MemoryStorage, clock: ManualClock) -> tuple[list[str], list[str]]:
    """What one handle asks of storage to plan a read, and to plan it again; commits are read side by side, so in no order."""
    counted = FaultyStorage(storage)
    reader = table_of(counted, clock, "reader")
    reader.scan(listing="storage")
    first = len(counted.history)
    reader.scan(listing="storage")
    return sorted(counted.history[:first]), sorted(counted.history[first:])


def test_a_task_on_an_executor_of_spark_names_a_lost_file() -> None:
    made = Made("MERGE_ON_READ")
    scan = made.handle().scan(["id", "value"])
    path = min(made.needed())
    made.storage.delete(path)
    with pytest.raises(Corrupt, match=path):
        list(FilesToRead(scan.tasks, scan.schema, "run the query again").batches())
