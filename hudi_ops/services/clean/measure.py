"""Measure what a clean would delete, and what keeps other files, for the table's health.

The files are judged as `choose` judges them, with these differences, since no partition is listed and few files are read:

- The view says which files there are. Files that a clean failed to delete, and old hash rings, are not counted.
- A file whose commit was not read counts as named by it, unless it would be the newest of its group and readers pass it over.
- A log file whose writer was archived counts as completed when it was requested.
- Overdue plans count as pending, although a clean would cancel them first.
- The newest `CLEANS_MAX` cleans alone tell which instants were retained before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import CleanRequest
from hudi_ops.config.upkeep_settings import CleanSettings
from hudi_ops.services.clean.earlier import completed_cleans, earlier_cleans
from hudi_ops.services.clean.history import NONE, PastColumns, slices_of
from hudi_ops.services.clean.judging import Kept, deleted_by, dropped_by, kept_by
from hudi_ops.services.clean.keepers import HOLD, PENDING, Keepers, keepers
from hudi_ops.services.clean.policy import Limit, Policy, earliest_retained, limits_of
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.columns.files import Flags, Longs
from hudi_ops.view.columns.names import BASE
from hudi_ops.view.columns.slices import NO_BASE, newest_slices
from hudi_ops.view.columns.table_view import View

CLEANS_MAX = 3
"""Most completed cleans that a measure reads."""

SHOWN_MAX = 5
"""Most file groups that a measure names."""

KEEPERS_MAX = 10
"""Most savepoints, plans and holds that a measure names."""


@dataclass(frozen=True)
class OldGroup:
    """File group with files to delete.

    Attributes:
        partition_path: of the group.
        file_id: of the group.
        bytes: of the files to delete.
        superseded: request time of the write that superseded the oldest of them.
    """

    partition_path: str
    file_id: str
    bytes: int
    superseded: str


@dataclass(frozen=True)
class CleanLag:
    """Files that a clean by the table's policy would delete now.

    Attributes:
        bytes: of these files.
        files: their number.
        table_bytes: of all committed files, those of old slices included.
        groups: file groups with the most bytes to delete.
        earliest: earliest instant that the clean would retain; empty: the policy names none.
        due_ms: since when the policy drops the oldest of the files, in ms since 1970; None: there is none.
        clean: request time of the clean that completed last; empty: none is on the timeline.
        clean_ms: when it completed, in ms since 1970.
        pending: request time of a pending clean, or empty.
        until_ms: when the clock alone changes the answer, in ms since 1970; None: never.
    """

    bytes: int
    files: int
    table_bytes: int
    groups: tuple[OldGroup, ...] = ()
    earliest: str = ""
    due_ms: int | None = None
    clean: str = ""
    clean_ms: int | None = None
    pending: str = ""
    until_ms: int | None = None

    @property
    def share(self) -> float:
        """Bytes to delete for each byte of the table."""
        return self.bytes / self.table_bytes if self.table_bytes else 0.0

    def age_s(self, now_ms: int) -> float | None:
        """Return for how long a clean has been due, in seconds; None: there is nothing to delete.

        It counts from the last clean, or from the time at which the policy first dropped one of the files, if that is later.
        """
        since_ms = self.since_ms
        return None if since_ms is None else max(0, now_ms - since_ms) / 1000

    @property
    def since_ms(self) -> int | None:
        """Time from which the age counts, in ms since 1970; None: there is nothing to delete."""
        return None if self.due_ms is None else max(self.due_ms, self.clean_ms or 0)


@dataclass(frozen=True)
class Keeper:
    """Savepoint, pending instant or hold that keeps files which the policy drops.

    Attributes:
        reason: `savepoint`, `pending` or `hold`, as `clean explain` says.
        name: request time of the savepoint or instant, or id of the hold.
        action: of a pending instant.
        bytes: of the files that it keeps, alone or with others.
        left: bytes that are still kept once it and the keepers before it are gone.
        files: number of the files that it keeps, alone or with others.
    """

    reason: str
    name: str
    action: str
    bytes: int
    left: int
    files: int = 0


@dataclass(frozen=True)
class KeptFiles:
    """Files that the policy drops, and that savepoints, pending instants and holds keep.

    Attributes:
        bytes: of these files.
        files: their number.
        table_bytes: of all committed files, those of old slices included.
        keepers: in the order in which ending them frees most.
        others: number of further keepers.
        until_ms: when the clock alone changes the answer, in ms since 1970; None: never.
    """

    bytes: int
    files: int
    table_bytes: int
    keepers: tuple[Keeper, ...] = ()
    others: int = 0
    until_ms: int | None = None

    @property
    def share(self) -> float:
        """Kept bytes for each byte of the table."""
        return self.bytes / self.table_bytes if self.table_bytes else 0.0


@dataclass(frozen=True, eq=False)
class _Judged:
    """Old files of a view, as a clean by the table's policy judges them now."""

    policy: Policy
    past: PastColumns
    keeping: Keepers
    table_bytes: int
    wanted: str
    floor: str
    earliest: str
    deleted: Flags
    until_ms: int | None


def clean_lag(session: Session, state: TableState, view: View, settings: CleanSettings, now_ms: int) -> CleanLag:
    """Measure what a clean by the table's policy would delete at a time.

    Reads the savepoints, pending plans and holds, and up to `CLEANS_MAX` cleans.

    Args:
        session: of the table.
        state: of the table.
        view: of the whole table, at the state's timeline.
        settings: the table's policy.
        now_ms: in ms since 1970.

    Raises:
        Busy: a pending plan cannot be read.
        Conflict: a savepoint was deleted while it was read.
        Corrupt: a savepoint, a plan, a hold or a clean cannot be read.
    """
    judged = _judged(session, state, view, settings, now_ms)
    past, deleted = judged.past, judged.deleted
    cleans = completed_cleans(state)
    return CleanLag(
        bytes=int(past.sizes[deleted].sum()),
        files=int(deleted.sum()),
        table_bytes=judged.table_bytes,
        groups=_largest(past, deleted),
        earliest=judged.earliest,
        due_ms=_due_ms(judged, state),
        clean=cleans[0].time if cleans else "",
        clean_ms=ms_of_instant(cleans[0].completion_time, state.zone) if cleans else None,
        pending=next((one.time for one in state.timeline.pending if one.action == "clean"), ""),
        until_ms=judged.until_ms,
    )


def files_kept(session: Session, state: TableState, view: View, settings: CleanSettings, now_ms: int) -> KeptFiles:
    """Measure the files that the table's policy drops at a time, and that something else keeps.

    A savepoint keeps the files that it names; a pending plan or a hold also keeps all that came after it, since no clean retains a
    later instant. Arguments and errors are those of `clean_lag`.
    """
    judged = _judged(session, state, view, settings, now_ms)
    past = judged.past
    alone = max(judged.wanted, judged.floor) if judged.policy.has_earliest else ""
    kept = np.flatnonzero(dropped_by(judged.policy, past, alone) & ~judged.deleted)
    sizes = past.sizes[kept]
    limits = [*limits_of(state, judged.wanted, judged.keeping.holds)] if judged.wanted else []
    found = [*kept_by(judged.keeping, past, kept), *_limiting(limits, judged, kept)]
    named, others = _in_order(found, sizes)
    return KeptFiles(int(sizes.sum()), len(kept), judged.table_bytes, named, others, judged.until_ms)


def _judged(session: Session, state: TableState, view: View, settings: CleanSettings, now_ms: int) -> _Judged:
    policy = Policy.of(settings.completed(CleanRequest()))
    floor = earlier_cleans(session, state, CLEANS_MAX).floor if policy.has_earliest else ""
    keeping = keepers(session.ctx, state.config, state.timeline, now_ms)
    earliest = earliest_retained(policy, state, now_ms, keeping.holds, floor)
    view = _named(view)
    past = slices_of(view, WriterTimes(view.timeline, view.config.history_folder, _AtRequest(session.ctx.storage)))
    deleted, _ = deleted_by(policy, past.columns, earliest.instant, keeping)
    changes = [policy.until_ms(state, now_ms), *(hold.until_ms for hold in keeping.holds)]
    return _Judged(
        policy,
        past.columns,
        keeping,
        int(view.files.sizes.sum()),
        earliest.wanted,
        floor,
        earliest.instant,
        deleted,
        min((change for change in changes if change is not None), default=None),
    )


class _AtRequest(ArchivedTimes):
    """Completion times of archived writes without a storage call.

    Each write counts as completed when it was requested.

    An instant stays on the timeline while its log file waits for a compaction that was requested before it completed.
    """

    def completion_times(self, folder: str, times: Iterable[str]) -> dict[str, str]:
        """Return the request times."""
        return {time: time for time in times}


def _named(view: View) -> View:
    """Return the view without the files that are newer than the newest one that readers see.

    Their commits do not name them.
    """
    files = view.files
    if not files.unread.any():
        return view
    slices = newest_slices(view)
    ranks = files.instants[1]
    newest = np.full(int(files.groups[-1]) + 1, len(files.instants[0]), np.int64)
    bases = slices.bases[slices.bases != NO_BASE]
    newest[files.groups[bases]] = ranks[bases]
    return view.with_files(files.filter(~(files.unread & (files.kinds == BASE) & (ranks > newest[files.groups]))))


def _largest(past: PastColumns, deleted: Flags) -> tuple[OldGroup, ...]:
    """Return the file groups with the most bytes to delete, the largest first."""
    places = np.flatnonzero(deleted)
    if not len(places):
        return ()
    slices = past.slice_of[places]
    groups, inverse = np.unique(past.groups[slices], return_inverse=True)
    sums = np.bincount(inverse, weights=past.sizes[places]).astype(np.int64)
    oldest = np.full(len(groups), len(past.words), np.int64)
    np.minimum.at(oldest, inverse, past.superseded[slices])
    _, firsts = np.unique(inverse, return_index=True)
    largest = np.argsort(-sums, kind="stable")[:SHOWN_MAX]
    held = past.files.data_files(past.rows[places[firsts[largest]]])
    return tuple(
        OldGroup(file.partition_path, file.file_id, int(sums[at]), past.words[oldest[at]])
        for file, at in zip(held, largest.tolist(), strict=True)
    )


def _due_ms(judged: _Judged, state: TableState) -> int | None:
    """Return since when the policy drops the oldest file that a clean would delete.

    In ms since 1970; None: there is none.
    """
    policy, past = judged.policy, judged.past
    slices = np.unique(past.slice_of[judged.deleted])
    if not len(slices):
        return None
    writes = state.timeline.completed_writes
    times = [write.time for write in writes]

    def completed_ms(write: Instant) -> int:
        return ms_of_instant(write.completion_time, state.zone)

    if policy.name == "versions":
        # The slice that made it one too many, or the write that replaced its group.
        later = np.minimum(slices + policy.retain, len(past) - 1)
        made = np.where(past.ages[slices] >= policy.retain, past.instants[later], len(past.words))
        replaced = past.replaced[slices]
        word = past.words[int(np.minimum(made, np.where(replaced == NONE, len(past.words), replaced)).min())]
        found = state.timeline.find(word)
        return completed_ms(found) if found is not None and found.is_completed else ms_of_instant(word, state.zone)
    oldest = past.words[int(past.superseded[slices].min())]
    if policy.name == "commits":
        return completed_ms(writes[min(bisect_left(times, oldest) + policy.retain, len(writes) - 1)])
    following = writes[min(bisect_right(times, oldest), len(writes) - 1)]
    return max(ms_of_instant(oldest, state.zone) + policy.retained_ms, completed_ms(following))


def _limiting(limits: Iterable[Limit], judged: _Judged, asked: Longs) -> Iterable[Kept]:
    """Yield limits of the earliest retained instant, with the files that each keeps."""
    superseded = judged.past.superseded[judged.past.slice_of[asked]]
    for limit in limits:
        rows = superseded >= judged.past.below(max(limit.instant, judged.floor))
        if isinstance(limit.keeper, Instant):
            yield Kept(PENDING, limit.keeper.time, limit.keeper.action, rows)
        else:
            yield Kept(HOLD, limit.keeper.id, "", rows)


def _in_order(found: Iterable[Kept], sizes: Longs) -> tuple[tuple[Keeper, ...], int]:
    """Return the keepers in the order in which they are best ended, and the number of others.

    Each is the one whose end frees most now; where several keep the same files, the one that keeps most.
    """
    rows: dict[tuple[str, str, str], Flags] = {}
    for one in found:
        key = (one.reason, one.name, one.action)
        rows[key] = rows[key] | one.rows if key in rows else one.rows
    left = {key: held for key, held in rows.items() if held.any()}
    counts = np.sum([*left.values()], axis=0) if left else np.zeros(len(sizes), np.int64)
    named: list[Keeper] = []
    while left and len(named) < KEEPERS_MAX:
        freed = {key: int(sizes[held & (counts == 1)].sum()) for key, held in left.items()}
        key = max(left, key=lambda each: (freed[each], int(sizes[left[each]].sum())))
        held = left.pop(key)
        counts = counts - held
        named.append(Keeper(*key, int(sizes[held].sum()), int(sizes[counts > 0].sum()), int(held.sum())))
    return tuple(named), len(left)


def measures_of(lag: CleanLag, kept: KeptFiles, now_ms: int) -> dict[str, float | None]:
    """Return the measures of `clean_lag` and `files_kept`, by the names of check and target."""
    return {"clean_lag.share": lag.share, "clean_lag.age": lag.age_s(now_ms), "files_kept.share": kept.share}
