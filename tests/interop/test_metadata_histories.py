"""Random histories of our tables with a metadata table, processes dying in them, in front of both peers.

The same steps as in tests/property/test_metadata_histories.py, against a dict. Now and then a process dies at a storage operation,
and another one does the step again once the lease is over. In the middle and at the end the table is put on disk, and read: by the
`hudi` package, by Apache Hudi with its metadata table and data skipping, and with neither; whole, and filtered on a column that has
statistics.

To repeat one: HUDI_OPS_SEED=7 bin/test tests/interop/test_metadata_histories.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.config.table import TableType
from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultPlan, FaultyStorage
from tests.definitions import create_table
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer
from tests.interop.compare import assert_same_rows
from tests.property.metadata_history import PARTITIONS, Step, do
from tests.protocol.metadata_table import faults_of, read_rows, table_of
from tests.tables import DEFINITION, START_MS

SEED = int(os.environ.get("HUDI_OPS_SEED", "0"))
SEEDS = range(SEED, SEED + (12 if os.environ.get("HUDI_OPS_SOAK") else 1))
STEPS = 14


class History:
    """One table in memory, its model, and the dice."""

    def __init__(self, seed: int, table_type: TableType) -> None:
        self.dice = random.Random(f"{seed} {table_type}")
        self.clock = ManualClock(START_MS, tick_ms=1)
        self.storage = MemoryStorage("history", self.clock)
        self.model: dict[str, int] = {}
        self.said: list[str] = []
        self.deaths = 0
        self.after = self.dice.choice((1, 2, 3))
        table = table_of(self.storage, self.clock, "creator", self.after)
        create_table(table._session, replace(DEFINITION, table_type=table_type, metadata=True))
        self.play(("upsert", [(key, key, False) for key in range(6)]), 1)

    def step(self) -> Step:
        """A random one, as the property test makes them."""
        dice = self.dice
        kind = dice.choice(
            ["upsert"] * 4
            + ["insert_overwrite", "delete", "build", "drop", "compact", "delete_partition", "compact_metadata"]
        )
        if kind in {"upsert", "insert_overwrite", "delete"}:
            keys = dice.sample(range(12), dice.randint(1, 6))
            return kind, [(key, dice.randint(0, 99), dice.random() < 0.3) for key in keys]
        if kind == "build":
            return kind, dice.sample(PARTITIONS, dice.randint(1, 3))
        return kind, dice.choice([["record_index"], ["bloom_filters"]]) if kind == "drop" else None

    def play(self, step: Step, number: int) -> None:
        """One step; or two tries at it, the first of which dies."""
        self.said.append(f"{step[0]}")
        if self.dice.random() < 0.4:
            rehearsal, after = FaultyStorage(self.storage.copy()), dict(self.model)
            self._do(rehearsal, after, step, number)
            at = self.dice.randint(1, max(1, len(rehearsal.history)))
            fault = self.dice.choice((Fault.CRASH_BEFORE, Fault.CRASH_AFTER))
            try:
                self._do(FaultyStorage(self.storage, FaultPlan.at(at, fault)), dict(self.model), step, number)
            except Crash:
                self.deaths += 1
                self.said[-1] += f" died at {rehearsal.history[at - 1]}"
            self.clock.advance_ms(EXPIRY_MS + 1_000)
            if step[0] == "delete_partition":
                self._delete_again(after, step, number)
                return
        self._do(self.storage, self.model, step, number)
        self.clock.advance_ms(400_000 if number % 3 == 0 else 1_000)

    def _delete_again(self, after: dict[str, int], step: Step, number: int) -> None:
        """A partition that is not there any more is refused: then it was decided before the process died, and is finished now."""
        try:
            self._do(self.storage, self.model, step, number)
        except InvalidRequest:
            self.model = after

    def _do(self, storage: Storage, model: dict[str, int], step: Step, number: int) -> None:
        # A table opened anew: another process.
        do(table_of(storage, self.clock, f"writer {len(self.said)} {self.deaths}", self.after), model, step, number)


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_everybody_reads_what_a_random_history_left(
    table_type: TableType, seed: int, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]
) -> None:
    history = History(seed, table_type)
    for number in range(2, STEPS + 1):
        history.play(history.step(), number)
        if number in {STEPS // 2, STEPS}:
            said = "; ".join(history.said)
            assert read_rows(history.storage, history.clock) == history.model, said
            assert [one for one in faults_of(history.storage, history.clock) if one.severity == "error"] == [], said
            check(history, tmp_path / str(number), apache_hudi, hudi_rs)
    print(f"\nseed {seed}, {table_type}: {history.deaths} deaths; {'; '.join(history.said)}")


def check(history: History, path: Path, apache_hudi: HudiPeer, hudi_rs: Callable[..., pa.Table]) -> None:
    """Every peer reads the model's rows."""
    said = "; ".join(history.said)
    ours = table_of(history.storage, history.clock, "reader").read(meta_columns=True)
    history.storage.dump(path)
    readers: list[Callable[[Path], pa.Table]] = [hudi_rs] if history.model else []  # of no rows it has no batch
    readers += [
        lambda at: apache_hudi.read(at, options=BELIEVED),
        lambda at: apache_hudi.read(at, options=WITHOUT_METADATA),
    ]
    for read in readers:
        assert_same_rows(read(path), ours, with_meta=True)
    for value in sorted({0, *history.model.values()})[::3]:
        wanted = sorted(key for key, held in history.model.items() if held >= value)
        found = apache_hudi.read(path, columns=["id"], where=f"value >= {value}", options=BELIEVED)
        assert sorted(found["id"].to_pylist()) == wanted, f"value >= {value}: {said}"
