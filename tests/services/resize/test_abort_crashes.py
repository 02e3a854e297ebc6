"""Crash and fail the cancel of a resize at every storage operation: another process ends it, and nothing of the resize stays.

The resize has child logs of completed writers, of one that died and of one that runs, and is begun half-way or not at all. After the
end everything is archived and every key is updated: rows that hide in a file of the resize would appear then, or be there twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from tests.bounds import SOAK, bound
from tests.fault_plans import MoveBefore
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.services.resize.aborted import LATE_MS, MODEL, PAYLOAD, cancel, child_logs, finish, planned
from tests.services.resize.ringed_tables import opened
from tests.tables import rows

POINTS, WRITES = 25, 12
"""Storage operations of a cancel, at least, and how many of them change something."""
MOST = bound(4, 12, 1_000)
RUNNING = rows(("k2", "p0", 702, 700, None), ("k8", "p0", 0, 700, True), ("k31", "p1", 731, 700, None))
AFTER_RUNNING = {key: value for key, value in MODEL.items() if key != "k8"} | {"k2": 702, "k31": 731}


def late() -> ManualClock:
    return ManualClock(LATE_MS, tick_ms=1)


@pytest.mark.parametrize("fault", [*CRASHES, *ERRORS], ids=str)
@pytest.mark.parametrize("is_begun", [False, True], ids=["planned", "begun"])
@pytest.mark.parametrize("metadata", [False, True], ids=["no metadata table", "metadata table"])
def test_a_cancel_goes_wrong_at_every_storage_operation(metadata: bool, is_begun: bool, fault: Fault) -> None:
    base, instant = planned(is_begun=is_begun, metadata=metadata)
    assert child_logs(base, instant)
    what = f"a cancel of a resize that is {'begun' if is_begun else 'planned'}{', metadata table' * metadata}"
    run = lambda storage, clock: cancel(storage, clock, instant)  # noqa: E731 - the sweep calls it
    for left in fault_sweep(base, run, fault, what, points=POINTS, writes=WRITES, clock=late, most=MOST):
        finish(left.storage, left.clock, instant, MODEL, left.story, left.land)
