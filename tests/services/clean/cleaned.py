"""Tables to clean: writes of a dict model with the state after each, and the data files that are left."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from tests.definitions import Definition
from tests.protocol.log_actors import timeline_of
from tests.tables import DEFINITION, START_MS, by_key, made, rows, table_of

PARTS = ("p0", "p1")


@dataclass
class Judged:
    """A table with a model of its rows; `past` has the rows after each completed write."""

    storage: MemoryStorage
    clock: ManualClock
    rows: dict[str, int] = field(default_factory=dict)
    past: dict[str, dict[str, int]] = field(default_factory=dict)
    count: int = 0

    @property
    def table(self) -> Table:
        return table_of(self.storage, self.clock, "writer")

    def write(self, *keys: int) -> str:
        """Upsert a new value of some keys, each in the partition of its parity; return the instant."""
        self.count += 1
        batch = rows(*((f"k{key}", PARTS[key % 2], self.count, self.count, None) for key in keys))
        instant = self.table.ingest(batch).instant
        assert instant is not None
        self.rows = {**self.rows, **{f"k{key}": self.count for key in keys}}
        self.past[instant] = self.rows
        return instant

    def add(self, key: str) -> None:
        """Write a new key into a partition of its own: no slice is superseded."""
        self.count += 1
        instant = self.table.ingest(rows((key, f"of-{key}", self.count, self.count, None))).instant
        assert instant is not None
        self.rows = {**self.rows, key: self.count}
        self.past[instant] = self.rows

    def compact(self) -> None:
        """Compact everything."""
        done = self.table.compaction.run(threshold=1)
        if done.instant is not None:
            self.past[done.instant] = self.rows

    def files(self) -> set[str]:
        """Paths of the data files."""
        return data_files(self.storage)

    def readable(self) -> list[str]:
        """Instants whose rows equal the model's; an instant that reads otherwise fails."""
        found = []
        for instant, wanted in self.past.items():
            try:
                got = by_key(self.table, as_of=instant)
            except InvalidRequest:
                continue
            assert got == wanted, instant
            found.append(instant)
        return found


def data_files(storage: Storage) -> set[str]:
    """Paths of the data files of a table."""
    return {
        info.path
        for info in storage.list("")
        if not info.path.startswith(".hoodie/") and ".hoodie_partition_metadata" not in info.path
    }


def judged(definition: Definition = DEFINITION, writes: int = 0, *keys: int) -> Judged:
    """A table after `writes` writes of all `keys`."""
    clock = ManualClock(START_MS, tick_ms=1)
    found = Judged(made(definition, clock=clock), clock)
    for _ in range(writes):
        found.write(*(keys or range(4)))
    return found


def cleans_of(storage: Storage) -> list[str]:
    """Request times of the completed cleans."""
    return [one.time for one in timeline_of(storage) if one.kind == "clean" and one.is_completed]
