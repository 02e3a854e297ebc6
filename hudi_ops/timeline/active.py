"""Active timeline: one listing of the timeline folder, as an immutable value.

A folder of a thousand instants has three thousand names, and a commit lists it several times. So each listing is compared by name
with the last listing of the same storage, and only new names are parsed. The result depends only on the listed names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from operator import attrgetter
from weakref import WeakKeyDictionary

from hudi_ops.config.table import TableConfig
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.kept import Key, Moved, Step, are_raised, keep_derived, order_of
from hudi_ops.timeline.names import State, TimelineFile, completed_name, completes_as, newest_of, parse_file_name

_serials = count()


@dataclass(frozen=True)
class Timeline:
    """Instants by request time and action, each in its highest state.

    Pending and completed files of one action are one instant: `compaction` and `commit` compare equal (docs/format §2.2).
    `aborted` are cancelled plans of which only the `.aborted` file is left; they are not in `instants`.
    """

    folder: str
    layout: int
    instants: tuple[Instant, ...]
    aborted: tuple[Instant, ...] = ()

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    @cached_property
    def serial(self) -> int:
        """Number of this value among all timelines of this process."""
        return next(_serials)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Changes that led to this value, oldest first, as far as they are known."""
        return ()

    @cached_property
    def by_time(self) -> dict[str, tuple[Instant, ...]]:
        """Instants by request time: a savepoint shares the time of the commit it protects."""
        grouped: dict[str, tuple[Instant, ...]] = {}
        for instant in self.instants:
            grouped[instant.time] = (*grouped.get(instant.time, ()), instant)
        return grouped

    @cached_property
    def by_kind(self) -> dict[str, tuple[Instant, ...]]:
        """Instants by the word of their completed file, each by request time."""
        grouped: dict[str, list[Instant]] = {}
        for instant in self.instants:
            grouped.setdefault(instant.kind, []).append(instant)
        return {kind: tuple(instants) for kind, instants in grouped.items()}

    @cached_property
    def done(self) -> frozenset[str]:
        """Request time and action of the completed instants, with a blank between them."""
        return frozenset(f"{instant.time} {instant.kind}" for instant in self.instants if instant.is_completed)

    @cached_property
    def raised(self) -> frozenset[str]:
        """Request times whose instants all have that same time as their completion time."""
        return frozenset(time for time, instants in self.by_time.items() if are_raised(instants))

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed commits, delta commits and replace commits, by request time."""
        return tuple(instant for instant in self.instants if instant.is_completed and instant.is_write)

    @cached_property
    def savepoints(self) -> tuple[Instant, ...]:
        """Completed savepoints, by request time."""
        return tuple(one for one in self.by_kind.get("savepoint", ()) if one.is_completed)

    @cached_property
    def completions(self) -> frozenset[tuple[str, str]]:
        """Request and completion times of the completed writes."""
        return frozenset((one.time, one.completion_time) for one in self.completed_writes)

    @cached_property
    def deltas(self) -> frozenset[str]:
        """Request times of the completed delta commits."""
        return frozenset(one.time for one in self.completed_writes if one.kind == "deltacommit")

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Instants without a completed file, by request time."""
        return tuple(instant for instant in self.instants if not instant.is_completed)

    @cached_property
    def start(self) -> str:
        """Request time of the first completed write, or empty; older files count as committed.

        Source: docs/format §9.1.
        """
        return self.completed_writes[0].time if self.completed_writes else ""

    @cached_property
    def newest_first(self) -> tuple[Instant, ...]:
        """Completed writes, newest completion first."""
        return tuple(sorted(self.completed_writes, key=_completion_of, reverse=True))

    def completed_since(self, time: str) -> Iterator[Instant]:
        """Yield the completed writes with this completion time or a later one, the newest first."""
        latest = self.newest_first
        end = bisect_left(range(len(latest)), True, key=lambda at: latest[at].completion_time < time)
        return iter(latest[:end])

    def completed_beyond(self, known: frozenset[tuple[str, str]], time: str) -> list[Instant]:
        """Return the completed writes that are not `known`, or completed after a time.

        They are in the order of their request times. `known` holds request and completion times, as `completions` does.
        """
        found = {(one.time, one.kind): one for one in self.completed_since(time) if one.completion_time > time}
        unknown = self.completions - known if known is not self.completions else ()
        for request, completion in unknown:
            for one in self.by_time[request]:
                if one.is_completed and one.is_write and one.completion_time == completion:
                    found[one.time, one.kind] = one
        return [found[key] for key in sorted(found)]

    @cached_property
    def newest_time(self) -> str:
        """Newest request or completion time on the timeline, or empty."""
        return newest_of(self.known_times)

    @cached_property
    def first_completion(self) -> str:
        """Oldest completion time on the timeline, or empty."""
        return min((instant.completion_time for instant in self.instants if instant.completion_time), default="")

    @cached_property
    def known_times(self) -> frozenset[str]:
        """Every request and completion time on the timeline."""
        return frozenset(instant.time for instant in self.instants) | frozenset(
            instant.completion_time for instant in self.instants if instant.completion_time
        )

    def find(self, time: str, kind: str | None = None) -> Instant | None:
        """Return the instant of that request time; `kind` tells a savepoint from its commit."""
        wanted = completes_as(kind) if kind is not None else None
        for instant in self.by_time.get(time, ()):
            if instant.kind == wanted or (wanted is None and instant.kind != "savepoint"):
                return instant
        return None

    def completed(self, time: str, action: str, completion_time: str) -> Timeline:
        """Return the timeline after a pending instant got its completed file."""
        kind = completes_as(action)
        old = self.find(time, kind)
        if old is None:
            return self
        now = replace(
            old,
            state=State.COMPLETED,
            completion_time=completion_time,
            file_name=completed_name(time, action, completion_time),
            states=old.states | {State.COMPLETED},
        )
        instants = list(self.instants)
        instants[bisect_left(instants, (time, kind), key=order_of)] = now
        return grown(self, tuple(instants), {(time, kind): (old, now)})

    def path(self, file_name: str) -> str:
        """Return the path of a timeline file below the table's root."""
        return f"{self.folder}/{file_name}"


_state_of = attrgetter("state")
_name_of = attrgetter("name")
_time_of = attrgetter("time")
_completion_of = attrgetter("completion_time")


def instant_of(time: str, kind: str, files: Sequence[TimelineFile]) -> Instant:
    """Return the instant of the files of one request time and action."""
    highest = max(files, key=_state_of)
    # The name `INSTANT.inflight` means commit; a requested file beside it may show that the action is a compaction.
    words = {file.action for file in files if file.state is not State.COMPLETED} or {highest.action}
    return Instant(
        time=time,
        action=min(words - {kind} or words),
        state=highest.state,
        completion_time=highest.completion_time,
        file_name=highest.name,
        states=frozenset(map(_state_of, files)),
    )


def timeline_of(files: Iterable[TimelineFile], folder: str, layout: int) -> Timeline:
    """Fold timeline files into instants."""
    grouped: dict[Key, list[TimelineFile]] = {}
    for file in files:
        grouped.setdefault((file.time, completes_as(file.action)), []).append(file)
    found = [instant_of(*key, grouped[key]) for key in sorted(grouped)]
    aborted = tuple(one for one in found if one.state < State.REQUESTED)
    return Timeline(folder, layout, tuple(one for one in found if one.state >= State.REQUESTED), aborted)


def grown(
    before: Timeline,
    instants: tuple[Instant, ...],
    moved: Mapping[Key, Moved],
    aborted: tuple[Instant, ...] | None = None,
) -> Timeline:
    """Return the timeline of `instants`, with the cached values of `before` that still apply.

    `moved` are the instants that changed. Values whose order a change may affect are computed again on their next use. `aborted`
    None: as in `before`.
    """
    after = Timeline(before.folder, before.layout, instants, before.aborted if aborted is None else aborted)
    keep_derived(before, after, moved)
    return after


@dataclass(frozen=True)
class Fold:
    """Names of one listing, and the timeline that they form.

    It is never changed, so that threads may share it.

    Attributes:
        names: all listed file names, including those of other files.
        members: the files of each instant, by name.
        instants: instants by request time and action, sorted by this key.
        timeline: the same instants as a `Timeline`.
    """

    timeline: Timeline
    names: frozenset[str] = frozenset()
    members: dict[Key, tuple[TimelineFile, ...]] = field(default_factory=dict)
    instants: dict[Key, Instant] = field(default_factory=dict)

    @classmethod
    def empty(cls, folder: str, layout: int) -> Fold:
        """Return the fold of a folder without files."""
        return cls(Timeline(folder, layout, ()))

    def after(self, fresh: Iterable[str], gone: frozenset[str]) -> Fold:
        """Return the fold of a later listing, from its new names and the names that are gone."""
        fresh = frozenset(fresh)
        if not fresh and not gone:
            return self
        changed: dict[Key, list[TimelineFile]] = {}
        for key, file in self._parsed(fresh):
            changed.setdefault(key, list(self.members.get(key, ()))).append(file)
        for key, file in self._parsed(gone):
            changed.setdefault(key, list(self.members.get(key, ()))).remove(file)
        members, instants = self.members.copy(), self.instants.copy()
        aborted = {(one.time, one.kind): one for one in self.timeline.aborted}
        for key, files in changed.items():
            members[key] = tuple(sorted(files, key=_name_of))
            aborted.pop(key, None)
            now = instant_of(*key, members[key]) if files else None
            if now is None:
                del members[key]
            if now is None or now.state < State.REQUESTED:
                instants.pop(key, None)
            else:
                instants[key] = now
            if now is not None and now.state < State.REQUESTED:
                aborted[key] = now
        if _is_unordered(self.instants, changed, instants):
            instants = dict(sorted(instants.items()))
        moved = {key: (self.instants.get(key), instants.get(key)) for key in changed}
        return Fold(
            grown(self.timeline, tuple(instants.values()), moved, tuple(aborted[key] for key in sorted(aborted))),
            (self.names - gone if gone else self.names) | fresh,
            members,
            instants,
        )

    def _parsed(self, names: Iterable[str]) -> Iterable[tuple[Key, TimelineFile]]:
        for name in names:
            file = parse_file_name(name, self.timeline.layout)
            if file is not None:
                if self.timeline.layout == 1 and file.state is State.COMPLETED:
                    # The name holds no completion time. The request time replaces it: layout 1 orders by request times.
                    file = TimelineFile(file.name, file.time, file.action, file.state, file.time)
                yield (file.time, completes_as(file.action)), file


def _is_unordered(before: dict[Key, Instant], changed: Iterable[Key], instants: dict[Key, Instant]) -> bool:
    """Return whether `instants` must be sorted: a new one is not the last, or several are new."""
    added = [key for key in changed if key in instants and key not in before]
    return bool(added) and (len(added) > 1 or (bool(before) and added[0] < next(reversed(before))))


_folds: WeakKeyDictionary[Storage, dict[tuple[str, int], Fold]] = WeakKeyDictionary()
"""The last fold of each timeline folder, kept while its storage object exists. An older fold would be correct, too."""


def listed_fold(storage: Storage, folder: str, layout: int) -> Fold:
    """List a timeline folder, and return its fold."""
    kept = _folds.setdefault(storage, {})
    last = kept.get((folder, layout)) or Fold.empty(folder, layout)
    news = storage.list_new(folder, last.names)
    now = kept[folder, layout] = last.after((info.name for info in news.files), news.gone)
    return now


def list_timeline(storage: Storage, folder: str, layout: int) -> Timeline:
    """List a timeline folder as `load_timeline` does, for timelines without settings."""
    return listed_fold(storage, folder, layout).timeline


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """List the active timeline.

    In layout 1 the name of a completed file holds no completion time; the request time replaces it, as layout 1 orders by it.
    """
    return list_timeline(storage, config.timeline_folder, config.layout)
