"""Find data files of a cancelled write, by its markers or by a listing of its instant.

Source: docs/protocol §7, docs/format §6.1, §8.1, §8.2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hudi_ops.concurrency.markers import read_markers
from hudi_ops.errors import Corrupt, NotFound, Unsupported
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.files.names import DataFileName, is_child_log_of, parse_data_file
from hudi_ops.index.resizes import is_resize
from hudi_ops.timeline.content.plans import ReplacePlan, RollbackPlan, decode_plan, read_plan
from hudi_ops.timeline.log.plan_slots import plan_entry
from hudi_ops.timeline.state import TableState

if TYPE_CHECKING:
    from hudi_ops.commit.session import Session

logger = logging.getLogger(__name__)

SHOWN_MAX = 5
"""Largest number of damaged marker lines in a warning."""


def needs_listing(session: Session, instant: str, *, foreign: bool) -> bool:
    """Return whether the table must be listed for the files of a cancelled write.

    `foreign`: it may be a foreign write.
    """
    announced = read_markers(session.ctx.storage, instant)
    return bool(announced.set_aside) or (foreign and not announced.markers)


def files_of(
    session: Session, state: TableState, instant: str, *, foreign: bool = False, plan: RollbackPlan | None = None
) -> list[str]:
    """Return paths of data and log files of a cancelled write; some may not exist.

    Markers and the plan of a begun rollback name these files. The table is listed for the write's instant if the markers may be
    incomplete: a foreign writer without markers has written nothing or lost them, and a damaged marker line may have named any
    file. All files under the instant of a resize belong to it, also the log files of completed writers (docs/protocol §29).
    `foreign`: it may be a foreign write; `plan`: plan of its begun rollback, if any.
    """
    announced = read_markers(session.ctx.storage, instant)
    planned = _planned(plan) if plan is not None else []
    named = sorted({*(marker.data_path for marker in announced.markers), *planned})
    strange_plan = plan.strange if plan is not None else ()
    set_aside = (*announced.set_aside, *(f"in the plan of its rollback: {path!r}" for path in strange_plan))
    if set_aside:
        logger.warning(
            "markers of %s that name no file within the table were set aside, and the table is listed for its files: %s",
            instant,
            "; ".join(set_aside[:SHOWN_MAX])
            + (f"; and {more} more" if (more := len(set_aside) - SHOWN_MAX) > 0 else ""),
        )
    found = {path for path in named if _is_of(path, instant)} | _of_resize(session, state, instant)
    others = [path for path in named if path not in found]
    found |= _written_ahead(session, state, instant, others, are_announced=True)
    strange = [path for path in others if path not in found]
    if strange:
        # In versions 8 and 9 each data file carries its writer's instant: files of other instants are another writer's.
        logger.warning("markers of %s name files of other instants, which stay: %s", instant, ", ".join(strange))
    if set_aside or (foreign and not announced.markers):
        listed = [info.path for info in session.ctx.storage.list() if not info.path.startswith(".hoodie/")]
        found |= {path for path in listed if _is_of(path, instant)}
        found |= _written_ahead(session, state, instant, listed, are_announced=False)
    return sorted(found)


def _planned(plan: RollbackPlan) -> list[str]:
    """Return the files that a rollback's plan names, some of which may have no marker any more."""
    return [f"{partition}/{name}" if partition else name for partition, names in plan.files.items() for name in names]


def _written_ahead(
    session: Session, state: TableState, instant: str, paths: Iterable[str], *, are_announced: bool
) -> set[str]:
    """Return the log files that only this write put under the instant of a pending resize.

    Beside a pending resize of consistent hashing a foreign writer writes its rows twice: under its own instant into the old groups,
    and under the resize's instant into the new ones. The name of such a file shows neither its writer nor a time, and two writers
    may choose the same name. A file belongs to another write if a completed write names it or its blocks have that write's instant;
    a file without a whole block belongs to this write if this write announced it.

    A completed write that names such a file was requested after the resize, and archiving removes the older instant first. So while
    the resize is on the timeline, the write is there as well.
    """
    by_resize: dict[str, list[tuple[str, DataFileName]]] = {}
    for path in paths:
        name = parse_data_file(path.rpartition("/")[2])
        if name is not None and name.is_log and name.instant < instant:
            by_resize.setdefault(name.instant, []).append((path, name))
    found: set[str] = set()
    for time, held in by_resize.items():
        children = _children(session, state, time)
        ahead = [path for path, name in held if (path.rpartition("/")[0], _prefix(name)) in children]
        if ahead:
            committed = _named_since(session, state, time)
            found |= {
                path
                for path in ahead
                if path not in committed and _is_written_by(session, path, instant, are_announced=are_announced)
            }
    return found


def _children(session: Session, state: TableState, time: str) -> frozenset[tuple[str, str]]:
    """Return the groups that a resize makes; empty for another action or an unreadable plan."""
    plan = resize_of(session, state, time)
    return plan.children if plan is not None else frozenset()


def resize_of(session: Session, state: TableState, time: str) -> ReplacePlan | None:
    """Return the plan of a pending or withdrawn resize; None for another action."""
    storage, found = session.ctx.storage, state.timeline.find(time, "clustering")
    if found is not None and found.is_completed:
        return None
    try:
        if found is not None:
            plan = read_plan(storage, state.timeline, found)
        elif (
            state.log.properties.facts.has_ring
            and session.was_cancelled(state, time)
            and (entry := plan_entry(storage, state, time)) is not None
        ):
            plan = decode_plan(entry.action, storage.get(entry.payload), entry.payload)
        else:
            return None
    except NotFound:
        return None  # its payload was deleted with the plan
    except Corrupt as error:
        logger.warning("the plan of %s cannot be read, and files under its instant stay: %s", time, error)
        return None
    return plan if isinstance(plan, ReplacePlan) and is_resize(plan) else None


def _prefix(name: DataFileName) -> str:
    """Return a file group's name in the hash ring: its file id without the trailing number."""
    return name.file_id.rpartition("-")[0]


def _named_since(session: Session, state: TableState, time: str) -> frozenset[str]:
    """Return the paths that are named by writes with a completion time at or after an instant."""
    later = state.timeline.completed_since(time)
    metadata = (session.commits.metadata(state.timeline, write) for write in later)
    return frozenset(stat.path.lstrip("/") for commit in metadata if commit is not None for stat in commit.stats)


def _is_written_by(session: Session, path: str, instant: str, *, are_announced: bool) -> bool:
    try:
        writers = {block.instant for block in LogFileReader(session.ctx.storage, path).blocks}
    except NotFound:
        return False
    except (Corrupt, Unsupported):
        writers = set()
    return writers == {instant} or (are_announced and not writers)


def _is_of(path: str, instant: str) -> bool:
    name = parse_data_file(path.rpartition("/")[2])
    return name is not None and (name.instant == instant or is_child_log_of(name, instant))


def _of_resize(session: Session, state: TableState, instant: str) -> set[str]:
    """Return the files under the instant of a pending resize; empty for another action."""
    partitions = {path for path, _ in _children(session, state, instant)}
    return {
        info.path
        for path in sorted(partitions)
        for info in session.ctx.storage.list_folder(path).files
        if _is_of(info.path, instant)
    }
