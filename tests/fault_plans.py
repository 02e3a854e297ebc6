"""Fault plans: the process dies at a point of its own, or another makes a move before it.

A point is a part of `operation:path`, or, after `^`, its beginning: `put:part=` is in `open_input:part=`, too.
"""

from __future__ import annotations

from collections.abc import Callable

from hudi_ops.testing.faults import Fault


def is_at(point: str, found: str) -> bool:
    """Return whether an operation is at a point."""
    return found.startswith(point[1:]) if point.startswith("^") else point in found


class MoveBefore:
    """A plan without faults: before the first operation at a point, another process makes a move."""

    def __init__(self, point: str, move: Callable[[], object]) -> None:
        self._is_chosen: Callable[[int, str], bool] = lambda _, found: is_at(point, found)
        self._move = move
        self.moved_at = ""

    @classmethod
    def at(cls, number: int, move: Callable[[], object]) -> MoveBefore:
        """Before the operation of this number."""
        plan = cls("", move)
        plan._is_chosen = lambda found, _: found == number
        return plan

    @property
    def moved(self) -> bool:
        """Return whether the move was made."""
        return bool(self.moved_at)

    def fault_at(self, number: int, point: str) -> Fault | None:
        if not self.moved_at and self._is_chosen(number, point):
            self.moved_at = point
            self._move()
        return None


class DiesBefore:
    """The process ends right before its first operation at a point, or the one of this number there."""

    def __init__(self, point: str, which: int = 1, fault: Fault = Fault.CRASH_BEFORE) -> None:
        self._point, self._left, self._fault = point, which, fault

    def fault_at(self, number: int, point: str) -> Fault | None:
        self._left -= is_at(self._point, point)
        return self._fault if is_at(self._point, point) and self._left <= 0 else None


class DiesBehind:
    """The process ends right before an operation at the second point that comes after one at the first."""

    def __init__(self, first: str, second: str) -> None:
        self._points = [first, second]

    def fault_at(self, number: int, point: str) -> Fault | None:
        if self._points[0] in point:
            if len(self._points) == 1:
                return Fault.CRASH_BEFORE
            del self._points[0]
        return None
