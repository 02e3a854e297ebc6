"""Interleavings by hand: what somebody does right before one storage operation of somebody else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from hudi_ops.clock import Clock
from hudi_ops.context import TableContext
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.faults import Crash, Fault, FaultyStorage
from hudi_ops.testing.simulated import simulated_context
from tests.protocol.scenarios.check import Outcome


class Before:
    """A fault plan without faults: makes a move before the operation of a number, or before the first one at a point."""

    def __init__(self, where: int | str, move: Callable[[], object]) -> None:
        self._where = where
        self._move = move
        self.point = ""

    def fault_at(self, number: int, point: str) -> Fault | None:
        """Never a fault; the move is made once."""
        is_here = number == self._where if isinstance(self._where, int) else point.startswith(self._where)
        if is_here and not self.point:
            self.point = point
            self._move()
        return None


class _DiesAt:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def fault_at(self, number: int, point: str) -> Fault | None:
        return Fault.CRASH_BEFORE if re.match(self._pattern, point) else None


def die_at(storage: MemoryStorage, actor: str, run: Callable[[TableContext], object], at: str) -> None:
    """Let an actor's process end right before its first operation whose point begins with a pattern."""
    faulty = FaultyStorage(storage, _DiesAt(at))
    with contextlib.suppress(Crash):
        run(simulated_context(faulty, clock_of(storage), actor))
    assert faulty.dead, f"{actor} never came to {at}"


def context(storage: MemoryStorage, actor: str) -> TableContext:
    """An actor's context, with a lock that nobody else knows: as if it had lost the table's without noticing."""
    return simulated_context(storage, clock_of(storage), actor)


def clock_of(storage: MemoryStorage) -> Clock:
    """The clock of a scenario's storage."""
    assert storage._clock is not None
    return storage._clock


def outcome_of(run: Callable[[], object]) -> Outcome:
    """What an actor would have told."""
    try:
        return Outcome(result=run())
    except HudiOpsError as error:
        return Outcome(error=error)


def disturbed(
    storage: MemoryStorage,
    actor: str,
    run: Callable[[TableContext], object],
    where: int | str,
    move: Callable[[], object],
) -> tuple[Outcome, str]:
    """Run an actor with a move in the middle; returns its outcome, and the point at which the move was made."""
    plan = Before(where, move)
    ctx = simulated_context(FaultyStorage(storage, plan), clock_of(storage), actor)
    return outcome_of(lambda: run(ctx)), plan.point
