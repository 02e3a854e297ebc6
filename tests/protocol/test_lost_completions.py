"""Completed files of the timeline that somebody deleted: the next write puts them back, or says what stands against it.

The model is a dict. One test for each condition.

Source: docs/protocol §6.1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from hudi_ops.commit.decide.archive_boundary import HistoryFile, archive_boundary
from hudi_ops.errors import Busy, Conflict, Corrupt
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import RESTORE_METADATA, RESTORE_PLAN, ROLLBACK_METADATA, ROLLBACK_PLAN
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import load_log, slot_path
from hudi_ops.timeline.log.entries import Complete, Void, encode_entry
from hudi_ops.timeline.names import State, inflight_name, instant_of_ms, requested_name
from hudi_ops.verify import verify_table
from tests.definitions import create_table
from tests.protocol.archived_history import archive, put_history
from tests.protocol.cleaning import clean
from tests.protocol.log_actors import timeline_of
from tests.protocol.metadata_table import table_of
from tests.tables import DEFINITION, START_MS, TIMELINE, by_key as shown, rows

KINDS = pytest.mark.parametrize(
    ("kind", "metadata"), [("COPY_ON_WRITE", False), ("MERGE_ON_READ", False), ("MERGE_ON_READ", True)]
)
Model = dict[str, int]


class Made:
    """A table after writes, a compaction and a replaced partition, long enough ago for every lease to be dead."""

    def __init__(self, kind: str = "COPY_ON_WRITE", *, metadata: bool = False) -> None:
        self.clock = ManualClock(START_MS, tick_ms=1)
        self.storage = MemoryStorage("lost", self.clock)
        self.writer = self.handle("writer")
        create_table(self.writer._session, replace(DEFINITION, table_type=kind, metadata=metadata))
        self.model: Model = {}
        self.ingest({"k0": ("p0", 1), "k1": ("p1", 1), "k2": ("p0", 1), "x": ("p9", 1)})
        self.ingest({"k0": ("p0", 2)})
        if kind == "MERGE_ON_READ":
            self.writer.compaction.run()
        self.ingest({"k1": ("p1", 3), "k2": ("p0", 3)})
        self.writer.delete_partition(["part=p9"])
        del self.model["x"]
        self.ingest({"k0": ("p0", 4)})
        self.clock.advance_ms(600_000)

    def handle(self, actor: str) -> Table:
        return table_of(self.storage, self.clock, actor)

    def ingest(self, batch: dict[str, tuple[str, int]], table: Table | None = None) -> str:
        made = rows(*((key, part, value, value, None) for key, (part, value) in batch.items()))
        instant = (table or self.writer).ingest(made).instant
        self.model |= {key: value for key, (_, value) in batch.items()}
        assert instant is not None
        return instant

    @property
    def writes(self) -> tuple[Instant, ...]:
        """All but the first, which makes the table."""
        return timeline_of(self.storage).completed_writes[1:]

    def lose(self, instant: Instant) -> bytes:
        """Delete a completed file, and return its bytes."""
        path = f"{TIMELINE}/{instant.file_name}"
        body = self.storage.get(path)
        self.storage.delete(path)
        return body

    def is_completed(self, instant: Instant) -> bool:
        return instant in timeline_of(self.storage).instants

    def files_of(self, instant: Instant) -> list[str]:
        return [
            info.path for info in self.storage.list() if info.path.startswith("part=") and instant.time in info.name
        ]

    def pending_file(self, instant: Instant, suffix: str) -> str:
        named = requested_name if suffix == "requested" else inflight_name
        return f"{TIMELINE}/{named(instant.time, instant.action)}"

    def refused(self, instant: Instant, expected: str) -> None:
        """A write and a recovery name the instant and what stands against it, and nothing is put back or voided."""
        slots = len([info for info in self.storage.list(".hoodie/.commit_log") if info.name.endswith(".json")])
        for act in (lambda: self.handle("other").recover(), lambda: self.ingest({"k9": ("p1", 9)}, self.handle("w"))):
            with pytest.raises(Corrupt, match=expected) as caught:
                act()
            assert caught.value.instant == instant.time
        assert not self.is_completed(instant)
        assert len([i for i in self.storage.list(".hoodie/.commit_log") if i.name.endswith(".json")]) == slots


@KINDS
@pytest.mark.parametrize("act", ["recover", "ingest", "warm ingest"])
def test_the_next_write_puts_any_deleted_completed_file_back(kind: str, metadata: bool, act: str) -> None:
    for number in range(len(Made(kind, metadata=metadata).writes)):
        made = Made(kind, metadata=metadata)
        lost = made.writes[number]
        body = made.lose(lost)
        if act == "recover":
            made.handle("other").recover()
        else:
            made.ingest({"k1": ("p1", 9)}, made.writer if act == "warm ingest" else made.handle("other"))
        assert made.is_completed(lost), lost
        assert made.storage.get(f"{TIMELINE}/{lost.file_name}") == body
        assert shown(made.handle("reader")) == made.model
        assert shown(made.writer) == made.model
        findings = verify_table(made.storage, deep=True, index=metadata, clock=made.clock).findings
        assert [one for one in findings if one.severity == "error"] == []


def test_two_of_them_are_put_back_together() -> None:
    made = Made()
    for lost in made.writes[-3:]:
        made.lose(lost)
    made.handle("other").recover()
    assert shown(made.handle("reader")) == made.model


def test_nobody_rolls_such_a_write_back_by_hand() -> None:
    made = Made()
    lost = made.writes[1]
    made.lose(lost)
    with pytest.raises(Conflict, match="completed"):
        made.handle("other").rollback(lost.time, abandoned=True)
    made.handle("other").recover()
    assert shown(made.handle("reader")) == made.model


def voided(made: Made, lost: Instant) -> None:
    log = load_log(made.storage, None)
    assert log is not None
    slot, entry = next((slot, one) for slot, one in log.completes() if one.instant == lost.time)
    slots = {"properties_slot": log.properties_slot, "archive_slot": log.archive_slot}
    common = {"table_id": entry.table_id, "owner": "test", "at_ms": 0, **slots}
    void = Void(**common, decision_id=f"void {slot}", slot=slot, reason="a test")
    made.storage.put(slot_path(log.head + 1), encode_entry(void))


def test_condition_1_a_voided_completion_is_not_put_back() -> None:
    made = Made()
    for number in (1, -1):
        lost = made.writes[number]
        body = made.lose(lost)
        voided(made, lost)
        made.handle("other").recover()
        assert not made.is_completed(lost)
        made.storage.put(f"{TIMELINE}/{lost.file_name}", body)


@KINDS
@pytest.mark.parametrize("suffix", ["requested", "inflight"])
@pytest.mark.parametrize("number", [1, -1])
def test_condition_1_without_its_requested_or_inflight_file_it_is_corrupt(
    kind: str, metadata: bool, suffix: str, number: int
) -> None:
    made = Made(kind, metadata=metadata)
    lost = made.writes[number]
    made.lose(lost)
    made.storage.delete(made.pending_file(lost, suffix))
    made.refused(lost, "requested or inflight file is gone")


def test_condition_2_before_the_start_of_the_timeline_it_is_corrupt() -> None:
    made = Made()
    first, lost = timeline_of(made.storage).completed_writes[:2]
    archive(made.storage, TIMELINE, [first])
    made.lose(lost)
    made.refused(lost, "before the timeline's start")


def test_condition_2_what_the_archived_timeline_has_is_corrupt() -> None:
    made = Made()
    lost = made.writes[1]
    put_history(made.storage, f"{TIMELINE}/history", [(lost, made.lose(lost))])
    made.refused(lost, "in the archived timeline")


def test_condition_2_at_or_below_the_boundary_it_stays_away() -> None:
    made = Made()
    lost = made.writes[0]
    made.storage.put("history", b"")
    kept = frozenset(one.time for one in timeline_of(made.storage))
    archive_boundary(made.writer._session, lost.time, HistoryFile("history", kept))
    made.handle("other").recover()
    assert timeline_of(made.storage).find(lost.time) is None


def rollback(made: Made, lost: Instant, *, completed: bool) -> None:
    time = instant_of_ms(made.clock.now_ms())
    plan = {"instantToRollback": {"commitTime": lost.time, "action": lost.kind}, "RollbackRequests": [], "version": 1}
    made.storage.put(f"{TIMELINE}/{time}.rollback.requested", avro.write_one(ROLLBACK_PLAN, plan))
    made.storage.put(f"{TIMELINE}/{time}.rollback.inflight", b"")
    if completed:
        made.storage.put(f"{TIMELINE}/{time}_{instant_of_ms(made.clock.now_ms())}.rollback", rolled_back(lost))


def rolled_back(lost: Instant) -> bytes:
    said = {
        "startRollbackTime": "",
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 0,
        "commitsRollback": [lost.time],
        "partitionMetadata": {},
        "version": 1,
        "instantsRollback": [],
    }
    return avro.write_one(ROLLBACK_METADATA, said)


def restore(made: Made, lost: Instant, *, completed: bool) -> None:
    time = instant_of_ms(made.clock.now_ms())
    info = [{"commitTime": lost.time, "action": lost.kind}]
    plan = {"instantsToRollback": info, "version": 2, "savepointToRestoreTimestamp": None}
    made.storage.put(f"{TIMELINE}/{time}.restore.requested", avro.write_one(RESTORE_PLAN, plan))
    made.storage.put(f"{TIMELINE}/{time}.restore.inflight", b"")
    if completed:
        said = {
            "startRestoreTime": "",
            "timeTakenInMillis": 1,
            "instantsToRollback": [lost.time],
            "hoodieRestoreMetadata": {},
            "version": 1,
            "restoreInstantInfo": info,
        }
        body = avro.write_one(RESTORE_METADATA, said)
        made.storage.put(f"{TIMELINE}/{time}_{instant_of_ms(made.clock.now_ms())}.restore", body)


def archived_rollback(made: Made, lost: Instant) -> None:
    time, done = (instant_of_ms(made.clock.now_ms()) for _ in range(2))
    one = Instant(time, "rollback", State.COMPLETED, done)
    put_history(made.storage, f"{TIMELINE}/history", [(one, rolled_back(lost))])


UNDOING: list[Callable[[Made, Instant], None]] = [
    lambda made, lost: rollback(made, lost, completed=False),
    lambda made, lost: rollback(made, lost, completed=True),
    lambda made, lost: restore(made, lost, completed=False),
    lambda made, lost: restore(made, lost, completed=True),
    archived_rollback,
]


@pytest.mark.parametrize("undo", UNDOING, ids=["rollback", "rolled back", "restore", "restored", "archived"])
@pytest.mark.parametrize("number", [1, -1])
def test_condition_3_what_a_rollback_or_restore_takes_away_is_never_put_back(
    undo: Callable[[Made, Instant], None], number: int
) -> None:
    made = Made()
    lost = made.writes[number]
    undo(made, lost)
    made.lose(lost)
    for act in (lambda: made.handle("other").recover(), lambda: made.ingest({"k9": ("p5", 9)}, made.handle("w"))):
        with suppress(Busy, Conflict):
            act()
        assert not made.is_completed(lost)


@pytest.mark.parametrize("number", [1, -1])
def test_condition_4_a_file_that_it_names_and_that_nothing_explains_is_corrupt(number: int) -> None:
    made = Made()
    lost = made.writes[number]
    path = made.files_of(lost)[0]
    made.lose(lost)
    made.storage.delete(path)
    made.refused(lost, path)


def test_condition_4_a_clean_or_a_replace_explains_missing_files() -> None:
    made = Made()
    first = made.writes[0]
    superseded = [path for path in made.files_of(first) if path.startswith(("part=p0", "part=p9"))]
    assert len(superseded) == 2
    of_replaced = [path for path in superseded if path.startswith("part=p9")]
    clean(made.storage, made.clock, set(superseded) - set(of_replaced))
    for path in of_replaced:
        made.storage.delete(path)
    made.lose(first)
    made.handle("other").recover()
    assert made.is_completed(first)
    assert shown(made.handle("reader")) == made.model


def test_without_the_bytes_in_the_log_it_is_corrupt() -> None:
    made = Made()
    lost = made.writes[-1]
    log = load_log(made.storage, None)
    assert log is not None
    (entry,) = (one for _, one in log.completes() if isinstance(one, Complete) and one.instant == lost.time)
    made.lose(lost)
    made.storage.delete(entry.payload)
    made.refused(lost, "bytes .* are gone")


@pytest.mark.parametrize("metadata", [False, True])
def test_a_file_that_its_own_writer_loses_at_once_is_put_back(metadata: bool) -> None:
    """The process that decided it just now asks neither lease nor delta at first; the delta is gone."""
    made = Made("MERGE_ON_READ", metadata=metadata)
    instant = made.ingest({"k1": ("p1", 9)})
    write = timeline_of(made.storage).find(instant)
    made.storage.delete(f"{TIMELINE}/{write.file_name}")
    made.handle("writer").recover()  # the process, with another handle
    assert timeline_of(made.storage).find(instant).is_completed
    assert shown(made.handle("reader")) == made.model
