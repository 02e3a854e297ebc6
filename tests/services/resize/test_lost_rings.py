"""Ring files that were lost: writes are refused before they change anything, and `verify` names the file."""

from __future__ import annotations

import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.index.ring import INITIAL
from hudi_ops.index.ring_files import ring_folder
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.verify import verify_table
from tests.services.resize.ringed_tables import CONSISTENT
from tests.tables import BY_HAND, START_MS, made, rows, table_of

PATH = "part=p0"


def batch(value: int) -> object:
    return rows(*((f"k{number:02}", "p0", number, value, None) for number in range(20)))


class World:
    """A table with hash rings, and a process for each call."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS, tick_ms=1)
        self.storage: MemoryStorage = made(CONSISTENT, clock=self.clock)
        self.table().ingest(batch(1))

    def table(self) -> Table:
        self.clock.advance_ms(1_000)
        return table_of(self.storage, self.clock, f"process {self.clock.now_ms()}", upkeep=BY_HAND)

    def lose(self, *, initial: bool) -> None:
        """Delete the ring files of the partition, or those after the first."""
        for info in self.storage.list(ring_folder(PATH)):
            if initial or not info.name.startswith(INITIAL):
                self.storage.delete(info.path)

    def rings(self) -> list[str]:
        return [info.name for info in self.storage.list(ring_folder(PATH))]

    def findings(self) -> set[tuple[str, str]]:
        found = verify_table(self.storage, deep=True, clock=self.clock).findings
        return {(one.severity, one.invariant) for one in found if one.severity != "info"}


@pytest.mark.parametrize("initial", [False, True], ids=["the newer one", "all"])
def test_a_partition_without_groups_whose_newer_ring_was_lost_takes_no_rows(initial: bool) -> None:
    """An older ring, and a new first one, name groups that were replaced: no reader would see the rows."""
    world = World()
    world.table().delete_partition([PATH])
    world.lose(initial=initial)
    left = world.rings()
    assert world.findings() == {("error", "ring-missing")}
    with pytest.raises(Corrupt, match=f"partition {PATH} lacks the hash ring of"):
        world.table().ingest(batch(2))
    assert world.rings() == left
    assert world.table().read().num_rows == 0


def test_a_partition_with_groups_whose_rings_were_lost_takes_no_rows_and_gets_no_first_ring() -> None:
    world = World()
    world.lose(initial=True)
    for _ in range(2):
        assert world.findings() == {("error", "ring-missing")}
        with pytest.raises(Corrupt, match=f"partition {PATH} has file groups and no hash ring") as refused:
            world.table().ingest(batch(2))
        assert "restore the file" in refused.value.next_step
        assert world.rings() == []
    assert world.table().read().num_rows == 20


def test_a_partition_that_was_emptied_takes_rows_by_its_new_ring() -> None:
    world = World()
    world.table().delete_partition([PATH])
    world.table().ingest(batch(2))
    assert world.table().read().num_rows == 20
    assert world.findings() == set()
