"""Instant: an action on the table, with its state and its two times."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.timeline.names import WRITE_ACTIONS, State, completes_as


@dataclass(frozen=True, slots=True)
class Instant:
    """Action on the timeline, in its highest state.

    `time` is the request time, which names its files and orders snapshots; `completion_time` orders the writes for readers
    (incremental queries, conflict checks), and is empty while pending. `action` is the pending word (`compaction`) as long as
    the instant is pending or its requested file is known, else the completed word.
    """

    time: str
    action: str
    state: State
    completion_time: str = ""
    file_name: str = ""
    states: frozenset[State] = frozenset()

    kind: str = field(init=False, repr=False, compare=False)
    """Action under which it completes."""
    is_completed: bool = field(init=False, repr=False, compare=False)
    """Whether a completed file exists."""
    is_write: bool = field(init=False, repr=False, compare=False)
    """Whether it adds or replaces data files: commits, delta commits, replace commits."""

    def __post_init__(self) -> None:
        # Stored instead of computed on use: a commit reads them of all instants of a timeline, perhaps a thousand.
        kind = completes_as(self.action)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "is_completed", self.state is State.COMPLETED)
        object.__setattr__(self, "is_write", kind in WRITE_ACTIONS)

    def __str__(self) -> str:
        return f"{self.time} {self.action} {self.state.name.lower()}"
