"""Read the facts that keep instants on the timeline (docs/protocol §22).

No lock is held. Only instants that the policy lets go are looked into.
What is read: the metadata of replace commits and of late completions, the
results of rollbacks and of the newest clean, holds, and the folders of replaced and rolled back files.

With a `Bound` a fixed number of them is read for a table of any size: enough to say what stops the next batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hudi_ops.commit.holds import live_holds
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.foreign.foreign_writers import has_foreign_writers
from hudi_ops.concurrency.lease.lease import list_leases
from hudi_ops.concurrency.markers import FOLDER as MARKERS
from hudi_ops.files.names import parse_data_file, writer_of_child_log
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.writer.compaction import compactions
from hudi_ops.services.archive.rules import Facts, first_kept
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.plans import (
    CleanPlan,
    CleanResult,
    CompactionPlan,
    RestorePlan,
    RollbackPlan,
    RolledBack,
    read_plan,
    read_result,
)
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.names import MERGING_ACTIONS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.columns.names import BASE
from hudi_ops.view.columns.slices import hidden
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.slices import list_table, replaced_groups


@dataclass(frozen=True)
class Bound:
    """Limits of what is read.

    Attributes:
        view: of the whole table, at the state's timeline; it tells which replaced groups have files, without a listing.
        now_ms: time at which holds count, in ms since 1970.
        writes: number of completed writes, the oldest ones, that are looked into.
        others: most cleans and rollbacks that are looked into.
        partitions: most partitions that are listed for files of undone instants.
    """

    view: View
    now_ms: int
    writes: int = 3
    others: int = 2
    partitions: int = 0


def read_facts(session: Session, state: TableState, keep: int, bound: Bound | None = None) -> Facts:
    """Return the facts for one state; nothing is changed.

    Args:
        session: of the table.
        state: of the table.
        keep: number of completed writes that the policy keeps.
        bound: limits of what is read; None: none.

    Raises:
        Corrupt: a plan or result on the timeline, a commit's metadata or a hold cannot be read.
    """
    timeline = state.timeline
    limit = policy_limit = first_kept(timeline, keep)
    if bound is not None and limit:
        limit = min(limit, timeline.completed_writes[: bound.writes + 1][-1].time)
    # Nothing can leave: the other facts do not matter, and are not read.
    if not limit:
        return Facts(timeline, keep)
    cancelled = frozenset(info.name for info in session.ctx.storage.list_folder(MARKS).files)
    # Markers before leases: who completes an instant puts a note, or deletes the markers, before it drops the lease.
    begun = {name.partition(".")[0] for name in session.ctx.storage.list_folder(MARKERS).folders}
    begun |= set(list_leases(session.ctx.storage))
    holds = live_holds(session.ctx, bound.now_ms if bound is not None else None)
    return Facts(
        timeline,
        keep,
        metadata_compaction=newest_metadata_compaction(session, state),
        clean=_newest_clean(session, state, bound),
        holds={hold.instant: hold.why for hold in holds},
        replaced=_replaced(session, state, policy_limit, bound),
        late=_late(session, state, limit, bound),
        left=_left(session, state, limit, begun, cancelled, bound),
        unswept=_unswept(session, state, limit, begun, cancelled),
        undoing=_undoing(session, state),
    )


def newest_metadata_compaction(session: Session, state: TableState) -> str | None:
    """Return the time of the metadata table's last compaction; None without a metadata table."""
    if not state.config.all_metadata_partitions:
        return None
    return max(compactions(load_metadata_timeline(session.ctx.storage)), default="")


def _newest_clean(session: Session, state: TableState, bound: Bound | None) -> tuple[str, str]:
    """Return request time and earliest retained instant of the newest clean that says one."""
    cleans = [one for one in state.timeline if one.kind == "clean" and one.is_completed]
    for clean in reversed(cleans if bound is None else cleans[-bound.others :]):
        said = read_result(session.ctx.storage, state.timeline, clean)
        if isinstance(said, CleanResult) and said.earliest_retained:
            return clean.time, said.earliest_retained
    return "", ""


def _replaced(session: Session, state: TableState, limit: str, bound: Bound | None) -> dict[str, str]:
    """Return replace commits below `limit`, each with an existing file of a replaced group."""
    if bound is not None:
        return _replaced_in(bound.view, limit)
    named: dict[str, Mapping[str, tuple[str, ...]]] = {}
    for write in state.timeline.completed_writes:
        if write.kind == "replacecommit" and write.time < limit:
            metadata = session.commits.metadata(state.timeline, write)
            named[write.time] = (metadata.replaced if metadata is not None else None) or {}
    partitions = sorted({partition for groups in named.values() for partition, ids in groups.items() if ids})
    held = dict(zip(partitions, _listed(session, partitions), strict=True))
    for partition, files in _being_cleaned(session, state):
        held.setdefault(partition, []).extend(files)
    found = {}
    for time, groups in named.items():
        for partition, ids in groups.items():
            gone = frozenset(ids)
            exists = next((path for path, file_id, _ in held.get(partition, ()) if file_id in gone), None)
            if exists is not None:
                found[time] = exists
                break
    return found


def _replaced_in(view: View, limit: str) -> dict[str, str]:
    """Return replace commits below `limit`, each with a replaced file that a view has.

    A view has the files of a pending clean until the clean completes.
    """
    by = {group: time for group, time in view.replaced.items() if time < limit}
    files = view.files.only(hidden(view.files, by, None)) if by else view.files.only(np.zeros(view.files.count, bool))
    _, firsts = np.unique(files.groups, return_index=True)
    found: dict[str, str] = {}
    for file in files.data_files(firsts):
        found.setdefault(by[file.partition_path, file.file_id], file.path)
    return found


def _being_cleaned(session: Session, state: TableState) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield (path, file id, instant) of the files of pending cleans, by partition.

    An executor may have deleted these files already. The metadata table names them until the clean completes, so without the
    replace commit their rows would be visible again.
    """
    for clean in (one for one in state.timeline.pending if one.action == "clean"):
        plan = read_plan(session.ctx.storage, state.timeline, clean)
        if isinstance(plan, CleanPlan):
            for partition, names in plan.files.items():
                parsed = ((name, parse_data_file(name)) for name in names)
                yield (
                    partition,
                    [
                        (f"{partition}/{name}".lstrip("/"), one.file_id, one.instant)
                        for name, one in parsed
                        if one is not None
                    ],
                )


def _listed(session: Session, partitions: list[str]) -> list[list[tuple[str, str, str]]]:
    """Return (path, file id, instant) of the data and checksum files of each partition."""

    def task(partition: str) -> list[tuple[str, str, str]]:
        found = []
        for info in session.ctx.storage.list_folder(partition).files:
            name = info.name[1:].removesuffix(".crc") if info.name.endswith(".crc") else info.name
            if (parsed := parse_data_file(name)) is not None:
                writers = [parsed.instant, writer_of_child_log(parsed)]
                found += [(info.path, parsed.file_id, writer) for writer in writers if writer is not None]
        return found

    return session.ctx.local_engine.map(task, partitions)


def _late(session: Session, state: TableState, limit: str, bound: Bound | None) -> dict[str, str]:
    """Return writes below `limit` whose log files belong to a base file requested after them.

    A reader that does not open the history would take the request time of the write for its completion time, and assign the log
    file to the slice below. This ends once the group has a base file that was requested after the write completed: that file holds
    its rows. It also ends once the group was replaced: no later compaction merges it, and readers do not see it.
    """
    makers = [one for one in state.timeline if (one.is_completed and one.is_write) or one.action in MERGING_ACTIONS]
    times = [one.time for one in makers]
    found = {}
    gone: frozenset[tuple[str, str]] | None = None
    for write in state.timeline.completed_writes:
        if write.time >= limit or write.kind != "deltacommit":
            continue
        between = makers[bisect_right(times, write.time) : bisect_right(times, write.completion_time)]
        if not between or (metadata := session.commits.metadata(state.timeline, write)) is None:
            continue
        logged = frozenset(_groups(metadata, logs=True))
        for maker in between if bound is None else between[: bound.others]:
            waiting = logged & frozenset(_bases(session, state, maker))
            if waiting and bound is not None:
                waiting -= _with_base(bound.view, waiting, write.completion_time) | bound.view.replaced.keys()
            for later in makers[bisect_right(times, write.completion_time) :] if bound is None else ():
                if waiting and later.is_completed:
                    waiting -= frozenset(_bases(session, state, later))
            if waiting and bound is None:
                gone = replaced_groups(session.commits, state.timeline) if gone is None else gone
                waiting -= gone
            if waiting:
                partition, file_id = min(waiting)
                found[write.time] = (
                    f"it completed after {maker.action} {maker.time} began, and its log file of group {file_id} in "
                    f"{partition or '.'} waits for the next compaction"
                )
                break
    return found


def _with_base(view: View, groups: AbstractSet[tuple[str, str]], after: str) -> frozenset[tuple[str, str]]:
    """Return which groups have a base file of a later instant in a view."""
    files = view.files.of_partitions({partition for partition, _ in groups})
    words, places = files.instants
    is_later = (files.kinds == BASE) & np.array([word > after for word in words], bool)[places]
    ids = files.rows.filter(pa.array(is_later))["file_id"].to_pylist()
    found = {(files.partitions[at], file_id) for at, file_id in zip(files.partition_of[is_later], ids, strict=True)}
    return frozenset(found & groups)


def _groups(metadata: CommitMetadata, *, logs: bool) -> Iterator[tuple[str, str]]:
    for stat in metadata.stats:
        parsed = parse_data_file(stat.file_name)
        if parsed is not None and parsed.is_log is logs:
            yield stat.partition_path, stat.file_id


def _bases(session: Session, state: TableState, maker: Instant) -> Iterator[tuple[str, str]]:
    """Yield the groups of which an instant makes, or will make, a base file."""
    if maker.is_completed:
        metadata = session.commits.metadata(state.timeline, maker)
        yield from _groups(metadata, logs=False) if metadata is not None else ()
    else:
        plan = read_plan(session.ctx.storage, state.timeline, maker)
        if isinstance(plan, CompactionPlan):
            yield from ((slice_.partition_path, slice_.file_id) for slice_ in plan.slices)


def _unswept(
    session: Session, state: TableState, limit: str, begun: AbstractSet[str], marked: AbstractSet[str]
) -> dict[str, str]:
    """Return completed instants below `limit` with markers, notes or a lease, with the reason.

    A task that outlived its executor may still write a file that the commit does not name. A commit of Apache Hudi is left out:
    nothing of it is looked at again.
    """
    found = {}
    for time in sorted(begun):
        instant = state.timeline.find(time) if time < limit else None
        if instant is None or not instant.is_completed or not instant.is_write:
            continue
        metadata = session.commits.metadata(state.timeline, instant)
        if time in marked or (metadata is not None and POINTER_KEY in metadata.extra):
            found[time] = "a later write looks once more for late files of this write"
    return found


def _left(
    session: Session,
    state: TableState,
    limit: str,
    begun: AbstractSet[str],
    marked: AbstractSet[str],
    bound: Bound | None,
) -> dict[str, str]:
    """Return undone instants that still have files, markers, leases or records, with the reason.

    They were cancelled or rolled back. Those below the start of the timeline do not matter any more.
    """
    storage, timeline = session.ctx.storage, state.timeline

    def is_passed(time: str) -> bool:
        found = timeline.find(time)
        return timeline.start < time < limit and not (found is not None and found.is_completed)

    cancelled = set(filter(is_passed, marked))
    undone: dict[str, set[str]] = {}
    rollbacks = timeline.by_kind.get("rollback", ())
    for rollback in rollbacks if bound is None else rollbacks[: bound.others]:
        targets, partitions = _rolled_back(session, state, rollback)
        for target in filter(is_passed, targets):
            undone.setdefault(target, set()).update(partitions)
    if not cancelled and not undone:
        return {}
    found = {}
    own = load_metadata_timeline(storage) if state.config.all_metadata_partitions else None
    existing = _files_of(session, state, {time: undone.get(time, set()) for time in cancelled | undone.keys()}, bound)
    for time in sorted(cancelled | undone.keys()):
        if time in begun:
            found[time] = f"a later write looks once more for files of the undone instant {time}"
        elif time in existing:
            found[time] = f"{existing[time]} of the undone instant {time} exists"
        elif own is not None and own.find(time) is not None:
            found[time] = f"the metadata table has records of the undone instant {time}"
    return found


def _rolled_back(session: Session, state: TableState, rollback: Instant) -> tuple[tuple[str, ...], set[str]]:
    """Return what a rollback undoes, and the partitions of the files that it names."""
    said = read_result(session.ctx.storage, state.timeline, rollback)
    plan = read_plan(session.ctx.storage, state.timeline, rollback)
    targets = said.targets if isinstance(said, RolledBack) else (plan.target,) if isinstance(plan, RollbackPlan) else ()
    files = [one.files for one in (said, plan) if isinstance(one, RolledBack | RollbackPlan)]
    return targets, {partition for one in files for partition in one}


def _files_of(
    session: Session, state: TableState, undone: Mapping[str, AbstractSet[str]], bound: Bound | None
) -> dict[str, str]:
    """Return an existing data or checksum file, found by its name, of each undone instant.

    `undone` maps each instant to the partitions that its rollback names. A rollback names none if the writer put no markers: a
    writer of this library had put no file then. If Apache Hudi writes to the table, too, the whole table is listed.
    """
    partitions = {partition for named in undone.values() for partition in named}
    storage, is_unknown = session.ctx.storage, not all(undone.values())
    if bound is None and is_unknown and has_foreign_writers(storage, session.commits, state, pending=False):
        partitions |= list_table(storage, state.config).keys()
    held = _listed(session, sorted(partitions)[: None if bound is None else bound.partitions])
    return {written: path for files in held for path, _, written in files if written in undone}


def _undoing(session: Session, state: TableState) -> dict[str, str]:
    """Return the targets of pending rollbacks and restores, with the name of each."""
    found = {}
    for instant in state.timeline.pending:
        if instant.action in {"rollback", "restore"}:
            plan = read_plan(session.ctx.storage, state.timeline, instant)
            targets = (
                plan.targets
                if isinstance(plan, RestorePlan)
                else (plan.target,)
                if isinstance(plan, RollbackPlan)
                else ()
            )
            found.update(dict.fromkeys(targets, f"{instant.action} {instant.time}"))
    return found
