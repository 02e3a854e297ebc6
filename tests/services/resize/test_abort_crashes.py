"""Crash and fail the cancel of a resize at every storage operation: another process ends it, and nothing of the resize stays.

The resize has child logs of completed writers, of one that died and of one that runs, and is begun half-way or not at all. After
the end everything is archived and every key is updated: rows that hide in a file of the resize would appear then.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hudi_ops.errors import HudiOpsError
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from tests.bounds import SOAK, bound
from tests.fault_plans import MoveBefore
from tests.protocol.sweep import CRASHES, ERRORS, fault_sweep
from tests.services.resize.aborted import LATE_MS, MODEL, PAYLOAD, cancel, finish, planned
from tests.services.resize.hand_plans import child_logs
from tests.services.resize.ringed_tables import opened
from tests.tables import TIMELINE, rows

POINTS, WRITES = 80, 20
"""Storage operations of a cancel, at least, and how many of them change something."""
CHANGED = (*range(10, 24, 2), 31)
RUNNING = rows(*((f"k{n}", f"p{n % 2}", 700 + n, 700, None) for n in CHANGED), ("k8", "p0", 0, 700, True))
AFTER_RUNNING = {key: value for key, value in MODEL.items() if key != "k8"} | {f"k{n}": 700 + n for n in CHANGED}
FAULTS = [*CRASHES, *ERRORS]


def late() -> ManualClock:
    return ManualClock(LATE_MS, tick_ms=1)


EVERY = [(metadata, is_begun, fault) for metadata in (False, True) for is_begun in (False, True) for fault in FAULTS]
CASES = [
    (metadata, is_begun, fault)
    for metadata, is_begun, fault in EVERY
    if SOAK or (metadata and is_begun) or (not metadata and not is_begun and fault in CRASHES)
]
"""Whether there is a metadata table and the resize is begun, and the fault. The other tiers leave out most plain cases."""


def name_of(case: tuple[bool, bool, Fault]) -> str:
    metadata, is_begun, fault = case
    return f"{'begun' if is_begun else 'planned'}-{'metadata' if metadata else 'plain'}-{fault.name}"


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=[pytest.mark.quick] if case == (True, True, Fault.CRASH_AFTER) else [], id=name_of(case)
        )
        for case in CASES
    ],
)
def test_a_cancel_goes_wrong_at_every_storage_operation(case: tuple[bool, bool, Fault]) -> None:
    metadata, is_begun, fault = case
    base, instant = planned(is_begun=is_begun, metadata=metadata)
    assert len(child_logs(base, instant)) == 7, "of two completed writers, and of the dead one"

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        cancel(storage, clock, instant)

    most = bound(3, 7 if fault is Fault.CRASH_AFTER and is_begun else 3, 1_000)
    for left in fault_sweep(
        base, run, fault, f"a cancel, {name_of(case)}", points=POINTS, writes=WRITES, clock=late, most=most
    ):
        finish(left.storage, left.clock, instant, MODEL, left.story, left.land)


def beside(writer_at: str, instant: str) -> Callable[[FaultyStorage, ManualClock], None]:
    """A cancel in the moment in which a running writer comes to a point; the writer then goes on, and completes."""

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        raised: list[HudiOpsError] = []

        def move() -> None:
            try:
                cancel(storage, clock, instant)
            except Crash:
                assert storage.dead
            except HudiOpsError as error:
                raised.append(error)

        plan = MoveBefore(writer_at.format(instant), move)
        assert opened(FaultyStorage(storage.inner, plan), "running", clock).ingest(RUNNING).instant
        assert plan.moved
        if raised:
            raise raised[0]

    return run


WRITER_AT = {"before its child logs": "_{}.log.", "before its slot": PAYLOAD}


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", FAULTS if SOAK else [Fault.CRASH_AFTER], ids=str)
@pytest.mark.parametrize("writer_at", WRITER_AT.values(), ids=WRITER_AT)
def test_a_writer_runs_on_beside_a_cancel_that_goes_wrong(writer_at: str, fault: Fault) -> None:
    base, instant = planned(is_begun=False, metadata=True)
    run, most = beside(writer_at, instant), bound(3, 4, 1_000)
    for left in fault_sweep(base, run, fault, "a cancel beside a writer", points=POINTS, clock=late, most=most):
        finish(left.storage, left.clock, instant, AFTER_RUNNING, left.story, left.land)


@pytest.mark.full("goes wrong at each of many points")
@pytest.mark.parametrize("fault", FAULTS if SOAK else CRASHES, ids=str)
def test_a_cancel_beside_apache_hudi_goes_wrong_at_every_storage_operation(fault: Fault) -> None:
    base, instant = planned(is_begun=False, metadata=False, is_shared=True)
    requested = f"delete:{TIMELINE}/{instant}.clustering.requested"

    def run(storage: FaultyStorage, clock: ManualClock) -> None:
        cancel(storage, clock, instant)
        slot = next(point for point in storage.history if point.startswith("put_if_absent:.hoodie/.commit_log/0"))
        assert storage.history.index(requested) < storage.history.index(slot), "it is withdrawn before its CANCEL"

    most = bound(3, 4, 1_000)
    what = "a cancel beside Apache Hudi"
    for left in fault_sweep(base, run, fault, what, points=POINTS, writes=WRITES, clock=late, most=most):
        finish(left.storage, left.clock, instant, MODEL, left.story, left.land)
