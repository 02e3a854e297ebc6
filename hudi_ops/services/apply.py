"""Rolling a decision forward: what a slot says becomes visible. Idempotent, and done by whoever finds it undone.

Source: docs/protocol.md §6.
"""

from __future__ import annotations

import logging

from hudi_ops.concurrency.transaction import Applier
from hudi_ops.config.table import PROPERTIES_PATH
from hudi_ops.context import TableContext
from hudi_ops.errors import Internal, InvalidRequest
from hudi_ops.storage.claim import claim, ensure
from hudi_ops.timeline.commit_log import refresh_log, slot_path
from hudi_ops.timeline.entries import Complete, Entry, Properties, Void, decision_id_of, encode_entry
from hudi_ops.timeline.names import State, completed_name
from hudi_ops.timeline.properties_file import read_properties, write_properties
from hudi_ops.timeline.rollbacks import rollback_of
from hudi_ops.timeline.state import StateLoader, TableState

logger = logging.getLogger(__name__)


class TimelineApplier(Applier):
    """Applies entries to the timeline and to `hoodie.properties`."""

    def __init__(self, ctx: TableContext, loader: StateLoader) -> None:
        self._ctx = ctx
        self._loader = loader

    def apply(self, state: TableState, slot: int, entry: Entry) -> bool:
        """Make an entry visible.

        Args:
            state: read after the slot was, log before timeline.
            slot: number of the slot.
            entry: what it says.

        Returns:
            False when the entry was voided instead.
        """
        if isinstance(entry, Properties):
            apply_properties(self._ctx, entry, first=False)
            return True
        if isinstance(entry, Complete):
            return self._complete(state, slot, entry)
        return True

    def _complete(self, state: TableState, slot: int, entry: Complete) -> bool:
        while True:
            decided = state.log.fate(entry.instant)
            if decided is None or decided[0] != slot:
                return False
            found = state.timeline.find(entry.instant, entry.action)
            if (found is not None and found.is_completed) or entry.instant <= state.log.boundary:
                return True
            reason = _void_reason(self._ctx, state, entry)
            if reason is None:
                self._put_completed(state, entry)
                return True
            if self._void(state, slot, entry, reason):
                return False
            # The slot after the head we read was taken: what it says may change the verdict.
            state = self._loader.load()

    def _put_completed(self, state: TableState, entry: Complete) -> None:
        path = state.timeline.path(completed_name(entry.instant, entry.action, entry.completion_time))
        # Name and bytes both follow from the slot: whoever puts it, it is this file.
        ensure(self._ctx.storage, path, self._ctx.storage.get(entry.payload))
        # An applier that slept here may wake an instant that was archived meanwhile (docs/protocol.md §6, step 5).
        if refresh_log(self._ctx.storage, state.log).boundary >= entry.instant:
            self._ctx.storage.delete(path)

    def _void(self, state: TableState, slot: int, entry: Complete, reason: str) -> bool:
        void = Void(
            table_id=entry.table_id,
            decision_id=f"void {slot}",
            owner=str(self._ctx.owner),
            at_ms=self._ctx.clock.now_ms(),
            slot=slot,
            reason=reason,
        )
        at = state.log.head + 1
        outcome = claim(self._ctx.storage, slot_path(at), encode_entry(void), void.decision_id, decision_id_of)
        if outcome.won:
            logger.warning("slot %s voids %s %s: %s", at, entry.action, entry.instant, reason)
        return outcome.won


def apply_properties(ctx: TableContext, entry: Properties, *, first: bool) -> None:
    """Fold an entry onto `hoodie.properties`, until the file says so.

    Raises:
        Internal: the file keeps changing under us.
    """
    for _ in range(10):
        try:
            current = read_properties(ctx.storage)
        except InvalidRequest:
            current = {}  # neither the file nor its backup: the table is being made
        wanted = {key: value for key, value in {**current, **entry.set}.items() if key not in entry.remove}
        if wanted == current:
            return
        write_properties(ctx.storage, wanted, ctx.clock.now_ms(), first=first and not current)
    raise Internal(f"{PROPERTIES_PATH} keeps changing while it is written", table=ctx.storage.uri)


def _void_reason(ctx: TableContext, state: TableState, entry: Complete) -> str | None:
    """Why a decided completion can never become visible: somebody without slots came between, on the timeline."""
    found = state.timeline.find(entry.instant, entry.action)
    if found is None or State.INFLIGHT not in found.states:
        return "its inflight file is gone: it was rolled back by a writer that does not know the commit log"
    undoing = rollback_of(ctx.storage, state.timeline, entry.instant)
    if undoing is not None:
        return f"rollback {undoing.time} undoes it: its writer does not know the commit log"
    for other in state.timeline.completed_writes:
        # What completed in an earlier slot has an earlier completion time, and later slots are applied later.
        if other.completion_time >= entry.completion_time:
            return f"{other.time} completed at {other.completion_time} without a slot"
    return None
