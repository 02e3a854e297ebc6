"""Apply decided entries to the timeline.

Any process that finds an unapplied entry applies it; this is idempotent.

Source: docs/protocol §6.
"""

from __future__ import annotations

import logging

from hudi_ops.commit.apply.invalidate import plan_undone, stale_beside_foreign_writers, why_void
from hudi_ops.commit.apply.properties import apply_properties
from hudi_ops.commit.apply.put_back import refuse_lost, was_applied
from hudi_ops.commit.apply.savepoints import apply_savepoint
from hudi_ops.commit.owned.kinds import Reason
from hudi_ops.commit.owned.remove import remove_paths
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.lease import is_under_other_lock, read_lease
from hudi_ops.concurrency.transaction import Applier
from hudi_ops.context import TableContext
from hudi_ops.errors import Busy, NotFound
from hudi_ops.index.ring_files import delete_rings, new_rings, put_rings
from hudi_ops.metadata.writer.commit import apply_delta, undo_delta
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.storage.claim import claim, ensure
from hudi_ops.timeline.content.undone import undone_by
from hudi_ops.timeline.log.cancelled import mark_cancelled
from hudi_ops.timeline.log.commit_log import Log, refresh_log, slot_path
from hudi_ops.timeline.log.entries import (
    Complete,
    Entry,
    Plan,
    Properties,
    Restore,
    Savepoint,
    Void,
    cancel_of,
    decision_id_of,
    encode_entry,
)
from hudi_ops.timeline.names import WRITE_ACTIONS, completed_name, completes_as, inflight_name, requested_name
from hudi_ops.timeline.state import CommitReader, StateLoader, TableState

logger = logging.getLogger(__name__)

DECIDER_WAIT_S, DECIDER_STEP_S = 10.0, 0.05
"""Limit and interval, in seconds, of the wait for a live writer under another lock to complete its decided instant."""


class TimelineApplier(Applier):
    """Applies entries to the timeline and to `hoodie.properties`."""

    def __init__(self, ctx: TableContext, loader: StateLoader, commits: CommitReader) -> None:
        self._ctx = ctx
        self._loader = loader
        self._commits = commits
        self._payload: tuple[str, bytes] = ("", b"")
        self._delta: tuple[str, MetadataDelta | None] = ("", None)
        self._marked: set[int] = set()

    def remember(self, payload: str, body: bytes) -> None:
        """Keep the bytes of a payload that was just put, so that they need not be read."""
        self._payload = payload, body

    def remember_delta(self, path: str, delta: MetadataDelta) -> None:
        """Keep a metadata delta that was just put, so that it need not be read."""
        self._delta = path, delta

    def mark(self, instant: str, slot: int) -> None:
        """Mark which slot cancelled an instant, once in this process."""
        if slot not in self._marked:
            mark_cancelled(self._ctx.storage, instant, slot)
            self._marked.add(slot)

    def apply(self, state: TableState, slot: int, entry: Entry) -> bool:
        """Make an entry visible; return False when it was voided instead.

        `state` is read after the slot, log before timeline.
        """
        if isinstance(entry, Properties):
            apply_properties(self._ctx, state.log, slot)
            return True
        if isinstance(entry, Complete):
            return self._complete(state, slot, entry)
        if isinstance(entry, Plan):
            return self._publish(state, slot, entry)
        if isinstance(entry, Restore):
            self._put_requested(state, entry)
            return True
        if isinstance(entry, Savepoint):
            return self._savepoint(state, slot, entry)
        return True  # a CANCEL, TAKEOVER, VOID or ARCHIVE needs no file; sweeps remove the files that it frees

    def _savepoint(self, state: TableState, slot: int, entry: Savepoint) -> bool:
        """Make or delete a savepoint, and record its deletion by a foreign program."""
        while not apply_savepoint(self._ctx.storage, state, slot, entry):
            deleted = entry.model_copy(
                update={
                    "decision_id": f"savepoint {entry.instant} deleted {slot}",
                    "owner": str(self._ctx.owner),
                    "at_ms": self._ctx.clock.now_ms(),
                    "is_made": False,
                    "payload": "",
                }
            )
            at = slot_path(void_slot(state.log))
            if claim(self._ctx.storage, at, encode_entry(deleted), deleted.decision_id, decision_id_of).won:
                logger.info("another program deleted the savepoint of %s", entry.instant)
                return False
            state = self._loader.reload(state)
        return True

    def _complete(self, state: TableState, slot: int, entry: Complete) -> bool:
        while True:
            decided = state.log.fate(entry.instant)
            if decided is None or decided[0] != slot:
                return False
            found = state.timeline.find(entry.instant, entry.action)
            if (found is not None and found.is_completed) or is_archived(state.log, entry.instant):
                return True
            if was_applied(self._ctx, state, slot, entry):
                return self.put_back(state, slot, entry)
            # Read the payload first, so that there is no read between the last clock check and the put.
            try:
                body = self._bytes(entry.payload)
            except NotFound:
                # The instant was archived while this process slept, and its payload removed.
                state = self._loader.reload(state)
                if is_archived(state.log, entry.instant):
                    return True
                raise
            reason = why_void(self._ctx, self._commits, state, entry)
            if reason is None and entry.metadata:
                # Readers ignore the delta while the data instant is pending, and need it once the instant is complete.
                try:
                    is_ours = self._apply_metadata(state, entry)
                except NotFound:
                    # This process has just decided and applied the entry; then the completed file was deleted.
                    if was_applied(self._ctx, state, slot, entry, asks_storage=True):
                        return self.put_back(state, slot, entry)
                    raise
                if not is_ours:
                    return True
                reason = stale_beside_foreign_writers(self._ctx, self._commits, state, entry)
            if reason is None:
                return self._put_completed(state, slot, entry, body)
            if self._await_decider(state, entry, reason):
                return True
            if self._void(state, slot, entry, reason):
                return False
            # The slot after the loaded head was taken: its entry may change the verdict.
            state = self._loader.reload(state)

    def put_back(self, state: TableState, slot: int, entry: Complete) -> bool:
        """Restore a deleted completed file, or void its entry if undone (docs/protocol §6.1).

        Requires the table lock. `state` is read after the slot, log before timeline. Returns False when `entry` was voided instead.

        Raises:
            Corrupt: a check failed, so the file is not restored.
        """
        while reason := undone_by(self._ctx.storage, state.config, state.timeline, entry.instant):
            if self._void(state, slot, entry, f"{reason} undoes it: its writer does not know the commit log"):
                return False
            state = self._loader.reload(state)
        refuse_lost(self._ctx.storage, self._commits, state, entry)
        return self._put_completed(state, slot, entry, self._bytes(entry.payload))

    def _await_decider(self, state: TableState, entry: Complete, reason: str) -> bool:
        """Wait for a live decider under another table lock; return whether the entry is complete.

        The decider may already have read the log, found no VOID, and report success: a VOID now would undo an acknowledged write.

        Raises:
            Busy: the decider is alive, and has not completed the entry in time.
        """
        until_s = self._ctx.clock.monotonic_s() + DECIDER_WAIT_S
        while True:
            # Read the lease before the timeline: its owner drops it once the completed file exists.
            lease = read_lease(self._ctx.storage, entry.instant)
            if self._is_completed_by_now(state, entry):
                return True
            if lease is None or not is_under_other_lock(self._ctx, lease):
                return False
            if self._ctx.clock.monotonic_s() >= until_s:
                raise Busy(
                    f"{entry.action} {entry.instant} is decided, cannot become visible ({reason}), and its writer is alive",
                    table=state.config.name,
                    instant=entry.instant,
                    expected="that its writer completes or ends it: it uses another table lock, and may report success",
                    found=f"{lease.owner} under the lock {lease.lock}, alive after {DECIDER_WAIT_S:g} s",
                    next_step="try again; give all writers of the table the same `lock`",
                )
            self._ctx.clock.sleep_s(DECIDER_STEP_S)

    def _is_completed_by_now(self, state: TableState, entry: Complete) -> bool:
        """Return whether another process completed the entry without the lock."""
        found = self._loader.relist(state).timeline.find(entry.instant, entry.action)
        return found is not None and found.is_completed

    def _put_completed(self, state: TableState, slot: int, entry: Complete, body: bytes) -> bool:
        path = state.timeline.path(completed_name(entry.instant, entry.action, entry.completion_time))
        rings = new_rings(body, entry.payload)
        put_rings(self._ctx.storage, rings, entry.instant)
        # Name and bytes both follow from the slot: every applier puts the same file.
        ensure(self._ctx.storage, path, body)
        # No `.commit` file yet: without one Apache Hudi's undo of the instant undoes its rings, too (docs/protocol §27).
        # A paused applier may put back an instant that was archived, voided or undone (docs/protocol §6, step 5).
        log = refresh_log(self._ctx.storage, state.log)
        self._commits.keep(path, body)
        fate = log.fate(entry.instant)
        if is_voided(log, slot) or (fate is not None and fate[0] > slot):
            logger.warning("%s %s was voided or undone while it was applied: removed", entry.action, entry.instant)
            remove_paths(self._ctx.storage, Reason.VOIDED, [path])
            self._undo_metadata(entry)
            delete_rings(self._ctx.storage, rings, entry.instant)
            return False
        if is_archived(log, entry.instant):
            remove_paths(self._ctx.storage, Reason.ARCHIVED, [path])
        elif log.head == slot and not has_foreign_writers(self._ctx.storage, self._commits, state, pending=False):
            timeline = state.timeline.completed(entry.instant, entry.action, entry.completion_time)
            self._loader.leave(TableState(state.config, log, timeline))
        return True

    def _apply_metadata(self, state: TableState, entry: Complete) -> bool:
        """Apply the entry's metadata delta; return False when another process completed the instant.

        Raises:
            NotFound: the delta is gone, and the instant is not complete.
        """
        path, delta = self._delta
        if path != entry.metadata or delta is None:
            try:
                delta = MetadataDelta.from_bytes(self._ctx.storage.get(entry.metadata), entry.metadata)
            except NotFound:
                # Its writer deletes the delta once the instant is complete.
                if self._is_completed_by_now(state, entry):
                    return False
                if completes_as(entry.action) in WRITE_ACTIONS:
                    raise
                return True  # its completed file was deleted since; it is put again without rows
        apply_delta(self._ctx.storage, delta, entry.completion_time)
        return True

    def _undo_metadata(self, entry: Complete) -> None:
        if entry.metadata:
            undo_delta(self._ctx.storage, [entry.instant])

    def _publish(self, state: TableState, slot: int, entry: Plan) -> bool:
        while True:
            if slot in state.log.voided:
                return False
            is_closed = state.log.fate(entry.instant) is not None or is_archived(state.log, entry.instant)
            if is_closed or state.timeline.find(entry.instant, entry.action) is not None:
                return True
            reason = plan_undone(self._ctx, state, entry)
            if reason is None:
                self._put_requested(state, entry)
                return True
            if self._void(state, slot, entry, reason):
                return False
            state = self._loader.reload(state)

    def _put_requested(self, state: TableState, entry: Plan | Restore) -> None:
        path = state.timeline.path(requested_name(entry.instant, entry.action))
        ensure(self._ctx.storage, path, self._bytes(entry.payload))
        # A paused applier may put back a plan that was rolled back or archived.
        log = refresh_log(self._ctx.storage, state.log)
        is_cancelled = cancel_of(log.fate(entry.instant)) is not None
        if is_cancelled or is_archived(log, entry.instant):
            pending = [state.timeline.path(inflight_name(entry.instant, entry.action)), path]
            reason = Reason.CANCELLED if is_cancelled else Reason.ARCHIVED
            remove_paths(self._ctx.storage, reason, pending, ordered=True)

    def _bytes(self, payload: str) -> bytes:
        # A payload's name holds a digest of its bytes, so remembered bytes equal the stored ones.
        return self._payload[1] if self._payload[0] == payload else self._ctx.storage.get(payload)

    def _void(self, state: TableState, slot: int, entry: Complete | Plan, reason: str) -> bool:
        void = Void(
            table_id=entry.table_id,
            decision_id=f"void {slot}",
            owner=str(self._ctx.owner),
            at_ms=self._ctx.clock.now_ms(),
            properties_slot=state.log.properties_slot,
            archive_slot=state.log.archive_slot,
            slot=slot,
            reason=reason,
        )
        at = void_slot(state.log)
        outcome = claim(self._ctx.storage, slot_path(at), encode_entry(void), void.decision_id, decision_id_of)
        if outcome.won:
            logger.warning("slot %s voids %s %s: %s", at, entry.action, entry.instant, reason)
            if isinstance(entry, Complete):
                # A process that lost its lock may have put the file since, and then found no VOID.
                name = completed_name(entry.instant, entry.action, entry.completion_time)
                remove_paths(self._ctx.storage, Reason.VOIDED, [state.timeline.path(name)])
                self._undo_metadata(entry)
                if completes_as(entry.action) == "replacecommit":
                    rings = new_rings(self._bytes(entry.payload), entry.payload)
                    delete_rings(self._ctx.storage, rings, entry.instant)
        return outcome.won


def is_archived(log: Log, instant: str) -> bool:
    """Return whether an instant was archived: no file of it may appear on the timeline again."""
    return instant <= log.boundary


def is_voided(log: Log, slot: int) -> bool:
    """Return whether a VOID names a slot, so that its decision has no effect."""
    return slot in log.voided


def void_slot(log: Log) -> int:
    """Return the only slot for a VOID, right above the head.

    If another entry takes it first, that entry may change the verdict.
    """
    return log.head + 1
