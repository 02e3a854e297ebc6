"""A repair that goes wrong at any storage operation: the same call of another process ends it, and no row changes.

Each damage of `tests/unit/cli/table_damages.py` that a repair ends is repaired by a process that dies, or whose storage fails, at
one operation after another. Then another process repairs; `verify --deep` finds nothing and the rows are those before the damage.
"""

from __future__ import annotations

import itertools
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.services.repair.repair import repairable
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Fault, FaultyStorage
from hudi_ops.verify import verify_table
from tests.bounds import SOAK, bound
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.tables import table_of
from tests.unit.cli.healthy import REPAIRED, ROUNDS_MAX, findings, make_healthy, sorted_rows
from tests.unit.cli.table_damages import DAMAGES

MOST = bound(1, 2, 1_000)
"""Number of operations that go wrong, of each damage."""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table that each test copies."""
    return make_healthy(tmp_path_factory.mktemp("healthy") / "t")


def repair(storage: Storage, clock: ManualClock, actor: str) -> None:
    """Repair what `verify` finds, in a process of its own."""
    table_of(storage, clock, actor).repair(abandoned=True)


def left_findings(storage: Storage, clock: ManualClock) -> list[str]:
    """Return the findings that a repair should have ended."""
    found = verify_table(storage, deep=True, index=True, clock=clock).findings
    return [str(one) for one in found if one.severity == "error" or one.invariant in repairable()]


def now() -> ManualClock:
    """Return a clock at this moment: the table, and its damage, have times of the machine."""
    return ManualClock(time.time_ns() // 1_000_000, tick_ms=1)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, marks=[pytest.mark.quick] if name == "file that a rollback left" else [])
        for name in sorted(REPAIRED)
        for fault in (
            [*CRASHES, *ERRORS] if SOAK else [(Fault.CRASH_AFTER, Fault.ERROR_BEFORE)[sorted(REPAIRED).index(name) % 2]]
        )
    ],
)
def test_a_repair_that_goes_wrong_anywhere_is_ended_by_another(
    name: str, fault: Fault, healthy: Path, tmp_path: Path
) -> None:
    damage, damaged = DAMAGES[name], tmp_path / "damaged"
    shutil.copytree(healthy, damaged)
    damage.prepare(damaged)
    before = sorted_rows(damaged)
    damage.do(damaged)
    assert findings(damaged) & set(damage.finds.split()), "the damage shows"
    numbers = itertools.count()
    places: list[Path] = []

    def base(_: ManualClock) -> LocalStorage:
        shutil.rmtree(places.pop(), ignore_errors=True) if places else None
        places.append(tmp_path / "tables" / str(next(numbers)) / "t")
        shutil.copytree(damaged, places[-1])
        return LocalStorage(str(places[-1]))

    def first(storage: FaultyStorage, clock: ManualClock) -> None:
        repair(storage, clock, "first")

    runs = 0
    for left in fault_sweep(base, first, fault, f"repair of {name}", writes=1, most=MOST, clock=now):  # type: ignore[arg-type]
        left.land()
        left.clock.advance_ms(EXPIRY_MS + 1_000)
        assert_ended(left.storage, left.clock, before, f"{name}, {left.story}")
        runs += 1
    assert runs >= 1


def assert_ended(storage: Storage, clock: ManualClock, before: pa.Table, story: str) -> None:
    """Repair in another process until nothing is found, then compare the rows."""
    for _ in range(ROUNDS_MAX):
        if not left_findings(storage, clock):
            break
        repair(storage, clock, "second")
        clock.advance_ms(EXPIRY_MS + 1_000)
    assert left_findings(storage, clock) == [], story
    assert table_of(storage, clock, "reader").read().sort_by("id").equals(before), story
