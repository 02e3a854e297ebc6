"""Undoing a failed write: cancel it for good, delete what it wrote, take it off the timeline, and say so in a rollback instant.

Order (docs/protocol.md §7, docs/format.md §9.5): CANCEL slot, so that a sleeper finds itself cancelled; data files by markers;
inflight before requested; the rollback's own completed instant; markers and lease last. Every step can be done twice.
"""

from __future__ import annotations

import logging
from urllib.parse import unquote, urlsplit

from hudi_ops.concurrency.attempt import Attempt, begin
from hudi_ops.concurrency.fate import refuse_taken_over
from hudi_ops.concurrency.lease import read_lease
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.concurrency.transaction import Decided
from hudi_ops.errors import HudiOpsError
from hudi_ops.formats import avro
from hudi_ops.formats.service_schemas import ROLLBACK_METADATA, ROLLBACK_PLAN
from hudi_ops.services.ledger import ledger_folder
from hudi_ops.services.session import Session
from hudi_ops.storage.claim import ensure
from hudi_ops.timeline.commit_log import payload_folder
from hudi_ops.timeline.entries import Cancel, Complete, Entry
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, inflight_name, ms_of_instant, requested_name
from hudi_ops.timeline.reserve import known_times, next_after
from hudi_ops.timeline.rollbacks import rollback_of
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


def undo_attempt(session: Session, instant: str, error: HudiOpsError) -> None:
    """Cancel and roll back an attempt of this process that failed with an error which promises that nothing landed."""
    if error.details.get("taken_over"):
        return  # the instant, and the files of a higher epoch, are another's now
    try:
        if not cancel_write(session, instant, f"{type(error).__name__}: {error.what}"):
            return
        state = session.loader.load()
        found = state.timeline.find(instant)
        if found is None:
            clear_risen(session, state, instant)  # somebody else rolled it back while it still wrote
        else:
            roll_back(session, found)
    except HudiOpsError as failure:
        # The first error is what the caller must hear; the next ingest finds the attempt and clears it.
        logger.warning("attempt %s was not undone: %s", instant, failure)


def roll_back(session: Session, target: Instant) -> bool:
    """Remove a cancelled write from storage and timeline.

    Args:
        session: the table.
        target: a pending write that a CANCEL slot names.

    Returns:
        False when somebody else is rolling it back: a live process of ours, or Apache Hudi.
    """
    state = session.loader.load()
    begun = rollback_of(session.ctx.storage, state.timeline, target.time)
    if begun is not None and begun.is_completed and state.timeline.find(target.time) is None:
        clear_risen(session, state, target.time)  # another helper was faster
        return True
    if begun is None or begun.is_completed:
        attempt = begin(session.ctx, session.loader, "rollback", _plan(session, target))
    elif not _may_resume(session, begun):
        logger.warning("%s is being rolled back by somebody else (rollback %s)", target, begun.time)
        return False
    else:
        attempt = _resume(session, state, begun)
    with session.keep(attempt.instant, "rollback"):
        deleted = undo_files(session, target.time)
        folder = attempt.begun.config.timeline_folder
        for state_file in _pending_names(target):
            session.ctx.storage.delete(f"{folder}/{state_file}")
        _complete(session, attempt, target, deleted)
    session.settle(target.time)
    session.settle(attempt.instant)
    logger.warning("rolled back %s: %s files deleted", target, sum(map(len, deleted.values())))
    return True


def clear_risen(session: Session, state: TableState, instant: str) -> None:
    """Remove what a sleeper put after its write had been cancelled and rolled back; no new rollback is needed to say so."""
    undo_files(session, instant)
    found = state.timeline.find(instant)
    for name in _pending_names(found) if found is not None and not found.is_completed else ():
        session.ctx.storage.delete(state.timeline.path(name))
    session.settle(instant)


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


def _may_resume(session: Session, rollback: Instant) -> bool:
    """One executor a rollback: a dead one of ours is taken over. Those without an owner are Apache Hudi's."""
    lease = read_lease(session.ctx.storage, rollback.time)
    if lease is None or lease.owner is None:
        return False
    return lease.owner == session.ctx.owner or lease.is_dead(session.ctx.clock)


def _resume(session: Session, state: TableState, rollback: Instant) -> Attempt:
    """One plan a target: what somebody began is finished under its own instant."""
    session.take_lease(rollback.time)
    if State.INFLIGHT not in rollback.states:
        ensure(session.ctx.storage, state.timeline.path(inflight_name(rollback.time, "rollback")), b"")
    return Attempt(rollback.time, "rollback", state)


def _complete(session: Session, attempt: Attempt, target: Instant, deleted: dict[str, list[str]]) -> Decided | None:
    def prepare(state: TableState, slot: int) -> Entry | None:
        found = state.timeline.find(attempt.instant, "rollback")
        if found is None or found.is_completed or state.log.fate(attempt.instant) is not None:
            return None
        refuse_taken_over(attempt, state)
        completion = next_after(
            known_times(state.timeline, state.log), session.ctx.clock.now_ms(), state.config.name, state.zone
        )
        body = _metadata(attempt, target, deleted, ms_of_instant(completion))
        payload = session.put_payload(attempt.instant, slot, body)
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
