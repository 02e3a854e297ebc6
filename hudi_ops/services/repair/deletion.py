"""Delete files of instants, each after a check of its instant."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hudi_ops.commit.owned.kinds import Part, Reason, Removal
from hudi_ops.commit.owned.remove import remove
from hudi_ops.commit.recover.rollback import roll_back
from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.concurrency.markers import list_markers
from hudi_ops.files.names import parse_data_file, writer_of_child_log
from hudi_ops.services.recovery.attempts import rollback_write
from hudi_ops.services.repair.owners import Gone, Left, cancelled, ended
from hudi_ops.timeline.content.archived import archived_writes
from hudi_ops.timeline.content.plans import RollbackPlan, read_plan
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import WRITE_ACTIONS, State, parse_file_name
from hudi_ops.timeline.state import TableState


def delete_inflight(session: Session, where: str, abandoned: bool) -> str:
    """Roll back an instant that has an inflight file alone; return what was done.

    Its data files go before the inflight file: a base file without an instant on the timeline would hide the log files that
    Apache Hudi writes later (docs/format §9.2).

    Raises:
        Left: its writer may be alive, another process rolls it back, or the instant has changed since.
    """
    _, found = _instant_at(session, where)
    if found.states != {State.INFLIGHT}:
        raise Left(f"{found} has changed since")
    cancelled(session, found.time, abandoned=abandoned)
    if found.kind not in WRITE_ACTIONS:
        _remove(session, found.time, (), {Part.TIMELINE}, found)
        return f"cancelled {found.time}, and deleted its inflight file"
    undone = roll_back(session, found)
    if undone is None:
        raise Left(f"{found.time} stays: another process rolls it back")
    return f"rolled back {found.time}, {len(undone.files)} files"


def delete_rollback(session: Session, where: str, abandoned: bool) -> str:
    """Delete a pending rollback of a savepoint's write; return what was done.

    Raises:
        Left: its process may be alive, or its target has no savepoint any more.
    """
    _, found = _instant_at(session, where)
    ended(session, found.time, abandoned=abandoned)
    with hold_lock(session.ctx, f"delete rollback {found.time}"):
        state = session.loader.load()
        now = state.timeline.find(found.time, "rollback")
        plan = read_plan(session.ctx.storage, state.timeline, now) if now is not None else None
        target = plan.target if isinstance(plan, RollbackPlan) else ""
        savepoint = state.timeline.find(target, "savepoint") if target else None
        if now is None or now.is_completed or savepoint is None or not savepoint.is_completed:
            raise Left(f"rollback {found.time} stays: it ended, or its target has no savepoint any more")
        _remove(session, now.time, (), {Part.TIMELINE}, now)
    return f"deleted rollback {found.time}: {target} keeps its savepoint"


def delete_orphan(session: Session, where: str, abandoned: bool) -> str:
    """Delete a data file of a rolled back instant; return what was done.

    Raises:
        Left: the instant completed, or its writer may be alive.
    """
    instant = _writer_of(where)
    cancelled(session, instant, abandoned=abandoned)
    _remove(session, instant, [where])
    return f"deleted the file of {instant}, which was rolled back"


def delete_unknown(session: Session, where: str, abandoned: bool) -> str:
    """Delete a data file whose instant is not on the timeline; return what was done.

    Raises:
        Left: the instant is on the timeline, completed, or its writer may be alive.
    """
    instant = _writer_of(where)
    if session.loader.load().timeline.find(instant) is not None:
        raise Left(f"{instant} is on the timeline by now")
    cancelled(session, instant, abandoned=abandoned)
    _remove(session, instant, [where])
    return f"cancelled {instant}, and deleted its file"


def delete_unnamed(session: Session, where: str, abandoned: bool) -> str:
    """Delete a data file that its completed instant does not name; return what was done.

    The instant may be archived.

    Raises:
        Left: its instant names it, or cannot be read.
    """
    instant, state = _writer_of(where), session.loader.load()
    found = state.timeline.find(instant)
    archived = archived_writes(session.ctx.storage, state.config, frozenset({instant})) if found is None else iter(())
    past, metadata = next(archived, (None, None))
    if past is not None and past.action == "replacecommit" and ".log." in where:
        _refuse_named_beside(session, state, where)
    if metadata is None and (found is None or not found.is_completed):
        return delete_unknown(session, where, abandoned)
    if found is not None:
        metadata = session.commits.metadata(state.timeline, found)
    named = {stat.path.lstrip("/") for stat in metadata.stats} if metadata is not None else {where}
    if where in named:
        raise Left(f"{found or instant} names it")
    completed = found or Instant(instant, state.config.completed_write_action, State.COMPLETED)
    remove(Removal(session, state, completed, Reason.COMPLETED, [where], is_foreign=True), {Part.CONTENT})
    return f"deleted a file of {instant}, which does not name it"


def _refuse_named_beside(session: Session, state: TableState, where: str) -> None:
    """Refuse to delete a log file of an archived resize that another write may name.

    The resize itself never names it.

    Raises:
        Left: a write on the timeline names it, or its writer cannot be told.
    """
    named = parse_data_file(where.rpartition("/")[2])
    if named is None or writer_of_child_log(named) is None:
        raise Left(
            f"{where} stays: it lies below an archived resize, and its name does not tell which write put it there"
        )
    for write in state.timeline.completed_writes:
        metadata = session.commits.metadata(state.timeline, write)
        if metadata is not None and any(stat.path.lstrip("/") == where for stat in metadata.stats):
            raise Left(f"{write} names it, and the resize that made its bucket is archived")


def delete_owned(session: Session, where: str, abandoned: bool) -> str:
    """Delete what an instant owns that never completed, data files aside; return what was done.

    Raises:
        Left: it completed, or its writer may be alive.
    """
    instant = where.rpartition("/")[2]
    cancelled(session, instant, abandoned=abandoned)
    _remove(session, instant, ())
    return f"cancelled {instant}, and deleted its files below .hoodie"


def forget_markers(session: Session, where: str, abandoned: bool) -> str:
    """Delete the markers of an unknown instant, and their files; return what was done.

    Raises:
        Left: it completed, or its writer may be alive.
    """
    instant = where.rpartition("/")[2]
    cancelled(session, instant, abandoned=abandoned)
    paths = [marker.data_path for marker in list_markers(session.ctx.storage, instant)]
    _remove(session, instant, paths, {Part.CONTENT, Part.TRACES})
    return f"cancelled {instant}, and deleted its markers and {len(paths)} files"


def undo_unowned(session: Session, where: str, abandoned: bool) -> str:
    """Roll back a pending write without a heartbeat; return what was done.

    Raises:
        Left: its writer may be alive.
    """
    _, found = _instant_at(session, where)
    ended(session, found.time, abandoned=abandoned)
    undone = rollback_write(session, found.time, abandoned=True)
    return f"rolled back {found.time}, {len(undone.files)} files"


def _remove(
    session: Session,
    instant: str,
    data_files: Sequence[str],
    parts: Collection[Part] = (Part.CONTENT,),
    target: Instant | None = None,
) -> None:
    """Delete data files of an instant that never completed, and its other files."""
    state = session.loader.load()
    target = target or Instant(instant, state.config.completed_write_action, State.INFLIGHT)
    remove(Removal(session, state, target, Reason.REPAIRED, data_files, is_foreign=True), parts)


def _writer_of(path: str) -> str:
    """Return the instant in a data file's name.

    Raises:
        Left: it is no data file.
    """
    named = parse_data_file(path.rpartition("/")[2])
    if named is None:
        raise Left(f"{path} is no data file")
    return named.instant


def _instant_at(session: Session, where: str) -> tuple[TableState, Instant]:
    """Return the instant of a timeline file, and the state in which it was found.

    Raises:
        Gone: it is not on the timeline any more.
    """
    state = session.loader.load()
    file = parse_file_name(where.rpartition("/")[2], state.timeline.layout)
    found = state.timeline.find(file.time, file.action) if file is not None else None
    if found is None:
        raise Gone(f"{where} is gone by now")
    return state, found
