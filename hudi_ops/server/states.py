"""Hold the last states of a table, and find the one that a digest names.

A state is a view at one reading of the timeline. Between two syncs there is a state after each instant that completed, in the
order of completion: a caller may have listed the timeline at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.completed import changing, digest_above
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State
from hudi_ops.view.columns.table_view import View

_serials = count(1)


@dataclass(frozen=True, eq=False)
class HeldState:
    """A view, and the completed instants that may have changed its files.

    Attributes:
        view: its commits are read: no file is left open.
        completed: these instants, from the start of the oldest held state on.
    """

    view: View
    completed: frozenset[Instant]
    serial: int = field(default_factory=lambda: next(_serials))

    @property
    def start(self) -> str:
        """Start of its timeline."""
        return self.view.timeline.start

    @cached_property
    def replaced(self) -> dict[str, list[tuple[str, str, str]]]:
        """Replaced groups by partition path: path, file id, and time of the replace commit."""
        found: dict[str, list[tuple[str, str, str]]] = {}
        for (path, file_id), by in sorted(self.view.replaced.items()):
            found.setdefault(path, []).append((path, file_id, by))
        return found

    @cached_property
    def _digests(self) -> dict[tuple[str, str], str]:
        return {}

    def digest(self, table_id: str, start: str) -> str:
        """Return the digest of this state for a caller whose timeline has this start."""
        key = (table_id, start)
        if key not in self._digests:
            if len(self._digests) > 64:  # wrong callers may name any start
                self._digests.clear()
            self._digests[key] = digest_above(table_id, start, self.completed)
        return self._digests[key]


@dataclass
class States:
    """States of one table, oldest first.

    Threads read it while one changes it: its values are replaced, never changed.
    """

    table_id: str
    limit: int
    held: tuple[HeldState, ...] = ()

    @property
    def newest(self) -> HeldState:
        """The newest state."""
        return self.held[-1]

    def find(self, start: str, digest: str) -> HeldState | None:
        """Return the state that a caller names by start and digest; None: it is not held.

        Below the caller's start all instants were archived, so the state must have all that are known there. Instants above the
        newest start may have been archived unseen: a caller with a later start is found after a sync.
        """
        held = self.held
        if not held or not held[0].start <= start <= held[-1].start:
            return None
        below = {one for one in held[-1].completed if held[0].start <= one.time < start}
        for state in reversed(held):
            if state.digest(self.table_id, start) == digest and below <= state.completed:
                return state
        return None

    def began(self, view: View) -> None:
        """Hold one state alone: that of a view which was built."""
        self.held = (HeldState(view, changing(view.timeline)),)

    def continued(self, views: Sequence[View]) -> None:
        """Add the states of views, each continued from the one before; the oldest states go."""
        held = deque(self.held)
        known = held[-1].completed
        for view in views:
            if changing(view.timeline) <= known and view.files is held[-1].view.files:
                held[-1] = replace(held[-1], view=view, serial=held[-1].serial)  # archived or pending instants alone
                continue
            known |= changing(view.timeline)
            held.append(HeldState(view, known))
        while len(held) > self.limit:
            held.popleft()
        first = held[0].start
        self.held = tuple(
            one if all(i.time >= first for i in one.completed) else replace(one, completed=_from(one.completed, first))
            for one in held
        )


def _from(instants: frozenset[Instant], start: str) -> frozenset[Instant]:
    return frozenset(one for one in instants if one.time >= start)


def readings(before: Timeline, now: Timeline, limit: int) -> Iterator[Timeline]:
    """Yield the timelines after each instant that completed between two readings.

    They are in the order of completion.

    Of more than `limit` instants the first ones are taken at once. The last timeline is `now`.
    """
    new = sorted(changing(now) - changing(before), key=lambda one: (one.completion_time, one.time))
    for number in range(max(1, len(new) - limit + 1), len(new)):
        later = {(one.time, one.kind): one for one in new[number:]}
        yield replace(now, instants=tuple(_pending(one) if (one.time, one.kind) in later else one for one in now))
    yield now


def _pending(one: Instant) -> Instant:
    return replace(
        one,
        state=State.INFLIGHT,
        completion_time="",
        file_name="",
        states=one.states - {State.COMPLETED},
    )
