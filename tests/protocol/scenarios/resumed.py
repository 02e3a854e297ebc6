"""Actors whose session has written before: they set out from what that left, and do not read the table first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hudi_ops.commit.session import Session
from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.context import TableContext
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.definitions import create_table
from tests.protocol.scenarios.actors import Landed, Writes
from tests.protocol.scenarios.worlds import DEFINITION, HELD, at, rows_of
from tests.tables import NOW_MS, START_MS, table_of


@cache
def _written() -> tuple[MemoryStorage, Session]:
    clock = ManualClock(START_MS)
    storage = MemoryStorage("small", clock)
    table = table_of(storage, clock, "creator")
    create_table(table._session, DEFINITION)
    table.ingest(rows_of(HELD))
    return storage, table._session


def written_table() -> MemoryStorage:
    """The small table, as the session left it that `Resumes` goes on with."""
    return at(_written()[0], NOW_MS)


@dataclass(frozen=True)
class Resumes(Writes):
    """A write of a session that has written already, `idle_s` seconds ago."""

    idle_s: float = 1.0

    def __call__(self, ctx: TableContext) -> Landed:
        """Do it; errors go through."""
        before = _written()[1]
        session = Session(ctx, conflicts=ConflictSettings(early_detection=self.early, foreign_without_heartbeat="pass"))
        session.loader._log, session.loader._left = before.loader._log, before.loader._left
        session.commits._read, session.commits._put = dict(before.commits._read), before.commits._put
        session.memory.is_clean, session.memory.recovered_s = True, ctx.clock.monotonic_s() - self.idle_s
        return self.of(session)
