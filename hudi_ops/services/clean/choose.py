"""Choose the files that a clean deletes, with the reason to delete or keep each listed file.

Only partitions in which a slice may have been superseded since the last clean are looked at, outside the lock.

Source: docs/protocol §20, steps 2, 3, 8 and 9.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hudi_ops.commit.checks import refuse_pending_restore
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import CleanRequest
from hudi_ops.files.names import data_path, parse_data_file
from hudi_ops.index.ring_files import OldRings, RingReader, old_rings
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import MetadataTable
from hudi_ops.metadata.records.partitions import MetadataPartition
from hudi_ops.read.current_view import current_view
from hudi_ops.read.prune import with_metadata
from hudi_ops.services.base.choice import SHOWN_MAX, Choice, Reason, Strategy, Verdict
from hudi_ops.services.clean.earlier import Earlier, earlier_cleans
from hudi_ops.services.clean.history import PastSlice, PastSlices, order_of, past_slices
from hudi_ops.services.clean.judging import deleted_by
from hudi_ops.services.clean.keepers import Keepers, keepers, refuse_pending_clean
from hudi_ops.services.clean.policy import Earliest, Policy, earliest_retained
from hudi_ops.timeline.content.plans import FilesByPartition
from hudi_ops.timeline.names import ms_of_instant
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.files import FileColumns, none_of
from hudi_ops.view.columns.kept import kept_view
from hudi_ops.view.columns.table_view import View, view_of
from hudi_ops.view.file_group import DataFile

RETAINED, NEWEST, LIMIT, UNCOMMITTED = "retained", "newest slice", "beyond the limit of files", "not committed"
"""Reasons for which a file stays, besides those of `keepers`."""

EMPTY_EVERY_MS, EMPTY_EVERY_WRITES = 24 * 3_600_000, 20
"""An empty clean is due after this time, or once this number of writes lies below the earliest instant that it would retain.

Archiving stops at the earliest retained instant, so it must move.
"""


@dataclass(frozen=True, slots=True)
class FileVerdict(Verdict):
    """File of a choice; `why` names the write, savepoint, plan, hold or policy that keeps it."""

    file: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """A file with the reason to delete or keep it, and when its slice was superseded."""

    file: DataFile
    reason: str
    why: str
    superseded: str = ""


@dataclass
class CleanChoice(Choice):
    """Files of a clean, by reason.

    Attributes:
        policy: what was applied.
        earliest: the earliest retained instant.
        earlier: what earlier cleans said.
        keepers: savepoints, pending plans and holds that keep files.
        dropped: files to delete, the longest superseded first.
        kept: files that stay, by reason.
        carried: held-back files whose savepoints still name them: their partitions were not looked at.
        partitions: number of partitions that were looked at; None: all.
        moves: whether a clean without files is due, to move the earliest retained instant.
        rings: old ring files that the clean deletes, too.
        newest: number of files of newest slices that are not in `kept`.
    """

    policy: Policy = field(default_factory=lambda: Policy("commits", 10))
    earliest: Earliest = field(default_factory=Earliest)
    earlier: Earlier = field(default_factory=Earlier)
    keepers: Keepers = field(default_factory=Keepers)
    dropped: list[Judged] = field(default_factory=list)
    kept: dict[str, list[Judged]] = field(default_factory=dict)
    carried: FilesByPartition = field(default_factory=dict)
    partitions: int | None = None
    moves: bool = False
    rings: tuple[OldRings, ...] = ()
    newest: int = 0

    @property
    def is_due(self) -> bool:
        """Return whether files are deleted, or an empty clean is due."""
        return bool(self.dropped) or self.moves

    def leave_unfit_to_wait(self) -> None:
        """Leave out a clean without files.

        Apache Hudi 1.1.1 fails on its pending plan (docs/format §3.2).
        """
        self.moves = False

    @property
    def files(self) -> FilesByPartition:
        """Return the names of the files to delete, by partition path."""
        return by_partition(judged.file for judged in self.dropped)

    @property
    def held_back(self) -> FilesByPartition:
        """Return the files that the policy drops and something else keeps, by partition path."""
        held = by_partition(judged.file for reason in self.kept for judged in self.kept[reason] if is_held(reason))
        return {path: (*self.carried.get(path, ()), *held.get(path, ())) for path in sorted({*self.carried, *held})}

    def counts(self) -> dict[str, int]:
        """Return the number of files by reason."""
        carried = sum(map(len, self.carried.values()))
        found = {Reason.PLANNED.value: len(self.dropped), **{reason: len(held) for reason, held in self.kept.items()}}
        if self.newest:
            found[NEWEST] = found.get(NEWEST, 0) + self.newest
        return {**found, "held back before": carried} if carried else found

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return up to `SHOWN_MAX` files for each reason."""
        return tuple(self._file_verdicts())

    def _file_verdicts(self) -> Iterator[FileVerdict]:
        for found in (self.dropped, *self.kept.values()):
            yield from map(_verdict, found[:SHOWN_MAX])

    def sentence(self) -> str:
        """Return one sentence: the files to delete, the earliest instant, the held-back files."""
        parts = []
        if self.dropped:
            size = sum(judged.file.size_bytes for judged in self.dropped)
            parts.append(f"{_files(len(self.dropped))} of {len(self.files):,} partitions, {size:,} bytes")
        else:
            parts.append("nothing to delete" + ("; the earliest retained instant moves" if self.moves else ""))
        if self.rings and self.is_due:
            parts.append(f"{sum(len(one.files) for one in self.rings):,} old ring files")
        if self.earliest.instant:
            parts.append(f"instants from {self.earliest.instant} on stay readable")
        if self.earliest.kept_back:
            parts.append(f"not later because {self.earliest.kept_back}")
        held = sum(map(len, self.held_back.values()))
        if held:
            parts.append(f"{_files(held)} held back")
        return "; ".join(parts)


def is_held(reason: str) -> bool:
    """Return whether a file that stays for a reason is held back: the policy drops it."""
    return reason not in {RETAINED, NEWEST, UNCOMMITTED}


def empty_choice(request: CleanRequest) -> CleanChoice:
    """Return the policy of a request, without files."""
    policy = Policy.of(request)
    unit = {"commits": "commits", "hours": "hours", "versions": "slices"}[policy.name]
    strategy = Strategy(policy.name, lambda candidate, now_ms: 0.0, unit, policy.retain)
    return CleanChoice("clean", "old slices", strategy, policy.retain, policy=policy)


def choose(session: Session, state: TableState, request: CleanRequest) -> CleanChoice:
    """Choose by the request's policy, and by savepoints, pending plans and holds.

    Raises:
        Busy: a clean or a restore is pending, or a pending plan cannot be read.
        Conflict: a savepoint was deleted while it was read, or a file was removed while the table was listed.
        Corrupt: a file of the timeline cannot be read.
    """
    if not request.dry_run:
        refuse_pending_restore(state)
        refuse_pending_clean(session, state)
    choice = empty_choice(request)
    choice.earlier = earlier_cleans(session, state)
    choice.keepers = keepers(session.ctx, state.config, state.timeline)
    now_ms, holds = session.ctx.clock.now_ms(), choice.keepers.holds
    choice.earliest = earliest_retained(choice.policy, state, now_ms, holds, choice.earlier.floor)
    partitions = _partitions(session, state, choice, request)
    choice.partitions = None if partitions is None else len(partitions)
    view = None if request.full or request.files else _kept_view(session, state, partitions)
    if view is None:
        listed, are_named = _listed(session, state, partitions)
        view = view_of(state.config, state.timeline, session.commits, listed, are_named=are_named)
    past = past_slices(view)
    shown = past.newest(None if request.files else SHOWN_MAX)
    choice.newest = int(past.alone.sum()) - sum(len(slice_.files) for slice_ in shown)
    _judge(choice, past, shown)
    if request.files:
        _only(choice, request.files, listed)
    _limit(choice, request.max_files)
    choice.rings = rings_below(session, state, choice.earliest.instant)
    choice.moves = not choice.dropped and _moves(session, state, choice)
    return choice


def rings_below(session: Session, state: TableState, earliest: str) -> tuple[OldRings, ...]:
    """Return the ring files that neither a retained instant nor a savepoint needs.

    Without an earliest retained instant, those that only archived instants needed.
    """
    if not state.log.properties.facts.has_ring:
        return ()
    saved = (one.time for one in state.timeline.by_kind.get("savepoint", ()))
    horizon = min([earliest or state.timeline.start, *saved])
    return old_rings(RingReader.of(session.ctx.storage, state, session.commits), horizon)


def by_partition(files: Iterable[DataFile]) -> dict[str, tuple[str, ...]]:
    """Return the names of files by partition path, both sorted."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(file.partition_path, []).append(file.name)
    return {path: tuple(sorted(names)) for path, names in sorted(found.items())}


def _partitions(
    session: Session, state: TableState, choice: CleanChoice, request: CleanRequest
) -> frozenset[str] | None:
    """Return the partitions to list; None: all. Fills `carried`."""
    if request.files:
        return (
            None
            if any("*" in path or "?" in path for path in request.files)
            else frozenset(map(_folder, request.files))
        )
    if request.full or not choice.policy.has_earliest:
        return None
    touched = choice.earlier.touched(session, state, choice.earliest.instant, choice.keepers.saved)
    if touched is None:
        return None
    named, held_back = choice.keepers.savepoints, choice.earlier.held_back or {}
    again: set[str] = set()
    for partition, names in held_back.items():
        if any(data_path(partition, name) not in named for name in names):
            again.add(partition)
    left = {*held_back} - again - touched
    choice.carried = {partition: held_back[partition] for partition in sorted(left)}
    return touched | again


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _kept_view(session: Session, state: TableState, partitions: Collection[str] | None) -> View | None:
    """Return the view of partitions if it has the files that a listing shows; None: list them.

    The metadata table of a table that only this library writes has the files that writes name, without those that cleans name. A
    listing of storage also shows files that a clean failed to delete, and files that tasks left of archived instants: by the view
    they would stay for ever. For a few partitions no view of the whole table is built. No view of a timeline server is used.
    """
    ctx, config, timeline = session.ctx, state.config, state.timeline
    if MetadataPartition.FILES not in config.metadata_partitions or not session.commits.is_ours_alone(timeline):
        return None
    if partitions is None:
        return current_view(ctx.storage, config, timeline, session.commits, ctx.local_engine, is_writing=True)
    if not partitions:
        return None
    view = kept_view(ctx.storage, config, timeline, session.commits, may_be_served=False)
    return view.of_partitions(partitions) if view is not None else None


def _listed(session: Session, state: TableState, partitions: Collection[str] | None) -> tuple[FileColumns, bool]:
    """List the files of partitions, by the metadata table if it has every completed write.

    Returns:
        The files, and whether their instants name all of them.
    """
    storage, config, engine = session.ctx.storage, state.config, session.ctx.local_engine
    if partitions is not None and not partitions:
        return none_of(), True

    def seen(metadata: MetadataTable | None) -> tuple[FileColumns, bool]:
        listing = open_listing(storage, config, metadata, engine=engine)
        listed = listing.walk().files if partitions is None else listing.files(sorted(partitions))
        return listed, listing.source == "metadata" and session.commits.is_ours_alone(state.timeline)

    return with_metadata(storage, config, state.timeline, "auto", seen, engine, session.commits.archived)


def _judge(choice: CleanChoice, past: PastSlices, newest: Sequence[PastSlice]) -> None:
    """Add the files of old slices to a choice, with the reason to delete or keep each.

    `newest` are slices of the groups that have one, which are added, too.
    """
    policy, earliest, keeping = choice.policy, choice.earliest.instant, choice.keepers
    deleted, held = deleted_by(policy, past.columns, earliest, keeping)
    fates = zip(deleted.tolist(), held.tolist(), strict=True)  # in the order of the slices' files
    judged = [(slice_, [next(fates) for _ in slice_.files]) for slice_ in past.slices]
    judged += [(slice_, [(False, False)] * len(slice_.files)) for slice_ in newest]
    for slice_, of_files in sorted(judged, key=lambda one: order_of(one[0])):
        for file, (is_deleted, has_keeper) in zip(slice_.files, of_files, strict=True):
            keeper = keeping.keeper_of(slice_, file.path) if has_keeper else None
            if is_deleted:
                reason, why = Reason.PLANNED.value, f"superseded by {slice_.superseded}"
            elif keeper is not None:
                reason, why = keeper
            else:
                reason, why = (RETAINED if slice_.superseded else NEWEST), policy.why_kept(slice_, earliest)
            one = Judged(file, reason, why, slice_.superseded)
            (choice.dropped if is_deleted else choice.kept.setdefault(reason, [])).append(one)
    choice.dropped.sort(key=lambda judged: (judged.superseded, judged.file.path))


def _only(choice: CleanChoice, patterns: Sequence[str], listed: Mapping[str, Sequence[DataFile]]) -> None:
    """Leave only files that the patterns match, and add matching files of no committed slice."""

    def is_named(path: str) -> bool:
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)

    judged = {one.file.path for held in (choice.dropped, *choice.kept.values()) for one in held}
    choice.dropped = [one for one in choice.dropped if is_named(one.file.path)]
    choice.kept = {
        reason: left
        for reason, held in choice.kept.items()
        if (left := [one for one in held if is_named(one.file.path)])
    }
    why = "its instant did not complete, or does not name it: `hudi-ops recover` removes what dead writers left"
    others = [
        Judged(file, UNCOMMITTED, why)
        for files in listed.values()
        for file in files
        if file.path not in judged and is_named(file.path)
    ]
    if others:
        choice.kept[UNCOMMITTED] = others


def _limit(choice: CleanChoice, max_files: int | None) -> None:
    """Hold back the files beyond a limit, by name."""
    if max_files is None or len(choice.dropped) <= max_files:
        return
    beyond = choice.dropped[max_files:]
    choice.dropped = choice.dropped[:max_files]
    choice.kept[LIMIT] = [replace(one, reason=LIMIT, why=f"{one.why}; the next clean deletes it") for one in beyond]


def _moves(session: Session, state: TableState, choice: CleanChoice) -> bool:
    """Return whether a clean without files is due; move `earliest` back if a held file needs it.

    It never moves past the oldest instant of a held-back file: an incremental clean of Apache Hudi begins at this instant and would
    pass the file over.
    """
    newest = choice.earlier.newest
    if not choice.policy.has_earliest or not choice.earliest.instant:
        return False
    oldest = min((_instant_of(name) for names in choice.held_back.values() for name in names), default="")
    found = choice.earliest.instant
    if oldest and oldest < found:
        found = max((write.time for write in state.timeline.completed_writes if write.time <= oldest), default="")
        why = f"{oldest} wrote a file that is held back"
        choice.earliest = replace(choice.earliest, instant=max(found, choice.earlier.floor), kept_back=why)
    if newest is not None:
        since_ms = session.ctx.clock.now_ms() - ms_of_instant(newest.completion_time, state.zone)
        start, end = choice.earlier.start, choice.earliest.instant
        passed = sum(start <= write.time < end for write in state.timeline.completed_writes)
        if since_ms < EMPTY_EVERY_MS and passed < EMPTY_EVERY_WRITES:
            return False
    return choice.earliest.instant > choice.earlier.start


def _instant_of(name: str) -> str:
    parsed = parse_data_file(name)
    return parsed.instant if parsed is not None else ""


def _verdict(judged: Judged) -> FileVerdict:
    file = judged.file
    sizes = (0, 1, file.size_bytes) if file.is_log else (file.size_bytes, 0, 0)
    return FileVerdict(file.partition_path, file.file_id, judged.reason, *sizes, None, judged.why, file.name)


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
