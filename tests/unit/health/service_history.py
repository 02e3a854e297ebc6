"""Random histories of plans, cancels, index builds and dying writers."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hudi_ops.concurrency.lease.lease import lease_path
from hudi_ops.config.table import METADATA_PARTITIONS
from hudi_ops.errors import Busy, Conflict, InvalidRequest
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.timeline.settings.properties_file import load_config
from tests.fault_plans import DiesBefore
from tests.protocol.foreign_table import set_properties
from tests.tables import BY_HAND, LOGGED_WITH_METADATA, table_of
from tests.unit.health.aged import HOUR_MS, Aged, batch
from tests.unit.health.states_writers import silent_write

PARTITIONS = ("p0", "p1")
POLICIES = ("never", "cancellable", "after 6h", "after 3 instants")
INDEXES = ("bloom_filters", "record_index")


class History:
    """What processes of the past did to a table, one after the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        kind = self.dice.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
        self.aged = Aged(
            folder, replace(LOGGED_WITH_METADATA, table_type=kind), batch("p0", 1), batch("p1", 1), hours=60
        )
        self.plans: list[str] = []

    def step(self) -> None:
        move = self.dice.choice([
            self.ingest,
            self.ingest,
            self.plan,
            self.plan,
            self.cancel,
            self.run,
            self.index,
            self.die,
        ])
        with suppress(Busy, Conflict, InvalidRequest, Crash):
            move()
        self.aged.clock.advance_ms(self.dice.randrange(4 * HOUR_MS))

    def table(self, storage: Any = None) -> Any:
        storage = storage or open_storage(self.aged.path)
        after = self.dice.choice([1, 3, 1000])
        return table_of(
            storage, self.aged.clock, f"actor {self.dice.random()}", upkeep=BY_HAND, metadata_compact_after=after
        )

    def ingest(self) -> None:
        self.table().ingest(batch(self.dice.choice(PARTITIONS), self.dice.randrange(100)))

    def service(self, table: Any) -> tuple[Any, dict[str, Any]]:
        if table.config.table_type == "MERGE_ON_READ" and self.dice.random() < 0.7:
            return table.compaction, {"cancel": self.dice.choice(POLICIES)}
        return table.clustering, {"sort_by": "id", "rewrite": True, "on_overlap": "cancel"}

    def plan(self) -> None:
        api, request = self.service(self.table())
        made = api.plan(partitions=(f"part={self.dice.choice(PARTITIONS)}",), **request)
        self.plans += [made.instant] if made.instant is not None else []

    def cancel(self) -> None:
        for _ in range(self.dice.randint(1, 4)):  # several in a row starve a group
            if self.plans:
                self.table().cancel(self.plans.pop(), "it is random", force=True)
            self.plan()

    def run(self) -> None:
        self.service(self.table())[0].run()

    def index(self) -> None:
        indexing, names = self.table().indexing, [self.dice.choice(INDEXES)]
        if self.dice.random() < 0.3:
            indexing.plan(partitions=names)
        elif self.dice.random() < 0.7:
            indexing.run(partitions=INDEXES)
        else:
            indexing.drop(names)

    def die(self) -> None:
        """End before the slot of a write; its heartbeat is as old as the write, or a minute old."""
        before = {*self.leases()}
        dies = FaultyStorage(open_storage(self.aged.path), DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
        try:
            self.table(dies).ingest(batch("p0", 3))
        finally:
            for instant in {*self.leases()} - before:
                self.aged.date_back(instant, hours=self.dice.choice([0.01, 0.25, 5]))

    def leases(self) -> list[str]:
        return [info.name for info in open_storage(self.aged.path).list(".hoodie/.heartbeat")]

    def end(self) -> None:
        """Leave what would keep further writes from the table."""
        with suppress(Busy, Conflict, InvalidRequest):
            api, request = self.service(self.table())
            api.plan(**{**request, "cancel": self.dice.choice(["after 2 instants", "after 6h", "after 99h"])})
        listed = {*load_config(open_storage(self.aged.path)).metadata_partitions}
        if self.dice.random() < 0.3 and listed & {*INDEXES}:
            set_properties(open_storage(self.aged.path), {METADATA_PARTITIONS: ",".join(sorted(listed - {*INDEXES}))})
        if self.dice.random() < 0.3:
            self.aged.put(f"{TIMELINE_FOLDER}/{instant_of_ms(self.aged.clock.now_ms())}.compaction.requested")
        if self.dice.random() < 0.5:
            silent_write(self.aged)
        if self.dice.random() < 0.3:
            self.aged.put(lease_path(instant_of_ms(self.aged.clock.now_ms())))
