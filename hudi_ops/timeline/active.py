"""Active timeline: one listing of the timeline folder, as an immutable value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from hudi_ops.config.table import TableConfig
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import State, TimelineFile, completed_name, completes_as, parse_file_name


@dataclass(frozen=True)
class Timeline:
    """Instants by request time, each in its highest state.

    Pending and completed files of one action are one instant: `compaction` and `commit` compare equal (docs/format.md §2.2).
    """

    folder: str
    layout: int
    instants: tuple[Instant, ...]

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    @cached_property
    def by_time(self) -> dict[str, tuple[Instant, ...]]:
        """Instants by request time: a savepoint shares the time of the commit it protects."""
        grouped: dict[str, tuple[Instant, ...]] = {}
        for instant in self.instants:
            grouped[instant.time] = (*grouped.get(instant.time, ()), instant)
        return grouped

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed commits, delta commits and replace commits, by request time."""
        return tuple(instant for instant in self.instants if instant.is_completed and instant.is_write)

    @cached_property
    def completions(self) -> frozenset[tuple[str, str]]:
        """Request and completion times of the completed writes."""
        return frozenset((one.time, one.completion_time) for one in self.completed_writes)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Instants without a completed file, by request time."""
        return tuple(instant for instant in self.instants if not instant.is_completed)

    @cached_property
    def start(self) -> str:
        """Request time of the first completed write, or empty; older files are committed.

        Source: docs/format.md §9.1.
        """
        return self.completed_writes[0].time if self.completed_writes else ""

    @cached_property
    def known_times(self) -> frozenset[str]:
        """Every request and completion time on the timeline."""
        return frozenset(instant.time for instant in self.instants) | frozenset(
            instant.completion_time for instant in self.instants if instant.completion_time
        )

    def find(self, time: str, kind: str | None = None) -> Instant | None:
        """Return the instant of that request time; `kind` tells a savepoint from its commit."""
        for instant in self.by_time.get(time, ()):
            if (instant.kind != "savepoint") if kind is None else (instant.kind == completes_as(kind)):
                return instant
        return None

    def completed(self, time: str, action: str, completion_time: str) -> Timeline:
        """Return the timeline after a pending instant got its completed file."""
        name = completed_name(time, action, completion_time)
        done = [
            replace(
                instant,
                state=State.COMPLETED,
                completion_time=completion_time,
                file_name=name,
                states=instant.states | {State.COMPLETED},
            )
            if instant.time == time and instant.kind == completes_as(action)
            else instant
            for instant in self.instants
        ]
        return Timeline(self.folder, self.layout, tuple(done))

    def path(self, file_name: str) -> str:
        """Return the path of a timeline file below the table's root."""
        return f"{self.folder}/{file_name}"


_state_of = attrgetter("state")


def timeline_of(files: Iterable[TimelineFile], folder: str, layout: int) -> Timeline:
    """Fold timeline files into instants."""
    grouped: dict[tuple[str, str], list[TimelineFile]] = {}
    for file in files:
        grouped.setdefault((file.time, completes_as(file.action)), []).append(file)
    instants = []
    for (time, kind), members in grouped.items():
        highest = max(members, key=_state_of)
        # The plain `I.inflight` says commit; a requested file beside it may say that it is a compaction.
        words = {file.action for file in members if file.state is not State.COMPLETED} or {highest.action}
        instants.append(
            Instant(
                time=time,
                action=min(words - {kind} or words),
                state=highest.state,
                completion_time=highest.completion_time,
                file_name=highest.name,
                states=frozenset(map(_state_of, members)),
            )
        )
    return Timeline(folder, layout, tuple(sorted(instants, key=lambda instant: (instant.time, instant.kind))))


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """List the active timeline.

    In layout 1 a completed file carries no completion time; its request time stands in, as its order was the only one then.
    """
    return list_timeline(storage, config.timeline_folder, config.layout)


def list_timeline(storage: Storage, folder: str, layout: int) -> Timeline:
    """List a timeline folder as `load_timeline` does, for timelines without settings."""
    listed = storage.list_folder(folder)
    files = [parsed for info in listed.files if (parsed := parse_file_name(info.name, layout)) is not None]
    if layout == 1:
        files = [
            TimelineFile(f.name, f.time, f.action, f.state, f.time) if f.state is State.COMPLETED else f for f in files
        ]
    return timeline_of(files, folder, layout)
