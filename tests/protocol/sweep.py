"""At which of a run's storage operations a sweep has it go wrong: at all in a soak, else at those that make a difference.

What a crashed process leaves is what it had changed: after one change, before the next, and at every read between them it is the
same. What a read that fails does comes in kinds, not in numbers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hudi_ops.testing.faults import Fault

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
_CHANGES = ("put:", "put_if_absent:", "delete:")


def changes(history: Sequence[str]) -> list[int]:
    """Numbers of the operations that change something, by the points of an undisturbed run."""
    return [number for number, point in enumerate(history, 1) if point.startswith(_CHANGES)]


def visited(history: Sequence[str], fault: Fault) -> list[int]:
    """Numbers of the operations that go wrong in this way, a run each.

    The plain run crashes after every change, and before every third; it has every change fail without effect, and every fourth
    operation beside them.

    Args:
        history: points of an undisturbed run, `operation:path`, as `FaultyStorage.history` has them.
        fault: the way.
    """
    able = [number for number, point in enumerate(history, 1) if fault.applies_to(point.partition(":")[0])]
    if SOAK:
        return able
    changing = changes(history)
    if fault is Fault.CRASH_AFTER:
        return changing
    if fault is Fault.CRASH_BEFORE:
        return changing[::3]
    if fault is Fault.ERROR_BEFORE:
        return sorted({*changing, *able[::4]})
    return able
