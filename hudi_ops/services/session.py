"""What every service of one table works with: its context, its state loader, and how it decides."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TypedDict

from hudi_ops.concurrency.conflicts import ConflictStrategy, Contender, strategy_of
from hudi_ops.concurrency.contenders import ContenderReader
from hudi_ops.concurrency.early import Watch
from hudi_ops.concurrency.lease import BEAT_INTERVAL_S, beat, drop_lease
from hudi_ops.concurrency.markers import delete_markers
from hudi_ops.concurrency.transaction import Decided, Prepare, decide, finish_decided
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.services.adopter import Adopter, Terms
from hudi_ops.services.apply import TimelineApplier
from hudi_ops.timeline.commit_log import POINTER_KEY, payload_folder
from hudi_ops.timeline.commit_metadata import CommitMetadata
from hudi_ops.timeline.entries import Cancel, Complete
from hudi_ops.timeline.footprint import Footprint
from hudi_ops.timeline.state import CommitReader, StateLoader, TableState

logger = logging.getLogger(__name__)


class EntryFields(TypedDict):
    """Fields that every commit log entry carries."""

    table_id: str
    decision_id: str
    owner: str
    at_ms: int


@dataclass
class Session:
    """One process's work on one table; not safe for several threads at once. `terms` count for tables of other programs.

    `gives_way` says whether a write lets older ones that overlap finish first: it does while it may be tried again.
    """

    ctx: TableContext
    terms: Terms = field(default_factory=Terms)
    conflicts: ConflictSettings = field(default_factory=ConflictSettings)
    gives_way: bool = field(default=False, init=False)
    strategy: ConflictStrategy = field(init=False)
    contenders: ContenderReader = field(init=False)
    adopter: Adopter = field(init=False)
    commits: CommitReader = field(init=False)
    loader: StateLoader = field(init=False)
    applier: TimelineApplier = field(init=False)

    def __post_init__(self) -> None:
        self.strategy = strategy_of(self.conflicts.strategy)
        self.commits = CommitReader(self.ctx.storage)
        self.contenders = ContenderReader(self.ctx.storage, self.commits)
        self.adopter = Adopter(self.ctx, self.commits, self.terms)
        self.loader = StateLoader(self.ctx.storage, self.commits, self.adopter)
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

    def watch(self, action: str, intent: Footprint) -> Watch:
        """The look-out of a write that is going to touch what `intent` says."""
        is_on = self.conflicts.early_detection
        mine = Contender("", action, intent, owner=str(self.ctx.owner))
        return Watch(self.ctx, self.contenders, mine, self.conflicts.wait_s, is_on, is_on and self.gives_way)

    def keep(self, instant: str) -> AbstractContextManager[None]:
        """Renew an instant's lease until the context ends."""
        return self.ctx.beats.every(BEAT_INTERVAL_S, lambda: beat(self.ctx, instant))

    def drop_lost_payloads(self, instant: str, decided: Decided | None) -> None:
        """Remove the payloads of tries that lost their slot; the one that a slot names stays."""
        if decided is None or not isinstance(decided.entry, Complete):
            return
        with _best_effort(instant):
            for info in self.ctx.storage.list(payload_folder(instant)):
                if info.path != decided.entry.payload:
                    self.ctx.storage.delete(info.path)

    def settle(self, instant: str) -> None:
        """Clear the markers and the lease of an instant that completed; to be called once its lease is no longer renewed."""
        with _best_effort(instant):
            delete_markers(self.ctx.storage, instant)
            drop_lease(self.ctx, instant)

    def newest_extra(self, state: TableState) -> Mapping[str, str]:
        """Extra metadata of the newest commit of ours; from the log's payloads once a foreign archiver took them away."""
        newest = self.commits.newest_with(state.timeline, POINTER_KEY)
        if newest is not None:
            return newest.extra
        for log in (state.log, self.loader.whole_log()):
            for _, entry in reversed(list(log.completes() if log is not None else ())):
                if entry.action != "rollback":
                    return CommitMetadata.from_bytes(self.ctx.storage.get(entry.payload), entry.payload).extra
        return {}

    def was_cancelled(self, state: TableState, instant: str) -> bool:
        """Whether a CANCEL slot names an instant; reads the whole log when its newest part does not tell."""
        fate = state.log.fate(instant)
        if fate is None and state.log.base > 0:
            whole = self.loader.whole_log()
            fate = whole.fate(instant) if whole is not None else None
        return isinstance(fate[1] if fate else None, Cancel)

    def take_lease(self, instant: str) -> None:
        """Put our name on the lease of an instant whose owner is gone."""
        beat(self.ctx, instant)


@contextmanager
def _best_effort(instant: str) -> Iterator[None]:
    # What is cleared here is settled already: a failure must not make a landed write look failed. `recover` clears it later.
    try:
        yield
    except HudiOpsError as error:
        logger.warning("leftovers of %s stay until the next ingest: %s", instant, error)
