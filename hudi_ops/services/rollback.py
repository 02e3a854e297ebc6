"""Undoing a failed write: cancel it for good, delete what it wrote, take it off the timeline, and say so in a rollback instant.

Order (DESIGN §5, format facts §9.5): CANCEL slot, so that a sleeper which wakes up finds itself cancelled; data files by markers;
inflight before requested; the rollback's own completed instant; markers and lease last. Every step can be done twice.
"""

from __future__ import annotations

import logging
from urllib.parse import unquote, urlsplit

from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.lease import drop_lease
from hudi_ops.concurrency.markers import delete_markers, list_markers
from hudi_ops.concurrency.transaction import Decided
from hudi_ops.errors import Corrupt, NotFound
from hudi_ops.formats import avro
from hudi_ops.formats.service_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from hudi_ops.services.ledger import ledger_folder
from hudi_ops.services.session import Session
from hudi_ops.timeline.commit_log import payload_folder, put_payload
from hudi_ops.timeline.entries import Cancel, Complete, Entry
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, inflight_name, ms_of_instant, requested_name
from hudi_ops.timeline.reserve import known_times, next_after
from hudi_ops.timeline.state import TableState

logger = logging.getLogger(__name__)


def cancel_write(session: Session, instant: str, reason: str) -> bool:
    """Decide that a write never completes.

    Returns:
        False when it had completed already: then nothing may be undone.
    """
    completed = False

    def prepare(state: TableState, slot: int) -> Entry | None:
        nonlocal completed
        fate = state.log.fate(instant)
        found = state.timeline.find(instant)
        completed = isinstance(fate[1] if fate else None, Complete) or (found is not None and found.is_completed)
        if fate is not None or completed:
            return None
        return Cancel(**session.entry(state, f"cancel {instant}"), instant=instant, reason=reason)

    session.decide(prepare, f"cancel {instant}")
    return not completed


def roll_back(session: Session, target: Instant) -> Instant | None:
    """Remove a cancelled write from storage and timeline.

    Args:
        session: the table.
        target: a pending write that a CANCEL slot names.

    Returns:
        The rollback instant's target when it was rolled back now.

    Raises:
        Corrupt: a pending rollback of it has a plan that cannot be read.
    """
    pending = _pending_rollback(session, target.time)
    attempt = pending or begin(session.ctx, session.loader, "rollback", _plan(session, target))
    with session.keep(attempt.instant):
        deleted = undo_files(session, target.time)
        folder = attempt.begun.config.timeline_folder
        for state_file in _pending_names(target):
            session.ctx.storage.delete(f"{folder}/{state_file}")
        _complete(session, attempt, target, deleted)
    delete_markers(session.ctx.storage, target.time)
    drop_lease(session.ctx, target.time)
    drop_lease(session.ctx, attempt.instant)
    logger.warning("rolled back %s: %s files deleted", target, sum(map(len, deleted.values())))
    return target


def undo_files(session: Session, instant: str) -> dict[str, list[str]]:
    """Delete what a cancelled write announced by markers, and its ledger; returns file names by partition."""
    deleted: dict[str, list[str]] = {}
    for marker in list_markers(session.ctx.storage, instant):
        session.ctx.storage.delete(marker.data_path)
        partition, _, name = marker.data_path.rpartition("/")
        deleted.setdefault(partition, []).append(name)
    for folder in (ledger_folder(instant), payload_folder(instant)):
        for info in session.ctx.storage.list(folder):
            session.ctx.storage.delete(info.path)
    return deleted


def _plan(session: Session, target: Instant) -> bytes:
    files: dict[str, list[str]] = {}
    for marker in list_markers(session.ctx.storage, target.time):
        partition, _, name = marker.data_path.rpartition("/")
        files.setdefault(partition, []).append(name)
    # As Apache Hudi writes them: absolute, without the scheme, and not percent-encoded.
    root = unquote(urlsplit(session.ctx.storage.uri).path)
    return avro.write_one(
        ROLLBACK_PLAN,
        {
            "instantToRollback": {"commitTime": target.time, "action": target.kind},
            "RollbackRequests": [
                {
                    "partitionPath": partition,
                    "fileId": "",
                    "latestBaseInstant": "",
                    "filesToBeDeleted": [
                        f"{root}/{partition}/{name}" if partition else f"{root}/{name}" for name in names
                    ],
                    "logBlocksToBeDeleted": {},
                }
                for partition, names in sorted(files.items())
            ],
            "version": 1,
        },
    )


def _pending_rollback(session: Session, target: str) -> Attempt | None:
    """The rollback that somebody began of this write: one plan per target, resumed and never made twice."""
    state = session.loader.load()
    for instant in state.timeline.pending:
        if instant.action == "rollback" and rollback_target(session, state, instant) == target:
            session.adopt(instant.time)
            if State.INFLIGHT not in instant.states:
                session.ctx.storage.put(state.timeline.path(inflight_name(instant.time, "rollback")), b"")
            return Attempt(instant.time, "rollback", state)
    return None


def rollback_target(session: Session, state: TableState, instant: Instant) -> str:
    """Request time of the write that a pending rollback undoes; empty when its plan vanished.

    Raises:
        Corrupt: the plan cannot be read; it is kept, since somebody may be using it.
    """
    path = state.timeline.path(requested_name(instant.time, "rollback"))
    try:
        plan = avro.read_one(session.ctx.storage.get(path), path)
    except NotFound:
        return ""
    target = plan.get("instantToRollback")
    if not isinstance(target, dict):
        raise Corrupt(f"{path} names no instant to roll back", instant=instant.time, expected="instantToRollback")
    return str(target["commitTime"])


def _complete(session: Session, attempt: Attempt, target: Instant, deleted: dict[str, list[str]]) -> Decided | None:
    def prepare(state: TableState, slot: int) -> Entry | None:
        found = state.timeline.find(attempt.instant, "rollback")
        if found is None or found.is_completed or state.log.fate(attempt.instant) is not None:
            return None
        completion = next_after(known_times(state.timeline, state.log), session.ctx.clock.now_ms(), state.config.name)
        body = _metadata(attempt, target, deleted, ms_of_instant(completion))
        payload = put_payload(session.ctx.storage, attempt.instant, slot, body)
        return Complete(
            **session.entry(state, f"complete {attempt.instant} {attempt.epoch}"),
            instant=attempt.instant,
            action="rollback",
            epoch=attempt.epoch,
            completion_time=completion,
            payload=payload,
        )

    decided = session.decide(prepare, f"rollback of {target.time}")
    session.drop_lost_payloads(attempt.instant, decided)
    return decided


def _metadata(attempt: Attempt, target: Instant, deleted: dict[str, list[str]], completed_ms: int) -> bytes:
    started_ms = ms_of_instant(attempt.instant)
    return avro.write_one(
        ROLLBACK_METADATA,
        {
            "startRollbackTime": attempt.instant,
            "timeTakenInMillis": completed_ms - started_ms,
            "totalFilesDeleted": sum(map(len, deleted.values())),
            "commitsRollback": [target.time],
            "partitionMetadata": {
                partition: {
                    "partitionPath": partition,
                    "successDeleteFiles": names,
                    "failedDeleteFiles": [],
                    "rollbackLogFiles": {},
                    "logFilesFromFailedCommit": {},
                }
                for partition, names in sorted(deleted.items())
            },
            "version": 1,
            "instantsRollback": [{"commitTime": target.time, "action": target.kind}],
        },
    )


def _pending_names(target: Instant) -> list[str]:
    return [inflight_name(target.time, target.action), requested_name(target.time, target.action)]
