"""Tables on disk with what cleans and archives keep on record, written by processes that do neither by themselves."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hudi_ops.clock import SystemClock
from hudi_ops.concurrency.attempt import begin
from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.config.upkeep_settings import ArchiveSettings, CleanSettings, UpkeepSettings
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from tests.definitions import create_table
from tests.tables import BY_HAND, DEFINITION, rows, table_of

RETAIN_TWO = UpkeepSettings(
    CleanSettings(automatic=True, retain=2), ArchiveSettings(automatic=True, keep_min=3, keep_max=4)
)
HOUR_MS = 3_600_000


@dataclass
class Kept:
    """A table on disk and the clock of its processes."""

    path: str
    clock: ManualClock
    is_logged: bool = False
    count: int = 0

    def table(self, actor: str = "writer") -> Table:
        """The table in a process that neither cleans nor archives by itself."""
        return table_of(open_storage(self.path), self.clock, actor, upkeep=BY_HAND)

    def write(self, *parts: int, **keywords: Any) -> str:
        """Upsert four rows of partitions; return the instant."""
        self.count += 1
        batch = rows(*((f"k{n}", f"p{part}", self.count, self.count, None) for part in parts for n in range(4)))
        instant = self.table().ingest(batch, **keywords).instant
        assert instant is not None
        return instant

    def begin(self) -> str:
        """Begin a write whose process dies at once; return the instant."""
        session = self.table("dead")._session
        instant = begin(session.ctx, session.loader, "deltacommit" if self.is_logged else "commit").instant
        self.date_back(instant)
        return instant

    def date_back(self, instant: str) -> None:
        """Let the heartbeat of an instant be of now, by the clock of the table's processes."""
        beaten_s = self.clock.now_ms() / 1000
        os.utime(Path(self.path) / lease_path(instant), (beaten_s, beaten_s))

    def put_pending(self, after: str) -> str:
        """Put a pending write of another program right after an instant; return its instant. It has no heartbeat."""
        instant = f"{int(after) + 1:017d}"
        for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
            open_storage(self.path).put(f".hoodie/timeline/{name}", b"")
        return instant


def kept_table(
    folder: Path, name: str = "kept", upkeep: UpkeepSettings = RETAIN_TWO, hours: float = 100, **definition: Any
) -> Kept:
    """A new table, made some hours ago, whose cleans and archives keep what `upkeep` says."""
    found = Kept(str(folder / name), ManualClock(SystemClock().now_ms() - round(hours * HOUR_MS), tick_ms=1))
    found.is_logged = definition.get("table_type") == "MERGE_ON_READ"
    creator = table_of(open_storage(found.path), found.clock, "creator", upkeep=upkeep)
    create_table(creator._session, replace(DEFINITION, **definition))
    return found


def move(kept: Kept, chance: random.Random) -> None:
    """Change the table by one action."""
    table = kept.table(f"process-{chance.randrange(10**6)}")
    parts = chance.sample(range(3), chance.randrange(1, 4))
    writes = [one.time for one in table._session.loader.load().timeline.completed_writes]
    moves: list[Callable[[], Any]] = [lambda: kept.write(*parts)] * 8
    moves += [lambda: kept.write(parts[0], operation="insert_overwrite")] * 2
    moves += [lambda: table.savepoints.create(chance.choice(writes[-3:]))]
    moves += [lambda: table.holds.take(chance.choice(writes[-4:]), seconds=chance.choice([60, 3_600 * 9]))]
    moves += [lambda: table.savepoints.delete(table.savepoints.list()[0].instant)]
    moves += [lambda: table.clean.run(), lambda: table.archive.run(), *[lambda: kept.clock.advance_ms(2 * HOUR_MS)] * 3]
    if kept.is_logged:
        moves += [lambda: table.compaction.plan(threshold=1), lambda: table.compaction.run(threshold=1)] * 2
    with suppress(Busy, Conflict, InvalidRequest, IndexError):  # of an action that finds nothing, or is refused now
        chance.choice(moves)()
