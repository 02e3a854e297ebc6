"""Instant: an action on the table, with its state and its two times."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def kind(self) -> str:
        """Action under which it completes."""
        return completes_as(self.action)

    @property
    def is_completed(self) -> bool:
        """Whether a completed file exists."""
        return self.state is State.COMPLETED

    @property
    def is_write(self) -> bool:
        """Whether it adds or replaces data files: commits, delta commits, replace commits."""
        return self.kind in WRITE_ACTIONS

    def __str__(self) -> str:
        return f"{self.time} {self.action} {self.state.name.lower()}"
