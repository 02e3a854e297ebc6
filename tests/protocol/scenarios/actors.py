"""Our writers as actors: the real services over a context that a scheduler steps. Each returns what it was told had landed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.write_settings import METADATA_COMPACT_AFTER
from hudi_ops.context import TableContext
from hudi_ops.services.write.batch import Batch
from hudi_ops.services.write.ingest import ingest
from hudi_ops.services.write.operations import DELETE_PARTITION
from hudi_ops.services.write.remove import remove
from hudi_ops.services.write.retry import retried
from hudi_ops.timeline.log.entries import Entry, Properties
from hudi_ops.timeline.state import TableState
from tests.protocol.scenarios.worlds import Job


@dataclass(frozen=True)
class Landed:
    """A write that reported success: its instant, and what it did."""

    instant: str
    job: Job


@dataclass(frozen=True)
class Writes:
    """Runs a job as `Table` does: a conflict starts again with a new instant, unless `once`; without a look-out if not `early`."""

    job: Job
    once: bool = False
    early: bool = True
    compacts_metadata: bool = False
    """Whether it compacts the metadata table after each write."""

    def __call__(self, ctx: TableContext) -> Landed:
        """Do it; errors go through."""
        after = 1 if self.compacts_metadata else METADATA_COMPACT_AFTER
        # The simulated Apache Hudi cleans failed writes lazily: what one leaves without a heartbeat blocks nobody.
        conflicts = ConflictSettings(early_detection=self.early, foreign_without_heartbeat="pass")
        return self.of(Session(ctx, conflicts=conflicts, metadata_compact_after=after))

    def of(self, session: Session) -> Landed:
        """Do it in a session that is given."""
        instant = self._attempt(session, 0.0) if self.once else retried(session, lambda at: self._attempt(session, at))
        return Landed(instant, self.job)

    def _attempt(self, session: Session, started_s: float) -> str:
        if self.job.operation == "delete_partition":
            result = remove(session, DELETE_PARTITION, list(self.job.paths), started_s)
            return result.instant or ""
        batch = Batch(self.job.kind, rows=self.job.rows)
        return ingest(session, batch, session.ctx.engine, "", started_s).instant or ""


@dataclass(frozen=True)
class Recovers:
    """What every writer does first, and nothing more: finishes what was decided, rolls back the dead, sweeps."""

    def __call__(self, ctx: TableContext) -> None:
        """Do it."""
        recover(Session(ctx))


@dataclass(frozen=True)
class Later:
    """Another actor's doing, once a lease that nobody renews has run out."""

    run: Callable[[TableContext], object]

    def __call__(self, ctx: TableContext) -> object:
        """Wait, then do it."""
        ctx.clock.sleep_s(EXPIRY_MS / 1000 + 1)
        return self.run(ctx)


@dataclass(frozen=True)
class Sets:
    """Decides a key of `hoodie.properties`, and sees to it that the file says so."""

    key: str

    def __call__(self, ctx: TableContext) -> str:
        """Do it, once; returns the key."""
        session = Session(ctx)

        def prepare(state: TableState, slot: int) -> Entry:
            fields = session.entry(state, f"set {self.key}")
            return Properties(
                **fields,
                set={self.key: "true"},
                facts=state.log.properties.facts,
                settings=state.log.properties.settings,
            )

        session.decide(prepare, f"set {self.key}")
        return self.key
