"""What every service of one table works with: its context, its state loader, and how it decides."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypedDict

from hudi_ops.concurrency.lease import BEAT_INTERVAL_S, beat
from hudi_ops.concurrency.transaction import Decided, Prepare, decide, finish_decided
from hudi_ops.context import TableContext
from hudi_ops.services.apply import TimelineApplier
from hudi_ops.timeline.commit_log import payload_folder
from hudi_ops.timeline.entries import Complete
from hudi_ops.timeline.state import CommitReader, StateLoader, TableState


class EntryFields(TypedDict):
    """Fields that every commit log entry carries."""

    table_id: str
    decision_id: str
    owner: str
    at_ms: int


@dataclass
class Session:
    """One process's work on one table; not safe for several threads at once."""

    ctx: TableContext
    commits: CommitReader = field(init=False)
    loader: StateLoader = field(init=False)
    applier: TimelineApplier = field(init=False)

    def __post_init__(self) -> None:
        self.commits = CommitReader(self.ctx.storage)
        self.loader = StateLoader(self.ctx.storage, self.commits)
        self.applier = TimelineApplier(self.ctx, self.loader)

    def decide(self, prepare: Prepare, purpose: str) -> Decided | None:
        """Take the next slot for the entry that `prepare` makes; see `concurrency.transaction.decide`."""
        return decide(self.ctx, self.loader, self.applier, prepare, purpose)

    def finish_decided(self) -> TableState:
        """Apply what is decided but unfinished; to be called with the table lock held."""
        return finish_decided(self.loader, self.applier)

    def entry(self, state: TableState, decision_id: str) -> EntryFields:
        """The common fields of an entry. A decision's id is the same for every try, by whoever makes it."""
        return EntryFields(
            table_id=state.log.table_id,
            decision_id=decision_id,
            owner=str(self.ctx.owner),
            at_ms=self.ctx.clock.now_ms(),
        )

    def keep(self, instant: str) -> AbstractContextManager[None]:
        """Renew an instant's lease until the context ends."""
        return self.ctx.beats.every(BEAT_INTERVAL_S, lambda: beat(self.ctx, instant))

    def drop_lost_payloads(self, instant: str, decided: Decided | None) -> None:
        """Remove the payloads of tries that lost their slot; the one that a slot names stays."""
        if decided is None or not isinstance(decided.entry, Complete):
            return
        for info in self.ctx.storage.list(payload_folder(instant)):
            if info.path != decided.entry.payload:
                self.ctx.storage.delete(info.path)

    def adopt(self, instant: str) -> None:
        """Put our name on the lease of an instant whose owner is gone."""
        beat(self.ctx, instant)
