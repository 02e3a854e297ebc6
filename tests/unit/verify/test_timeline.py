"""Broken timelines: names, states, times, contents and pending instants, one at a time."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

import pytest

from hudi_ops.commit.recover.rollback_bodies import plan_bytes
from hudi_ops.concurrency.lease.lease import EXPIRY_MS, lease_path
from hudi_ops.context import Owner
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import ROLLBACK_PLAN
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.cancel.aborted import QUEUE, AbortedPlan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import mark_cancelled
from hudi_ops.timeline.names import State, instant_of_ms
from hudi_ops.verify import verify_table
from tests.unit.verify.breaking import errors, found, infos, path_of, timeline_of, warnings, writes

FOLDER = ".hoodie/timeline"
LATER = "20990101000000000"


def lease_of(storage: MemoryStorage, instant: str, *, gone: bool) -> None:
    import json

    owner = Owner.of_this_process()
    owner = replace(owner, started="1") if gone else owner
    storage.put(lease_path(instant), json.dumps({"owner": asdict(owner), "beaten_ms": 0}).encode())


def rollback_plan(target: str) -> bytes:
    record = {"instantToRollback": {"commitTime": target, "action": "commit"}, "RollbackRequests": [], "version": 1}
    return avro.write_one(ROLLBACK_PLAN, record)


def test_completed_file_without_completion_time(foreign):
    foreign.put(f"{FOLDER}/{LATER}.commit", b"{}")
    assert found(foreign) == errors("completed-without-time")


def test_name_that_is_no_instant(foreign):
    foreign.put(f"{FOLDER}/{LATER}.commit.new", b"")
    assert found(foreign) == warnings("timeline-name")


def test_temporary_file_of_a_killed_process(foreign):
    foreign.put(f"{FOLDER}/{LATER}.inflight.55504a96-9a9b-4a0e-a089-13c531dbda42", b"{}")
    assert found(foreign) == infos("timeline-name")


def test_aborted_plans_and_other_files_are_no_finding(ours):
    record = AbortedPlan("", LATER, "clustering", 0, "not now")
    ours.put(f"{FOLDER}/{LATER}.clustering.aborted", record.to_bytes())
    ours.put(f"{FOLDER}/{LATER}.clustering.aborted.swept", b"")
    mark_cancelled(ours, LATER, 0)
    ours.put(f"{FOLDER}/readme", b"")
    assert found(ours) == []


def test_records_of_aborted_plans_that_cannot_be_trusted(foreign):
    record = AbortedPlan("", LATER, "clustering", 0, "not now").to_bytes()
    path = f"{FOLDER}/{LATER}.clustering.aborted"
    foreign.put(path, record)
    assert found(foreign) == warnings("aborted-without-cancel")
    foreign.put(path, record[:30])
    assert found(foreign) == warnings("aborted-unreadable")
    foreign.put(path, record.replace(LATER.encode(), b"20990101000000001"))
    assert found(foreign) == warnings("aborted-unreadable")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"table_id": "another", "slot": 7}'])
def test_a_request_that_no_process_acts_on(foreign, body):
    foreign.put(f"{QUEUE}/{LATER}", body)
    assert found(foreign) == infos("cancel-request-left")


def test_one_time_used_by_two_actions(foreign):
    instant = writes(foreign)[-1]
    foreign.put(f"{FOLDER}/{instant.time}.clean.requested", b"")
    assert ("error", "instant-twice") in found(foreign)
    foreign.delete(f"{FOLDER}/{instant.time}.clean.requested")
    foreign.put(f"{FOLDER}/{instant.time}.savepoint.inflight", b"")
    assert found(foreign) == [], "a savepoint shares its commit's time"


def test_completed_twice(foreign):
    instant = writes(foreign)[-1]
    body = foreign.get(path_of(foreign, instant))
    foreign.put(f"{FOLDER}/{instant.time}_{LATER}.commit", body)
    assert found(foreign) == errors("completed-twice")


def test_rollback_completed_by_two_processes(ours):
    rollback = next(one for one in timeline_of(ours) if one.kind == "rollback")
    path = f".hoodie/timeline/{rollback.file_name}"
    ours.put(path.replace(rollback.completion_time, LATER), ours.get(path))
    assert warnings("rollback-twice")[0] in found(ours)
    assert not verify_table(ours).errors


def test_equal_completion_times(foreign):
    first, second = writes(foreign)
    body = foreign.get(path_of(foreign, first))
    foreign.delete(path_of(foreign, first))
    foreign.put(f"{FOLDER}/{first.time}_{second.completion_time}.commit", body)
    assert found(foreign) == errors("completion-equal")


def test_completed_before_it_was_requested(foreign):
    first = writes(foreign)[0]
    body = foreign.get(path_of(foreign, first))
    foreign.delete(path_of(foreign, first))
    foreign.put(f"{FOLDER}/{first.time}_20200101000000000.commit", body)
    assert found(foreign) == errors("completion-before-request")


def test_inflight_without_requested(foreign):
    foreign.put(f"{FOLDER}/{LATER}.clustering.inflight", b"")
    assert found(foreign) == errors("inflight-without-requested")


def test_completed_without_its_earlier_states(foreign):
    instant = writes(foreign)[0]
    foreign.delete(f"{FOLDER}/{instant.time}.inflight")
    assert found(foreign) == warnings("states-missing")


def test_time_that_is_no_date(foreign):
    for name in ("20259999000000000.commit.requested", "20259999000000000.inflight"):
        foreign.put(f"{FOLDER}/{name}", b"")
    assert found(foreign) == errors("instant-time") + warnings("pending-unowned")


def test_empty_completed_file(foreign):
    foreign.put(path_of(foreign, writes(foreign)[-1]), b"")
    assert ("error", "completed-empty") in found(foreign)


@pytest.mark.parametrize("action", ["commit", "clean"])
def test_completed_file_that_cannot_be_decoded(in_memory, action):
    storage = in_memory("v9_cow_clean_savepoint_rollback_archive")
    instant = [one for one in timeline_of(storage) if one.kind == action][-1]
    storage.put(path_of(storage, instant), b"Obj\x01 and nothing more")
    errors_found = [one for one in found(storage) if one[0] == "error"]
    assert ("error", "completed-undecodable") in errors_found


def test_pending_plan_that_is_empty(foreign):
    foreign.put(f"{FOLDER}/{LATER}.clean.requested", b"")
    assert found(foreign) == errors("plan-empty")


def test_pending_plan_that_cannot_be_decoded(foreign):
    foreign.put(f"{FOLDER}/{LATER}.compaction.requested", b"not a plan")
    assert found(foreign) == errors("plan-undecodable")


def test_pending_rollback_that_every_write_retries(foreign):
    foreign.put(f"{FOLDER}/{LATER}.rollback.requested", rollback_plan("20250101000000000"))
    assert found(foreign) == warnings("rollback-pending")
    lease_of(foreign, LATER, gone=False)
    assert found(foreign) == [], "somebody works on it"


def test_pending_rollback_whose_plan_leaves_the_table(foreign):
    target = Instant("20250101000000000", "commit", State.INFLIGHT)
    foreign.put(
        f"{FOLDER}/{LATER}.rollback.requested", plan_bytes(foreign, target, ["../x_0-0-0_20250101000000000.parquet"])
    )
    assert found(foreign) == errors("rollback-plan-path") + warnings("rollback-pending")


def test_pending_rollback_of_a_savepointed_commit(in_memory):
    storage = in_memory("v9_cow_clean_savepoint_rollback_archive")
    storage.put(f"{FOLDER}/{LATER}.rollback.requested", rollback_plan("20261121021150717"))
    assert found(storage) == errors("rollback-refused")


def test_pending_write_without_a_lease(ours):
    for suffix in ("commit.requested", "inflight"):
        ours.put(f"{FOLDER}/{LATER}.{suffix}", b"")
    assert found(ours) == warnings("pending-unowned")


def test_pending_write_with_a_damaged_marker_line(ours):
    for suffix in ("commit.requested", "inflight"):
        ours.put(f"{FOLDER}/{LATER}.{suffix}", b"")
    ours.put(f".hoodie/.temp/{LATER}/MARKERS0", b"p//x_0-0-0_" + LATER.encode() + b".parquet.marker.CREATE\n")
    assert found(ours) == warnings("marker-unusable", "pending-unowned")


def test_pending_write_whose_process_ended(ours):
    for suffix in ("commit.requested", "inflight"):
        ours.put(f"{FOLDER}/{LATER}.{suffix}", b"")
    lease_of(ours, LATER, gone=False)
    assert found(ours) == [], "a live writer is no finding"
    lease_of(ours, LATER, gone=True)
    assert found(ours) == warnings("pending-dead")


def test_pending_write_whose_beats_stopped(ours):
    for suffix in ("commit.requested", "inflight"):
        ours.put(f"{FOLDER}/{LATER}.{suffix}", b"")
    ours.put(lease_path(LATER), b"")
    now_ms = time.time_ns() // 1_000_000
    clock = ManualClock(now_ms + EXPIRY_MS + 60_000)
    assert [one.invariant for one in verify_table(ours, clock=clock).findings] == ["pending-dead"]


def test_pending_write_older_than_the_first_completed_one(foreign):
    for suffix in ("commit.requested", "inflight"):
        foreign.put(f"{FOLDER}/20200101000000000.{suffix}", b"")
    lease_of(foreign, "20200101000000000", gone=False)
    assert found(foreign) == warnings("pending-before-start")


def test_now_is_before_later():
    assert instant_of_ms(time.time_ns() // 1_000_000) < LATER
