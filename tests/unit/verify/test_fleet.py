"""Signs of programs that share a table of ours with settings that do not go together, and what their rollbacks leave."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

import pytest

from hudi_ops.commit.recover.rollback_bodies import metadata_bytes
from hudi_ops.commit.recover.sweep import note_path
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, lease_path
from hudi_ops.context import Owner
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import ROLLBACK_PLAN
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.simulated import simulated_context
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.log.entries import Cancel, encode_entry
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.verify import verify_table
from hudi_ops.verify.subject import Subject
from tests.unit.verify.breaking import edit_properties, entries, errors, found, infos, timeline_of, warnings, writes

FOLDER = ".hoodie/timeline"
FUTURE_MS = 4_070_908_800_000
UNDONE, ROLLBACK, DONE = (instant_of_ms(FUTURE_MS + n) for n in (0, 1_000, 2_000))


def roll_back(storage: MemoryStorage, target: str, at: str = ROLLBACK, *, is_done: bool = True) -> None:
    """A rollback as Apache Hudi leaves it, without a slot."""
    plan = {"instantToRollback": {"commitTime": target, "action": "commit"}, "RollbackRequests": [], "version": 1}
    storage.put(f"{FOLDER}/{at}.rollback.requested", avro.write_one(ROLLBACK_PLAN, plan))
    storage.put(f"{FOLDER}/{at}.rollback.inflight", b"")
    if is_done:
        body = metadata_bytes(storage, at, 1, Instant(target, "commit", State.INFLIGHT), [])
        storage.put(f"{FOLDER}/{at}_{DONE}.rollback", body)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_rollback_right_after_its_target_was_requested_is_an_eager_one(ours, is_done):
    roll_back(ours, UNDONE, is_done=is_done)
    assert found(ours) == warnings("eager-rollback", "foreign-instant" if is_done else "rollback-pending")
    (finding,) = [one for one in verify_table(ours).findings if one.invariant == "eager-rollback"]
    assert "LAZY" in finding.next_step


def test_a_rollback_of_ours_that_apache_hudi_finished_is_no_sign(ours):
    first = entries(ours)[0]
    cancel = Cancel(
        table_id=first.table_id,
        decision_id="test",
        owner="test",
        at_ms=FUTURE_MS,
        properties_slot=0,
        archive_slot=-1,
        instant=UNDONE,
        reason="",
    )
    ours.put(slot_path(len(entries(ours))), encode_entry(cancel))
    roll_back(ours, UNDONE)
    assert found(ours) == warnings("foreign-instant")


def test_a_rollback_of_an_expired_writer_is_no_sign(ours):
    roll_back(ours, instant_of_ms(FUTURE_MS - EXPIRY_MS))
    assert found(ours) == warnings("foreign-instant")


def test_a_rollback_of_a_writer_that_beats_is_a_sign(ours):
    target = instant_of_ms(FUTURE_MS - EXPIRY_MS)
    roll_back(ours, target, is_done=False)
    body = json.dumps({"owner": asdict(Owner.of_this_process()), "beaten_ms": time.time_ns() // 1_000_000})
    ours.put(lease_path(target), body.encode())
    for suffix in ("commit.requested", "inflight"):
        ours.put(f"{FOLDER}/{target}.{suffix}", b"")
    assert found(ours) == warnings("eager-rollback", "rollback-pending")


def test_a_service_that_another_program_planned(ours):
    ours.put(f"{FOLDER}/{ROLLBACK}.clustering.requested", b"")
    assert found(ours) == errors("plan-empty") + warnings("foreign-plan")


def test_a_plan_that_a_cancel_may_end_beside_a_foreign_writer(ours):
    table = Table(simulated_context(ours, ManualClock(FUTURE_MS - 600_000, tick_ms=1), "planner"))
    instant = table.clustering.plan(sort_by="id", rewrite=True).instant
    assert found(ours) == [], "no foreign writer shares the table"
    roll_back(ours, UNDONE)
    assert "foreign-cancel" not in {one.invariant for one in verify_table(ours).findings}, "it wrote no rows"
    foreign = f"{FOLDER}/{instant_of_ms(FUTURE_MS + 5_000)}"
    ours.put(f"{foreign}_{instant_of_ms(FUTURE_MS + 6_000)}.commit", b"{}")
    (finding,) = [one for one in verify_table(ours).findings if one.invariant == "foreign-cancel"]
    assert finding.severity == "info"
    assert f"hudi-ops cancel TABLE {instant}" in finding.next_step
    table.cancel(instant, reason="done with it")
    assert "foreign-cancel" not in {one.invariant for one in verify_table(ours).findings}


def test_a_metadata_table_that_another_program_built(ours):
    ours.put(".hoodie/metadata/files/a", b"")
    assert found(ours) == warnings("metadata-left")
    edit_properties(ours, table_metadata_partitions="files,expr_index_x")
    assert ("warning", "metadata-foreign") in found(ours)


def test_instants_of_ours_that_another_program_archived(ours, monkeypatch):
    times = frozenset(one.time for one in writes(ours)[:2])
    monkeypatch.setattr(Subject, "archived", dict.fromkeys(times, "commit"))
    assert infos("archive-begun")[0] in found(ours), "they are on the timeline, too"
    for info in ours.list(FOLDER):
        if info.name[:17] in times:
            ours.delete(info.path)
    assert infos("foreign-archived")[0] in found(ours)


def test_a_file_that_a_rollback_left_because_no_marker_named_it(ours):
    roll_back(ours, UNDONE, DONE, is_done=False)
    roll_back(ours, UNDONE, ROLLBACK)
    for name in ("requested", "inflight"):
        ours.delete(f"{FOLDER}/{DONE}.rollback.{name}")
    orphan = f"p=x/00000000-1111-2222-3333-444444444444-0_0-1-1_{UNDONE}.parquet"
    ours.put(orphan, b"left")
    assert ("warning", "rollback-orphan") in found(ours)
    # Its rows show once it is older than the first completed write.
    old = "20000101000000000"
    ours.put(f"p=x/00000000-1111-2222-3333-444444444444-0_0-1-1_{old}.parquet", b"left")
    ours.put(
        f"{FOLDER}/{ROLLBACK}_{DONE}.rollback",
        metadata_bytes(ours, ROLLBACK, 1, Instant(old, "commit", State.INFLIGHT), []),
    )
    assert old < timeline_of(ours).start
    assert ("error", "rollback-orphan") in found(ours)


def test_what_a_late_task_wrote_waits_for_the_second_look(ours):
    roll_back(ours, UNDONE)
    path = f"p=x/00000000-1111-2222-3333-444444444444-0_0-1-1_{UNDONE}.parquet"
    ours.put(path, b"late")
    ours.put(f".hoodie/.temp/{UNDONE}/{path}.marker.CREATE", b"")
    ours.put(note_path(UNDONE, FUTURE_MS), b"")
    assert ("info", "late-file") in found(ours)
    assert "sweep-due" not in {invariant for _, invariant in found(ours)}
    overdue = verify_table(ours, clock=ManualClock(FUTURE_MS + EXPIRY_MS + 1))
    assert "sweep-due" in {one.invariant for one in overdue.findings}
