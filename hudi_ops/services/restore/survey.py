"""Find what a restore would undo, and what prevents the restore (docs/protocol §23)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.errors import Busy, Corrupt, InvalidRequest
from hudi_ops.files.names import data_path, parse_data_file, writer_of_child_log
from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.services.savepoint.savepoints import savepoint_at
from hudi_ops.timeline.content.footprint import is_child_log
from hudi_ops.timeline.content.plans import Savepoint, read_result
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS
from hudi_ops.timeline.state import TableState
from hudi_ops.view.file_group import DataFile


@dataclass(frozen=True)
class Survey:
    """Files of a table by the writes that made them, from one listing of its folders.

    A log file that a write put into a child of a resize counts among the files of both the write and the resize.
    """

    by_writer: Mapping[str, Sequence[DataFile]]
    paths: frozenset[str]

    def files_of(self, instants: Sequence[Instant]) -> list[DataFile]:
        """Return the files of these writes, those that no commit names included."""
        found = {file.path: file for instant in instants for file in self.by_writer.get(instant.time, ())}
        return [*found.values()]


def survey(session: Session, state: TableState) -> Survey:
    """List the data files of a table, without its metadata table."""
    listing = open_listing(session.ctx.storage, state.config, None, engine=session.ctx.local_engine)
    by_writer: dict[str, list[DataFile]] = {}
    for files in listing.walk().files.values():
        for file in files:
            by_writer.setdefault(file.instant, []).append(file)
            name = parse_data_file(file.name)
            author = writer_of_child_log(name) if name is not None else None
            if author is not None:
                by_writer.setdefault(author, []).append(file)
    paths = {file.path: file for files in by_writer.values() for file in files}
    if state.log.properties.facts.has_ring:
        # The child logs of Apache Hudi do not name their writer.
        for write in state.timeline.completed_writes:
            metadata = session.commits.metadata(state.timeline, write)
            stats = metadata.stats if metadata is not None else ()
            named = [stat.path.lstrip("/") for stat in stats if is_child_log(stat, write.time)]
            own = {file.path for file in by_writer.get(write.time, ())}
            more = [paths[path] for path in named if path in paths and path not in own]
            if more:
                by_writer.setdefault(write.time, []).extend(more)
    return Survey(by_writer, frozenset(paths))


def savepoint_to_restore(state: TableState, instant: str | None) -> str:
    """Return the instant of a savepoint; None: of the only one.

    Raises:
        InvalidRequest: there is no such savepoint, or none, or several and none is named.
    """
    if instant is not None:
        return savepoint_at(state, instant).time
    there = [one.time for one in state.timeline.savepoints]
    if len(there) == 1:
        return there[0]
    raise InvalidRequest(
        "the table has several savepoints: name the one to restore" if there else "the table has no savepoint",
        table=state.config.name,
        expected="the instant of a savepoint",
        found=", ".join(there) or "no savepoint",
        next_step="copy an instant from `hudi-ops savepoint list TABLE`"
        if there
        else "a table can be restored to a savepoint only; `hudi-ops savepoint create TABLE` makes one",
    )


def targets_of_restore(state: TableState, savepoint: str) -> list[Instant]:
    """Return the completed writes above a savepoint, newest completion first.

    Raises:
        InvalidRequest: one of them has a savepoint of its own.
    """
    newer = [one.time for one in state.timeline if one.kind == "savepoint" and one.time > savepoint]
    if newer:
        raise InvalidRequest(
            "a newer savepoint protects a write that the restore would undo",
            table=state.config.name,
            instant=savepoint,
            expected=f"no savepoint above {savepoint}",
            found=", ".join(newer),
            next_step=f"restore to {newer[-1]}, or delete it first: `hudi-ops savepoint delete TABLE {newer[-1]}`",
        )
    above = (one for one in state.timeline.completed_writes if one.time > savepoint)
    return sorted(above, key=lambda one: one.completion_time, reverse=True)


def refuse_below_boundary(state: TableState, savepoint: str) -> None:
    """Refuse a savepoint whose write was archived.

    Raises:
        InvalidRequest: its write is not on the active timeline.
    """
    found = state.timeline.find(savepoint)
    if savepoint <= state.log.boundary or found is None or not found.is_completed:
        raise InvalidRequest(
            "the write of this savepoint was archived: what was archived since cannot be undone",
            table=state.config.name,
            instant=savepoint,
            expected="a completed write on the active timeline",
            found=str(found or "no such instant"),
            next_step="delete the savepoint, and make a new one of a write on the active timeline",
        )


def refuse_lost_files(session: Session, state: TableState, savepoint: str, found: Survey) -> None:
    """Refuse a savepoint of which files are lost: the restore would leave an incomplete table.

    Raises:
        Corrupt: names the first lost file.
    """
    instant = state.timeline.find(savepoint, "savepoint")
    said = read_result(session.ctx.storage, state.timeline, instant) if instant is not None else None
    if not isinstance(said, Savepoint):
        return  # the savepoint was deleted just now: the decision refuses it
    lost = sorted(
        path
        for partition, names in said.files.items()
        for path in (data_path(partition, name) for name in names)
        if path not in found.paths
    )
    if lost:
        raise Corrupt(
            f"{len(lost)} files of the savepoint are lost, the first is {lost[0]}",
            table=state.config.name,
            instant=savepoint,
            expected="all files that the savepoint names",
            found=f"no file {lost[0]}",
            next_step="choose another savepoint, or put the files back from a copy of the table",
        )


def plans_above(state: TableState, savepoint: str) -> list[Instant]:
    """Return the pending compactions and clusterings that were planned above a savepoint."""
    return [one for one in state.timeline.pending if one.action in REWRITING_ACTIONS and one.time > savepoint]


def in_the_way(state: TableState, savepoint: str) -> Iterator[Instant]:
    """Yield the pending instants that a restore can neither undo nor leave.

    Plans at or below the savepoint stay: they read slices that stay.
    """
    for one in state.timeline.pending:
        if one.kind != "savepoint" and not (one.action in REWRITING_ACTIONS and one.time < savepoint):
            yield one


def refuse_others(session: Session, state: TableState, savepoint: str) -> None:
    """Refuse while an instant is in the way of a restore.

    Raises:
        Busy: names it and its owner.
    """
    for one in in_the_way(state, savepoint):
        lease = read_lease(session.ctx.storage, one.time)
        owner = str(lease.owner) if lease is not None and lease.owner else "a program without a lease"
        raise Busy(
            f"{one.action} {one.time} is pending",
            table=state.config.name,
            instant=one.time,
            expected="no write, clean, rollback or index build under way, and no plan above the savepoint",
            found=f"{one}, of {owner}",
            next_step="stop it or wait for it, then run the same call again; for dead processes run `hudi-ops recover TABLE` first",
            other=one.time,
            owner=owner,
        )
